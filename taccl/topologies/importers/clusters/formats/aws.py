"""AWS's DescribeInstanceTopology: for each instance the network nodes above it.

`NetworkNodes` goes from the root to the leaf, so instances with the same last one are at one leaf.
"""

from __future__ import annotations

from itertools import pairwise

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.scheduler import SwitchTree
from taccl.topologies.strict_yaml import parse_yaml


def looks_like(text: str) -> bool:
    """Whether it is JSON or YAML with the key `NetworkNodes`."""
    return "NetworkNodes" in text and "InstanceId" in text


def read(text: str, path: str | None) -> ClusterFacts:
    """The tree of network nodes.

    Raises
    ------
    TopologyError : with the line; a network node that is below two others.
    """
    root = parse_yaml(text, path, TopologyError)
    listed = root.keys("Instances")["Instances"] if root.kind == "mapping" else root
    children: dict[str, dict[str, None]] = {}
    hosts: dict[str, dict[str, None]] = {}
    place_of: dict[str, FileLine] = {}
    for item in listed.elements():
        own = item.keys("InstanceId", "NetworkNodes")
        above = [node.raw for node in own["NetworkNodes"].elements() if node.raw]
        if not above:
            raise own["NetworkNodes"].error(f"{own['NetworkNodes'].name} names no node of the network")
        for name in above:
            place_of.setdefault(name, FileLine(path, own["NetworkNodes"].line))
        for name, below in pairwise(above):
            children.setdefault(name, {})[below] = None
        hosts.setdefault(above[-1], {})[own["InstanceId"].raw] = None
    tree = SwitchTree()
    for name, place in place_of.items():
        tree.add(place, name, tuple(children.get(name, ())), tuple(hosts.get(name, ())))
    return tree.cluster("aws", path)
