"""Labels that topograph gives to the nodes of Kubernetes, as `kubectl get nodes -o json` or yaml prints them.

`network.topology.nvidia.com/leaf`, `spine` and `core` name switches, `accelerator` a domain of NVLinks. Newer
versions call them `fabric.topograph.run/tier-0` and upwards, and `accelerator.topograph.run/domain`.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.scheduler import Blocks, SwitchTree
from taccl.topologies.strict_yaml import Node, parse_yaml

PREFIX = "network.topology.nvidia.com/"
DOMAIN_LABEL = f"{PREFIX}accelerator"
_LEVELS = ("leaf", "spine", "core", "tier-3", "tier-4")
#: What newer versions write, by what it means here.
_NEWER = {
    "accelerator.topograph.run/domain": "accelerator",
    **{f"fabric.topograph.run/tier-{at}": level for at, level in enumerate(_LEVELS)},
}


def looks_like(text: str) -> bool:
    """Whether nodes of Kubernetes have such labels."""
    return (PREFIX in text or any(key in text for key in _NEWER)) and "metadata" in text


def read(text: str, path: str | None) -> ClusterFacts:
    """The cluster that the labels tell.

    Raises
    ------
    TopologyError : no node has a label.
    """
    root = parse_yaml(text, path, TopologyError)
    hosts: dict[str, dict[str, tuple[str, FileLine]]] = {}
    blocks = Blocks()
    for name, labels in _nodes(root):
        hosts[name] = labels
        if "accelerator" in labels:
            blocks.add(labels["accelerator"][1], labels["accelerator"][0], (name,), is_nvlink=True)
    tree = _tree(hosts)
    if tree:
        return tree.cluster("labels", path, blocks.all())
    if blocks:
        return blocks.cluster("labels")
    raise root.error(f"no node has a label {PREFIX}leaf or {DOMAIN_LABEL}")


def _tree(hosts: dict[str, dict[str, tuple[str, FileLine]]]) -> SwitchTree:
    """The switches by their levels; those of two levels may have the same name."""
    below: dict[tuple[str, str], dict[str, None]] = {}
    place_of: dict[tuple[str, str], FileLine] = {}
    for host, labels in hosts.items():
        child = host
        for level in _LEVELS:
            if level in labels:
                name, place = labels[level]
                below.setdefault((level, name), {})[child] = None
                place_of.setdefault((level, name), place)
                child = name
    tree = SwitchTree()
    names = {level: {name for each, name in below if each == level} for level in _LEVELS}
    for (level, name), inside in below.items():
        switches = tuple(each for each in inside if any(each in names[other] for other in _LEVELS))
        tree.add(
            place_of[level, name], name, switches, tuple(each for each in inside if each not in switches)
        )
    return tree


def _meaning(key: str) -> str | None:
    """Which level, or `accelerator`, a label names; None for labels of others."""
    return key.removeprefix(PREFIX) if key.startswith(PREFIX) else _NEWER.get(key)


def _nodes(root: Node) -> Iterator[tuple[str, dict[str, tuple[str, FileLine]]]]:
    """The name of each node, and what its labels mean, with their lines."""
    keys = root.keys()
    for item in keys["items"].elements() if "items" in keys else (root,):
        metadata = item.keys("metadata")["metadata"].keys("name")
        labels = metadata["labels"].items() if "labels" in metadata else ()
        yield (
            metadata["name"].raw,
            {
                meaning: (value.raw, FileLine(value.source.path, value.line))
                for key, value in labels
                if (meaning := _meaning(key.raw)) is not None and value.raw
            },
        )
