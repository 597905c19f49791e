"""SLURM's topology.conf (as `scontrol show topology` prints it) and topology.yaml: trees or blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.hostlist import expanded
from taccl.topologies.importers.clusters.scheduler import Blocks, SwitchTree, names_under
from taccl.topologies.strict_yaml import Node, parse_yaml

_ITEM = re.compile(
    r"^[ \t]*-[ \t]*(?:\{[ \t]*)?[\"']?topology[\"']?[ \t]*:|\"topology\"[ \t]*:", re.MULTILINE
)
_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_FIRST = re.compile(r"^[ \t]*(SwitchName|BlockName|BlockSizes)[ \t]*=", re.IGNORECASE | re.MULTILINE)
_KEYS = {
    "switchname": "SwitchName",
    "switches": "Switches",
    "nodes": "Nodes",
    "linkspeed": "LinkSpeed",
    "blockname": "BlockName",
    "blocksize": "BlockSize",
    "blocksizes": "BlockSizes",
    "level": "Level",
    "blockindex": "BlockIndex",
    "aggregatedblock": "AggregatedBlock",
}
_PAIR = re.compile(r"([A-Za-z]+)\s*=\s*(\"[^\"]*\"|\S*)")


@dataclass(frozen=True)
class _Line:
    place: FileLine
    values: dict[str, str]

    def error(self, message: str, hint: str | None = None) -> TopologyError:
        return self.place.error(message, hint)

    def names(self, key: str) -> tuple[str, ...]:
        try:
            return expanded(self.values[key]) if key in self.values else ()
        except TopologyError as fault:
            raise self.error(fault.message, fault.hint) from None


def is_conf(text: str) -> bool:
    """Whether a line begins with one of SLURM's keys."""
    return _FIRST.search(text) is not None


def read_conf(text: str, path: str | None) -> ClusterFacts:
    """The cluster that a topology.conf tells.

    Raises
    ------
    TopologyError : with the line.
    """
    tree, blocks = SwitchTree(), Blocks()
    for line in _lines(text, path):
        if "switchname" in line.values:
            name = line.values["switchname"]
            switches = line.names("switches")
            if not name or not (line.values.get("nodes") or switches):
                raise line.error("a switch needs a name, and nodes or switches below it")
            # scontrol prints all nodes below a switch, also those of the switches below it
            is_shown_whole = bool(switches) and "level" in line.values
            tree.add(line.place, name, switches, () if is_shown_whole else line.names("nodes"))
            if line.values.get("linkspeed"):
                tree.note("LinkSpeed", line.values["linkspeed"], line.place)
        elif "blockname" in line.values:
            if not line.values["blockname"] or not line.values.get("nodes"):
                raise line.error("a block needs a name and nodes")
            blocks.add(line.place, line.values["blockname"], line.names("nodes"))
        elif "aggregatedblock" in line.values:
            continue  # blocks of blocks, which their sizes tell
        elif line.values.get("blocksizes"):
            blocks.note("BlockSizes", line.values["blocksizes"], line.place)
        else:
            raise line.error(
                f"a line must begin with SwitchName or BlockName, not {next(iter(line.values))}",
                hint="SwitchName=leaf1 Nodes=n[01-04]",
            )
    if tree and blocks:
        raise TopologyError("the file has switches and blocks; SLURM takes one of them", path=path)
    return blocks.cluster("slurm-block") if blocks else tree.cluster("slurm-tree", path)


def _lines(text: str, path: str | None) -> Iterator[_Line]:
    """Lines with something in them; one that ends in a backslash goes on."""
    held, start = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        part = raw.split("#")[0].rstrip()
        if not held:
            start = number
        if part.endswith("\\"):
            held += part[:-1]
            continue
        whole, held = (held + part).strip(), ""
        if whole:
            yield _read_line(whole, FileLine(path, start))
    if held.strip():
        yield _read_line(held.strip(), FileLine(path, start))


def _read_line(line: str, place: FileLine) -> _Line:
    values: dict[str, str] = {}
    at = 0
    for match in _PAIR.finditer(line):
        key = match[1].lower()
        if line[at : match.start()].strip() or key not in _KEYS or key in values:
            break
        values[key] = match[2].strip('"')
        at = match.end()
    if line[at:].strip() or not values:
        raise place.error(
            f"this is not Key=Value: {line[at:].strip()[:60]!r}", "a list of nodes has no spaces: n[01-04,07]"
        )
    return _Line(place, values)


def is_yaml(text: str) -> bool:
    """Whether an item of a list has the key `topology`."""
    return _ITEM.search(text) is not None


def read_yaml(text: str, path: str | None, choice: str | None = None) -> ClusterFacts:
    """The topology called `choice`, else the cluster's default, else the first.

    Raises
    ------
    TopologyError : with the line; also for a flat topology, a ring or a torus, which say nothing of switches.
    """
    root = parse_yaml(text, path, TopologyError)
    entries = [item.keys("topology") for item in root.elements()]
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
    cluster = _read_topology(root.elements()[chosen], entries[chosen])
    others = [name for number, name in enumerate(names) if number != chosen]
    place = FileLine(path, root.elements()[chosen].line)
    notes = [("topology", names[chosen], place)]
    notes += (
        [("other topologies in the file", ", ".join(others), FileLine(path, root.line))] if others else []
    )
    return replace(cluster, notes=(*notes, *cluster.notes))


def _is_default(entry: dict[str, Node]) -> bool:
    return "cluster_default" in entry and entry["cluster_default"].content is True


def _read_topology(item: Node, entry: dict[str, Node]) -> ClusterFacts:
    path = item.source.path
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise item.error(f"{item.name} must have one of {', '.join(_KINDS)}")
    value = entry[kinds[0]]
    if kinds[0] == "tree":
        tree = SwitchTree()
        for switch in value.keys("switches")["switches"].elements():
            keys = switch.keys()
            below = names_under(keys, "children"), names_under(keys, "nodes")
            tree.add(FileLine(path, switch.line), switch.named("switch"), *below)
        return tree.cluster("slurm-tree", path)
    if kinds[0] == "block":
        blocks = Blocks()
        for block in value.keys("blocks")["blocks"].elements():
            nodes = names_under(block.keys(), "nodes")
            blocks.add(FileLine(path, block.line), block.named("block"), nodes)
        if not blocks:
            raise value.error(f"{value.name} has no block")
        sizes = value.keys().get("block_sizes")
        if sizes is not None:
            listed = ",".join(element.raw for element in sizes.elements())
            blocks.note("block_sizes", listed, FileLine(path, sizes.line))
        return blocks.cluster("slurm-block")
    raise value.error(
        f"a topology of the kind {kinds[0]} says nothing of switches or blocks",
        hint="choose another topology of the file by its name",
    )
