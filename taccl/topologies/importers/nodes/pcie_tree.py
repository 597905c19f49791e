"""PCIe where GPUs have no other way to each other: bridges and CPUs as devices that share their routes up.

NVLinks are not its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from taccl.support.lists import joined
from taccl.topologies.importers.nodes.facts import Cpu, Dump, Nearness, SharedBridge
from taccl.topologies.importers.nodes.figures import card_figure, nic_figure, pcie_figure, pcie_gbps
from taccl.topologies.importers.nodes.layout import NodeLayout
from taccl.topologies.importers.nodes.rates import INTEL_SHARE, Alphas, cpu_gbps
from taccl.topologies.machines.figures import Bandwidth, Figure

Nearnesses = Sequence[Sequence[Nearness | None]]


@dataclass(frozen=True)
class _Group:
    """GPUs and ports at one CPU, or below one bridge."""

    name: str
    gpus: frozenset[int]
    nics: frozenset[int]

    def holds(self, other: _Group) -> bool:
        return self.gpus >= other.gpus and self.nics >= other.nics and self != other


def add_pcie_tree(layout: NodeLayout, dump: Dump, alphas: Alphas, bandwidth: Bandwidth) -> None:
    """Adds the bridges that are shared, a device for each CPU, and everything's wires to them.

    A GPU's own wire has half of the latency of PCIe, so that two GPUs have all of it between them.
    """
    cpus = [_Group(f"cpu{i}", *group) for i, group in enumerate(cpu_groups(dump))]
    bridges = _bridges(dump)
    for group in (*cpus, *(group for group, _ in bridges)):
        layout.add_pcie(group.name)
    half = Figure(
        alphas.pcie_us / 2, "assumed", f"half of {alphas.pcie_us:g} us on each side, {alphas.pcie_source}"
    )
    none = Figure(0.0, "assumed", "counted at the GPUs")
    groups = [group for group, _ in bridges] + cpus
    intel = {group.name for group in cpus if bandwidth == "nccl" and _is_intel(dump, group)}
    for i, gpu in enumerate(dump.gpus):
        above = _lowest(groups, _Group("", frozenset([i]), frozenset()))
        gbps = pcie_figure(gpu, bandwidth)
        gbps = _through_intel(gbps) if above in intel else gbps
        layout.wire((layout.gpus[i], above), "PCIe of a GPU", half, gbps)
    for group, bridge in bridges:
        gbps = pcie_gbps(bridge.gbps, bridge.place, bandwidth)
        if bridge.gbps is None and bridge.gpus:
            fastest = max(pcie_figure(dump.gpus[i], bandwidth).value for i in bridge.gpus)
            rule = f"as fast as GPUs below it, since no speed to believe is reported: {bridge.place}"
            gbps = Figure(fastest, "inferred", rule)
        above = _lowest(groups, group)
        if group.gpus and above in intel:
            gbps = _through_intel(gbps)
        layout.wire((group.name, above), "PCIe of a bridge", none, gbps)
    _add_cards(layout, dump, groups, none, bandwidth)
    _join_cpus(layout, dump, cpus, alphas)


def _is_intel(dump: Dump, group: _Group) -> bool:
    cpu = _cpu_of(dump, group)
    return cpu is not None and (cpu.vendor or "").strip() == "GenuineIntel"


def _through_intel(gbps: Figure) -> Figure:
    """What GPUs get of a PCIe link whose data passes an Intel CPU."""
    rule = f"5/6 of {gbps.value:g} GB/s ({gbps.how}: {gbps.source}), as NCCL takes it past an Intel CPU"
    return Figure(gbps.value * INTEL_SHARE, "inferred", rule)


def _add_cards(
    layout: NodeLayout, dump: Dump, groups: Sequence[_Group], none: Figure, bandwidth: Bandwidth
) -> None:
    """Ports at their bridge; those of one card share its link if they are faster than it together."""
    for number, ports in enumerate(cards(layout, dump)):
        nics = [(dump.nics or ())[i] for i in ports]
        above = _lowest(groups, _Group("", frozenset(), frozenset(ports[:1])))
        lines = [nic_figure(nic) for nic in nics]
        card = card_figure(nics[0], bandwidth)
        if card is not None and sum(line.value for line in lines) > card.value:
            if len(ports) == 1:
                lines = [card]
            else:
                name = layout.add_pcie(f"card{number}")
                layout.wire((above, name), "PCIe of a network card", none, card)
                above = name
        for i, line in zip(ports, lines, strict=True):
            layout.wire((above, layout.nic_of[i]), "way to a NIC", none, line)


def _join_cpus(layout: NodeLayout, dump: Dump, cpus: Sequence[_Group], alphas: Alphas) -> None:
    alpha = Figure(alphas.cpu_us, "assumed", alphas.cpu_source)
    for i, a in enumerate(cpus):
        for b in cpus[i + 1 :]:
            if _hosts(dump, a) & _hosts(dump, b):
                gbps = min((between_cpus(dump, one) for one in (a, b)), key=lambda figure: figure.value)
                layout.wire((a.name, b.name), "between CPUs", alpha, gbps)


def _hosts(dump: Dump, group: _Group) -> set[str | None]:
    gpus, nics = (dump.gpus[i].host for i in group.gpus), ((dump.nics or ())[i].host for i in group.nics)
    return {*gpus, *nics}


def between_cpus(dump: Dump, group: _Group | None = None) -> Figure:
    """GB/s from one CPU to another, of a group's own processor (the first where none is reported)."""
    cpu = None if group is None else _cpu_of(dump, group)
    cpu = cpu or next(iter(dump.cpus or ()), None)
    if cpu is not None and cpu.gbps is not None:
        return Figure(cpu.gbps, "read", str(cpu.place))
    gbps, source = cpu_gbps(cpu)
    return Figure(gbps, "assumed", source if cpu is None else f"{source} (processor: {cpu.place})")


