"""From what was measured to fitted numbers, each with its interval, its range, its points and its source.

It chooses what a measurement can tell: a latency tells alpha and beta, a bandwidth beta alone, a matrix the beta
of each class of pairs, and what cannot be told is refused with the reason. It knows no machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.errors import MeasurementError
from taccl.measurements import hockney
from taccl.measurements.classes import PairClass, classes, degraded
from taccl.measurements.facts import Matrix, Measured, Scope, Sweep
from taccl.measurements.hockney import Estimate, Line, Times
from taccl.measurements.shared_ports import pcie_switches, ports_of
from taccl.units import MB, format_size

Pair = tuple[int, int]
#: A sweep whose smallest size takes more than 20 times these microseconds does not tell an alpha: the floor of a
#: message between nodes (OSU, 2 to 3 us) and of a call of NCCL (25 us).
_LONGEST_FLOOR_US = {"one way": 20 * 3.0, "launched": 20 * 25.0}
#: With --at, sizes from an eighth of it to eight times it are fitted.
AT_FACTOR = 8
#: Repeats in several files that differ by more than this are told.
_CONTRADICTION = 2.0


@dataclass(frozen=True)
class Quantity:
    """A fitted number.

    Parameters
    ----------
    link : what it belongs to, `between nodes`, `GPU to GPU`.
    name : `alpha_us`, `beta_us_per_mb`, `launch_us`, `gap_us`, `latency_us`, `ports`, `gbps`.
    value, low, high : the number, and its interval: 90% of bootstrap samples, or the least and the most of a class.
    sizes : the range of sizes it was fitted in, bytes; None where there is none.
    points : how many sizes or pairs.
    worst_miss, median_miss : of the fit from what was measured, as shares; None where nothing was fitted.
    is_weak : the interval is wide.
    source : files and lines.
    note : what a reader must know.
    """

    link: str
    name: str
    value: float
    low: float
    high: float
    sizes: tuple[int, int] | None
    points: int
    worst_miss: float | None
    median_miss: float | None
    is_weak: bool
    source: str
    note: str = ""

    @property
    def gbps(self) -> float | None:
        """Of a beta, the bandwidth that it is."""
        return MB / (self.value * 1e3) if self.name == "beta_us_per_mb" and self.value else None


@dataclass(frozen=True)
class Refusal:
    """What was asked of a measurement that cannot tell it."""

    link: str
    name: str
    reason: str
    source: str


@dataclass(frozen=True)
class LinkCost:
    """Costs of a hop in one scope, for a machine: what is None was not told."""

    scope: Scope
    alpha: Quantity | None
    beta: Quantity | None


@dataclass(frozen=True)
class Findings:
    """All that measurements tell.

    Parameters
    ----------
    quantities, refusals : in the order of the files.
    costs : for a machine, at most one per scope.
    pair_gbps : of each pair of GPUs, from the test that moved most; empty if none.
    pair_source : of these.
    warnings : damaged links, contradictions, what the readers left out.
    """

    quantities: tuple[Quantity, ...]
    refusals: tuple[Refusal, ...]
    costs: tuple[LinkCost, ...]
    pair_gbps: Mapping[Pair, float]
    pair_source: str
    warnings: tuple[str, ...]


def findings(
    measured: Measured, *, at_bytes: int | None = None, between: Scope | None = None, seed: int = 0
) -> Findings:
    """Fit everything that was measured.

    Parameters
    ----------
    at_bytes : the size of the messages that will be sent: sweeps are fitted from an eighth of it to eight times
        it. Without it, beta is of the largest sizes and alpha of the smallest.
    between : whom sweeps join whose file does not tell.
    seed : of the bootstrap.
    """
    quantities: list[Quantity] = []
    refusals: list[Refusal] = []
    warnings = list(measured.warnings)
    costs: dict[Scope, LinkCost] = {}
    groups = _groups(measured.sweeps, between)
    for group in groups:
        warnings += _contradictions(group)
        told, refused, cost = _sweep_findings(group, at_bytes, seed)
        quantities += told
        refusals += refused
        if cost is not None:
            costs[cost.scope] = _better(costs.get(cost.scope), cost)
    quantities += _shared_ports(groups)
    pair_gbps: Mapping[Pair, float] = {}
    pair_source = ""
    for matrix in _merged(measured.matrices):
        told, refused, warned = _matrix_findings(matrix)
        quantities += told
        refusals += refused
        warnings += warned
        if _is_for_links(matrix):
            values = matrix.pairs()
            if values and (not pair_gbps or _median(values) > _median(pair_gbps)):
                pair_gbps, pair_source = values, _source_of(matrix)
    quantities += _host_sharing(_merged(measured.matrices))
    return Findings(
        tuple(quantities), tuple(refusals), tuple(costs.values()), pair_gbps, pair_source, tuple(warnings)
    )


# ---------------------------------------------------------------- sweeps


def _groups(sweeps: Sequence[Sweep], between: Scope | None) -> list[list[Sweep]]:
    """Sweeps of the same test between the same ends are repeats of each other."""
    found: dict[tuple[object, ...], list[Sweep]] = {}
    for sweep in sweeps:
        scope = sweep.scope or (between if sweep.collective is None else None)
        key = (sweep.tool, sweep.test, scope, sweep.pairs, sweep.timing, sweep.collective, sweep.ranks)
        found.setdefault(key, []).append(replace(sweep, scope=scope))
    return list(found.values())


def _contradictions(group: list[Sweep]) -> list[str]:
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


def _sweep_findings(
    group: list[Sweep], at_bytes: int | None, seed: int
) -> tuple[list[Quantity], list[Refusal], LinkCost | None]:
    sweep, link, source = group[0], _link_name(group[0]), _sources(group)
    faults = [(each, each.fault) for each in group if each.fault is not None]
    if faults:
        each, (reason, line) = faults[0]
        return [], [Refusal(link, "alpha_us, beta_us_per_mb", reason, f"{each.path or '<text>'}:{line}")], None
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
    try:
        line, few = _line(wanted, at_bytes, seed)
    except MeasurementError as refused:
        refusals.append(Refusal(link, "beta_us_per_mb", refused.message, source))
        line, few = None, ""
    alpha = _alpha(sweep, times, line, at_bytes, link, source, note, seed)
    (quantities if isinstance(alpha, Quantity) else refusals).append(alpha)  # type: ignore[arg-type]
    beta = None
    if line is not None:
        told = "; ".join(filter(None, (few, note)))
        beta = _of_line(link, "beta_us_per_mb", line.beta_us_per_mb, line, source, told)
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
    largest = [cut for cut in cuts if len(cut.sizes) >= hockney.FEWEST_SIZES][-1]
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
        reason = f"not in this data: {format_size(int(positive.sizes[0]))}, the smallest size, takes {smallest:.4g} us"
        return Refusal(link, name, reason, source)
    if at_bytes is not None:
        if line is None:
            return Refusal(link, name, f"no line for messages of {format_size(at_bytes)}", source)
        return _of_line(link, name, line.alpha_us, line, source, about)
    low = hockney.floor(times, seed)
    if low is not None:
        sizes = positive.sizes[positive.best_us <= low.value * (1 + hockney.NOISE)]
        return Quantity(
            *(link, name, low.value, low.low, low.high, (int(sizes[0]), int(sizes[-1])), len(sizes)),
            *(None, None, low.is_weak, source, "; ".join(filter(None, ("the smallest sizes", about)))),
        )
    if len(positive.sizes) < hockney.FEWEST_SIZES:
        least = f"at most {smallest:.4g} us, which {format_size(int(positive.sizes[0]))} take"
        return Refusal(link, name, "; ".join(filter(None, (f"too few sizes; {least}", note))), source)
    if name == "alpha_us" or name == "launch_us":
        try:
            first = hockney.fit(hockney.ranges(positive)[0], seed)
        except MeasurementError as refused:
            return Refusal(link, name, refused.message, source)
        told = _of_line(link, name, first.alpha_us, first, source, about)
        return replace(told, is_weak=True, note="; ".join(filter(None, ("extrapolated", about))))
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
        quantities.append(
            Quantity(
                *(link, "launch_us", low.value, low.low, low.high, None, len(times.sizes), None, None),
                *(low.is_weak, source, "; ".join(filter(None, (of, note)))),
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


def _better(before: LinkCost | None, new: LinkCost) -> LinkCost:
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
    where = {"gpus": "GPU to GPU", "nodes": "between nodes", "mixed": "in and between nodes", None: "one pair"}
    name = where[sweep.scope]
    return name if sweep.pairs == 1 else f"{name}, {sweep.pairs} pairs at once"


def _sources(group: Sequence[Sweep]) -> str:
    """`FILE:first-last` of each table, the first three of them."""
    places = [
        f"{each.path or '<text>'}:{each.points[0].line}-{each.points[-1].line}" for each in group if each.points
    ]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(places[:3]) + more


def _shared_ports(groups: list[list[Sweep]]) -> list[Quantity]:
    """Ports, from runs of one test with several numbers of pairs."""
    by_test: dict[tuple[object, ...], dict[int, list[Sweep]]] = {}
    for group in groups:
        sweep = group[0]
        if sweep.timing == "back to back" and sweep.collective is None and sweep.fault is None:
            by_test.setdefault((sweep.tool, sweep.test, sweep.scope), {})[sweep.pairs] = group
    found = []
    for runs in by_test.values():
        common = set.intersection(*({p.size_bytes for each in group for p in each.points} for group in runs.values()))
        if not common:
            continue
        size = max(common)
        sums = {
            pairs: max(pairs * size / p.time_us / 1e3 for each in group for p in each.points if p.size_bytes == size)
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


# ---------------------------------------------------------------- matrices


def _merged(matrices: Sequence[Matrix]) -> list[Matrix]:
    """Several runs of one test as one matrix: the median of each cell."""
    runs: dict[tuple[object, ...], list[Matrix]] = {}
    for matrix in matrices:
        key = (matrix.tool, matrix.test, matrix.ends, matrix.quantity, matrix.sources, matrix.targets)
        runs.setdefault(key, []).append(matrix)
    merged = []
    for several in runs.values():
        columns = zip(*(each.cells for each in several), strict=True)
        cells = tuple(
            tuple(_median_of([value for value in values if value is not None]) for values in zip(*rows, strict=True))
            for rows in columns
        )
        merged.append(replace(several[0], cells=cells))
    return merged


def _median_of(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _median(values: Mapping[Pair, float]) -> float:
    return float(np.median(list(values.values())))


def _is_for_links(matrix: Matrix) -> bool:
    """Whether its cells are what a link moves one way, with the other way idle."""
    is_pairs = matrix.quantity == "bandwidth_gbps" and matrix.ends == "gpu to gpu"
    return is_pairs and not matrix.both_ways and matrix.peer is not False


def _source_of(matrix: Matrix) -> str:
    return f"{matrix.place} {matrix.test}"


def _matrix_findings(matrix: Matrix) -> tuple[list[Quantity], list[Refusal], list[str]]:
    pairs = matrix.pairs()
    source = _source_of(matrix)
    if not pairs:
        return [], [], []
    if matrix.quantity == "latency_us":
        if matrix.peer is False:
            return [], [], []
        values = list(pairs.values())
        link = _ends_name(matrix)
        note = "with the launch of a copy: alpha is at most this"
        if matrix.tool == "nvbandwidth":
            note = "there and back to memory, without a copy"
        return (
            [
                Quantity(
                    *(link, "latency_us", float(np.median(values)), min(values), max(values), None, len(values)),
                    *(None, None, False, source, note),
                )
            ],
            [],
            [],
        )
    if matrix.ends == "gpu totals":
        values = list(pairs.values())
        way = "out of" if "one_to_all" in matrix.test else "into"
        link = f"{way} a GPU, all others at once"
        return [_range(link, "port_gbps", values, source, f"{len(values)} GPUs")], [], []
    if matrix.peer is False and matrix.ends == "gpu to gpu":
        return _host_copies(matrix, pairs, source)
    if matrix.both_ways:
        return [], [], []
    if matrix.ends != "gpu to gpu":
        note = "all at once" if matrix.at_once else "one after another"
        return [_range(_ends_name(matrix), "gbps", list(pairs.values()), source, note)], [], []
    groups = classes(pairs)
    warnings = [f"{matrix.place}: {each}" for each in degraded(groups, pairs)]
    small = matrix.size_bytes is not None and matrix.size_bytes <= 16 * MB
    note = f"copies of {format_size(matrix.size_bytes)}: with what a copy costs" if small and matrix.size_bytes else ""
    told = [_of_class(each, at, len(groups), source, note, matrix.size_bytes) for at, each in enumerate(groups)]
    return told, [], warnings


def _of_class(
    group: PairClass, at: int, many: int, source: str, note: str, size: int | None
) -> Quantity:
    betas = sorted(MB / (gbps * 1e3) for gbps in (group.gbps, group.low, group.high))
    misses = max(abs(group.gbps / value - 1) for value in (group.low, group.high))
    link = "GPU to GPU" if many == 1 else f"GPU to GPU, class {at + 1} of {many}"
    about = "; ".join(filter(None, (_some(group.pairs), note)))
    is_weak = betas[2] - betas[0] > 0.10 * betas[1]
    return Quantity(
        *(link, "beta_us_per_mb", betas[1], betas[0], betas[2], None if size is None else (size, size)),
        *(len(group.pairs), misses, None, is_weak, source, about),
    )


def _some(pairs: Sequence[Pair]) -> str:
    """Pairs for people: those of both directions once, the first eight of them."""
    both = [(a, b) for a, b in pairs if a < b or (b, a) not in pairs]
    shown = " ".join(f"{a}-{b}" if (b, a) in pairs else f"{a}>{b}" for a, b in both[:8])
    return shown + (f" and {len(both) - 8} more" if len(both) > 8 else "")


def _ends_name(matrix: Matrix) -> str:
    return {"gpu to gpu": "GPU to GPU", "host to gpu": "host to GPU", "gpu to host": "GPU to host"}.get(
        matrix.ends, matrix.ends
    )


def _range(link: str, name: str, values: Sequence[float], source: str, note: str) -> Quantity:
    return Quantity(
        *(link, name, float(np.median(values)), min(values), max(values), None, len(values)),
        *(None, None, False, source, note),
    )


def _host_copies(
    matrix: Matrix, pairs: Mapping[Pair, float], source: str
) -> tuple[list[Quantity], list[Refusal], list[str]]:
    """Copies through the host: one way they are a bandwidth, both ways they tell what shares a PCIe switch."""
    told = []
    if not matrix.both_ways:
        told.append(_range("GPU to GPU through the host", "gbps", list(pairs.values()), source, ""))
    else:
        for group in pcie_switches(pairs):
            names = ", ".join(map(str, group))
            values = [value for pair, value in pairs.items() if set(pair) <= set(group)]
            note = f"GPUs {names} share one way up, as under one PCIe switch; both ways at once, median of all pairs {_median(pairs):.4g}"
            told.append(_range(f"PCIe switch of GPUs {names}", "gbps", values, source, note))
    return told, [], []


_ALL = re.compile(r"^(?:all_to_host|host_to_all)_")


def _host_sharing(matrices: Sequence[Matrix]) -> list[Quantity]:
    """Of hosts and GPUs: what a GPU keeps of its way when all GPUs copy at once."""
    by_test = {matrix.test: matrix for matrix in matrices if not matrix.both_ways}
    found = []
    for test, together in by_test.items():
        if not _ALL.match(test):
            continue
        alone = by_test.get(test.replace("all_to_host", "device_to_host").replace("host_to_all", "host_to_device"))
        if alone is None:
            continue
        own, shared = alone.pairs(), together.pairs()
        shares = {pair: shared[pair] / own[pair] for pair in shared if pair in own and own[pair]}
        slow = sorted({pair[0] if together.ends == "gpu to host" else pair[1] for pair, x in shares.items() if x < 0.75})
        if slow:
            names = ", ".join(map(str, slow))
            note = f"GPUs {names} keep less than 0.75 of their way to the host when all copy: they share it"
            found.append(_range(_ends_name(together), "share", list(shares.values()), _source_of(together), note))
    return found
