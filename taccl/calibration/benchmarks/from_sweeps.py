"""What a sweep over sizes tells: a latency alpha and beta, a call its launch, a stream of messages its beta.

What it cannot tell is refused with the reason. It knows no tool's layout and no machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.calibration.benchmarks import hockney
from taccl.calibration.benchmarks.facts import Scope, Sweep
from taccl.calibration.benchmarks.hockney import Estimate, Line, Times
from taccl.calibration.benchmarks.quantities import LinkCost, Quantity, Refusal
from taccl.calibration.benchmarks.shared_ports import ports_of
from taccl.errors import MeasurementError
from taccl.model.units import format_size

#: A sweep whose smallest size takes more than 20 times these microseconds does not tell an alpha: the floor
#: of a message between nodes (OSU, 2 to 3 us) and of a call of NCCL (25 us).
_LONGEST_FLOOR_US = {"one way": 20 * 3.0, "launched": 20 * 25.0}
#: With --at, sizes from an eighth of it to eight times it are fitted.
AT_FACTOR = 8
#: Repeats in several files that differ by more than this are reported.
_CONTRADICTION = 2.0


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


def sweep_findings(
    group: list[Sweep], at_bytes: int | None, seed: int
) -> tuple[list[Quantity], list[Refusal], LinkCost | None]:
    """What repeats of one sweep tell, what they cannot, and what a machine may take from them."""
    sweep, link, source = group[0], _link_name(group[0]), _sources(group)
    faults = [(each, each.fault) for each in group if each.fault is not None]
    if faults:
        each, (reason, faulty) = faults[0]
        return (
            [],
            [Refusal(link, "alpha_us, beta_us_per_mb", reason, f"{each.path or '<text>'}:{faulty}")],
            None,
        )
    times = Times.of([(point.size_bytes, point.time_us) for each in group for point in each.points])
    note = "; ".join(dict.fromkeys(note for each in group for note in each.notes))
    if sweep.collective is not None:
        return _collective_findings(group, times, link, source, note, seed)
    wanted = times.within(1, np.inf)
    if at_bytes is not None:
        wanted = wanted.within(at_bytes / AT_FACTOR, at_bytes * AT_FACTOR)
        note = "; ".join(filter(None, (f"for messages of {format_size(at_bytes)}", note)))
    quantities: list[Quantity] = []
    refusals: list[Refusal] = []
    line: Line | None = None
    few = ""
    try:
        line, few = _line(wanted, at_bytes, seed)
    except MeasurementError as refused:
        refusals.append(Refusal(link, "beta_us_per_mb", refused.message, source))
    alpha = _alpha(sweep, times, line, at_bytes, link, source, note, seed)
    if isinstance(alpha, Quantity):
        quantities.append(alpha)
    else:
        refusals.append(alpha)
    beta = None
    if line is not None:
        reported = "; ".join(filter(None, (few, note)))
        beta = _of_line(link, "beta_us_per_mb", line.beta_us_per_mb, line, source, reported)
        quantities.append(beta)
    for_machine = alpha if isinstance(alpha, Quantity) and alpha.name == "alpha_us" else None
    one_pair = beta if sweep.pairs == 1 else None
    if sweep.scope is None or sweep.scope == "mixed" or (for_machine is None and one_pair is None):
        return quantities, refusals, None
    return quantities, refusals, LinkCost(sweep.scope, for_machine, one_pair)


def _line(wanted: Times, at_bytes: int | None, seed: int) -> tuple[Line, str]:
    """Through all of them with --at; else through the range with the largest sizes."""
    if at_bytes is not None:
        return hockney.fit(wanted, seed), ""
    cuts = hockney.ranges(wanted)
    if len(wanted.sizes) < hockney.FEWEST_SIZES or len(cuts) == 1:
        return hockney.fit(wanted, seed), ""
    # a last range of a few sizes takes those below it along: a range of small sizes is not its like
    least = min(cuts[-1].sizes[0], wanted.sizes[-hockney.FEWEST_SIZES])
    largest = wanted.within(float(least), np.inf)
    of = f"the range of the largest sizes of {len(cuts)}"
    return hockney.fit(largest, seed), of


def _alpha(
    sweep: Sweep,
    times: Times,
    line: Line | None,
    at_bytes: int | None,
    link: str,
    source: str,
    note: str,
    seed: int,
) -> Quantity | Refusal:
    """What a message of no bytes takes; of a call, what it takes with its launch; of a stream, its gap."""
    name = {"one way": "alpha_us", "launched": "launch_us", "back to back": "gap_us"}[sweep.timing]
    of_launch = "what a call takes before anything moves, with one hop" if name == "launch_us" else ""
    of_gap = "between messages that follow each other: no alpha" if name == "gap_us" else ""
    about = "; ".join(filter(None, (of_launch, of_gap, note)))
    positive = times.within(1, np.inf)
    if not len(positive.sizes):
        return Refusal(link, name, "not in this data: no size has a byte", source)
    longest = _LONGEST_FLOOR_US.get(sweep.timing)
    smallest = float(positive.best_us[0])
    if longest is not None and smallest > longest:
        size = format_size(int(positive.sizes[0]))
        reason = f"not in this data: {size}, the smallest size, takes {smallest:.4g} us"
        return Refusal(link, name, reason, source)
    if at_bytes is not None:
        if line is None:
            return Refusal(link, name, f"no line for messages of {format_size(at_bytes)}", source)
        return _of_line(link, name, line.alpha_us, line, source, about)
    low = hockney.floor(times, seed)
    if low is not None:
        lowest = low.time_us
        return Quantity(
            *(link, name, lowest.value, lowest.low, lowest.high, low.sizes, low.points),
            *(None, None, lowest.is_weak, source, "; ".join(filter(None, ("the smallest sizes", about)))),
        )
    if len(positive.sizes) < hockney.FEWEST_SIZES:
        least = f"at most {smallest:.4g} us, which {format_size(int(positive.sizes[0]))} take"
        return Refusal(link, name, "; ".join(filter(None, (f"too few sizes; {least}", note))), source)
    if name == "alpha_us" or name == "launch_us":
        try:
            first = hockney.fit(hockney.ranges(positive)[0], seed)
        except MeasurementError as refused:
            return Refusal(link, name, refused.message, source)
        reported = _of_line(link, name, first.alpha_us, first, source, about)
        return replace(reported, is_weak=True, note="; ".join(filter(None, ("extrapolated", about))))
    return Refusal(link, name, "not in this data: already the smallest sizes are paid by the byte", source)


def _of_line(link: str, name: str, number: Estimate, line: Line, source: str, note: str) -> Quantity:
    return Quantity(
        *(link, name, number.value, number.low, number.high, line.sizes, line.points),
        *(line.worst_miss, line.median_miss, number.is_weak, source, note),
    )


def _collective_findings(
    group: list[Sweep], times: Times, link: str, source: str, note: str, seed: int
) -> tuple[list[Quantity], list[Refusal], None]:
    """A collective tells how long a call takes at least, and how fast a port is at least."""
    quantities = []
    low = hockney.floor(times, seed)
    if low is not None and group[0].timing == "launched":
        of = "a whole call of the smallest sizes; costs of a hop only by a model of its algorithm"
        reported, about = low.time_us, "; ".join(filter(None, (of, note)))
        quantities.append(
            Quantity(
                *(
                    link,
                    "launch_us",
                    reported.value,
                    reported.low,
                    reported.high,
                    low.sizes,
                    low.points,
                    None,
                    None,
                ),
                *(reported.is_weak, source, about),
            )
        )
    buses = [each.busbw_gbps for each in group if each.busbw_gbps is not None]
    if buses:
        best, size = max(buses)
        of = "bus bandwidth: the slowest port moves at least this"
        quantities.append(
            Quantity(link, "gbps", best, best, best, (size, size), 1, None, None, False, source, of)
        )
    reason = "a collective tells the costs of a hop only by a model of its algorithm"
    if len(times.sizes) < hockney.FEWEST_SIZES:
        reason = f"{len(times.sizes)} size(s) tell no line; {reason}"
    return quantities, [Refusal(link, "alpha_us, beta_us_per_mb", reason, source)], None


def better_of(before: LinkCost | None, new: LinkCost) -> LinkCost:
    """Both together; of two that tell the same, the one that is not weak, then the smaller."""

    def chosen(a: Quantity | None, b: Quantity | None) -> Quantity | None:
        if a is None or b is None:
            return a or b
        return min(a, b, key=lambda quantity: (quantity.is_weak, quantity.value))

    if before is None:
        return new
    return LinkCost(new.scope, chosen(before.alpha, new.alpha), chosen(before.beta, new.beta))


def _link_name(sweep: Sweep) -> str:
    if sweep.collective is not None:
        among = "" if sweep.ranks is None else f" of {sweep.ranks} ranks"
        return f"{sweep.collective}{among}"
    where = {
        "gpus": "GPU to GPU",
        "nodes": "between nodes",
        "mixed": "in and between nodes",
        None: "one pair",
    }
    name = where[sweep.scope]
    return name if sweep.pairs == 1 else f"{name}, {sweep.pairs} pairs at once"


def _sources(group: Sequence[Sweep]) -> str:
    """`FILE:first-last` of each table, the first three of them."""
    places = [
        f"{each.path or '<text>'}:{each.points[0].line}-{each.points[-1].line}"
        for each in group
        if each.points
    ]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(places[:3]) + more


def shared_ports(groups: list[list[Sweep]]) -> list[Quantity]:
    """Ports, from runs of one test with several numbers of pairs."""
    by_test: dict[tuple[object, ...], dict[int, list[Sweep]]] = {}
    for group in groups:
        sweep = group[0]
        if sweep.timing == "back to back" and sweep.collective is None and sweep.fault is None:
            by_test.setdefault((sweep.tool, sweep.test, sweep.scope), {})[sweep.pairs] = group
    found = []
    for runs in by_test.values():
        common = set.intersection(
            *({p.size_bytes for each in group for p in each.points} for group in runs.values())
        )
        if not common:
            continue
        size = max(common)
        sums = {
            pairs: max(
                pairs * size / p.time_us / 1e3 for each in group for p in each.points if p.size_bytes == size
            )
            for pairs, group in runs.items()
        }
        ports = ports_of(sums)
        if ports is None:
            continue
        link = _link_name(replace(runs[1][0], pairs=1))
        source = _sources([each for group in runs.values() for each in group])
        of = ", ".join(f"{pairs} pair(s) {total:.4g}" for pairs, total in sorted(sums.items()))
        full = "; more pairs move no more" if ports.is_full else ""
        shape = ((size, size), len(sums), None, None, False, source)
        if ports.ports is None or ports.port_gbps is None:
            note = f"one pair does not fill a port: GB/s of {of}{full}"
            together = ports.together_gbps
            found.append(Quantity(f"{link}, all at once", "gbps", together, together, together, *shape, note))
        else:
            note = f"independent ports: GB/s of {of}{full}"
            count, each_gbps = ports.ports, ports.port_gbps
            found.append(Quantity(link, "ports", count, count, count, *shape, note))
            found.append(Quantity(link, "port_gbps", each_gbps, each_gbps, each_gbps, *shape, "of each port"))
    return found
