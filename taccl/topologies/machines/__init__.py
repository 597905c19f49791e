"""The machines of the catalogue, with the source of every number.

`published` are those that results are compared on; `boxes`, `pcie` and `tpu` are machines that people
have. What they are called together is the catalogue's business. What they have in common
is here for whoever else makes machines of nodes.
"""

from taccl.topologies.machines.parts import both_directions, check_nodes, gpu_name

__all__ = ["both_directions", "check_nodes", "gpu_name"]
