"""SCCL's frontiers on one DGX-1 node (NDv2's), next to the points and times that SCCL's authors publish.

python -m benchmarks.pareto [--time-limit SECONDS]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import report
from taccl import pareto
from taccl.errors import TacclError

#: (machine, collective).
CASES = (
    ("ndv2", "allgather"),
    ("ndv2", "reducescatter"),
    ("ndv2", "alltoall"),
    ("ndv2", "broadcast"),
    ("ndv2", "gather"),
    ("ndv2", "scatter"),
    ("torus:4x4", "allgather"),
)
HEADER = (
    "machine",
    "collective",
    "steps",
    "rounds",
    "chunks",
    "rounds / chunk",
    "least",
    "minimal",
    "us at 16MB",
    "bound us",
    "gap",
    "s",
    "walk",
)


def main() -> None:
    """Walk all frontiers and write docs/results/pareto.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=120.0)
    limit = parser.parse_args().time_limit
    rows = [row for case in CASES for row in _rows(*case, limit)]
    intro = (
        "`taccl pareto`: steps, rounds and chunks, with the bound on rounds per chunk (least), whether it is "
        "proved that no fewer rounds do, the schedule's time under alpha-beta at 16MB next to the bound for "
        f"its own chunks, and seconds of search. Limit {limit:g} s a walk. SCCL's published AllGather "
        "frontier on the DGX-1: 2, 2, 1 (0.2 to 0.5 s); 2, 3, 2 (0.9 s); up to 3, 7, 6 (56 s), on its "
        "authors' machine."
    )
    report.write("pareto", "Latency against bandwidth: SCCL's frontier", intro, report.table(HEADER, rows))


def _rows(machine: str, collective: str, limit: float) -> list[list[str]]:
    nodes = None if ":" in machine else 1
    try:
        frontier = pareto(collective, topology=machine, nodes=nodes, time_limit=limit)
    except TacclError as error:
        return [[machine, collective, *[""] * 10, str(error.message)]]
    rows = []
    for found in frontier.points:
        point = found.point
        rows.append(
            [
                machine,
                collective,
                *map(str, (point.steps, point.rounds, point.chunks, point.rounds_per_chunk)),
                str(frontier.round_bound.rounds_per_chunk),
                "yes" if point.is_minimal else "not proved",
                f"{found.time_us:.1f}",
                f"{found.bound.value_us:.1f}",
                f"{100 * found.gap:.1f}%",
                f"{point.seconds:.1f}",
                frontier.status,
            ]
        )
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
