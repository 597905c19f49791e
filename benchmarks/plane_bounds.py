"""What a bound adds to the kept cells of the plane, without searching them again.

    python -m benchmarks.plane_bounds NAME [--only MACHINE ...] [--collectives NAME ...]

For each cell of docs/results/plane.jsonl and the number of chunks that was chosen there: its time, the bounds
that its search proved for that number and for any, and what they are with the bound NAME, which has 3,000
units of work. Prints a line a cell, and last how many cells are open, before and now.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

from benchmarks import plane, report
from benchmarks.calls import Case
from benchmarks.kept import Measured, kept
from taccl.api import make_problem
from taccl.encoding.bounds import BOUNDS, Bound, proofs
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES
from taccl.support.budget import Budget

_UNITS = 3_000


@dataclass(frozen=True)
class Row:
    """A cell and its bounds, microseconds, each before and now; what the bound took, seconds."""

    case: Case
    time_us: float
    bound_us: tuple[float, float]
    any_us: tuple[float, float]
    took_s: float

    def __str__(self) -> str:
        before, now = self.bound_us
        any_before, any_now = self.any_us
        return (
            f"{self.case.place} {self.case.collective} {self.case.size}: {self.time_us:.2f} us, bound "
            f"{before:.2f} -> {now:.2f}, any chunks {any_before:.2f} -> {any_now:.2f}, {self.took_s:.2f} s"
        )


def main() -> None:
    """Print the cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bound", choices=[bound.name for bound in BOUNDS])
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="machines, as dgx-h100x2")
    parser.add_argument("--collectives", nargs="+", default=list(COLLECTIVES), metavar="NAME")
    arguments = parser.parse_args()
    bound = next(bound for bound in BOUNDS if bound.name == arguments.bound)
    rows = []
    for case, measured in kept(plane.NAME).items():
        chosen = case.collective in arguments.collectives and case.place in (arguments.only or [case.place])
        if chosen and measured.outcome.answer:
            rows.append(_bounded(bound, measured))
            print(rows[-1], flush=True)
    for when, word in enumerate(("before", "now")):
        gaps = [1 - row.bound_us[when] / row.time_us for row in rows]
        still = sum(gap > plane.OPEN for gap in gaps)
        print(f"{word}: {still} of {len(rows)} cells open, median gap {statistics.median(gaps):.1%}")


def _bounded(bound: Bound, measured: Measured) -> Row:
    case, answer = measured.case, measured.outcome.answer
    problem = make_problem(
        case.collective,
        topology=case.machine,
        nodes=case.nodes,
        size=case.size,
        chunks=int(answer["chunks"]),
        without=report.as_published(case.machine)["without"] or None,
    ).problem
    instance, began = Instance(problem), time.perf_counter()
    before_us, any_us = float(answer["bound_us"]), float(answer["any_bound_us"])
    instance.proves(before_us)
    proved = list(proofs(instance, Budget.of_work(_UNITS), (bound,)))
    now_us = max([before_us, *(proof.value_us for proof in proved)])
    any_now_us = max([any_us, *(proof.value_us for proof in proved if proof.holds_for_any_chunks)])
    took_s = time.perf_counter() - began
    return Row(case, float(answer["time_us"]), (before_us, now_us), (any_us, any_now_us), took_s)


if __name__ == "__main__":
    main()
