"""Physical machines: GPUs, switches, NICs, and links with alpha and beta.

Here are the machines themselves (`PhysicalTopology`), the catalogue of published ones and of regular
shapes, custom machines in YAML, TACCL's profiles of measured costs, and ways to look at a machine.
What a collective is, or which links an algorithm should use, is not known here.
"""

from taccl.topologies.catalogue import CatalogueEntry, build_topology, catalogue
from taccl.topologies.load import load_topology
from taccl.topologies.machines import dgx2, dgx2_teccl, ndv2, ndv2_teccl
from taccl.topologies.model import NO_NODE, Device, Link, Path, PhysicalTopology
from taccl.topologies.profile import Profile, load_profile, with_profile
from taccl.topologies.yaml_file import load_topology_file, parse_topology

__all__ = [
    "NO_NODE",
    "CatalogueEntry",
    "Device",
    "Link",
    "Path",
    "PhysicalTopology",
    "Profile",
    "build_topology",
    "catalogue",
    "dgx2",
    "dgx2_teccl",
    "load_profile",
    "load_topology",
    "load_topology_file",
    "ndv2",
    "ndv2_teccl",
    "parse_topology",
    "with_profile",
]
