"""What the search of a number of chunks begins with: textbooks, routes, and schedules of coarser cuts.

No search may end with anything slower. Each chunk of a coarser cut becomes pieces that travel together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from taccl.encoding.core.refine import coarsened, refined
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import ENGINES, serves_somehow
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.trials import Trial, by_time
from taccl.synthesis.autotune.tuning import (
    SEEDS_CUT_PER_S,
    SEEDS_MANY_RANKS,
    SEEDS_MOST_CARRIED,
    SEEDS_MOST_OUTPUTS,
    SEEDS_NEARLY,
    SEEDS_OF_PARTS,
    SEEDS_PART,
    SEEDS_PART_OF_ONE,
    SEEDS_PART_OF_ONE_TO_MANY,
)


def numbers_across(coarsest: Instance, numbers: Sequence[int]) -> list[int]:
    """Of some numbers of chunks those that engines have schedules of at once; none where no engine has.

    `coarsest` : the problem with one chunk in each part.
    """
    problem = coarsest.problem
    most = SEEDS_MOST_OUTPUTS // max(1, len(problem.collective.outputs))
    engines = [each for each in ENGINES if each.across_chunks is not None and serves_somehow(each, coarsest)]
    cuts = sorted({number for engine in engines for number in engine.cuts(coarsest)})
    return [number for number in cuts if number in numbers and number <= most]


def part_across(coarsest: Instance) -> float:
    """The part of the time for what is built with several numbers of chunks; `coarsest` as above."""
    members = coarsest.members_instance or coarsest
    if not members.is_of_one_root:
        return SEEDS_PART
    return SEEDS_PART_OF_ONE if members.problem.num_ranks <= SEEDS_MANY_RANKS else SEEDS_PART_OF_ONE_TO_MANY


def found_across(
    numbers: Sequence[int], state: Callable[[int], Instance], budget: Budget
) -> Iterator[Schedule]:
    """Schedules that engines build at once with these numbers of chunks, each faster than those before.

    Each has the least of these numbers that it can be read with. Engines have equal shares of the time, those
    that search before those that build, as they have a first answer sooner. Those that were the fastest so
    far in their turn, or as fast, and nearly are at the end, but had no time for finer cuts, share what is
    left for these; those that are parts of others come last. What an engine builds without any time is for
    machines that have no schedule yet: in one look at two a100-pcie it took 1.7 s after all were over.

    `state` : the problem with this many chunks.
    """
    cuts = _Cuts([state(number) for number in numbers if budget.remaining_s()])
    engines = [
        each
        for each in ENGINES
        if each.across_chunks and any(serves_somehow(each, cut) for cut in cuts.stated)
    ]
    apart, parts = ([each for each in engines if bool(each.part_of) is is_part] for is_part in (False, True))
    apart.sort(key=lambda engine: engine.role == "first")
    cut_short: list[_Own] = []
    for place, engine in enumerate(apart):
        if cuts.has_one and not budget.remaining_s():
            return
        share, before_us = budget.share(1 / (len(apart) - place + 1)), cuts.best_us
        given_s = share.remaining_s()
        own = yield from cuts.faster(engine, cuts.of(engine), share)
        # An engine stops before a cut that takes longer than the rest of its share.
        if own.num_chunks and own.best_us < before_us + TOLERANCE_US and share.remaining_s() < given_s / 2:
            cut_short.append(own)
    nearly = [
        each
        for each in cut_short
        if each.best_us < SEEDS_NEARLY * cuts.best_us and cuts.finer_of(each.engine, each.num_chunks)
    ]
    rest = budget.share(1 - SEEDS_OF_PARTS * bool(parts))
    for place, each in enumerate(nearly if rest.remaining_s() else ()):
        finer = cuts.finer_of(each.engine, each.num_chunks)
        yield from cuts.faster(each.engine, finer, rest.share(1 / (len(nearly) - place)))
    for place, engine in enumerate(parts):
        if cuts.has_one and not budget.remaining_s():
            return
        yield from cuts.faster(engine, cuts.of(engine), budget.share(1 / (len(parts) - place)))


class _Own(NamedTuple):
    """An engine, its own best time, and how many chunks that has; 0: it has found nothing."""

    engine: Engine
    best_us: float
    num_chunks: int


class _Cuts:
    """The same size in several numbers of chunks, how fast the fastest schedule is so far, and its chunks."""

    def __init__(self, stated: Sequence[Instance]) -> None:
        self.stated, self.best_us, self.best_chunks = stated, math.inf, 0
        self._on_members = [each.members_instance or each for each in stated]
        self._lifted = {id(each.members.problem): each.members for each in stated if each.members is not None}

    @property
    def has_one(self) -> bool:
        """Whether there is a schedule."""
        return self.best_chunks > 0

    def of(self, engine: Engine) -> list[Instance]:
        """Those that an engine is about, of members alone where it knows no helpers."""
        instances = self.stated if any(map(engine.can, self.stated)) else self._on_members
        return [each for each in instances if each.problem.collective.chunks_per_rank in engine.cuts(each)]

    def finer_of(self, engine: Engine, num_chunks: int) -> list[Instance]:
        """Those of an engine that are cut into more chunks."""
        return [each for each in self.of(engine) if each.problem.num_chunks > num_chunks]

    def faster(
        self, engine: Engine, cuts: Sequence[Instance], budget: Budget
    ) -> Generator[Schedule, None, _Own]:
        """Schedules of an engine that are faster than all before; in the end, its own best."""
        assert engine.across_chunks is not None
        own = _Own(engine, math.inf, 0)
        for schedule in engine.across_chunks(cuts, budget) if cuts else ():
            if schedule.makespan_us < own.best_us - TOLERANCE_US:
                own = _Own(engine, schedule.makespan_us, schedule.problem.num_chunks)
            if schedule.makespan_us < self.best_us - TOLERANCE_US:
                self.best_us, self.best_chunks = schedule.makespan_us, schedule.problem.num_chunks
                members = self._lifted.get(id(schedule.problem))
                yield _coarsest(schedule if members is None else members.lifted(schedule), self.stated)
        return own


def _coarsest(schedule: Schedule, stated: Sequence[Instance]) -> Schedule:
    """The same with as few chunks as can be, of these numbers."""
    read = (_read_coarser(schedule, each.problem) for each in stated)
    return next((each for each in read if each is not None), schedule)


def _read_coarser(schedule: Schedule, coarser: Problem) -> Schedule | None:
    """The schedule with fewer chunks, valid; None where pieces go different ways, or it is too large."""
    pieces, rest = divmod(schedule.problem.num_chunks, max(1, coarser.num_chunks))
    if rest or pieces < 2 or len(schedule) > SEEDS_MOST_CARRIED:
        return None
    read = coarsened(schedule, coarser)
    if read is not None:
        read.check()
    return read


def carry_over(trials: Sequence[Trial]) -> None:
    """What was found for a coarser cut after a finer one was tried holds for that too, and perhaps back."""
    for trial in trials:
        _carry_to_finer(trials, trial)
    for trial in trials:
        _carry_to_coarser(trials, trial)


def _carry_to_finer(trials: Sequence[Trial], trial: Trial) -> None:
    source = _fastest(trials, trial.chunks)
    if source is None or source is trial:
        return
    pieces = trial.chunks // source.chunks
    is_large = len(source.found.schedule) * pieces > SEEDS_MOST_CARRIED
    if is_large or source.time_us >= trial.time_us - TOLERANCE_US:
        return
    known = refined(source.found.schedule, trial.formulated.problem)
    if known.makespan_us < trial.time_us - TOLERANCE_US:
        known.check()
        trial.found, trial.usable = replace(trial.found, schedule=known), None


def _carry_to_coarser(trials: Sequence[Trial], trial: Trial) -> None:
    """What was found for a finer cut, where pieces travel together as chunks of this one."""
    for finer in by_time(trials):
        if finer.time_us >= trial.time_us - TOLERANCE_US:
            return
        known = _read_coarser(finer.found.schedule, trial.formulated.problem)
        if known is not None:
            trial.found, trial.usable = replace(trial.found, schedule=known), None
            return


def known_for(
    problem: Problem, trials: Sequence[Trial], across: Schedule | None, budget: Budget
) -> Schedule | None:
    """The fastest that is known for this cut or a coarser one of it, as a schedule of the problem.

    What there is no time to write in these chunks is left out; None: nothing is left.

    `across` : the fastest that was found across numbers of chunks.
    """
    number = problem.collective.chunks_per_rank
    known = [trial.found.schedule for trial in trials if number % trial.chunks == 0]
    if across is not None and number % across.problem.collective.chunks_per_rank == 0:
        known.append(across)
    for schedule in sorted(known, key=lambda each: each.makespan_us):
        if schedule.problem is problem:
            return schedule
        transfers = len(schedule) * problem.num_chunks // schedule.problem.num_chunks
        if transfers <= SEEDS_MOST_CARRIED or transfers <= SEEDS_CUT_PER_S * budget.remaining_s():
            return refined(schedule, problem)
    return None


def _fastest(trials: Sequence[Trial], number: int) -> Trial | None:
    """Of those whose chunks are whole numbers of such ones."""
    return next((trial for trial in by_time(trials) if number % trial.chunks == 0), None)
