"""What ibnetdiscover prints (blocks of switches and cards, or with `-p` lines of ports), and iblinkinfo.

All hand the ends of cables to `Cables`, which gathers them once. Damaged lines are left out with a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from taccl.support.tables import FileLine, is_elided, lines_of
from taccl.topologies.importers.clusters.facts import ClusterFacts, HostPort, Trunk

_HEAD = re.compile(
    r'^\s*(Switch|Ca|Rt)\s+(\d+)\s+"([SHR])-(?:0x)?([0-9a-f]+)"\s*(?:#\s*"([^"\n]*)")?', re.IGNORECASE
)
_PORT = re.compile(
    r'^\s*\[(\d+)\]\s*(?:\[[^\]]*\])?\s*(?:\(\s*(?:0x)?[0-9a-f]+\s*\))?\s*"([SHR])-(?:0x)?([0-9a-f]+)"\s*'
    r"\[(\d+)\]\s*(?:\[[^\]]*\])?\s*(?:\(\s*(?:0x)?[0-9a-f]+\s*\))?\s*(?:#\s*(.*))?$",
    re.IGNORECASE,
)
_BLOCK = re.compile(
    r'^[ \t]*(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+"[SHR]-|^[ \t]*(?:switch|ca)guid[ \t]*=',
    re.IGNORECASE | re.MULTILINE,
)
#: Two descriptions of 64 letters and the words around them are far shorter.
_LONGEST_LINE = 1000
_END = r"(CA|SW|RT)\s+(\d+)\s+(\d+)\s+0x([0-9a-f]+)"
_LINE = re.compile(
    rf"^\s*{_END}\s+(\d+x\s*\S+|\?\?\?)\s*-\s*{_END}\s*\(\s*'(.*)'\s*-\s*'(.*)'\s*\)\s*$", re.IGNORECASE
)
_ALONE = re.compile(rf"^\s*{_END}\s+(\d+x\s*\S+|\S+)\s+'(.*)'\s*$", re.IGNORECASE)
_PORT_LINE = re.compile(
    r"^[ \t]*(?:CA|SW|RT)[ \t]+\d+[ \t]+\d+[ \t]+0x[0-9a-f]+[ \t]+\d+x", re.IGNORECASE | re.MULTILINE
)
#: Gb/s of one lane by the word that ibnetdiscover prints; FDR10 is FDR's cable at 10 Gb/s.
LANE_GBITS = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 13.64,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
_SPEED = re.compile(r"\b(\d{1,2})x\s*(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b", re.IGNORECASE)
_SHARP = re.compile(r"aggregation\s+node", re.IGNORECASE)
#: A card that tells its model in place of its host, whose name is then not known.
_MODEL = re.compile(r"^(MT\d+\b|Mellanox\b|NVIDIA\b|ConnectX|BlueField)|Technologies|^\s*$", re.IGNORECASE)
#: How switches of Mellanox call themselves.
_SWITCH = re.compile(r"^MF0;|:[A-Z]+\d+\w*/U\d+$")
#: A line of iblinkinfo: LID and port, the state of the link, LID and port at its other end. With `-l` a GUID
#: and a name stand before, in its blocks of cards a GUID.
_LINK_INFO = re.compile(
    r'^\s*(?:0x[0-9a-f]+\s+)?(?:"\s*([^"]*)"\s+)?(\d+)\s+(\d+)\[[^\]]*\]\s*'
    r"==\(([^()]*(?:\([^()]*\)[^()]*)?)\)==>"
    r'\s*(?:0x[0-9a-f]+\s+)?(?:(\d+)\s+(\d+)\[[^\]]*\]\s*"([^"]*)")?',
    re.IGNORECASE,
)
_LINK_OWNER = re.compile(r"^ {0,9}(Switch|CA|RT) ?:(.*):\s*$", re.IGNORECASE)
_LANES = re.compile(r"(\d{1,2})X\s+(\d{1,3}(?:\.\d+)?)\s*Gbps\s*(\(FDR10\))?", re.IGNORECASE)
#: Gb/s of one lane on the wire, as iblinkinfo prints it -> the word of ibnetdiscover.
_WIRE_GBITS = {
    2: "SDR",
    5: "DDR",
    10: "QDR",
    14: "FDR",
    25: "EDR",
    26: "EDR",
    53: "HDR",
    106: "NDR",
    212: "XDR",
}


def has_blocks(text: str) -> bool:
    """Whether there is a block of a switch or a card."""
    return _BLOCK.search(text) is not None


def has_ports(text: str) -> bool:
    """Whether there is a line of a port."""
    return _PORT_LINE.search(text) is not None


def has_link_info(text: str) -> bool:
    """Whether there is a line of a link that iblinkinfo prints."""
    return "==>" in text and any(_link_info(line) is not None for line in text.split("\n"))


def _link_info(line: str) -> re.Match[str] | None:
    return _LINK_INFO.match(line) if "==>" in line and len(line) <= _LONGEST_LINE else None


def speed_of(text: str) -> float | None:
    """GB/s each way of a port that prints `4xNDR` or `4x NDR`; None where there is no such word."""
    match = _SPEED.search(text)
    return None if match is None else int(match[1]) * LANE_GBITS[match[2].upper()] / 8


def host_and_nic(description: str) -> tuple[str, str] | None:
    """The host and the card that a description names (`host mlx5_0`, `host HCA-1`); None if it does not.

    Old drivers name the host alone; its card is then called `HCA`.
    """
    words = description.split()
    if not 1 <= len(words) <= 2 or _MODEL.search(description):
        return None
    return words[0], words[1] if len(words) == 2 else "HCA"


@dataclass(frozen=True)
class End:
    """One end of a cable: `key` tells devices apart, `port` is its number there."""

    key: str
    port: int
    is_switch: bool
    description: str


@dataclass
class Cables:
    """Cables by their ends; each is printed by both of its ends and kept once."""

    _cables: dict[frozenset[tuple[str, int]], tuple[FileLine, End, End, float | None]] = field(
        default_factory=dict
    )
    _switches: dict[str, tuple[FileLine, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def unread(self, place: FileLine, line: str, what: str = "line") -> None:
        """A line that is not understood: left out with a warning, unless it stands for others.

        Raises
        ------
        TopologyError : somebody left lines out in its place.
        """
        if is_elided(line):
            raise place.error("lines were left out here", "give the whole output: cables are missing")
        self.warnings.append(f"{place}: this {what} cannot be read, and is left out")

    def switch(self, place: FileLine, key: str, description: str) -> None:
        """A switch, also one without cables."""
        self._switches.setdefault(key, (place, description))

    def add(self, place: FileLine, a: End, b: End, gbps: float | None) -> None:
        """A cable, as one of its ends prints it."""
        for end in (a, b):
            if end.is_switch:
                self.switch(place, end.key, end.description)
        ends = frozenset(((a.key, a.port), (b.key, b.port)))
        before = self._cables.setdefault(ends, (place, a, b, gbps))
        if gbps is not None and before[3] is None:
            self._cables[ends] = (place, a, b, gbps)
        elif gbps is not None and before[3] is not None and abs(gbps - before[3]) > 1e-9:
            slower = min(gbps, before[3])
            self.warnings.append(
                f"{place}: this cable has {gbps:g} GB/s, but {before[3]:g} at {before[0]}; "
                f"{slower:g} is taken"
            )
            self._cables[ends] = (before[0], before[1], before[2], slower)

    def cluster(self, name: str, path: str | None) -> ClusterFacts:
        """The cluster of these cables.

        Raises
        ------
        TopologyError : no cable leads from a host to a switch.
        """
        names = _switch_names(self._switches)
        ports: list[HostPort] = []
        unnamed: list[HostPort] = []
        dropped = 0
        trunks: dict[tuple[str, str, float | None], list[FileLine]] = {}
        for place, a, b, gbps in self._cables.values():
            if a.is_switch and b.is_switch:
                first, second = sorted((names[a.key], names[b.key]))
                trunks.setdefault((first, second, gbps), []).append(place)
                continue
            host, switch = (b, a) if a.is_switch else (a, b)
            if host.is_switch or not switch.is_switch:
                self.warnings.append(f"{place}: this cable joins two hosts, and is left out")
            elif _SHARP.search(host.description):
                dropped += 1
            else:
                known = host_and_nic(host.description)
                if known is None:
                    unnamed.append(HostPort(place, host.key, None, names[switch.key], gbps))
                else:
                    nic = known[1] if host.port == 1 else f"{known[1]}:{host.port}"
                    ports.append(HostPort(place, known[0], nic, names[switch.key], gbps))
        if not ports and not unnamed:
            raise FileLine(path, 1).error(
                "no cable leads from a host to a switch", "the output of ibnetdiscover"
            )
        return ClusterFacts(
            name,
            tuple(dict.fromkeys(port.host for port in ports)),
            {names[key]: place for key, (place, _) in self._switches.items()},
            tuple(ports),
            tuple(Trunk(at[0], a, b, len(at), gbps) for (a, b, gbps), at in trunks.items()),
            unnamed=tuple(unnamed),
            notes=(("aggregation nodes (SHARP), left out", str(dropped), FileLine(path, None)),)
            if dropped
            else (),
            warnings=(*self._twice(ports), *self.warnings),
        )

    def _twice(self, ports: list[HostPort]) -> list[str]:
        """Warnings of names that several cards have, such as `localhost HCA-1`."""
        seen: dict[tuple[str, str | None], HostPort] = {}
        said = []
        for port in ports:
            before = seen.setdefault((port.host, port.nic), port)
            if before is not port:
                said.append(
                    f"{port.place}: {port.host} {port.nic} is at {before.switch} ({before.place}) and at "
                    f"{port.switch}: one name for two cards"
                )
        return said


def _switch_names(switches: dict[str, tuple[FileLine, str]]) -> dict[str, str]:
    """A name for each switch: its description without the words of its maker where that is one of a kind."""
    full = {key: description.strip() or key for key, (_, description) in switches.items()}
    short = {key: _SWITCH.sub("", name) or name for key, name in full.items()}
    short = {key: name.removeprefix("MF0;") for key, name in short.items()}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else f"{name} ({key})" for key, name in short.items()}


def read_blocks(text: str, path: str | None) -> ClusterFacts:
    """The cluster that blocks tell.

    Raises
    ------
    TopologyError : no cable leads from a host to a switch, or lines were left out.
    """
    cables = Cables()
    descriptions = _descriptions(text)
    owner: End | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        place = FileLine(path, number)
        head = _HEAD.match(line)
        if head is not None:
            key = head[4].lower().lstrip("0")
            owner = End(key, 0, head[3].upper() == "S", head[5] or "")
            if owner.is_switch:
                cables.switch(place, key, owner.description)
            continue
        port = _PORT.match(line) if line.lstrip().startswith("[") else None
        if port is None or owner is None:
            if line.lstrip().startswith("[") or is_elided(line):
                cables.unread(place, line, "line of a port")
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


def read_ports(text: str, path: str | None) -> ClusterFacts:
    """The cluster that lines of ports tell; ports without a cable count for nothing.

    Raises
    ------
    TopologyError : no cable leads from a host to a switch, or lines were left out.
    """
    cables = Cables()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = FileLine(path, number)
        both = _LINE.match(line) if len(line) <= _LONGEST_LINE else None
        if both is not None:
            a = _end(both[1], both[3], both[4], both[10])
            b = _end(both[6], both[8], both[9], both[11])
            cables.add(place, a, b, speed_of(both[5]))
            continue
        alone = _ALONE.match(line) if len(line) <= _LONGEST_LINE else None
        if alone is None:
            cables.unread(place, line)
        elif alone[1].upper() == "SW":
            cables.switch(place, alone[4].lower().lstrip("0"), alone[6])
    return cables.cluster("ibnetdiscover-p", path)


def _end(kind: str, port: str, guid: str, description: str) -> End:
    """A switch is known by its GUID; a port of a card has one of its own, so cards are known by it, too."""
    return End(guid.lower().lstrip("0"), int(port), kind.upper() == "SW", description)


def read_link_info(text: str, path: str | None) -> ClusterFacts:
    """The cluster that iblinkinfo tells; a switch is what its block or name calls so, or a LID of many ports.

    Raises
    ------
    TopologyError : no cable leads from a host to a switch, or lines were left out.
    """
    cables = Cables()
    owner, name = "", ""
    found: list[tuple[FileLine, str, re.Match[str]]] = []
    switches: set[str] = set()
    ports: dict[str, set[str]] = {}
    for number, line in enumerate(lines_of(text), start=1):
        head, link = _LINK_OWNER.match(line[:_LONGEST_LINE]), _link_info(line)
        if head is not None:
            owner, name = head[1].upper(), re.sub(r"^0x\w+\s+", "", head[2].strip())
        elif link is not None:
            found.append((FileLine(path, number), name if link[1] is None else link[1], link))
            ports.setdefault(link[2], set()).add(link[3])
            if owner == "SWITCH" or (not owner and len(ports[link[2]]) > 1):
                switches.add(link[2])
        elif "==>" in line or is_elided(line):
            cables.unread(FileLine(path, number), line)
    for place, name, link in found:
        near = link[2] in switches
        far = link[5] in switches or _SWITCH.search(link[7] or "") is not None
        if near:
            cables.switch(place, link[2], name)
        if link[5] is not None:
            a = End(link[2], int(link[3]), near, name)
            cables.add(place, a, End(link[5], int(link[6]), far, link[7]), _wire_speed(link[4]))
    return cables.cluster("iblinkinfo", path)


def _wire_speed(state: str) -> float | None:
    """GB/s each way of `4X 25.78125 Gbps Active/ LinkUp`."""
    match = _LANES.search(state)
    word = None if match is None else "FDR10" if match[3] else _WIRE_GBITS.get(int(float(match[2])))
    return None if match is None or word is None else int(match[1]) * LANE_GBITS[word] / 8
