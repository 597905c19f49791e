"""A plan as lines of a machine file: `nodes`, `domain` and `fabric`, each number with how it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.support.lists import spans
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.hostlist import shortened
from taccl.topologies.importers.clusters.plan import ClusterFile, PlannedLevel
from taccl.topologies.importers.clusters.tiers import Tiers, Uplinks, commonest
from taccl.topologies.importers.nodes.facts import Known
from taccl.topologies.importers.nodes.rates import alphas
from taccl.topologies.machines.figures import How
from taccl.topologies.machines.rates import LEVEL_ALPHA

#: A NIC of an unknown speed, GB/s.
NIC_GBPS = 50.0
_NIC_SOURCE = "a NIC of 400 Gb/s; the file tells no speed"


@dataclass(frozen=True)
class SectionCosts:
    """What a machine file already says of its fabric: values, and how each is known."""

    alpha_us: float
    gbps: float
    alpha_known: tuple[How, str]
    gbps_known: tuple[How, str]


@dataclass(frozen=True)
class Section:
    """The text of the keys, by key, and the table of what is in them."""

    nodes: str
    domain: str
    fabric: str
    values: tuple[Known, ...]
    warnings: tuple[str, ...]
    has_levels: bool = False

    @property
    def text(self) -> str:
        """All of it, as it stands in a machine file."""
        return self.nodes + self.domain + self.fabric


def section(
    cluster: ClusterFacts,
    planned: ClusterFile,
    costs: SectionCosts | None = None,
    nics: Sequence[str] = (),
    switch: str | None = None,
) -> Section:
    """The lines for a plan.

    Parameters
    ----------
    costs : of the machine's own fabric, which stay.
    nics : the names of the NICs of the machine's node; nic0, nic1, ... when not given.
    switch : the switch of the machine's node that its GPUs' NVLinks lead to.
    """
    return _Writer(cluster, planned, costs, nics, switch).section()


class _Writer:
    def __init__(
        self,
        cluster: ClusterFacts,
        planned: ClusterFile,
        costs: SectionCosts | None,
        nics: Sequence[str],
        switch: str | None,
    ) -> None:
        self.cluster, self.plan, self.costs = cluster, planned, costs
        self.nics = nics or [f"nic{place}" for place in range(max(1, len(planned.nics)))]
        self.switch = switch
        self.values: list[Known] = []
        self.warnings: list[str] = [*cluster.warnings, *planned.warnings]
        self.ports_of = Tiers(cluster).ports_of

    def section(self) -> Section:
        for quantity, value, place in self.cluster.notes:
            self._known(quantity, value, "read", str(place))
        hosts = self.plan.hosts
        nodes = f"nodes: {len(hosts)}{self._known('nodes', len(hosts), 'read', self._file())}"
        nodes += "".join(f"  # {line}\n" for line in _host_lines(self.plan))
        domain = self._domain()
        fabric = self._fabric()
        has_levels = any(len(level.nic_groups) > 1 for level in self.plan.levels)
        return Section(nodes, domain, fabric, tuple(self.values), tuple(self.warnings), has_levels)

    def _file(self) -> str:
        places = [port.place for port in self.cluster.ports] or [block.place for block in self.cluster.blocks]
        return places[0].path or "<text>"

    def _known(self, quantity: str, value: str | float, how: How, source: str) -> str:
        """The trailing comment of a line whose value goes into the table."""
        self.values.append(Known(quantity, value, how, source))
        return f"  # {how}: {source}\n"

    def _domain(self) -> str:
        domains = self.plan.domains
        if domains is None or all(len(domain) == 1 for domain in domains):
            return ""
        place = next(block.place for block in self.cluster.blocks if block.is_nvlink)
        switch = self.switch or "nvswitch"
        source = self._known("NVLink domains", ", ".join(_ranges(domains)), "read", str(place))
        rule = "its GPUs' NVLinks lead to it" if self.switch else "what the node calls its NVSwitch"
        named = self._known("switch of a domain", switch, "inferred", rule)
        return f"domain:\n  switch: {switch}{named}  {_members(domains)}{source}"

    def _fabric(self) -> str:
        lines = ["fabric:\n"]
        gbps, above = self._costs()
        lines += above
        if any(len(level.nic_groups) > 1 for level in self.plan.levels):
            lines.append("  levels:\n")
            for level in self.plan.levels:
                lines += self._level(level, gbps)
        return "".join(lines)

    def _costs(self) -> tuple[float, tuple[str, str]]:
        """The bandwidth of a NIC, GB/s, and the lines of the fabric's alpha and bandwidth."""
        how: How = "assumed"
        alpha, source = alphas(None).network_us, alphas(None).network_source
        if self.costs is not None:
            alpha, (how, source) = self.costs.alpha_us, self.costs.alpha_known
        gbps, known = self._nic_gbps()
        return gbps, (
            f"  alpha_us: {alpha:g}{self._known('network alpha, us', alpha, how, source)}",
            f"  bandwidth_gbps: {gbps:.9g}{self._known('NIC, GB/s', gbps, *known)}",
        )

    def _nic_gbps(self) -> tuple[float, tuple[How, str]]:
        """Of what the cluster's file and the machine tell the slower, and how it is known."""
        ports = [port for host in self.plan.hosts for port in self.ports_of.get(host, ())]
        reported = sorted((port.gbps, str(port.place)) for port in ports if port.gbps is not None)
        if not reported:
            if self.costs is None:
                return NIC_GBPS, ("assumed", _NIC_SOURCE)
            return self.costs.gbps, self.costs.gbps_known
        slowest, place = reported[0]
        if reported[-1][0] > slowest:
            shown = ", ".join(f"{speed:g}" for speed in sorted({speed for speed, _ in reported}))
            self.warnings.append(f"NICs of {shown} GB/s: the slowest is taken, {place}")
        if self.costs is None or self.costs.gbps_known[0] == "assumed":
            return slowest, ("read", place)
        if not 0.98 < self.costs.gbps / slowest < 1.02:
            self.warnings.append(
                f"a NIC has {self.costs.gbps:g} GB/s in the machine ({self.costs.gbps_known[1]}) and "
                f"{slowest:g} in the cluster's file ({place}): the slower is taken"
            )
        if self.costs.gbps <= slowest:
            return self.costs.gbps, self.costs.gbps_known
        return slowest, ("read", place)

    def _level(self, level: PlannedLevel, gbps: float) -> list[str]:
        is_top = level.uplinks is None
        lines = [f"    - name: {level.name}\n"]
        if level.groups is not None and not (is_top and len(level.groups) == 1):
            shown = ", ".join(_ranges(level.groups))
            known = self._known(f"nodes below one {level.name}", shown, "read", self._place(level))
            lines.append(f"      {_members(level.groups)}{known}")
        if level.groups is None:
            listed = [
                [f"node{node}.{self._nic(place)}" for node, place in group] for group in level.nic_groups
            ]
            lines.append("      groups:\n")
            lines += [f"        - [{', '.join(group)}]\n" for group in listed]
            self._known(f"groups of NICs of a {level.name}", len(listed), "read", self._place(level))
        if level.rails is not None:
            rule = "NICs in the order of their names; those at one place of each node meet"
            known = self._known(f"rails of a {level.name}", len(level.rails), "inferred", rule)
            lines.append(f"      rails: {_rails(level.rails)}{known}")
        if level.uplinks is not None:
            lines += self._uplinks(level, level.uplinks, gbps)
            known = self._known(
                f"alpha from {level.name} up, us", LEVEL_ALPHA.us, "assumed", LEVEL_ALPHA.source
            )
            lines.append(f"      alpha_us: {LEVEL_ALPHA.us:g}{known}")
        return lines

    def _place(self, level: PlannedLevel) -> str:
        """Where the first leaf of a level is described."""
        place = self.cluster.switches.get(level.leaves[0])
        return self._file() if place is None else str(place)

    def _nic(self, place: int) -> str:
        return self.nics[place] if place < len(self.nics) else f"nic{place}"

    def _uplinks(self, level: PlannedLevel, uplinks: Sequence[Uplinks], gbps: float) -> list[str]:
        if any(uplink.counts is None for uplink in uplinks):
            note = self._known(
                f"oversubscription of a {level.name}", 1, "assumed", "the file tells no number of uplinks"
            )
            return [f"      oversubscription: 1{note}"]
        speeds = [speed for uplink in uplinks for speed, n in (uplink.counts or {}).items() for _ in range(n)]
        unit = commonest([gbps if speed is None else speed for speed in speeds] or [gbps])
        if len(set(speeds)) > 1 or None in speeds:
            self.warnings.append(
                f"uplinks of the {level.name} level have several speeds, or unknown ones: "
                f"counted as this many of {unit:g} GB/s"
            )
        numbers = [max(1, int((uplink.gbps(gbps) or 0.0) / unit + 1e-9)) for uplink in uplinks]
        for number, each, leaf in zip(numbers, uplinks, level.leaves, strict=True):
            if not each.number:
                self.warnings.append(f"no uplink of {leaf} is in the file: {number} is taken")
        text = str(numbers[0]) if len(set(numbers)) == 1 else f"[{', '.join(map(str, numbers))}]"
        place = self._place(level)
        count = self._known(f"uplinks of a {level.name}", text, "read", place)
        speed = self._known(f"uplink of a {level.name}, GB/s", unit, "read", place)
        return [f"      uplinks: {text}{count}", f"      uplink_gbps: {unit:g}{speed}"]


