"""What a coarser cut gave, for a finer one: each of its chunks in pieces that travel together.

It knows trials and how schedules are refined; which number is tried next it must not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taccl.encoding.core.refine import refined
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.synthesis.chunking.trials import Stated, Trial, by_time

#: Larger schedules are not refined only to be told.
_MOST_CARRIED = 100_000


def carry_over(trials: Sequence[Trial[Stated]], trial: Trial[Stated]) -> None:
    """What was found for a coarser cut after this one was tried holds for this one too."""
    source = _fastest(trials, trial.chunks)
    if source is None or source is trial:
        return
    pieces = trial.chunks // source.chunks
    is_large = len(source.found.schedule) * pieces > _MOST_CARRIED
    if is_large or source.time_us >= trial.time_us - TOLERANCE_US:
        return
    known = refined(source.found.schedule, trial.stated.problem)
    if known.makespan_us < trial.time_us - TOLERANCE_US:
        known.check()
        trial.found, trial.usable = replace(trial.found, schedule=known), None


def known_for(problem: Problem, trials: Sequence[Trial[Stated]], book: Schedule | None) -> Schedule | None:
    """The fastest that is known for this cut or a coarser one of it, as a schedule of the problem.

    `book` : of a textbook algorithm, for any number of chunks.
    """
    number = problem.collective.chunks_per_rank
    source = _fastest(trials, number)
    known = [] if source is None else [source.found.schedule]
    if book is not None and number % book.problem.collective.chunks_per_rank == 0:
        known.append(book)
    schedule = min(known, key=lambda each: each.makespan_us, default=None)
    return schedule if schedule is None or schedule.problem is problem else refined(schedule, problem)


def _fastest(trials: Sequence[Trial[Stated]], number: int) -> Trial[Stated] | None:
    """Of those whose chunks are whole numbers of such ones."""
    return next((trial for trial in by_time(trials) if number % trial.chunks == 0), None)
