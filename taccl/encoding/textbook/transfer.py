"""Sends without links or times, step by step, and how they become a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from taccl.encoding.combine import joined
from taccl.encoding.timing import Decision, in_order, list_schedule
from taccl.problem import Problem
from taccl.schedule import Schedule

#: With more sends than this, trying a second order of them takes longer than it is worth.
_MOST_TO_REORDER = 40_000


class Transfer(NamedTuple):
    """Chunks that leave together from rank `src` to rank `dst`.

    `adds` : whether they are partial sums.
    `carries` : the set of contributions that each carries (`schedule.partial_sums`), 0 for a copy of the whole; None
    where sums are compact: each is made once.
    """

    src: int
    dst: int
    chunks: tuple[int, ...]
    adds: bool = False
    carries: tuple[int, ...] | None = None


#: What happens in each step. Steps order sends on ports, and that is all: nobody waits for a step to end.
Steps = list[list[Transfer]]


def together(streams: Iterable[Steps]) -> Steps:
    """Several streams side by side: in each step the sends of all of them, the first stream's first."""
    return [
        [transfer for step in steps for transfer in step] for steps in zip_longest(*streams, fillvalue=[])
    ]


def decisions(problem: Problem, steps: Steps) -> list[Decision] | None:
    """The sends over links, in their order, cut where they are too large for one; None if a link is missing.

    A link that a chunk's home may not use is missing too.
    """
    index, most = problem.topology.link_index, problem.max_group
    made: list[Decision] = []
    for step in steps:
        for src, dst, chunks, adds, carries in step:
            link = index.get((src, dst))
            if link is None:
                return None
            for first in range(0, len(chunks), most):
                some = chunks[first : first + most]
                sums = None if carries is None else carries[first : first + most]
                made.append(Decision(some, link, adds if sums is None else any(sums), sums))
    return made if _are_allowed(problem, made) else None


def _are_allowed(problem: Problem, made: Sequence[Decision]) -> bool:
    may_use = problem.limits.may_use
    if may_use is None:
        return True
    chunk = np.array([chunk for decision in made for chunk in decision.chunks], dtype=np.int64)
    link = np.repeat(
        np.array([decision.link for decision in made], dtype=np.int64),
        [len(decision.chunks) for decision in made],
    )
    return bool(may_use[problem.collective.home[chunk], link].all())


def timed(problem: Problem, made: list[Decision]) -> Schedule | None:
    """The sends as a schedule: in their order, or with what most waits for first, whichever ends sooner.

    None if they wait for each other in a circle, which a sender's own chunks first can cause.
    """
    if problem.limits.own_first is not None:
        schedule = list_schedule(problem, made)
        return schedule if len(schedule) == sum(len(decision.chunks) for decision in made) else None
    candidates = [in_order(problem, made)]
    if len(made) <= _MOST_TO_REORDER:
        candidates.append(list_schedule(problem, made))
    return min(candidates, key=lambda schedule: schedule.makespan_us)


def backwards(problem: Problem, copies: Schedule) -> Schedule | None:
    """A schedule of the reversed problem, which copies, read as the sums that `problem` asks for."""
    schedule = joined(problem, copies, None)
    return schedule if len(schedule) == len(copies) else None