def _members(groups: Sequence[Sequence[int]]) -> str:
    """`nodes: 4` where groups are equal runs of the nodes, else `groups: [...]`."""
    size = len(groups[0])
    flat = [node for group in groups for node in group]
    is_even = all(len(group) == size for group in groups[:-1]) and len(groups[-1]) <= size
    if is_even and flat == list(range(len(flat))):
        return f"nodes: {size}"
    return f"groups: [{', '.join(_ranges(groups))}]"


def _ranges(groups: Sequence[Sequence[int]]) -> list[str]:
    """`0-3`, `5` or `[0-3, 7]` for each group."""
    runs = [spans(group) for group in groups]
    return [words[0] if len(words) == 1 else f"[{', '.join(words)}]" for words in runs]


def _rails(rails: Sequence[Sequence[int]]) -> str:
    if all(len(rail) == 1 for rail in rails):
        return "true"
    return f"[{', '.join('[' + ', '.join(map(str, rail)) + ']' for rail in rails)}]"


def _host_lines(planned: ClusterFile) -> list[str]:
    """Which host is which node, a line for each run of nodes below one leaf."""
    runs = planned.levels[0].groups if planned.levels else None
    groups = runs or (tuple(range(len(planned.hosts))),)
    lines = []
    for group, span in zip(groups, _ranges(groups), strict=True):
        word = "node" if len(group) == 1 else "nodes"
        lines.append(f"{word} {span.strip('[]')}: {shortened([planned.hosts[node] for node in group])}")
    return lines
