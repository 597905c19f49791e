"""`ibnetdiscover -p`: one line for each port, with both ends of its cable. It knows only such lines."""

from __future__ import annotations

import re

from taccl.topologies.importers.clusters.facts import Cluster, refuse_choice
from taccl.topologies.importers.clusters.infiniband import Cables, End, speed_of
from taccl.topologies.importers.nodes.facts import Place

#: Two descriptions of 64 letters and the words around them are far shorter.
_LONGEST_LINE = 1000
_END = r"(CA|SW|RT)\s+(\d+)\s+(\d+)\s+0x([0-9a-f]+)"
_SPEED = r"(\d+x\s*\S+|\?\?\?)"
_LINE = re.compile(rf"^\s*{_END}\s+{_SPEED}\s*-\s*{_END}\s*\(\s*'(.*)'\s*-\s*'(.*)'\s*\)\s*$", re.IGNORECASE)
_ALONE = re.compile(rf"^\s*{_END}\s+(\d+x\s*\S+|\S+)\s+'(.*)'\s*$", re.IGNORECASE)
_LOOKS = re.compile(
    r"^[ \t]*(?:CA|SW|RT)[ \t]+\d+[ \t]+\d+[ \t]+0x[0-9a-f]+[ \t]+\d+x", re.IGNORECASE | re.MULTILINE
)


def looks_like(text: str) -> bool:
    """Whether there is a line of a port."""
    return _LOOKS.search(text) is not None


def read(text: str, path: str | None, choice: str | None = None) -> Cluster:
    """The cluster that the file tells. Ports without a cable count for nothing.

    Raises
    ------
    TopologyError : no cable leads from a host to a switch; a `choice`, since there is only one network.
    """
    refuse_choice(choice, path)
    cables = Cables()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = Place(path, number)
        both = _LINE.match(line) if len(line) <= _LONGEST_LINE else None
        if both is not None:
            a = _end(both[1], both[3], both[4], both[10])
            b = _end(both[6], both[8], both[9], both[11])
            cables.add(place, a, b, speed_of(both[5]))
            continue
        alone = _ALONE.match(line) if len(line) <= _LONGEST_LINE else None
        if alone is None:
            cables.warnings.append(f"{place}: this line cannot be read, and is left out")
        elif alone[1].upper() == "SW":
            cables.switch(place, alone[4].lower().lstrip("0"), alone[6])
    return cables.cluster("ibnetdiscover-p", path)


def _end(kind: str, port: str, guid: str, description: str) -> End:
    """A switch is known by its GUID; a port of a card has one of its own, so cards are known by it, too."""
    return End(guid.lower().lstrip("0"), int(port), kind.upper() == "SW", description)
