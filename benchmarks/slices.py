"""Slices of what a plan forwards: what more than the chunks of its schedule could bring between nodes.

    python -m benchmarks.slices [--time-limit SECONDS] [--only WORDS]

A schedule is searched for with 2 chunks in each part; then each chunk goes in 1, 2 or 4 slices over the same
links, and a slice is sent on while the next one comes, as in a pipeline, but with operations of its own. The
fastest plan of several orders is reported; one that the runtime has no room for counts for nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import taccl
from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.turns import take_turns
from taccl.backend.one_sided import OneSided
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import LoweringOptions
from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.refine import refined
from taccl.encoding.core.timing import decisions_of
from taccl.errors import ProgramLimitError
from taccl.model import units
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule
from taccl.synthesis.predicted import file_bound

CASES = tuple(
    (machine, size, collective)
    for machine in ("dgx-h100", "mi300x")
    for size in ("32MB", "128MB", "1GB")
    for collective in ("allgather", "reducescatter")
)
CHUNKS = 2
SLICES = (1, 2, 4)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=6.0)
    parser.add_argument("--only", default="", help="cases with all of these words")
    arguments = parser.parse_args()
    for machine, size, collective in CASES:
        name = f"{machine} x2 {collective} {size}"
        if not all(word in name for word in arguments.only.split()):
            continue
        schedule = taccl.synthesize(
            collective,
            topology=machine,
            nodes=2,
            size=size,
            chunks=CHUNKS,
            file=False,
            time_limit=arguments.time_limit,
            executor=False,
        ).schedule
        fastest = [min(_times(schedule, slices), default=None) for slices in SLICES]
        reported = ", ".join(
            f"{slices} x {'-' if found is None else f'{found[0]:.2f}'}"
            for slices, found in zip(SLICES, fastest, strict=True)
        )
        bound = "" if fastest[0] is None else f"; bound {fastest[0][1]:.2f}"
        print(f"{name}: {reported} us{bound}", flush=True)


def _times(schedule: Schedule, slices: int) -> Iterator[tuple[float, float]]:
    """Of plans with every chunk in this many slices, each with its bound."""
    network, size_mb = schedule.problem.topology, schedule.problem.size_bytes / units.MB
    for each in _orders(schedule, slices):
        for passes in ((add_at_once,), (take_turns, add_at_once)):
            with suppress(ProgramLimitError):
                plan = lower_to_plan(each, LoweringOptions(), passes=passes)
                time_us = simulate_plan(plan, network, size_mb / plan.message_chunks).time_us
                yield time_us, _bound_us(schedule, OneSided.of(plan))


def _bound_us(schedule: Schedule, file: OneSided) -> float:
    return file_bound(schedule.problem, file, file.protocol).value_us


def _orders(schedule: Schedule, slices: int) -> list[Schedule]:
    """As the schedule has its sends, and by list scheduling."""
    if slices == 1:
        return [schedule]
    problem, requested = schedule.problem, schedule.problem.collective
    finer = replace(
        problem,
        collective=make_collective(requested.name, requested.num_ranks, requested.chunks_per_rank * slices),
        chunk_mb=problem.chunk_mb / slices,
        symmetry=(),
        max_group=1,
    )
    in_order = refined(schedule, finer)
    return [in_order, list_schedule(finer, decisions_of(in_order))]


if __name__ == "__main__":
    main()
