"""What a matrix over pairs can tell: the beta of each class of pairs, ports, and what hosts' copies share.

A latency in a matrix holds the launch of a copy, so it is reported as that and never as an alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from taccl.calibration.benchmarks.classes import DEGRADED, Pair, PairClass, classes, degraded
from taccl.calibration.benchmarks.facts import Matrix
from taccl.calibration.benchmarks.quantities import Quantity
from taccl.model.units import MB, format_size
from taccl.support.lists import few, joined

#: Copies up to this size take long enough to begin that their bandwidth shows it.
_SMALL_COPY = 16 * MB
#: A GPU that keeps less of its way to the host when all copy shares it; pairs below this share of the median
#: have one way up in common.
_SHARES = 0.75


def merged(matrices: Sequence[Matrix]) -> list[Matrix]:
    """Several runs of one test as one matrix: the median of each cell."""
    runs: dict[tuple[object, ...], list[Matrix]] = {}
    for matrix in matrices:
        key = (matrix.tool, matrix.test, matrix.ends, matrix.quantity, matrix.sources, matrix.targets)
        runs.setdefault(key, []).append(matrix)
    merged = []
    for several in runs.values():
        columns = zip(*(each.cells for each in several), strict=True)
        cells = tuple(
            tuple(
                _median_of([value for value in values if value is not None])
                for values in zip(*rows, strict=True)
            )
            for rows in columns
        )
        merged.append(replace(several[0], cells=cells, runs=len(several)))
    return merged


def _median_of(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def median_gbps(values: Mapping[Pair, float]) -> float:
    """The median of all pairs."""
    return float(np.median(list(values.values())))


def is_for_links(matrix: Matrix) -> bool:
    """Whether its cells are what a link moves one way, with the other way idle."""
    is_pairs = matrix.quantity == "bandwidth_gbps" and matrix.ends == "gpu to gpu"
    return is_pairs and not matrix.both_directions and matrix.peer is not False


def source_of(matrix: Matrix) -> str:
    """`FILE:LINE test`, of the first run where there are several."""
    runs = f", median of {matrix.runs} runs" if matrix.runs > 1 else ""
    return f"{matrix.place} {matrix.test}{runs}"


def matrix_findings(matrix: Matrix) -> tuple[list[Quantity], list[str]]:
    """What one matrix tells, and which of its pairs are odd, in sentences."""
    pairs = matrix.pairs()
    through_host = matrix.peer is False and matrix.ends == "gpu to gpu"
    if not pairs or (through_host and matrix.quantity == "latency_us"):
        return [], []
    if through_host:
        return _host_copies(matrix, pairs), []
    if matrix.quantity == "latency_us":
        note = "with the launch of a copy: alpha is at most this"
        if matrix.tool == "nvbandwidth":
            note = "there and back to memory, without a copy"
        return [_range(matrix, _ends_name(matrix), "latency_us", pairs, note)], []
    if matrix.ends == "gpu totals":
        way = "out of" if "one_to_all" in matrix.test or "out of" in matrix.test else "into"
        note = "all GPUs send to all" if "a2a" in matrix.test else ""
        return [_range(matrix, f"{way} a GPU, all others at once", "port_gbps", pairs, note)], []
    if matrix.ends == "rank to rank":
        return [_range(matrix, "between nodes, each sending to one", "gbps", pairs, "")], _slow(matrix, pairs)
    if matrix.both_directions:
        return [], []
    if matrix.ends != "gpu to gpu":
        note = "all at once" if matrix.at_once else "one after another"
        return [_range(matrix, _ends_name(matrix), "gbps", pairs, note)], []
    groups = classes(pairs)
    warnings = [f"{matrix.place}: {each}" for each in degraded(groups, pairs)]
    return [_of_class(matrix, each, at, len(groups)) for at, each in enumerate(groups)], warnings


def _slow(matrix: Matrix, pairs: Mapping[Pair, float]) -> list[str]:
    """Pairs of ranks below 0.8 of the median: a slow NIC or cable, or a fabric that is full."""
    median = median_gbps(pairs)
    slow = [f"{a}>{b}" for (a, b), value in pairs.items() if value < DEGRADED * median]
    less = f"move less than {DEGRADED:g} of {median:.4g} GB/s"
    return [f"{matrix.place}: ranks {few(slow, separator=' ')} {less}"] if slow else []


def _of_class(matrix: Matrix, group: PairClass, at: int, many: int) -> Quantity:
    betas = sorted(MB / (gbps * 1e3) for gbps in (group.gbps, group.low, group.high))
    misses = max(abs(group.gbps / value - 1) for value in (group.low, group.high))
    link = "GPU to GPU" if many == 1 else f"GPU to GPU, class {at + 1} of {many}"
    size, note = matrix.size_bytes, _some(group.pairs)
    if size is not None and size <= _SMALL_COPY:
        note += f"; copies of {format_size(size)}: with what a copy costs"
    return Quantity(
        *(link, "beta_us_per_mb", betas[1], betas[0], betas[2], len(group.pairs), source_of(matrix), note),
        sizes_bytes=None if size is None else (size, size),
        worst_miss=misses,
        weak=betas[2] - betas[0] > 0.10 * betas[1],
    )


def _some(pairs: Sequence[Pair]) -> str:
    """Pairs for people: those of both directions once, the first eight of them."""
    both = [(a, b) for a, b in pairs if a < b or (b, a) not in pairs]
    return few((f"{a}-{b}" if (b, a) in pairs else f"{a}>{b}" for a, b in both), separator=" ")


def _ends_name(matrix: Matrix) -> str:
    return matrix.ends.replace("gpu", "GPU")


def _range(matrix: Matrix, link: str, name: str, pairs: Mapping[Pair, float], note: str) -> Quantity:
    """The median of what was measured, from the least to the most."""
    values = list(pairs.values())
    numbers = (median_gbps(pairs), min(values), max(values))
    return Quantity(link, name, *numbers, len(values), source_of(matrix), note)


def _host_copies(matrix: Matrix, pairs: Mapping[Pair, float]) -> list[Quantity]:
    """Copies through the host: one way a bandwidth, both directions at once what shares a PCIe switch."""
    if not matrix.both_directions:
        return [_range(matrix, "GPU to GPU through the host", "gbps", pairs, "")]
    reported = []
    for group in pcie_switches(pairs):
        own = {pair: value for pair, value in pairs.items() if set(pair) <= set(group)}
        names = ", ".join(map(str, group))
        note = f"they share one way up: both directions at once; all pairs have {median_gbps(pairs):.4g}"
        reported.append(_range(matrix, f"PCIe switch of GPUs {names}", "gbps", own, note))
    return reported


def pcie_switches(gbps: Mapping[Pair, float]) -> list[tuple[int, ...]]:
    """GPUs under one PCIe switch, from copies through the host both directions at once (P2P disabled).

    Two GPUs under one switch share its way up, so their pair gets half: below 0.75 of the median of all.
    """
    if not gbps:
        return []
    median = median_gbps(gbps)
    sharing = [pair for pair, value in gbps.items() if value < _SHARES * median]
    return [tuple(group) for group in joined(sorted({gpu for pair in sharing for gpu in pair}), sharing)]


def both_directions(matrices: Sequence[Matrix]) -> list[Quantity]:
    """What pairs of GPUs move each way while both directions are busy: less than one way alone, or as
    much.
    """
    found = []
    for matrix in matrices:
        is_of_links = (
            matrix.ends == "gpu to gpu" and matrix.quantity == "bandwidth_gbps" and matrix.both_directions
        )
        if is_of_links and matrix.sums_directions and matrix.peer is not False and matrix.pairs():
            each = {pair: value / 2 for pair, value in matrix.pairs().items()}
            note = "each way, both at once: one way alone moves at least this"
            found.append(_range(matrix, "GPU to GPU", "gbps", each, note))
    return found


def host_sharing(matrices: Sequence[Matrix]) -> list[Quantity]:
    """GPUs that keep less than 0.75 of their way to or from the host when all GPUs copy at once."""
    by_test = {matrix.test: matrix for matrix in matrices if not matrix.both_directions}
    found = []
    for test, together in by_test.items():
        alone = by_test.get(
            test.replace("all_to_host", "device_to_host").replace("host_to_all", "host_to_device")
        )
        if alone is None or alone is together:
            continue
        own, shared = alone.pairs(), together.pairs()
        shares = {pair: shared[pair] / own[pair] for pair in shared if own.get(pair)}
        gpu = 0 if together.ends == "gpu to host" else 1
        slow = sorted({pair[gpu] for pair, share in shares.items() if share < _SHARES})
        if slow:
            note = f"GPUs {', '.join(map(str, slow))} share their way: this of it is left when all copy"
            found.append(_range(together, _ends_name(together), "share", shares, note))
    return found
