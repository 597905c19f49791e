"""The textbook engine: every algorithm that fits is built, timed and compared; nothing is searched.

It runs in every search, so that no search ends with something slower than what is known to all. Each algorithm
is first built with the chunks of a part as one, then with twice as many batches that follow each other, as long
as that makes it faster. The cheapest to build come first, and what the time is too short for is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.textbook.demand import demand_of
from taccl.encoding.textbook.plans import Algorithm, algorithms
from taccl.encoding.textbook.transfer import backwards, decisions, timed
from taccl.errors import CollectiveError
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule
from taccl.schedule.derivation import compacted

#: About so many transfers of one chunk are built in a second.
_ROWS_PER_S = 60_000
#: More transfers than this are never built.
_MOST_ROWS = 2_000_000


@dataclass(eq=False)
class _Trial:
    """An algorithm, what it gave last, and how busy it keeps the busiest port at the least."""

    algorithm: Algorithm
    batches: int
    time_us: float
    load_us: float


def textbook(
    problem: Problem, options: SolveOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield textbook schedules that are better than `incumbent`, until all are tried or the budget is over."""
    best = None if incumbent is None else incumbent.makespan_us
    for _, schedule in built(problem, budget):
        if best is None or schedule.makespan_us < best - TOLERANCE_US:
            best = schedule.makespan_us
            yield Update("textbook", compacted(schedule))


def built(problem: Problem, budget: Budget) -> Iterator[tuple[str, Schedule]]:
    """Every algorithm's schedule with its name, then those with more batches while that helps."""
    asked = _copying(problem)
    demand = None if asked is None else demand_of(asked.collective)
    if asked is None or demand is None:
        return
    trials: list[_Trial] = []
    best_us = float("inf")
    for algorithm in sorted(algorithms(asked, demand), key=lambda each: each.rows):
        if not _is_worth_building(algorithm, budget):
            continue
        schedule = _schedule(problem, asked, algorithm, 1)
        if schedule is None:
            continue
        load_us = float(schedule.port_busy_us.max(initial=0.0))
        trials.append(_Trial(algorithm, 1, schedule.makespan_us, load_us))
        best_us = min(best_us, schedule.makespan_us)
        yield algorithm.name, schedule
    while trials:
        for trial in list(trials):
            batches = min(2 * trial.batches, trial.algorithm.most_batches)
            schedule = None
            # Batches make no port less busy.
            if (
                batches > trial.batches
                and trial.load_us < best_us
                and _is_worth_building(trial.algorithm, budget)
            ):
                schedule = _schedule(problem, asked, trial.algorithm, batches)
            if schedule is None or schedule.makespan_us >= trial.time_us:
                trials.remove(trial)
                continue
            trial.batches, trial.time_us = batches, schedule.makespan_us
            best_us = min(best_us, schedule.makespan_us)
            yield f"{trial.algorithm.name}, {batches} batches", schedule


def _copying(problem: Problem) -> Problem | None:
    """The problem; the reversed one where all sums are for one rank each; None if it is neither."""
    collective = problem.collective
    if not collective.reduces.all() or len(collective.outputs) > collective.num_chunks:
        return problem
    try:
        return problem.reversed()
    except CollectiveError:
        return None


def _is_worth_building(algorithm: Algorithm, budget: Budget) -> bool:
    return algorithm.rows <= min(_MOST_ROWS, _ROWS_PER_S * budget.remaining_s())


def _schedule(problem: Problem, asked: Problem, algorithm: Algorithm, batches: int) -> Schedule | None:
    steps = algorithm.build(batches)
    made = None if steps is None else decisions(asked, steps)
    schedule = None if made is None else timed(asked, made)
    return schedule if schedule is None or asked is problem else backwards(problem, schedule)
