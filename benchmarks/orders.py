"""The best order of given sends, and its proof: job shops, and greedy's schedules of the published sketches.

python -m benchmarks.orders [--time-limit SECONDS] [--only NAME]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks import report
from taccl.api import make_problem
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.orders.orders import open_order, windows
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.collective import Collective, Placement
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.sketch import published_sketches
from taccl.support.budget import Budget

COLLECTIVES = ("allgather", "alltoall", "reducescatter", "allreduce")
HEADER = (
    "sends of",
    "sends",
    "variables",
    "pairs on a port",
    "left to z3",
    "before us",
    "after us",
    "bound us",
    "verdict",
    "s",
)

#: Fisher and Thompson 1963: for each job, machine and duration of each step. The optima are 55 and 930.
JOB_SHOPS = {
    "job shop ft06": (
        "2 1 0 3 1 6 3 7 5 3 4 6",
        "1 8 2 5 4 10 5 10 0 10 3 4",
        "2 5 3 4 5 8 0 9 1 1 4 7",
        "1 5 0 5 2 5 3 3 4 8 5 9",
        "2 9 1 3 4 5 5 4 0 3 3 1",
        "1 3 3 3 5 9 0 10 4 4 2 1",
    ),
    "job shop ft10": (
        "0 29 1 78 2 9 3 36 4 49 5 11 6 62 7 56 8 44 9 21",
        "0 43 2 90 4 75 9 11 3 69 1 28 6 46 5 46 7 72 8 30",
        "1 91 0 85 3 39 2 74 8 90 5 10 7 12 6 89 9 45 4 33",
        "1 81 2 95 0 71 4 99 6 9 8 52 7 85 3 98 9 22 5 43",
        "2 14 0 6 1 22 5 61 3 26 4 69 8 21 7 49 9 72 6 53",
        "2 84 1 2 5 52 3 95 8 48 9 72 0 47 6 65 4 6 7 25",
        "1 46 0 37 3 61 2 13 6 32 5 21 9 32 8 89 7 30 4 55",
        "2 31 0 86 1 46 5 74 4 32 6 88 8 19 9 48 7 36 3 79",
        "0 76 1 69 3 76 5 51 2 85 9 11 6 40 7 89 4 26 8 74",
        "1 85 0 13 2 61 6 7 8 64 9 76 5 47 3 52 4 90 7 45",
    ),
}


def main() -> None:
    """Run all rows and write docs/results/orders.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rows = [
        _row(name, job_shop(jobs), 3 * arguments.time_limit)
        for name, jobs in JOB_SHOPS.items()
        if arguments.only in name
    ]
    for sketch in published_sketches():
        for collective in COLLECTIVES:
            if arguments.only in (name := f"{sketch.name} {collective}"):
                problem = make_problem(collective, sketch=sketch).problem
                rows.append(_row(name, _greedy_schedule(problem), arguments.time_limit))
    intro = (
        "Schedules that greedy finds in 2 s, and the best order of their sends "
        "(`taccl.encoding.engines.orders`), "
        f"routes and groups as they are; {arguments.time_limit:g} s a row, a job shop three times as long. "
        "A variable stands for the images of a send under the sketch's symmetry. Either of a pair on a "
        "port may go first until heads, tails and the room on ports decide it; the rest is left to z3 (-: "
        "they prove that no order is faster). Costs are those of the catalogue; a job shop is a problem "
        "whose ports are the machines. The bound is that of the problem, over all routes and groups."
    )
    report.write("orders", "The best order of given sends", intro, report.table(HEADER, rows))


def job_shop(lines: Sequence[str]) -> Schedule:
    """Each job a chunk on a way of its own, whose links use the ports that are the machines; jobs in turn."""
    jobs = np.array([[int(word) for word in line.split()] for line in lines]).reshape(len(lines), -1, 2)
    num_jobs, steps, _ = jobs.shape
    rank = np.arange(num_jobs)[:, None] * (steps + 1) + np.arange(steps)
    topology = LogicalTopology(
        name="job shop",
        node_of=np.zeros(num_jobs * (steps + 1), dtype=np.int64),
        src=rank.ravel(),
        dst=rank.ravel() + 1,
        alpha_us=jobs[:, :, 1].ravel().astype(np.float64),
        beta_us_per_mb=np.zeros(num_jobs * steps),
        ports=tuple((int(port),) for port in jobs[:, :, 0].ravel()),
        port_names=tuple(f"machine {port}" for port in range(steps)),
    )
    chunk, owner = np.arange(num_jobs), rank[:, 0]
    collective = Collective(
        name="job shop",
        num_ranks=topology.num_ranks,
        chunks_per_rank=1,
        chunks_per_size=num_jobs,
        inputs=Placement(chunk, owner, chunk),
        outputs=Placement(chunk, owner + steps, chunk),
        reduces=np.zeros(num_jobs, dtype=np.bool_),
        owner=owner,
        in_place_shift=np.zeros(topology.num_ranks, dtype=np.int64),
    )
    sends = [Decision((link // steps,), link) for link in range(num_jobs * steps)]
    return in_order(Problem(topology, collective, 1.0), sends)


def _greedy_schedule(problem: Problem) -> Schedule:
    run = by_phases(engine_named("greedy").run)
    updates = run(Instance(problem), SearchOptions(), Budget(2.0), None)
    *_, best = (update.schedule for update in updates if update.schedule is not None)
    return best


def _row(name: str, schedule: Schedule, time_limit: float) -> list[str]:
    problem = schedule.problem
    order = open_order(schedule, symmetry_group(problem))
    assert order is not None
    known = windows(order, order.limit_below(schedule.makespan_us))
    began, best, note = time.monotonic(), schedule, "not known in time"
    for update in engine_named("orders").run(
        Instance(problem), SearchOptions(), Budget(time_limit), schedule
    ):
        best = update.schedule or best
        note = update.note or note
    best.check()
    row = [
        name,
        str(len(order.decisions)),
        str(len(order.duration)),
        str(len(order.clashes)),
        "-" if known is None else str(int((known.first == 0).sum())),
        f"{schedule.makespan_us:.2f}",
        f"{best.makespan_us:.2f}",
        f"{lower_bound(problem).value_us:.2f}",
        note.split(" (")[0].replace(" of these routes and groups", ""),
        f"{time.monotonic() - began:.1f}",
    ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    main()
