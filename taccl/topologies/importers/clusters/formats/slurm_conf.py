"""SLURM's topology.conf, and what `scontrol show topology` prints: a tree of switches, or blocks of nodes.

It knows its lines and no machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from taccl.errors import TopologyError
from taccl.topologies.importers.clusters.facts import Cluster, refuse_choice
from taccl.topologies.importers.clusters.hostlist import expanded
from taccl.topologies.importers.clusters.scheduler import Blocks, Tree
from taccl.topologies.importers.nodes.facts import Place

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
    place: Place
    values: dict[str, str]

    def error(self, message: str, hint: str | None = None) -> TopologyError:
        return TopologyError(message, path=self.place.path, line=self.place.line, hint=hint)

    def names(self, key: str) -> tuple[str, ...]:
        try:
            return expanded(self.values[key]) if key in self.values else ()
        except TopologyError as fault:
            raise self.error(fault.message, fault.hint) from None


def looks_like(text: str) -> bool:
    """Whether a line begins with one of SLURM's keys."""
    return _FIRST.search(text) is not None


def read(text: str, path: str | None, choice: str | None = None) -> Cluster:
    """The cluster that the file tells; there is only one topology in it, so `choice` must be None.

    Raises
    ------
    TopologyError : with the line.
    """
    refuse_choice(choice, path)
    tree, blocks = Tree(), Blocks()
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
            yield _read_line(whole, Place(path, start))
    if held.strip():
        yield _read_line(held.strip(), Place(path, start))


def _read_line(line: str, place: Place) -> _Line:
    values: dict[str, str] = {}
    at = 0
    for match in _PAIR.finditer(line):
        key = match[1].lower()
        if line[at : match.start()].strip() or key not in _KEYS or key in values:
            break
        values[key] = match[2].strip('"')
        at = match.end()
    if line[at:].strip() or not values:
        raise TopologyError(
            f"this is not Key=Value: {line[at:].strip()[:60]!r}",
            path=place.path,
            line=place.line,
            hint="a list of nodes has no spaces: n[01-04,07]",
        )
    return _Line(place, values)
