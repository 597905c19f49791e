"""What a sweep over sizes tells: a latency alpha and beta, a call its launch, a stream of messages its beta.

What it cannot tell is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.calibration.benchmarks import hockney
from taccl.calibration.benchmarks.facts import Scope, Sweep, Timing
from taccl.calibration.benchmarks.hockney import Estimate, FittedLine, Floor, Times
from taccl.calibration.benchmarks.quantities import LinkCost, Quantity, Refusal
from taccl.errors import MeasurementError
from taccl.model.units import format_size
from taccl.support.lists import few

#: A sweep whose smallest size takes more than 20 times these microseconds does not tell an alpha: the floor
#: of a message between nodes (OSU, 2 to 3 us) and of a call of NCCL (25 us).
_LONGEST_FLOOR_US: dict[Timing, float] = {"one way": 20 * 3.0, "launched": 20 * 25.0}
#: With --at, sizes from an eighth of it to eight times it are fitted.
AT_FACTOR = 8
#: Repeats in several files that differ by more than this are reported.
_CONTRADICTION = 2.0
#: A number of ports must be this near to a whole one.
_WHOLE = 0.10


def groups_of(sweeps: Sequence[Sweep], between: Scope | None) -> list[list[Sweep]]:
    """Sweeps of the same test between the same ends are repeats of each other."""
    found: dict[tuple[object, ...], list[Sweep]] = {}
    for sweep in sweeps:
        scope = sweep.scope or (between if sweep.collective is None else None)
        key = (sweep.tool, sweep.test, scope, sweep.pairs, sweep.timing, sweep.collective, sweep.ranks)
        found.setdefault(key, []).append(replace(sweep, scope=scope))
    return list(found.values())


def contradictions(group: list[Sweep]) -> list[str]:
    """Several files that say very different things of one size are not repeats of one measurement."""
    best: dict[int, tuple[float, str]] = {}
    for sweep in group:
        own: dict[int, tuple[float, int]] = {}
        for point in sweep.points:
            own[point.size_bytes] = min(own.get(point.size_bytes, (np.inf, 0)), (point.time_us, point.line))
        for size, (time_us, line) in own.items():
            place = f"{sweep.path or '<text>'}:{line}"
            before = best.get(size)
            if before is not None and max(before[0], time_us) > _CONTRADICTION * min(before[0], time_us):
                return [
                    f"{format_size(size) if size else '0B'} take {before[0]:.4g} us at {before[1]} "
                    f"but {time_us:.4g} us at {place}: are these the same link? The shorter one counts"
                ]
            best[size] = (time_us, place) if before is None else min(before, (time_us, place))
    return []


@dataclass(frozen=True)
class _Group:
    """Repeats of one sweep, and how what they tell is called."""

    sweeps: list[Sweep]
    seed: int
    note: str

    @property
    def link(self) -> str:
        return _link_name(self.sweeps[0])

    @property
    def source(self) -> str:
        return _sources(self.sweeps)

    def quantity(self, name: str, number: Estimate, fitted: FittedLine | Floor, *about: str) -> Quantity:
        """A number that was fitted, with its interval."""
        misses = (fitted.worst_miss, fitted.median_miss) if isinstance(fitted, FittedLine) else (None, None)
        return Quantity(
            *(self.link, name, number.value, number.low, number.high, fitted.points, self.source),
            *(_joined(*about, self.note), fitted.sizes, *misses, number.is_weak),
        )

    def refusal(self, name: str, reason: str) -> Refusal:
        """What these sweeps cannot tell."""
        return Refusal(self.link, name, reason, self.source)


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


_Told = tuple[list[Quantity], list[Refusal], LinkCost | None]


def sweep_findings(sweeps: list[Sweep], at_bytes: int | None, seed: int) -> _Told:
    """What repeats of one sweep tell, what they cannot, and what a machine may take from them."""
    sweep = sweeps[0]
    note = "; ".join(dict.fromkeys(note for each in sweeps for note in each.notes))
    for each in sweeps:
        if each.fault is not None:
            reason, number = each.fault
            place = f"{each.path or '<text>'}:{number}"
            return [], [Refusal(_link_name(sweep), "alpha_us, beta_us_per_mb", reason, place)], None
    times = Times.of([(point.size_bytes, point.time_us) for each in sweeps for point in each.points])
    if sweep.collective is not None:
        return _collective_findings(_Group(sweeps, seed, note), times)
    wanted = times.within(1, np.inf)
    if at_bytes is not None:
        wanted = wanted.within(at_bytes / AT_FACTOR, at_bytes * AT_FACTOR)
        note = _joined(f"for messages of {format_size(at_bytes)}", note)
    group = _Group(sweeps, seed, note)
    quantities: list[Quantity] = []
    refusals: list[Refusal] = []
    line: FittedLine | None = None
    few_sizes = ""
    try:
        line, few_sizes = _line(wanted, at_bytes, seed)
    except MeasurementError as refused:
        refusals.append(group.refusal("beta_us_per_mb", refused.message))
    alpha = _alpha(group, times, line, at_bytes)
    if isinstance(alpha, Quantity):
        quantities.append(alpha)
    else:
        refusals.append(alpha)
    beta = None
    if line is not None:
        beta = group.quantity("beta_us_per_mb", line.beta_us_per_mb, line, few_sizes)
        quantities.append(beta)
    for_machine = alpha if isinstance(alpha, Quantity) and alpha.name == "alpha_us" else None
    one_pair = beta if sweep.pairs == 1 else None
    if sweep.scope is None or sweep.scope == "mixed" or (for_machine is None and one_pair is None):
        return quantities, refusals, None
    return quantities, refusals, LinkCost(sweep.scope, for_machine, one_pair)


def _line(wanted: Times, at_bytes: int | None, seed: int) -> tuple[FittedLine, str]:
    """Through all of them with --at; else through the range with the largest sizes."""
    cuts = [wanted] if at_bytes is not None else hockney.ranges(wanted)
    if len(wanted.sizes) < hockney.FEWEST_SIZES or len(cuts) == 1:
        return hockney.fit(wanted, seed), ""
    # a last range of a few sizes takes those below it along: a range of small sizes is not its like
    least = min(cuts[-1].sizes[0], wanted.sizes[-hockney.FEWEST_SIZES])
    largest = wanted.within(float(least), np.inf)
    return hockney.fit(largest, seed), f"the range of the largest sizes of {len(cuts)}"


#: What a message of no bytes takes, by what its time contains: the name of that number, and what it is.
_ALPHAS: dict[Timing, tuple[str, str]] = {
    "one way": ("alpha_us", ""),
    "launched": ("launch_us", "what a call takes before anything moves, with one hop"),
    "back to back": ("gap_us", "between messages that follow each other: no alpha"),
}


def _alpha(group: _Group, times: Times, line: FittedLine | None, at_bytes: int | None) -> Quantity | Refusal:
    """What a message of no bytes takes; of a call, what it takes with its launch; of a stream, its gap."""
    timing = group.sweeps[0].timing
    name, about = _ALPHAS[timing]
    positive = times.within(1, np.inf)
    if not len(positive.sizes):
        return group.refusal(name, "not in this data: no size has a byte")
    longest = _LONGEST_FLOOR_US.get(timing)
    smallest, size = float(positive.best_us[0]), format_size(int(positive.sizes[0]))
    if longest is not None and smallest > longest:
        return group.refusal(name, f"not in this data: {size}, the smallest size, takes {smallest:.4g} us")
    if at_bytes is not None:
        if line is None:
            return group.refusal(name, f"no line for messages of {format_size(at_bytes)}")
        return group.quantity(name, line.alpha_us, line, about)
    low = hockney.floor(times, group.seed)
    if low is not None:
        return group.quantity(name, low.time_us, low, "the smallest sizes", about)
    if len(positive.sizes) < hockney.FEWEST_SIZES:
        reason = f"too few sizes; at most {smallest:.4g} us, which {size} take"
        return group.refusal(name, _joined(reason, group.note))
    if timing == "back to back":
        return group.refusal(name, "not in this data: already the smallest sizes are paid by the byte")
    try:
        first = hockney.fit(hockney.ranges(positive)[0], group.seed)
    except MeasurementError as refused:
        return group.refusal(name, refused.message)
    return replace(group.quantity(name, first.alpha_us, first, "extrapolated", about), weak=True)


def _collective_findings(group: _Group, times: Times) -> _Told:
    """A collective tells how long a call takes at least, and how fast a port is at least."""
    quantities = []
    low = hockney.floor(times, group.seed)
    if low is not None and group.sweeps[0].timing == "launched":
        of = "a whole call of the smallest sizes; costs of a hop only by a model of its algorithm"
        quantities.append(group.quantity("launch_us", low.time_us, low, of))
    buses = [sweep.busbw_gbps for sweep in group.sweeps if sweep.busbw_gbps is not None]
    if buses:
        best, size = max(buses)
        of = "bus bandwidth: the slowest port moves at least this"
        quantities.append(
            Quantity(group.link, "gbps", best, best, best, 1, group.source, of, sizes_bytes=(size, size))
        )
    reason = "a collective tells the costs of a hop only by a model of its algorithm"
    if len(times.sizes) < hockney.FEWEST_SIZES:
        reason = f"{len(times.sizes)} size(s) tell no line; {reason}"
    return quantities, [group.refusal("alpha_us, beta_us_per_mb", reason)], None


def better_of(before: LinkCost | None, new: LinkCost) -> LinkCost:
    """Both together; of two that tell the same, the one that is not weak, then the smaller."""

    def chosen(a: Quantity | None, b: Quantity | None) -> Quantity | None:
        if a is None or b is None:
            return a or b
        return min(a, b, key=lambda quantity: (quantity.weak, quantity.value))

    if before is None:
        return new
    return LinkCost(new.scope, chosen(before.alpha, new.alpha), chosen(before.beta, new.beta))


_SCOPES = {"gpus": "GPU to GPU", "nodes": "between nodes", "mixed": "in and between nodes", None: "one pair"}


def _link_name(sweep: Sweep) -> str:
    if sweep.collective is not None:
        among = "" if sweep.ranks is None else f" of {sweep.ranks} ranks"
        return f"{sweep.collective}{among}"
    name = _SCOPES[sweep.scope]
    return name if sweep.pairs == 1 else f"{name}, {sweep.pairs} pairs at once"


def _sources(group: Sequence[Sweep]) -> str:
    """`FILE:first-last` of each table, the first three of them."""
    tables = (sweep for sweep in group if sweep.points)
    return few(
        (f"{table.path or '<text>'}:{table.points[0].line}-{table.points[-1].line}" for table in tables), 3
    )


@dataclass(frozen=True)
class Ports:
    """How many independent ports several pairs have between them.

    Parameters
    ----------
    pairs : how many were busy at once.
    alone_gbps, together_gbps : one pair, and the sum of all, GB/s.
    ports : how many there are; None where one pair does not fill a port.
    port_gbps : of one of them; None likewise.
    is_full : more pairs than these moved no more.
    """

    pairs: int
    alone_gbps: float
    together_gbps: float
    ports: int | None
    port_gbps: float | None
    is_full: bool


def ports_of(sums_gbps: Mapping[int, float]) -> Ports | None:
    """Ports from the sum of the bandwidths of k pairs at once, by k.

    The sum of k pairs over that of one, if within 10% of a whole number, is the number of ports; the sum over
    it is the speed of one. None where one pair alone, or several, were not measured.
    """
    if 1 not in sums_gbps or len(sums_gbps) < 2:
        return None
    most = max(sums_gbps)
    alone = sums_gbps[1]
    best = max(sums_gbps, key=lambda pairs: (round(sums_gbps[pairs] / alone, 2), -pairs))
    together = sums_gbps[best]
    ratio = together / alone
    whole = max(1, round(ratio))
    is_whole = abs(ratio - whole) <= _WHOLE * whole
    is_full = any(
        sums_gbps[pairs] < 1.05 * sums_gbps[fewer]
        for pairs in sums_gbps
        for fewer in sums_gbps
        if 1 <= fewer < pairs
    )
    return Ports(
        most, alone, together, whole if is_whole else None, together / whole if is_whole else None, is_full
    )


def shared_ports(groups: list[list[Sweep]]) -> list[Quantity]:
    """Ports, from runs of one test with several numbers of pairs."""
    by_test: dict[tuple[object, ...], dict[int, list[Sweep]]] = {}
    for group in groups:
        sweep = group[0]
        if sweep.timing == "back to back" and sweep.collective is None and sweep.fault is None:
            by_test.setdefault((sweep.tool, sweep.test, sweep.scope), {})[sweep.pairs] = group
    found = []
    for runs in by_test.values():
        best = {pairs: _largest_gbps(sweeps) for pairs, sweeps in runs.items()}
        common = set.intersection(*map(set, best.values()))
        if not common:
            continue
        size = max(common)
        sums = {pairs: pairs * gbps[size] for pairs, gbps in best.items()}
        ports = ports_of(sums)
        if ports is None:
            continue
        link = _link_name(replace(runs[1][0], pairs=1))
        source = _sources([each for group in runs.values() for each in group])
        of = ", ".join(f"{pairs} pair(s) {total:.4g}" for pairs, total in sorted(sums.items()))
        of += "; more pairs move no more" if ports.is_full else ""
        together = ports.together_gbps
        numbers = [(f"{link}, all at once", "gbps", together, f"one pair does not fill a port: GB/s of {of}")]
        if ports.ports is not None and ports.port_gbps is not None:
            numbers = [
                (link, "ports", ports.ports, f"independent ports: GB/s of {of}"),
                (link, "port_gbps", ports.port_gbps, "of each port"),
            ]
        found += [
            Quantity(name, unit, value, value, value, len(sums), source, note, sizes_bytes=(size, size))
            for name, unit, value, note in numbers
        ]
    return found


def _largest_gbps(sweeps: Sequence[Sweep]) -> dict[int, float]:
    """Of each size, the largest bandwidth of one pair."""
    found: dict[int, float] = {}
    for point in (point for sweep in sweeps for point in sweep.points):
        gbps = point.size_bytes / point.time_us / 1e3
        found[point.size_bytes] = max(gbps, found.get(point.size_bytes, 0.0))
    return found