def _cpu_of(dump: Dump, group: _Group) -> Cpu | None:
    numas = {dump.gpus[i].numa for i in group.gpus} | {(dump.nics or ())[i].numa for i in group.nics}
    return next((cpu for cpu in dump.cpus or () if cpu.numa in numas), None)


def cards(layout: NodeLayout, dump: Dump) -> list[list[int]]:
    """The ports in the machine, those of one card together."""
    found: dict[object, list[int]] = {}
    for i in layout.nic_of:
        card = (dump.nics or ())[i].card
        found.setdefault(i if card is None else (card, (dump.nics or ())[i].numa), []).append(i)
    return list(found.values())


def cpu_groups(dump: Dump) -> list[tuple[frozenset[int], frozenset[int]]]:
    """GPUs and ports at one CPU: no further from each other than its host bridges, or at one bridge."""
    gpus, nics = len(dump.gpus), len(dump.nics or ())
    if dump.gpu_nearness is None:
        return [(frozenset(range(gpus)), frozenset(range(nics)))]
    return _clusters(dump, Nearness.NODE, dump.bridges or ())


def _clusters(
    dump: Dump, most: Nearness, bridges: Sequence[SharedBridge] = ()
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Devices joined by pairs no further than `most` or by a bridge, in the order of their first."""
    gpus, nics = len(dump.gpus), len(dump.nics or ())
    rows = [*(dump.gpu_nearness or [[None] * gpus] * gpus)]
    alongside = [*(dump.nic_nearness or [[None] * nics] * gpus)]
    pairs = [
        (a, b)
        for a in range(gpus)
        for b, near in enumerate([*rows[a], *alongside[a]])
        if near is not None and near <= most
    ]
    for bridge in bridges:
        pairs += pairwise([*bridge.gpus, *(gpus + nic for nic in bridge.nics)])
    return [
        (frozenset(i for i in part if i < gpus), frozenset(i - gpus for i in part if i >= gpus))
        for part in joined(range(gpus + nics), pairs)
    ]


def _bridges(dump: Dump) -> list[tuple[_Group, SharedBridge]]:
    """The shared bridges: as they are reported, or as nearness implies them."""
    bridges = dump.bridges
    if bridges is None and dump.gpu_nearness is not None:
        place = dump.gpus[0].place
        sets = [cluster for most in (Nearness.PIX, Nearness.PXB) for cluster in _clusters(dump, most)]
        shared = dict.fromkeys(each for each in sets if len(each[0]) + len(each[1]) > 1)
        bridges = tuple(
            SharedBridge(place, f"bridge of GPUs {sorted(gpus)}", tuple(sorted(gpus)), tuple(sorted(nics)))
            for gpus, nics in shared
        )
    return [
        (_Group(f"bridge{i}", frozenset(bridge.gpus), frozenset(bridge.nics)), bridge)
        for i, bridge in enumerate(bridges or ())
    ]


def _lowest(groups: Sequence[_Group], below: _Group) -> str:
    """The smallest group above another."""
    above = [group for group in groups if group.holds(below)]
    return min(above, key=lambda group: len(group.gpus) + len(group.nics)).name
