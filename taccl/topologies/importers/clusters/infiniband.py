"""What both layouts of ibnetdiscover share: speeds, names of hosts and switches, and cables gathered once.

Readers hand over what their lines say; how the lines look is not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from taccl.errors import TopologyError
from taccl.topologies.importers.clusters.facts import Cluster, HostPort, Trunk
from taccl.topologies.importers.nodes.facts import Place

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

    _cables: dict[frozenset[tuple[str, int]], tuple[Place, End, End, float | None]] = field(
        default_factory=dict
    )
    _switches: dict[str, tuple[Place, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def switch(self, place: Place, key: str, description: str) -> None:
        """A switch, also one without cables."""
        self._switches.setdefault(key, (place, description))

    def add(self, place: Place, a: End, b: End, gbps: float | None) -> None:
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

    def cluster(self, name: str, path: str | None) -> Cluster:
        """The cluster of these cables.

        Raises
        ------
        TopologyError : no cable leads from a host to a switch.
        """
        names = _switch_names(self._switches)
        ports: list[HostPort] = []
        unnamed: list[HostPort] = []
        dropped = 0
        trunks: dict[tuple[str, str, float | None], list[Place]] = {}
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
            raise TopologyError(
                "no cable leads from a host to a switch",
                path=path,
                line=1,
                hint="the output of ibnetdiscover",
            )
        return Cluster(
            name,
            tuple(dict.fromkeys(port.host for port in ports)),
            {names[key]: place for key, (place, _) in self._switches.items()},
            tuple(ports),
            tuple(Trunk(at[0], a, b, len(at), gbps) for (a, b, gbps), at in trunks.items()),
            unnamed=tuple(unnamed),
            notes=(("aggregation nodes (SHARP), left out", str(dropped), Place(path, None)),)
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


def _switch_names(switches: dict[str, tuple[Place, str]]) -> dict[str, str]:
    """A name for each switch: its description without the words of its maker where that is one of a kind."""
    full = {key: description.strip() or key for key, (_, description) in switches.items()}
    short = {key: re.sub(r"^MF0;|:[A-Z]+\d+\w*/U\d+$", "", name) or name for key, name in full.items()}
    short = {key: name.removeprefix("MF0;") for key, name in short.items()}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else f"{name} ({key})" for key, name in short.items()}
