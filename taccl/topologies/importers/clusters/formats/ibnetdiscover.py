"""ibnetdiscover's own layout: a block for each switch and card, with a line for each port.

It knows these lines; what their words mean is `infiniband`'s.
"""

from __future__ import annotations

import re

from taccl.topologies.importers.clusters.facts import Cluster, refuse_choice
from taccl.topologies.importers.clusters.infiniband import Cables, End, speed_of
from taccl.topologies.importers.nodes.facts import Place

_HEAD = re.compile(
    r'^\s*(Switch|Ca|Rt)\s+(\d+)\s+"([SHR])-(?:0x)?([0-9a-f]+)"\s*(?:#\s*"([^"\n]*)")?', re.IGNORECASE
)
_PORT = re.compile(
    r'^\s*\[(\d+)\]\s*(?:\[[^\]]*\])?\s*(?:\(\s*(?:0x)?[0-9a-f]+\s*\))?\s*"([SHR])-(?:0x)?([0-9a-f]+)"\s*'
    r"\[(\d+)\]\s*(?:\[[^\]]*\])?\s*(?:\(\s*(?:0x)?[0-9a-f]+\s*\))?\s*(?:#\s*(.*))?$",
    re.IGNORECASE,
)
_LOOKS = re.compile(
    r'^[ \t]*(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+"[SHR]-|^[ \t]*(?:switch|ca)guid[ \t]*=',
    re.IGNORECASE | re.MULTILINE,
)


def looks_like(text: str) -> bool:
    """Whether there is a block of a switch or a card."""
    return _LOOKS.search(text) is not None


def read(text: str, path: str | None, choice: str | None = None) -> Cluster:
    """The cluster that the file tells. Damaged lines are left out with a warning.

    Raises
    ------
    TopologyError : no cable leads from a host to a switch; a `choice`, since there is only one network.
    """
    refuse_choice(choice, path)
    cables = Cables()
    descriptions = _descriptions(text)
    owner: End | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        place = Place(path, number)
        head = _HEAD.match(line)
        if head is not None:
            key = head[4].lower().lstrip("0")
            owner = End(key, 0, head[3].upper() == "S", head[5] or "")
            if owner.is_switch:
                cables.switch(place, key, owner.description)
            continue
        if not line.lstrip().startswith("["):
            continue
        port = _PORT.match(line)
        if port is None or owner is None:
            cables.warnings.append(f"{place}: this line of a port cannot be read, and is left out")
            continue
        key, rest = port[3].lower().lstrip("0"), port[5] or ""
        a = End(owner.key, int(port[1]), owner.is_switch, owner.description)
        b = End(key, int(port[4]), port[2].upper() == "S", descriptions.get(key, _quoted(rest)))
        cables.add(place, a, b, speed_of(re.sub(r'"[^"]*"', "", rest)))
    return cables.cluster("ibnetdiscover", path)


def _descriptions(text: str) -> dict[str, str]:
    """Device -> what its own block calls it."""
    found = {}
    for line in text.split("\n"):
        head = _HEAD.match(line)
        if head is not None and head[5] is not None:
            found[head[4].lower().lstrip("0")] = head[5]
    return found


def _quoted(text: str) -> str:
    match = re.search(r'"([^"]*)"', text)
    return "" if match is None else match[1]
