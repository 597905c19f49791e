"""Large messages: how near the tree engine comes to the throughput bound.

    python -m benchmarks.trees [--time-limit SECONDS] [--chunks N ...]

The bound of a row is that of its number of chunks; `limit` is the algbw that no number of chunks
exceeds: the bound where chunks are divisible and alphas cost nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks import report
from taccl import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.model import units
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: (machine, nodes, sketch).
CASES = (
    ("ndv2", 1, None),
    ("ndv2", 2, None),
    ("ndv2", 4, None),
    ("dgx2", 2, None),
    ("dgx2-teccl", 2, None),
)
HEADER = (
    "machine",
    "sketch",
    "chunks",
    "time us",
    "bound us",
    "gap",
    "algbw GB/s",
    "limit GB/s",
    "share",
    "found by",
    "seconds",
)


def main() -> None:
    """Run all rows and write docs/results/trees.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--chunks", type=int, nargs="+", default=[16, 64])
    arguments = parser.parse_args()
    rows = [_row(case, chunks, arguments.time_limit) for case in CASES for chunks in arguments.chunks]
    intro = (
        f"AllGather of 1GB by `--engine routes` alone, {arguments.time_limit:g} s a row (what is begun is "
        "finished beyond that). Costs are those of the catalogue. `limit` is the throughput bound without "
        "alphas; `share` is algbw / limit. Where the engine finds nothing faster, greedy's schedule stands."
    )
    report.write("trees", "Trees: large messages", intro, report.table(HEADER, rows))


def _row(case: tuple[str, int, str | None], chunks: int, time_limit: float) -> list[str]:
    machine, nodes, sketch = case
    problem = make_problem(
        "allgather", topology=machine, nodes=nodes, sketch=sketch, size="1GB", chunks=chunks
    ).problem
    began = time.monotonic()
    for update in engine_named("routes").run(Instance(problem), SearchOptions(), Budget(time_limit), None):
        if update.schedule is not None:
            best, stage = update.schedule, update.stage
    seconds = time.monotonic() - began
    best.check()
    bound, limit = lower_bound(problem).value_us, _limit_gbps(problem)
    row = [
        f"{machine} x{nodes}",
        sketch or "-",
        str(chunks),
        f"{best.makespan_us:.1f}",
        f"{bound:.1f}",
        f"{100 * (1 - bound / best.makespan_us):.2f}%",
        f"{best.algbw_gbps:.2f}",
        f"{limit:.2f}",
        f"{100 * best.algbw_gbps / limit:.2f}%",
        stage,
        f"{seconds:.1f}",
    ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


def _limit_gbps(problem: Problem) -> float:
    """The throughput bound for divisible chunks: that of loads in very many chunks, alphas left out."""
    free = replace(problem.topology, alpha_us=np.zeros(problem.topology.num_links), occupancy="pipelined")
    bound = lower_bound(replace(problem, topology=free)).value_us
    return units.bandwidth_gbps(problem.size_bytes, bound)


if __name__ == "__main__":
    main()
