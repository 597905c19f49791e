"""Which switches are leaves, which stand above them, what each joins.

A switch with ports of hosts is a leaf, tier 1; any other's tier is its distance from the nearest leaf. At
level t stand the parts that switches of tiers 1 to t join, and a part's uplinks are its cables to tier t + 1.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from taccl.support.lists import joined, natural
from taccl.topologies.importers.clusters.facts import ClusterFacts, HostPort, Trunk

TIER_NAMES = ("leaf", "spine", "core")


@dataclass(frozen=True)
class Uplinks:
    """Cables of a part to the tier above: their number by their speed in GB/s; None for what is not
    stated.
    """

    counts: Mapping[float | None, int] | None

    def gbps(self, unknown: float | None) -> float | None:
        """All together; `unknown` stands for a speed that is not stated."""
        if self.counts is None:
            return None
        speeds = [(speed if speed is not None else unknown, count) for speed, count in self.counts.items()]
        return None if any(speed is None for speed, _ in speeds) else sum((s or 0) * n for s, n in speeds)

    @property
    def number(self) -> int | None:
        """How many cables."""
        return None if self.counts is None else sum(self.counts.values())


class Tiers:
    """The tiers of the switches of a cluster.

    Parameters
    ----------
    hosts : the switches that they are attached to are leaves, whatever they are.
    nics : the order of the NICs of a host; by their names where it is not given.
    """

    def __init__(self, cluster: ClusterFacts, hosts: Iterable[str] = (), nics: Sequence[str] = ()) -> None:
        self._hosts = tuple(hosts)
        self._rank_of = {nic: rank for rank, nic in enumerate(nics)}
        self.cluster = cluster
        self._parts: dict[int, dict[str, str]] = {}
        self.near: dict[str, list[tuple[str, Trunk]]] = {name: [] for name in cluster.switches}
        for trunk in cluster.trunks:
            self.near.setdefault(trunk.a, []).append((trunk.b, trunk))
            self.near.setdefault(trunk.b, []).append((trunk.a, trunk))

    @cached_property
    def ports_of(self) -> dict[str, list[HostPort]]:
        """Host -> its ports in order."""
        ports: dict[str, list[HostPort]] = {}
        for port in self.cluster.ports:
            ports.setdefault(port.host, []).append(port)
        for found in ports.values():
            found.sort(key=lambda port: (self._rank_of.get(port.nic or "", 0), natural(port.nic or "")))
        return ports

    @cached_property
    def usual_nics(self) -> int:
        """How many NICs most hosts have."""
        counts = Counter(len(ports) for ports in self.ports_of.values())
        return max(counts, key=lambda count: (counts[count], count)) if counts else 0

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Switches with ports of usual hosts, of hosts without a name, or of those that were given."""
        usual = (ports for ports in self.ports_of.values() if len(ports) == self.usual_nics)
        named = (self.ports_of.get(host, ()) for host in self._hosts)
        names = {port.switch for ports in (*usual, *named) for port in ports}
        return tuple(sorted(names | {port.switch for port in self.cluster.unnamed}, key=natural))

    @cached_property
    def tier_of(self) -> dict[str, int]:
        """Switch -> its tier from 1; a switch that no leaf reaches is not in it.

        In a scheduler's tree, whose branches may differ in length, it is the height above the lowest leaf.
        """
        if self.cluster.trunks and all(trunk.count is None for trunk in self.cluster.trunks):
            return self._heights()
        tier = dict.fromkeys(self.leaves, 1)
        queue = deque(self.leaves)
        while queue:
            switch = queue.popleft()
            for other, _ in self.near[switch]:
                if other not in tier:
                    tier[other] = tier[switch] + 1
                    queue.append(other)
        return tier

    def _heights(self) -> dict[str, int]:
        """The tiers of a tree: a switch stands one above the highest of those below it."""
        above = {trunk.a: trunk.b for trunk in self.cluster.trunks}
        tier = dict.fromkeys(self.leaves, 1)
        for leaf in self.leaves:
            switch, height = leaf, 1
            while switch in above:
                switch, height = above[switch], height + 1
                if switch in self.leaves or tier.get(switch, 0) >= height:
                    break
                tier[switch] = height
        return tier

    @property
    def top(self) -> int:
        """The highest tier."""
        return max(self.tier_of.values(), default=0)

    def counts(self) -> dict[str, int]:
        """Name of a tier -> how many switches it has."""
        numbers = Counter(self.tier_of.values())
        return {tier_name(tier): numbers[tier] for tier in sorted(numbers)}

    def parts(self, tier: int) -> dict[str, str]:
        """Leaf -> the leaf that stands for the part that it is in; at tier 1 each is alone."""
        if tier not in self._parts:
            self._parts[tier] = self._joined(tier)
        return self._parts[tier]

    def _joined(self, tier: int) -> dict[str, str]:
        inside = {name for name, at in self.tier_of.items() if at <= tier}
        cables = ((a, b) for a in inside for b, _ in self.near[a] if tier > 1 and b in inside)
        parts = joined((*self.leaves, *inside), cables)  # leaves first, so that a leaf stands for its part
        first = {name: part[0] for part in parts for name in part}
        return {leaf: first[leaf] for leaf in self.leaves}

    def switches_in(self, tier: int, leaf: str) -> set[str]:
        """The switches of tiers 1 to `tier` that are joined to a leaf by such switches."""
        found, queue = {leaf}, deque([leaf])
        while queue and tier > 1:
            for other, _ in self.near[queue.popleft()]:
                if other not in found and self.tier_of.get(other, tier + 1) <= tier:
                    found.add(other)
                    queue.append(other)
        return found

    def uplinks(self, tier: int, leaf: str) -> Uplinks:
        """The cables up of the part of a leaf; of a leaf also those to other leaves."""
        inside = self.switches_in(tier, leaf)
        counts: Counter[float | None] = Counter()
        for name in inside:
            for other, trunk in self.near[name]:
                if other in inside or (self.tier_of.get(other, 0) <= tier and tier > 1):
                    continue
                if trunk.count is None:
                    return Uplinks(None)
                counts[trunk.gbps] += trunk.count
        return Uplinks(dict(counts))

    def host_gbps(self, leaf: str) -> float | None:
        """GB/s of all ports of hosts at a leaf together; None where one has no speed."""
        ports = [port for port in (*self.cluster.ports, *self.cluster.unnamed) if port.switch == leaf]
        return None if any(port.gbps is None for port in ports) else sum(port.gbps or 0 for port in ports)


def tier_name(tier: int) -> str:
    """leaf, spine, core, level4, ..."""
    return TIER_NAMES[tier - 1] if tier <= len(TIER_NAMES) else f"level{tier}"


def commonest(values: Iterable[float]) -> float:
    """The value that is there most often; of several the least."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))
