"""SLURM's topology.yaml: a list of named topologies, of which one is read. It knows its keys only."""

from __future__ import annotations

import re
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.topologies.importers.clusters.facts import Cluster
from taccl.topologies.importers.clusters.hostlist import expanded
from taccl.topologies.importers.clusters.scheduler import Blocks, Tree
from taccl.topologies.importers.nodes.facts import Place
from taccl.topologies.strict_yaml import Node, parse_yaml

_LOOKS = re.compile(
    r"^[ \t]*-[ \t]*(?:\{[ \t]*)?[\"']?topology[\"']?[ \t]*:|\"topology\"[ \t]*:", re.MULTILINE
)
_KINDS = ("tree", "block", "flat", "ring", "torus3d")


def looks_like(text: str) -> bool:
    """Whether an item of a list has the key `topology`."""
    return _LOOKS.search(text) is not None


def read(text: str, path: str | None, choice: str | None = None) -> Cluster:
    """The topology called `choice`, else the cluster's default, else the first.

    Raises
    ------
    TopologyError : with the line; also for a flat topology, a ring or a torus, which say nothing of switches.
    """
    root = parse_yaml(text, path, TopologyError)
    entries = [{key.raw: value for key, value in item.items()} for item in root.elements()]
    for entry, item in zip(entries, root.elements(), strict=True):
        if "topology" not in entry:
            raise item.error(f"{item.name} lacks the key 'topology'")
    names = [entry["topology"].raw for entry in entries]
    if not entries:
        raise root.error("the list of topologies is empty")
    if choice is not None and choice not in names:
        raise root.error(f"there is no topology {choice!r}", hint="one of " + ", ".join(names[:10]))
    if choice is not None:
        chosen = names.index(choice)
    else:
        defaults = [n for n, each in enumerate(entries) if _is_default(each)]
        chosen = defaults[0] if defaults else 0
    cluster = _read(root.elements()[chosen], entries[chosen])
    others = [name for number, name in enumerate(names) if number != chosen]
    place = Place(path, root.elements()[chosen].line)
    notes = [("topology", names[chosen], place)]
    notes += [("other topologies in the file", ", ".join(others), Place(path, root.line))] if others else []
    return replace(cluster, notes=(*notes, *cluster.notes))


def _is_default(entry: dict[str, Node]) -> bool:
    return "cluster_default" in entry and entry["cluster_default"].content is True


def _read(item: Node, entry: dict[str, Node]) -> Cluster:
    path = item.source.path
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise item.error(f"{item.name} must have one of {', '.join(_KINDS)}")
    value = entry[kinds[0]]
    if kinds[0] == "tree":
        tree = Tree()
        for switch in _list(value, "switches"):
            keys = {key.raw: each for key, each in switch.items()}
            name = _text(switch, keys, "switch")
            tree.add(Place(path, switch.line), name, _names(keys, "children"), _names(keys, "nodes"))
        return tree.cluster("slurm-tree", path)
    if kinds[0] == "block":
        blocks = Blocks()
        for block in _list(value, "blocks"):
            keys = {key.raw: each for key, each in block.items()}
            blocks.add(Place(path, block.line), _text(block, keys, "block"), _names(keys, "nodes"))
        if not blocks:
            raise value.error(f"{value.name} has no block")
        sizes = {key.raw: each for key, each in value.items()}.get("block_sizes")
        if sizes is not None:
            blocks.note(
                "block_sizes", ",".join(element.raw for element in sizes.elements()), Place(path, sizes.line)
            )
        return blocks.cluster("slurm-block")
    raise value.error(
        f"a topology of the kind {kinds[0]} says nothing of switches or blocks",
        hint="choose another topology of the file by its name",
    )


def _list(value: Node, key: str) -> tuple[Node, ...]:
    found = {each.raw: node for each, node in value.items()}.get(key)
    if found is None:
        raise value.error(f"{value.name} lacks the key {key!r}")
    return found.elements()


def _text(node: Node, keys: dict[str, Node], key: str) -> str:
    if key not in keys or not keys[key].raw:
        raise node.error(f"{node.name} lacks the key {key!r}")
    return keys[key].raw


def _names(keys: dict[str, Node], key: str) -> tuple[str, ...]:
    """The names under a key: a list in SLURM's words, or a list of YAML."""
    if key not in keys:
        return ()
    node = keys[key]
    try:
        parts = node.elements() if node.kind == "list" else (node,)
        return tuple(name for part in parts for name in expanded(part.raw))
    except TopologyError as fault:
        raise (fault if fault.line else node.error(fault.message, fault.hint)) from None
