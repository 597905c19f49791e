"""NCCL's and RCCL's topology XML: what a job saw of one node, or what somebody wrote to place devices.

It knows the grammar of these files and what NCCL reads in them; no constant of a link but PCIe's.
"""

from taccl.topologies.importers.nodes.formats.nccl_topology.reader import looks_like, read

__all__ = ["looks_like", "read"]
