"""Large messages, bandwidth alone: shares of the throughput bound next to those of other tools.

    python -m benchmarks.large [--time-limit SECONDS] [--only NAME ...]

Alphas are 0, as in the peers' figures, so `limit`, the bound for divisible chunks, is what no schedule with
any number of chunks exceeds. Each row is a fresh process that makes the problem, searches until the
share of the best peer is reached (or the time is up) and checks the schedule; `CPU s` is all of that but
importing, in seconds of processor time, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import report
from taccl import make_problem
from taccl.encoding.bounds import all_bounds
from taccl.encoding.core.options import SearchOptions
from taccl.model import units
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.search import STOP, Answer, Found, Progress, search


@dataclass(frozen=True)
class Case:
    """A machine, a collective and the peers' best: its share of the bound, in how many seconds, whose.

    `loads` says that the peer's figure is that of loads on links, with no schedule of whole chunks.
    """

    name: str
    topology: str
    nodes: int | None
    collective: str
    chunks: int
    share: float
    peer: str


CASES = (
    Case("NDv2 x1", "ndv2-teccl", 1, "allgather", 12, 1.0, "ForestColl 100%, 0.06 s; SCCL 100%, 22 s"),
    Case("A100 x2", "a100", 2, "allgather", 13, 1.0, "ForestColl 100%, 3.4 s; TACOS 89%"),
    Case("torus 4x4", "torus:4x4", None, "allgather", 4, 1.0, "TACOS 100%, 0.04 s"),
    Case("torus 8x8", "torus:8x8", None, "allgather", 4, 1.0, "ForestColl 100%, 148 s; TACOS 99.6%, 2.9 s"),
    Case("torus 32x32", "torus:32x32", None, "allgather", 1, 0.991, "TACOS 99.1%, 73 s of CPU"),
    Case("NDv2 x2", "ndv2-teccl", 2, "allgather", 24, 0.996, "ForestColl 100%, 0.16 s; TACOS 99.6%, 1.0 s"),
    Case("DGX-2 x2", "dgx2-teccl", 2, "allgather", 4, 1.0, "ForestColl 100%, 10.7 s; TE-CCL 100%, 2700 s"),
    Case("NDv2 x1", "ndv2-teccl", 1, "alltoall", 6, 1.0, "TE-CCL's LP 100%, 0.2 s"),
    Case("A100 x2", "a100", 2, "alltoall", 1, 1.0, "TE-CCL's LP 100%, 0.2 s"),
    Case("torus 4x4", "torus:4x4", None, "alltoall", 4, 1.0, "-"),
    Case("torus 8x8", "torus:8x8", None, "alltoall", 4, 1.0, "-"),
)
HEADER = (
    "machine",
    "collective",
    "chunks",
    "limit GB/s",
    "algbw GB/s",
    "share",
    "CPU s",
    "first: CPU s",
    "its share",
    "found by",
    "best peers",
)


def main() -> None:
    """Run all rows and write docs/results/large.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--row", type=int, help="measure one row in this process")
    arguments = parser.parse_args()
    if arguments.row is not None:
        print(json.dumps(_row(CASES[arguments.row], arguments.time_limit)))
        return
    rows = []
    for number, case in enumerate(CASES):
        if not arguments.only or case.name in arguments.only:
            rows.append(_in_a_fresh_process(number, arguments.time_limit))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    intro = (
        "1GB with alphas of 0. `limit` is the bound for divisible chunks, `share` is algbw / limit of a "
        "checked schedule; `CPU s` is the processor time until it was found, making the problem included, "
        "importing not; `first` is the first schedule that there was. The search ends at the best peer's "
        f"share, or after {arguments.time_limit:g} s. Where a peer has 100% without a schedule of whole "
        "chunks (ForestColl's trees, TE-CCL's LP), it speaks of a steady state; no schedule has filled its "
        "pipeline at the start. Peers' seconds were taken on a machine of this kind."
    )
    report.write("large", "Large messages next to other tools", intro, report.table(HEADER, rows))


def _in_a_fresh_process(number: int, time_limit: float) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.large",
        "--row",
        str(number),
        "--time-limit",
        str(time_limit),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: list[str] = json.loads(done.stdout.splitlines()[-1])
    return row


def _row(case: Case, time_limit: float) -> list[str]:
    limit_us = _limit_us(_problem(case))  # apart: a search does not need all bounds to the end
    began = time.process_time()
    problem = _problem(case)
    heard: list[tuple[float, float, str]] = []

    def listen(progress: Progress) -> Answer:
        if progress.improved and progress.time_us is not None:
            heard.append((time.process_time() - began, progress.time_us, progress.stage))
            if limit_us / progress.time_us >= case.share - 1e-9:
                return STOP
        return None

    found = search(problem, SearchOptions(time_limit_s=time_limit), listen)
    return _figures(case, found, heard, limit_us)


def _problem(case: Case) -> Problem:
    """The problem of a row, without alphas."""
    made = make_problem(
        case.collective, topology=case.topology, nodes=case.nodes, size=_size(case), chunks=case.chunks
    ).problem
    return replace(made, topology=replace(made.topology, alpha_us=np.zeros(made.topology.num_links)))


def _figures(case: Case, found: Found, heard: list[tuple[float, float, str]], limit_us: float) -> list[str]:
    schedule: Schedule = found.schedule
    return [
        case.name,
        case.collective,
        str(case.chunks),
        f"{units.bandwidth_gbps(schedule.problem.size_bytes, limit_us):.2f}",
        f"{schedule.algbw_gbps:.2f}",
        f"{100 * limit_us / schedule.makespan_us:.2f}%",
        f"{heard[-1][0]:.2f}",
        f"{heard[0][0]:.2f}",
        f"{100 * limit_us / heard[0][1]:.2f}%",
        heard[-1][2],
        case.peer,
    ]


def _size(case: Case) -> int:
    """About 1GB, and a multiple of what it is cut into."""
    ranks = make_problem(case.collective, topology=case.topology, nodes=case.nodes, size=2**20 * 3).problem
    parts = ranks.num_ranks * case.chunks
    return 2**30 // parts * parts


def _limit_us(problem: Problem) -> float:
    """The throughput or flow bound, for chunks however fine."""
    return max(bound.value_us for bound in all_bounds(problem) if bound.holds_for_any_chunks)


if __name__ == "__main__":
    main()
