"""The textbook engine: every algorithm that fits is built, timed and compared; nothing is searched.

It runs in every search, so that no search ends with something slower than what is known to all. Algorithms
are written down first with the pieces of a part as one, then in twice as many batches that follow each other,
as long as that is promising. What promises most is timed first. What is cheapest to write down comes first,
and what the time is too short for is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.parts import Parts, parts_of
from taccl.encoding.engines.textbook.plans import algorithms
from taccl.encoding.engines.textbook.schedules import backwards, estimate_us, rows_of, timed
from taccl.encoding.engines.textbook.tuning import (
    BEFORE_HOPELESS,
    CHUNKS_AS_TIMED,
    COLUMNS_AS_TIMED,
    DEALT_AS_WRITTEN,
    FOR_PROMISE,
    HOPELESS,
    MOST_IN_VAIN,
    MOST_PROMISING,
    MOST_ROWS,
    MOST_TO_REORDER,
    PARTS_AS_WRITTEN,
    PROMISING,
    SOON_WRITTEN,
    SURELY_TIMED,
    SURELY_WRITTEN,
    TIMED_PER_S,
    WORTH,
    WRITING,
    WRITTEN_PER_S,
)
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.schedule.schedule import compacted
from taccl.support.budget import UNITS_PER_S, Budget

#: This many with one estimate are timed before the others have their turn.
_EQUIVALENT = 2


@dataclass(frozen=True, eq=False)
class Candidate:
    """An algorithm with a number of batches, and about how long it will take."""

    algorithm: Algorithm
    batches: int
    estimate_us: float

    @property
    def sends(self) -> int:
        """About how many sends there are, those timed as columns counted as that many fewer as they take."""
        sends = self.batches * self.algorithm.shares * self.algorithm.moves
        is_as_columns = sends > MOST_TO_REORDER and not self.algorithm.is_explicit
        return sends // COLUMNS_AS_TIMED if is_as_columns else sends

    @property
    def name(self) -> str:
        return self.algorithm.name + (f", {self.batches} batches" if self.batches > 1 else "")


class _Work:
    """Sends done so far: this many are always allowed, more while there is time, at this many a second."""

    def __init__(self, budget: Budget, surely: int, per_s: int) -> None:
        self.done = 0
        self._budget, self._surely, self._per_s = budget, surely, per_s

    def allows(self, sends: int) -> bool:
        return self.done + sends <= self._surely or sends <= self._per_s * self._budget.remaining_s()

    def did(self, sends: int) -> None:
        self.done += sends
        self._budget.spend(sends / self._per_s * UNITS_PER_S)


class _Known:
    """The algorithms for an instance, and what was estimated of them so far."""

    def __init__(self, copying: Instance) -> None:
        self._requested, self._parts = copying.problem, copying.once(parts_of)
        self.algorithms = () if self._parts is None else tuple(algorithms(self._requested, self._parts))
        self.estimates_us = dict[tuple[Algorithm, int], float | None]()

    def estimate_us(self, algorithm: Algorithm, batches: int) -> float | None:
        """About how long this many batches take; None if they cannot be."""
        key = algorithm, batches
        if self._parts is not None and key not in self.estimates_us:
            self.estimates_us[key] = _estimate_us(self._requested, self._parts, algorithm, batches)
        return self.estimates_us.get(key)


def textbook(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield textbook schedules better than `incumbent`, until all are tried or the budget is over."""
    best = None if incumbent is None else incumbent.makespan_us
    for _, schedule in built(instance, budget):
        if best is None or schedule.makespan_us < best - TOLERANCE_US:
            best = schedule.makespan_us
            yield Update("textbook", compacted(schedule))


def serves(instance: Instance) -> Verdict:
    """Whether there are textbook algorithms for what is requested."""
    if _copying(instance).once(parts_of) is None:
        return no("no textbook has an algorithm for this demand")
    return YES


