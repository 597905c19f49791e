"""How far published measurements of NCCL are from its own model of costs, by size and row by row.

    python -m benchmarks.baseline

The measurements are those of taccl/analysis/baselines/measured.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks import report
from taccl.analysis.baselines.nccl import release_named
from taccl.analysis.baselines.nccl.deviations import Deviation, deviations
from taccl.model.units import format_size

RELEASE = "2.30"
#: Bands of sizes, each up to the next one's beginning.
BANDS = (("below 16 KB", 0), ("16 KB to 1 MB", 2**14), ("2 MB to 256 MB", 2**21), ("1 GB and more", 2**30))
INTRO = """\
`taccl baseline nccl` prints what NCCL's own model of costs expects ([baseline.md](../baseline.md)). Here it
is held against published measurements, each with its source (`taccl/analysis/baselines/measured.json`): of
the algorithm that the source names, else of NCCL's pick. Nothing is fitted. measured/estimate is above 1
where NCCL is slower than its model; error is max(measured/estimate, estimate/measured) - 1.
"""
NOTES = """\
`a3-mega` runs NCCL over GPUDirect-TCPXO, whose latency its plugin states and the catalogue does not: it is
the worst row below 16 KB. The A100 rows are of 2021, an earlier release; without them the rows from 16 KB
to 1 MB have a median error of {others}. 8 GB200 are faster than the model at 1 KB.

Below 1 GB the model is mostly too fast. It leaves out channels that small calls leave idle, and how kernels
start.

Of {stated} rows whose source names the algorithm, {picked} name the model's pick: NVLS on 5 to 8 H100, 8
H800 and 72 GB200, rings on 4 H100. The others are rings next to which the same source has a faster NVLS or
NVLSTree.
"""


def main() -> None:
    """Write docs/results/baseline.md."""
    found = deviations(release_named(RELEASE))
    summary = report.table(
        ("size", "rows", "median measured/estimate", "median error", "90th percentile", "worst"),
        [_band(name, rows) for name, rows in _banded(found)],
    )
    each = report.table(
        ("machine", "GPUs", "size", "measured us", "estimate us", "algorithm", "measured/estimate"),
        [_row(one) for one in found],
    )
    small = dict(_banded([one for one in found if one.table.machine != "dgx-a100"]))["16 KB to 1 MB"]
    stated = [one for one in found if one.table.algorithm]
    picked = sum(one.is_pick for one in stated)
    others = f"{median(map(_error, small)):.0%}"
    notes = NOTES.format(others=others, stated=len(stated), picked=picked).strip()
    body = f"{summary}\n\n{notes}\n\n## All rows\n\nAll are AllReduces.\n\n{each}"
    report.write("baseline", "NCCL next to its own model of costs", INTRO.strip(), body)


def _banded(found: Sequence[Deviation]) -> list[tuple[str, list[Deviation]]]:
    ends = [begin for _, begin in BANDS[1:]] + [2**62]
    return [
        (name, [one for one in found if begin <= one.row.size_bytes < end])
        for (name, begin), end in zip(BANDS, ends, strict=True)
    ]


def _error(one: Deviation) -> float:
    return max(one.ratio, 1 / one.ratio) - 1


def _band(name: str, rows: Sequence[Deviation]) -> tuple[str, ...]:
    errors = sorted(map(_error, rows))
    ninth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    return (
        *(name, str(len(rows)), f"{median(one.ratio for one in rows):.2f}"),
        *(f"{median(errors):.0%}", f"{ninth:.0%}", f"{errors[-1]:.0%}"),
    )


def _row(one: Deviation) -> tuple[str, ...]:
    table, row = one.table, one.row
    least, most = (_us(value) for value in (row.least_us, row.most_us))
    measured = least if least == most else f"{least} to {most}"
    nodes = f"{table.nodes} x {table.ranks // table.nodes}" if table.nodes > 1 else str(table.ranks)
    return (
        *(table.machine, nodes, format_size(row.size_bytes), measured),
        *(_us(one.estimate.time_us), one.estimate.name, f"{one.ratio:.2f}"),
    )


def _us(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    main()
