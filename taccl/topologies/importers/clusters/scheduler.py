"""Trees of switches and blocks of nodes, as schedulers know them, checked and made a `ClusterFacts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts, HostBlock, HostPort, Trunk
from taccl.topologies.importers.clusters.hostlist import expanded
from taccl.topologies.strict_yaml import Node


def names_under(keys: Mapping[str, Node], key: str) -> tuple[str, ...]:
    """The names under a key: a list in a scheduler's words, or a list of YAML of such lists.

    Raises
    ------
    TopologyError : one is no list of names, with the line.
    """
    if key not in keys or keys[key].kind == "null":
        return ()
    node = keys[key]
    try:
        parts = node.elements() if node.kind == "list" else (node,)
        return tuple(name for part in parts for name in expanded(part.raw))
    except TopologyError as fault:
        raise (fault if fault.line else node.error(fault.message, fault.hint)) from None


@dataclass
class SwitchTree:
    """Switches, each with the switches and the hosts below it."""

    _places: dict[str, FileLine] = field(default_factory=dict)
    _children: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _notes: list[tuple[str, str, FileLine]] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, place: FileLine, name: str, switches: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        """One switch. Raises TopologyError, with both lines, for a second one of the same name."""
        if name in self._places:
            raise place.error(f"the switch {name!r} is already on line {self._places[name].line}")
        self._places[name], self._children[name], self._hosts[name] = place, switches, hosts

    def add_undescribed(self) -> None:
        """Each switch that is only named below another, as one with nothing below it."""
        for switch, children in list(self._children.items()):
            for child in children:
                if child not in self._places:
                    place = self._places[switch]
                    self._warnings.append(
                        f"{place}: no entry describes the switch {child}: nothing is below it"
                    )
                    self.add(place, child, (), ())

    def note(self, quantity: str, value: str, place: FileLine) -> None:
        """A further fact."""
        self._notes.append((quantity, value, place))

    def cluster(self, name: str, path: str | None, blocks: tuple[HostBlock, ...] = ()) -> ClusterFacts:
        """The cluster of these switches.

        Raises
        ------
        TopologyError : a switch that is named and not described, that is below two others, or below itself.
        """
        parent: dict[str, str] = {}
        trunks: list[Trunk] = []
        for switch, children in self._children.items():
            place = self._places[switch]
            for child in children:
                if child not in self._places:
                    raise place.error(f"there is no switch {child!r}, which is below {switch!r}")
                if child in parent:
                    raise place.error(f"the switch {child!r} is below {parent[child]!r} and {switch!r}")
                parent[child] = switch
                trunks.append(Trunk(place, child, switch))
        self._check_no_rings(parent)
        ports: list[HostPort] = []
        warnings = list(self._warnings)
        leaf_of: dict[str, str] = {}
        for switch, hosts in self._hosts.items():
            for host in hosts:
                if host in leaf_of:
                    warnings.append(
                        f"{self._places[switch]}: host {host} is below {leaf_of[host]} and {switch}; "
                        "the first counts"
                    )
                    continue
                leaf_of[host] = switch
                ports.append(HostPort(self._places[switch], host, None, switch))
        if not ports and not blocks:
            raise FileLine(path, 1).error("no switch has nodes below it")
        hosts = tuple(dict.fromkeys([*leaf_of, *(host for block in blocks for host in block.hosts)]))
        return ClusterFacts(
            name,
            hosts,
            self._places,
            tuple(ports),
            tuple(trunks),
            blocks,
            notes=tuple(self._notes),
            warnings=tuple(warnings),
        )

    def _check_no_rings(self, parent: dict[str, str]) -> None:
        for switch in self._places:
            seen = {switch}
            above = parent.get(switch)
            while above is not None:
                if above in seen:
                    raise self._places[switch].error(f"the switch {switch!r} is below itself")
                seen.add(above)
                above = parent.get(above)


@dataclass
class Blocks:
    """Blocks of hosts without switches; `is_nvlink` where the file says that NVLinks join a block."""

    _places: dict[str, FileLine] = field(default_factory=dict)
    _hosts: dict[str, dict[str, None]] = field(default_factory=dict)
    _block_of: dict[str, str] = field(default_factory=dict)
    _nvlink: set[str] = field(default_factory=set)
    _notes: list[tuple[str, str, FileLine]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, place: FileLine, name: str, hosts: tuple[str, ...], is_nvlink: bool = False) -> None:
        """One block, or further hosts of one that is already there.

        Raises
        ------
        TopologyError : with both lines, for a host that is in another block.
        """
        for host in hosts:
            other = self._block_of.setdefault(host, name)
            if other != name:
                first = self._places[other]
                raise place.error(f"host {host} is in the block {name!r} and in {other!r} ({first})")
        self._places.setdefault(name, place)
        self._hosts.setdefault(name, {}).update(dict.fromkeys(hosts))
        if is_nvlink:
            self._nvlink.add(name)

    def note(self, quantity: str, value: str, place: FileLine) -> None:
        """A further fact."""
        self._notes.append((quantity, value, place))

    def all(self) -> tuple[HostBlock, ...]:
        """The blocks in their order."""
        return tuple(
            HostBlock(place, name, tuple(self._hosts[name]), name in self._nvlink)
            for name, place in self._places.items()
        )

    def cluster(self, name: str, gpus: int | None = None) -> ClusterFacts:
        """The cluster of these blocks, with no switch between them."""
        blocks = self.all()
        hosts = tuple(host for block in blocks for host in block.hosts)
        return ClusterFacts(name, hosts, {}, blocks=blocks, gpus=gpus, notes=tuple(self._notes))