def built(
    instance: Instance,
    budget: Budget,
    wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[tuple[str, Schedule]]:
    """Schedules with the names of their algorithms, the most promising first.

    `wanted` : whether an algorithm of that name is.
    """
    copying = _copying(instance)
    parts, requested = copying.once(parts_of), copying.problem
    if parts is None:
        return
    every = written(copying, parts, budget.share(WRITING), wanted)
    candidates = sorted(every, key=lambda each: each.estimate_us)
    best_us, seen, work = float("inf"), set[int](), _Work(budget, SURELY_TIMED, TIMED_PER_S)
    in_vain = 0
    for candidate in candidates:
        hopeless = in_vain >= MOST_IN_VAIN or candidate.estimate_us > HOPELESS * best_us
        if hopeless and work.done > BEFORE_HOPELESS:
            return
        rows = candidate.algorithm.rows * parts.most_pieces
        sends = candidate.sends + rows // CHUNKS_AS_TIMED
        if rows > MOST_ROWS or not work.allows(sends):
            continue
        schedule = _schedule(instance.problem, requested, parts, candidate, seen)
        if schedule is not None:
            work.did(sends)
            in_vain = 0 if schedule.makespan_us < best_us - TOLERANCE_US else in_vain + 1
            best_us = min(best_us, schedule.makespan_us)
            yield candidate.name, schedule


def fastest(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules of the same size cut into different numbers of chunks, each faster than those before.

    `instances` : the coarsest first, which says which algorithms are promising.
    """
    promise = _promising(instances[0], budget.share(FOR_PROMISE))
    writing, pool = budget.share(WRITING), list[tuple[Instance, Parts, Candidate]]()
    for number, instance in enumerate(instances):
        copying = _copying(instance)
        if (parts := copying.once(parts_of)) is not None:
            share = writing.share(1 / (len(instances) - number))
            every = written(copying, parts, share, promise.__contains__, promise.__getitem__)
            pool += [(instance, parts, candidate) for candidate in every]
    best_us, seen, work = float("inf"), set[int](), _Work(budget, SURELY_TIMED, TIMED_PER_S)
    for instance, parts, candidate in few_equivalent_first(pool):
        if candidate.estimate_us > HOPELESS * best_us:
            continue
        rows = candidate.algorithm.rows * parts.most_pieces
        sends = candidate.sends + rows // CHUNKS_AS_TIMED
        if rows <= MOST_ROWS and work.allows(sends):
            schedule = _schedule(instance.problem, _copying(instance).problem, parts, candidate, seen)
            work.did(sends)
            if schedule is not None and schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = schedule.makespan_us
                yield compacted(schedule)


def few_equivalent_first(
    pool: Iterable[tuple[Instance, Parts, Candidate]],
) -> list[tuple[Instance, Parts, Candidate]]:
    """The most promising first; of those of one instance with the same estimate, some after all others.

    They are often the same in other words. And with more chunks, sends above the largest group are cut, of
    which a schedule in another order may be faster than its estimate says.
    """
    equivalent = Counter[tuple[int, float]]()
    turns = list[tuple[int, float, tuple[Instance, Parts, Candidate]]]()
    for each in pool:
        key = id(each[0]), round(each[2].estimate_us, 3)
        turns.append((equivalent[key] // _EQUIVALENT, each[2].estimate_us, each))
        equivalent[key] += 1
    return [each for _, _, each in sorted(turns, key=lambda turn: turn[:2])]


def _promising(instance: Instance, budget: Budget) -> dict[str, float]:
    """Names of the algorithms that may be among the fastest, also with more chunks than the instance has.

    Each has its estimate, microseconds.
    """
    copying = _copying(instance)
    parts = copying.once(parts_of)
    if parts is None:
        return {}
    every = list(written(copying, parts, budget))
    least_us = min((each.estimate_us for each in every), default=0.0)
    worth = [each for each in every if each.estimate_us <= WORTH * least_us]
    worth.sort(key=lambda each: each.estimate_us)
    return {each.algorithm.name: each.estimate_us for each in reversed(worth[:MOST_PROMISING])}


def written(
    copying: Instance,
    parts: Parts,
    budget: Budget,
    wanted: Callable[[str], bool] = lambda name: True,
    first: Callable[[str], float] | None = None,
) -> Iterator[Candidate]:
    """All that the machine has the links for, each in 1, 2, 4, ... batches as long as that is promising.

    What was once estimated is known to the instance: a second search of it goes on where the first ended.

    `first` : from the name of an algorithm a key to sort by; None: what is soon written down comes first, and
    where alphas are most of the time, what sends least often.
    """
    known = copying.once(_Known)
    work = _Work(budget, SURELY_WRITTEN, WRITTEN_PER_S)
    dealt = DEALT_AS_WRITTEN * len(parts.begin)
    named = (algorithm for algorithm in known.algorithms if wanted(algorithm.name))
    soonest = _moves if _is_small(copying.problem) else _size
    for algorithm in sorted(named, key=soonest if first is None else lambda each: first(each.name)):
        batches, least_us = 1, float("inf")
        while True:
            sends = max(_written(algorithm, batches * algorithm.shares), dealt)
            if (algorithm, batches) in known.estimates_us:
                sends = 0
            if not work.allows(sends):
                break
            time_us = known.estimate_us(algorithm, batches)
            if time_us is None or time_us > PROMISING * least_us:
                break
            work.did(sends)
            yield Candidate(algorithm, batches, time_us)
            most = algorithm.most_batches(parts)
            if batches == most:
                break
            batches, least_us = min(2 * batches, most), min(least_us, time_us)


def _is_small(requested: Problem) -> bool:
    """Whether all the data together takes less than an alpha on most links."""
    topology = requested.topology
    data_mb = requested.chunk_mb * requested.num_chunks
    return bool(np.median(topology.alpha_us - data_mb * topology.beta_us_per_mb) > 0)


def _moves(algorithm: Algorithm) -> int:
    """A key to sort by."""
    return algorithm.moves


def _size(algorithm: Algorithm) -> int:
    """A key to sort by: what takes long to write down comes last; the others keep their order."""
    size = _written(algorithm, algorithm.shares)
    return size if size > SOON_WRITTEN else 0


def _written(algorithm: Algorithm, batches: int) -> int:
    """About how much there is to write down for this many batches, in sends."""
    return batches * (algorithm.moves + algorithm.rows // PARTS_AS_WRITTEN)


def _estimate_us(requested: Problem, parts: Parts, algorithm: Algorithm, batches: int) -> float | None:
    """About how long this many batches take; None if they cannot be."""
    made = algorithm.built(parts, batches)
    return None if made is None else estimate_us(requested, made[1], made[0], batches)


def _copying(instance: Instance) -> Instance:
    """The problem; the reversed one where all chunks are sums for one rank each."""
    demand = instance.demand
    return instance.reversed if demand.reduces.all() and demand.to_one else instance


def _schedule(
    problem: Problem, requested: Problem, parts: Parts, candidate: Candidate, seen: set[int]
) -> Schedule | None:
    """What a candidate comes to; None if it cannot be, or is the same as one before."""
    made = candidate.algorithm.built(parts, candidate.batches)
    rows = None if made is None else rows_of(requested, made[1], made[0])
    if made is None or rows is None or hash(rows) in seen:
        return None
    seen.add(hash(rows))
    schedule = timed(requested, made[1], rows)
    return schedule if schedule is None or requested is problem else backwards(problem, schedule)
