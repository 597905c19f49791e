"""Each wire of a testbed against its rate: alone, shared by paths of ranks, with all others busy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from taccl.deployment.testbed.building import space_of
from taccl.deployment.testbed.design import Design, End, rank_address
from taccl.deployment.testbed.flows import WireFlow, rates_of
from taccl.support.report import Report, Reported, Table
from taccl.topologies.model import PhysicalTopology

#: So far off is a rate that is not kept; headers alone take 0.7%, and a busy computer a few percent.
TOLERANCE = 0.05
#: Flows of a shared wire.
_MOST_FLOWS = 4
_GB_BITS = 8e9

Measure = Callable[[Sequence[WireFlow], float], list[float]]


@dataclass(frozen=True, slots=True)
class CheckedLink:
    """One direction of a wire. Rates are payload, GB/s.

    Parameters
    ----------
    src, dst : devices. rate_gbps : what it is shaped to.
    alone_gbps : between its two devices, nothing else being sent.
    flows : paths of ranks over it that were used at once; 0: no paths fill it together.
    shared_gbps : what these carry in all.
    together_gbps : alone again, while all other links are busy in the same way.
    """

    src: str
    dst: str
    rate_gbps: float
    alone_gbps: float
    flows: int
    shared_gbps: float | None
    together_gbps: float

    @property
    def off(self) -> float:
        """The largest part by which a measured rate differs from the one expected."""
        found = (self.alone_gbps, self.together_gbps, self.shared_gbps)
        return max(abs(each / self.rate_gbps - 1) for each in found if each is not None)


@dataclass(frozen=True)
class CheckedTestbed(Reported):
    """All links of a testbed; `tolerance` : how far a rate may be off, as a part of it."""

    machine: str
    scale: float
    tolerance: float
    links: tuple[CheckedLink, ...]

    @property
    def ok(self) -> bool:
        """Whether every rate is kept."""
        return all(link.off <= self.tolerance for link in self.links)

    def report(self) -> Report:
        """The links as rows."""
        rows: list[dict[str, object]] = [{**asdict(link), "error": link.off} for link in self.links]
        figures = {
            "machine": self.machine,
            "scale": self.scale,
            "tolerance": self.tolerance,
            "ok": self.ok,
            "links": rows,
        }
        header = ("link", "Mbit/s", "alone", "shared", "by flows", "all at once", "off")
        cells = [_cells(link, self.tolerance) for link in self.links]
        off = sum(link.off > self.tolerance for link in self.links)
        says = f"{off} of {len(cells)} links off by more than" if off else f"all {len(cells)} links within"
        carried, wanted = (sum(sums) * _GB_BITS / 1e6 for sums in self._together())
        title = (
            f"{self.machine} at {self.scale:g} of its rates: {says} {100 * self.tolerance:g}%; "
            f"all at once carry {carried:.0f} of {wanted:.0f} Mbit/s"
        )
        columns = list(rows[0]) if rows else []
        return Report("taccl.testbed/1", figures, columns, rows, Table(title, cells, header))

    def _together(self) -> tuple[list[float], list[float]]:
        return [link.together_gbps for link in self.links], [link.rate_gbps for link in self.links]


def check(
    machine: PhysicalTopology,
    design: Design,
    *,
    tolerance: float = TOLERANCE,
    measure: Measure = rates_of,
) -> CheckedTestbed:
    """Measure all links of a testbed that is built.

    Parameters
    ----------
    tolerance : how far a rate may be off, as a part of it. measure : runs flows at once.
    """
    alone = {
        (a.device, b.device): (WireFlow(_at(design, a), _at(design, b)), a.rate_bits)
        for wire in design.wires
        for a, b in (wire.ends, wire.ends[::-1])
        if a.rate_bits
    }
    rates = {link: float(rate) for link, (_, rate) in alone.items()}
    everything = [flow for flow, _ in alone.values()]
    together = measure(everything, min(rates.values())) if alone else []
    using = _paths_over(machine)
    checked = []
    for (link, (flow, rate)), busy in zip(alone.items(), together, strict=True):
        (by_itself,) = measure([flow], rate)
        pairs = _spread(list(using.get(link, {})))
        shares = equal_shares([using[link][pair] for pair in pairs], rates)
        shared = None
        if len(pairs) > 1 and math.isclose(sum(shares), rate):
            shared = sum(measure([_between(*pair) for pair in pairs], rate)) / _GB_BITS
        number = len(pairs) if shared is not None else 0
        rate_gbps, alone_gbps = rate / _GB_BITS, by_itself / _GB_BITS
        checked.append(CheckedLink(*link, rate_gbps, alone_gbps, number, shared, busy / _GB_BITS))
    return CheckedTestbed(machine.name, design.scale, tolerance, tuple(checked))


_Link = tuple[str, str]


def equal_shares(paths: Sequence[Sequence[_Link]], rates: dict[_Link, float]) -> list[float]:
    """What flows over some paths get where each link is shared equally (max-min fairness).

    Parameters
    ----------
    paths : the links of each flow. rates : of shaped links; others carry anything.
    """
    shares: list[float | None] = [None] * len(paths)
    left = {link: rates[link] for path in paths for link in path if link in rates}
    while left:
        waiting = {
            link: [k for k, path in enumerate(paths) if link in path and shares[k] is None] for link in left
        }
        left = {link: rate for link, rate in left.items() if waiting[link]}
        if not left:
            break
        tightest = min(left, key=lambda link: left[link] / len(waiting[link]))
        share = left[tightest] / len(waiting[tightest])
        for flow in waiting[tightest]:
            shares[flow] = share
            for link in paths[flow]:
                if link in left:
                    left[link] -= share
    return [share if share is not None else float("inf") for share in shares]


def _paths_over(machine: PhysicalTopology) -> dict[_Link, dict[tuple[int, int], list[_Link]]]:
    """Of each link the pairs of ranks whose path it is on, with the links of their paths."""
    using: dict[_Link, dict[tuple[int, int], list[_Link]]] = {}
    for source in range(machine.num_ranks):
        for target in range(machine.num_ranks):
            path = machine.path(source, target) if source != target else None
            if path is None:
                continue
            links = [(machine.links[k].src, machine.links[k].dst) for k in path.links]
            for link in links:
                using.setdefault(link, {})[source, target] = links
    return using


def _spread(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Some of the pairs, with as many sources and targets as there are."""
    chosen: list[tuple[int, int]] = []
    while pairs and len(chosen) < _MOST_FLOWS:
        sources, targets = ([pair[end] for pair in chosen] for end in (0, 1))
        best = min(pairs, key=lambda pair: sources.count(pair[0]) + targets.count(pair[1]))
        chosen.append(best)
        pairs.remove(best)
    return chosen


def _between(source: int, target: int) -> WireFlow:
    """From rank to rank."""
    return WireFlow((space_of(source), rank_address(source)), (space_of(target), rank_address(target)))


def _at(design: Design, end: End) -> tuple[str, str]:
    return space_of(design.devices.index(end.device)), end.address


def _cells(link: CheckedLink, tolerance: float) -> tuple[str, ...]:
    def mbits(rate_gbps: float | None) -> str:
        return "" if rate_gbps is None else f"{rate_gbps * _GB_BITS / 1e6:.2f}"

    return (
        f"{link.src} -> {link.dst}",
        mbits(link.rate_gbps),
        mbits(link.alone_gbps),
        mbits(link.shared_gbps),
        str(link.flows or ""),
        mbits(link.together_gbps),
        f"{100 * link.off:.1f}%" + (" !" if link.off > tolerance else ""),
    )
