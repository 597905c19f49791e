"""Physical machines: GPUs, switches, NICs, and links with alpha and beta.

Here are the machines themselves (`PhysicalTopology`), the catalogue of published ones and of regular shapes,
custom machines in YAML, TACCL's profiles of measured costs, and routes to look at a machine.
"""

from taccl.topologies.automorphisms import automorphisms
from taccl.topologies.bisection import Bisection, bisection
from taccl.topologies.catalogue import CONFIDENCE, CatalogueEntry, build_topology, catalogue, catalogue_entry
from taccl.topologies.explore import alltoall_loads_us, distances_us, hop_distances
from taccl.topologies.load import load_topology
from taccl.topologies.machines.figures import Figure
from taccl.topologies.machines.published import dgx2, dgx2_teccl, ndv2, ndv2_teccl
from taccl.topologies.model import NO_NODE, Device, Link, Path, PhysicalTopology
from taccl.topologies.profile import Profile, load_profile, with_profile
from taccl.topologies.summary import LinkClass
from taccl.topologies.variants import scaled, with_link
from taccl.topologies.yaml_file import load_topology_file, parse_topology

__all__ = [
    "CONFIDENCE",
    "NO_NODE",
    "Bisection",
    "CatalogueEntry",
    "Device",
    "Figure",
    "Link",
    "LinkClass",
    "Path",
    "PhysicalTopology",
    "Profile",
    "alltoall_loads_us",
    "automorphisms",
    "bisection",
    "build_topology",
    "catalogue",
    "catalogue_entry",
    "dgx2",
    "dgx2_teccl",
    "distances_us",
    "hop_distances",
    "load_profile",
    "load_topology",
    "load_topology_file",
    "ndv2",
    "ndv2_teccl",
    "parse_topology",
    "scaled",
    "with_link",
    "with_profile",
]
