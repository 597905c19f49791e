"""What a dump says, in GB/s: its links, its PCIe and its NICs, each number with how it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness, Nic
from taccl.topologies.importers.nodes.gpus import Counted, arch_of_model
from taccl.topologies.importers.nodes.rates import (
    UNKNOWN_LINK,
    UNKNOWN_NIC_GBPS,
    UNKNOWN_NIC_SOURCE,
    UNKNOWN_PCIE_GBPS,
    link_rate,
    pcie_peak_gbps,
    rate_source,
    summing_rate,
)
from taccl.topologies.machines.figures import Bandwidth, Figure, Rate


@dataclass(frozen=True)
class RatedLink:
    """Links of one GPU to another, or to the switch: how many, and GB/s of one of them each way."""

    link: GpuLink
    count: Figure
    each: Figure

    @property
    def total(self) -> Figure:
        """The worse known of the two says how their product is known."""
        value = round(self.count.value * self.each.value, 6)
        if self.count.value == 1 and self.each.how == "read":
            return Figure(value, "read", self.each.source)
        source = f"{_times(self.count)} x {self.each.value:g} GB/s ({self.each.origin})"
        return Figure(value, "inferred", source)


def rated_links(dump: Dump, bandwidth: Bandwidth) -> tuple[RatedLink, ...]:
    """The links of a dump with their speeds; none where it tells of none."""
    return tuple(RatedLink(link, _count(link), _each(dump, link, bandwidth)) for link in dump.links or ())


def summing_figures(dump: Dump, bandwidth: Bandwidth) -> dict[int, Figure]:
    """For each NVSwitch that sums and copies, GB/s of a GPU through its sums: of that with fewest links."""
    here = counted(dump)
    archs = {arch_of(gpu) or here.arch for gpu in dump.gpus}
    found = [summing_rate(arch) for arch in archs]
    known = [rate for rate in found if rate is not None]
    if len(known) < len(found):
        return {}
    slowest = min(known, key=lambda rate: rate.of(bandwidth))
    totals: dict[int, dict[int, int]] = {}
    for link in dump.links or ():
        if link.b is None:
            mine = totals.setdefault(link.switch, {})
            mine[link.a] = mine.get(link.a, 0) + (link.count or 1)
    return {
        switch: Figure(
            round(min(mine.values()) * slowest.of(bandwidth), 6),
            "inferred",
            f"{min(mine.values())} links x {slowest.of(bandwidth):g} GB/s ({slowest.name}: {slowest.source})",
        )
        for switch, mine in totals.items()
    }


def arch_of(gpu: Gpu) -> str | None:
    """As the dump has it, or of its model."""
    return gpu.arch or (arch_of_model(gpu.model) if gpu.model else None)


def gpu_gbps(dump: Dump, bandwidth: Bandwidth) -> tuple[Figure | None, ...]:
    """For each GPU, all its routes to other GPUs together, one direction.

    The sum over its NVLinks or xGMI links; without any, its PCIe link; None where links are not stated.
    """
    rated = rated_links(dump, bandwidth)
    found: list[Figure | None] = []
    for gpu in range(len(dump.gpus)):
        mine = [each for each in rated if gpu in (each.link.a, each.link.b)]
        if mine:
            value = round(sum(each.total.value for each in mine), 6)
            classes = dict.fromkeys(each.total.source for each in mine)
            source = f"{len(mine)} routes: " if len(mine) > 1 else ""
            found.append(Figure(value, "inferred", source + "; ".join(list(classes)[:3])))
        else:
            found.append(None if dump.links is None else _pcie_to_others(dump, gpu, bandwidth))
    return tuple(found)


def _pcie_to_others(dump: Dump, gpu: int, bandwidth: Bandwidth) -> Figure:
    """A GPU's PCIe link, or the way up of a bridge that it shares with NICs only, whichever is slower."""
    routes = [pcie_figure(dump.gpus[gpu], bandwidth)]
    for bridge in dump.bridges or ():
        if bridge.gpus == (gpu,) and bridge.gbps is not None:
            routes.append(pcie_gbps(bridge.gbps, bridge.place, bandwidth))
    return min(routes, key=lambda way: way.value)


def pcie_figure(gpu: Gpu, bandwidth: Bandwidth) -> Figure:
    """A GPU's own PCIe link."""
    return pcie_gbps(gpu.pcie_gbps, gpu.pcie_place or gpu.place, bandwidth)


def card_figure(nic: Nic, bandwidth: Bandwidth) -> Figure | None:
    """The PCIe link of a port's card; None where it is not stated, for a card is as fast as its ports
    then.
    """
    if nic.card_gbps is None:
        return None
    return pcie_gbps(nic.card_gbps, nic.card_place or nic.place, bandwidth)


