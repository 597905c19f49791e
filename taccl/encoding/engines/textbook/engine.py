"""The textbook engine: every algorithm that fits is built, timed and compared; nothing is searched.

It runs in every search, so that no search ends with something slower than what is known to all. Algorithms
are written down first with the pieces of a part as one, then in twice as many batches that follow each other,
as long as that is promising. What promises most is timed first. What is cheapest to write down comes first,
and what the time is too short for is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.textbook.books import Books, Candidate, Work
from taccl.encoding.engines.textbook.plans import algorithm_named
from taccl.encoding.engines.textbook.tuning import (
    BEFORE_HOPELESS,
    FOR_PROMISE,
    HOPELESS,
    MOST_IN_VAIN,
    MOST_PROMISING,
    SURELY_TIMED,
    TIMED_PER_S,
    WORTH,
    WRITING,
)
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.schedule.schedule import compacted
from taccl.support.budget import Budget

#: This many with one estimate are timed before the others have their turn.
_EQUIVALENT = 2


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
    return YES if instance.once(Books) else no("no textbook has an algorithm for this demand")


def built(
    instance: Instance,
    budget: Budget,
    wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[tuple[str, Schedule]]:
    """Schedules with the names of their algorithms, the most promising first.

    `wanted` : whether an algorithm of that name is.
    """
    books = instance.once(Books)
    if not books:
        return
    candidates = sorted(
        books.candidates(budget.share(WRITING), wanted), key=lambda candidate: candidate.estimate_us
    )
    best_us, seen, work = float("inf"), set[int](), Work(budget, SURELY_TIMED, TIMED_PER_S)
    in_vain = 0
    for candidate in candidates:
        hopeless = in_vain >= MOST_IN_VAIN or candidate.estimate_us > HOPELESS * best_us
        if hopeless and work.done > BEFORE_HOPELESS:
            return
        if not work.allows(sends := candidate.work(books.parts)):
            continue
        schedule = books.schedule(candidate.algorithm, candidate.batches, seen)
        if schedule is not None:
            work.did(sends)
            in_vain = 0 if schedule.makespan_us < best_us - TOLERANCE_US else in_vain + 1
            best_us = min(best_us, schedule.makespan_us)
            yield candidate.name, schedule


def by_name(
    instance: Instance, name: str, batches: int = 1, orders: Sequence[Sequence[int]] | None = None
) -> Schedule | None:
    """The schedule of one algorithm; None if the machine lacks a link, or it is not for this demand.

    Parameters
    ----------
    name : as `built` says it.
    batches : into this many batches that follow each other each part is cut.
    orders : the orders in which the ranks stand along it, one for each channel; None: where it was found.

    Raises
    ------
    KeyError : no algorithm for the demand has that name.
    """
    books = instance.once(Books)
    if not books:
        return None
    return books.schedule(algorithm_named(books.requested, books.parts, name, orders), batches, set())


def fastest_valid(instance: Instance, budget: Budget, most: int) -> list[Schedule]:
    """At most this many valid schedules, the fastest first: another than the best may suit a file better."""
    fastest = sorted(
        (schedule for _, schedule in built(instance, budget)), key=lambda schedule: schedule.makespan_us
    )
    return [compacted(schedule) for schedule in fastest[:most] if _is_valid(schedule)]


def _is_valid(schedule: Schedule) -> bool:
    try:
        schedule.check()
    except ScheduleError:
        return False
    return True


def fastest(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules of the same size cut into different numbers of chunks, each faster than those before.

    `instances` : the coarsest first, which says which algorithms are promising.
    """
    every = [books for books in (instance.once(Books) for instance in instances) if books]
    if not every:
        return
    promise = _promising(every[0], budget.share(FOR_PROMISE))
    writing, pool = budget.share(WRITING), list[tuple[Books, Candidate]]()
    for number, books in enumerate(every):
        share = writing.share(1 / (len(every) - number))
        candidates = books.candidates(share, promise.__contains__, promise.__getitem__)
        pool += [(books, candidate) for candidate in candidates]
    best_us, seen, work = float("inf"), set[int](), Work(budget, SURELY_TIMED, TIMED_PER_S)
    for books, candidate in few_equivalent_first(pool):
        if candidate.estimate_us > HOPELESS * best_us or not work.allows(
            sends := candidate.work(books.parts)
        ):
            continue
        schedule = books.schedule(candidate.algorithm, candidate.batches, seen)
        work.did(sends)
        if schedule is not None and schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield compacted(schedule)


def few_equivalent_first(pool: Iterable[tuple[Books, Candidate]]) -> list[tuple[Books, Candidate]]:
    """The most promising first; of those of one instance with the same estimate, some after all others.

    They are often the same in other words. And with more chunks, sends above the largest group are cut, of
    which a schedule in another order may be faster than its estimate says.
    """
    equivalent = Counter[tuple[int, float]]()
    turns = list[tuple[int, float, tuple[Books, Candidate]]]()
    for books, candidate in pool:
        key = id(books), round(candidate.estimate_us, 3)
        turns.append((equivalent[key] // _EQUIVALENT, candidate.estimate_us, (books, candidate)))
        equivalent[key] += 1
    return [turn[2] for turn in sorted(turns, key=lambda turn: turn[:2])]


def _promising(books: Books, budget: Budget) -> dict[str, float]:
    """Names of the algorithms that may be among the fastest, also with more chunks than the instance has.

    Each has its estimate, microseconds.
    """
    every = list(books.candidates(budget))
    least_us = min((candidate.estimate_us for candidate in every), default=0.0)
    worth = [candidate for candidate in every if candidate.estimate_us <= WORTH * least_us]
    worth.sort(key=lambda candidate: candidate.estimate_us)
    return {each.algorithm.name: each.estimate_us for each in reversed(worth[:MOST_PROMISING])}