def pcie_gbps(reported: float | None, place: FileLine, bandwidth: Bandwidth) -> Figure:
    """A PCIe link: as it is reported, in NCCL's reckoning or the vendor's; NCCL's guess where it is not."""
    if reported is None:
        value = UNKNOWN_PCIE_GBPS if bandwidth == "nccl" else pcie_peak_gbps(UNKNOWN_PCIE_GBPS)
        return Figure(value, "assumed", "PCIe x16 gen 3, what NCCL takes for a link that is not stated")
    if bandwidth == "nccl":
        return Figure(reported, "read", str(place))
    return Figure(pcie_peak_gbps(reported), "inferred", f"raw speed of the link at {place}")


def nic_figure(nic: Nic) -> Figure:
    """The line rate of a port."""
    if nic.gbps is None:
        return Figure(UNKNOWN_NIC_GBPS, "assumed", UNKNOWN_NIC_SOURCE)
    return Figure(nic.gbps, "read", str(nic.place))


def nearest_nics(dump: Dump) -> tuple[tuple[int, ...], ...]:
    """Of each GPU, the ports that no other is nearer than; none that is on another CPU."""
    if dump.nearest_nics is not None:
        return dump.nearest_nics
    if dump.nic_nearness is None:
        return tuple(() for _ in dump.gpus)
    return tuple(_least(row) for row in dump.nic_nearness)


def _least(row: Sequence[Nearness | None]) -> tuple[int, ...]:
    near = [each for each in row if each is not None and each < Nearness.SYS]
    return tuple(i for i, each in enumerate(row) if near and each == min(near))


def _count(link: GpuLink) -> Figure:
    if link.count is None:
        return Figure(1, "assumed", "links are reported, but not how many: 1")
    return Figure(link.count, "read", str(link.place))


def _each(dump: Dump, link: GpuLink, bandwidth: Bandwidth) -> Figure:
    """One link: a bandwidth that is reported, else by its architecture, else its raw rate, or what is likely.

    The vendor's figures, where they are requested, are the architecture's.
    """
    archs = [arch_of(dump.gpus[end]) for end in (link.a, link.b) if end is not None]
    rates = [rate for rate in (link_rate(link.kind, arch) for arch in archs) if rate is not None]
    slowest = min(rates, key=lambda rate: rate.of(bandwidth), default=None)
    if link.gbps is not None and bandwidth == "nccl" and not _is_rate_of_signals(link, slowest):
        return Figure(link.gbps, "read", str(link.place))
    if slowest is not None:
        return Figure(slowest.of(bandwidth), "assumed", rate_source(slowest, bandwidth))
    if link.gbps is not None:
        return Figure(link.gbps, "read", str(link.place))
    by_count = _by_count(dump, link)
    if by_count is not None:
        rule = f"a GPU with {by_count[1]}: {rate_source(by_count[0], bandwidth)}"
        return Figure(by_count[0].of(bandwidth), "inferred", rule)
    rate = UNKNOWN_LINK[link.kind]
    return Figure(
        rate.of(bandwidth), "assumed", f"the generation is not stated: {rate_source(rate, bandwidth)}"
    )


def _is_rate_of_signals(link: GpuLink, rate: Rate | None) -> bool:
    """Whether a reported speed is what no kernel gets: AMD's driver reports xGMI at the vendor's figure."""
    at_peak = rate is not None and link.kind == "xgmi" and abs((link.gbps or 0) - rate.peak_gbps) < 1
    return link.is_raw or at_peak


def _by_count(dump: Dump, link: GpuLink) -> tuple[Rate, str] | None:
    """The generation whose GPUs have as many links, or by xGMI neighbours, as the best linked one here."""
    here = counted(dump)
    rate = link_rate(link.kind, here.arch)
    where = " to one other GPU" if here.in_pairs else ", at a Grace CPU" if here.at_grace else ""
    seen = f"{here.xgmi_peers} neighbours" if here.xgmi_peers else f"{here.nvlinks} links{where}"
    return None if rate is None else (rate, seen)


def counted(dump: Dump) -> Counted:
    """What the links and the CPUs of a dump tell of its GPUs."""
    links = _links_at(dump)
    xgmi = [sum(link.kind == "xgmi" for link in mine) for mine in links]
    in_pairs = max(map(len, links)) == 1 and all(each.b is not None for each in dump.links or ())
    at_grace = bool(dump.cpus) and all(cpu.arch in ("arm64", "aarch64") for cpu in dump.cpus or ())
    most = max(sum(link.count or 0 for link in mine) for mine in links)
    return Counted(most, in_pairs, at_grace, max(xgmi))


def _links_at(dump: Dump) -> list[list[GpuLink]]:
    """For each GPU, the links that end there."""
    return [[link for link in dump.links or () if gpu in (link.a, link.b)] for gpu in range(len(dump.gpus))]


def _times(count: Figure) -> str:
    links = f"{count.value:g} link" + ("" if count.value == 1 else "s")
    return f"{links} ({count.origin})"
