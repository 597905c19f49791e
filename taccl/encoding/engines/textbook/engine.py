"""The textbook engine: every algorithm that fits is built, timed and compared; nothing is searched.

It runs in every search, so that no search ends with something slower than what is known to all. Algorithms
are written down first with the pieces of a part as one, then in twice as many batches that follow each other,
as long as that is promising. What promises most is timed first. What is cheapest to write down comes first,
and what the time is too short for is left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.books import Books, Candidate, Work, books_of
from taccl.encoding.engines.textbook.plans import algorithm_named
from taccl.encoding.engines.textbook.tuning import (
    BEFORE_HOPELESS,
    FEW_AT_ONCE,
    FOR_ONCE_EACH,
    FOR_PROMISE,
    HOPELESS,
    LIBRARIES_SOONER,
    LIFTED_PER_S,
    MOST_IN_VAIN,
    MOST_PROMISING,
    MUCH_FASTER,
    OF_QUOTIENT,
    ONE_TIMED,
    SURELY_TIMED,
    TIMED_AT_ONCE,
    TIMED_PER_S,
    WORTH,
    WRITING,
)
from taccl.encoding.instance import Instance
from taccl.encoding.quotient import Quotient
from taccl.errors import ScheduleError
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.schedule.schedule import compacted
from taccl.support.budget import UNITS_PER_S, Budget

#: This many with one estimate are timed before the others have their turn.
_EQUIVALENT = 2


def textbook(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield textbook schedules better than `incumbent`, until all are tried or the budget is over."""
    best_us = float("inf") if incumbent is None else incumbent.makespan_us
    for schedule in _improving(built(instance, budget, known_us=best_us, apart=True), best_us):
        best_us = schedule.makespan_us
        yield Update("textbook", schedule)
    if (lifted := _of_quotient(instance, budget, best_us)) is not None:
        yield Update("textbook", lifted)


def textbook_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the faster of two that promise most, of what is written down without any time and soon timed.

    Where all are too large to be timed, those of the quotient are asked for.
    """
    schedule = _promising_most(instance, budget)
    if schedule is None and (quotient := _quotient_of_large(instance)) is not None:
        part = _promising_most(instance.quotient_instance, budget)
        schedule = None if part is None else _lifted(quotient, part, budget)
    if schedule is not None:
        yield Update("textbook", schedule)


def _promising_most(instance: Instance | None, budget: Budget) -> Schedule | None:
    """The faster of two that promise most and are soon timed; None: there are none.

    What promises most may take a second, if its sends do not say what they carry.
    """
    books = None if instance is None else instance.once(books_of)
    if books is None:
        return None
    left, timed = TIMED_AT_ONCE, list[Schedule]()
    for candidate in sorted(books.candidates(budget), key=_estimate_us):
        is_in_any_case = not timed and not candidate.algorithm.is_explicit and candidate.work <= ONE_TIMED
        if candidate.work > left and not is_in_any_case:
            continue
        schedule = candidate.schedule(set())
        left -= candidate.work if candidate.work <= left else 0
        if schedule is not None:
            timed.append(schedule)
        if len(timed) == FEW_AT_ONCE:
            break
    return compacted(min(timed, key=lambda each: each.makespan_us)) if timed else None


def _quotient_of_large(instance: Instance) -> Quotient | None:
    """The quotient of a problem that only copies and has algorithms too large to be timed; None: no need."""
    books = None if instance.features else instance.once(books_of)
    return instance.quotient if books is not None and books.leaves_out else None


def _of_quotient(instance: Instance, budget: Budget, best_us: float) -> Schedule | None:
    """The fastest of those that are timed on the quotient of a large problem, if it beats `best_us`.

    None as well where the time is too short to find the quotient or to write all of its images.
    """
    if instance.quotient_takes_s >= budget.remaining_s():
        return None
    quotient, small = _quotient_of_large(instance), instance.quotient_instance
    if quotient is None or small is None:
        return None
    timed = _improving(built(small, budget.share(OF_QUOTIENT), known_us=best_us), best_us)
    best = next(iter(deque(timed, maxlen=1)), None)
    if best is None or quotient.num_images * len(best) > LIFTED_PER_S * budget.remaining_s():
        return None
    return _lifted(quotient, best, budget)


def _lifted(quotient: Quotient, part: Schedule, budget: Budget) -> Schedule:
    """The schedule of the whole, which is paid for by its rows."""
    budget.spend(quotient.num_images * len(part) / LIFTED_PER_S * UNITS_PER_S)
    return quotient.lifted(part)


def serves(instance: Instance) -> Verdict:
    """Whether there are textbook algorithms for what is requested."""
    return YES if instance.once(books_of) else no("no textbook has an algorithm for this demand")


def built(
    instance: Instance,
    budget: Budget,
    wanted: Callable[[Algorithm], bool] = lambda algorithm: True,
    known_us: float = float("inf"),
    apart: bool = False,
) -> Iterator[tuple[str, Schedule]]:
    """Schedules with the names of their algorithms, the most promising first.

    `wanted` : whether an algorithm is; `known_us` : how long the best takes that there is; `apart` : whether
    chunks that books send together may go one by one.
    """
    if books := instance.once(books_of):
        every = books.candidates(budget.share(WRITING), wanted, apart=apart)
        turns = few_equivalent_first(every) if books.has_many else [(0, each) for each in every]
        yield from _in_time(turns, budget, BEFORE_HOPELESS, MOST_IN_VAIN, known_us)


def of_libraries(
    instance: Instance, budget: Budget, wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, Schedule]]:
    """Those that libraries run, by what each algorithm says of that.

    On a machine with helpers: what its members do among themselves.
    """
    members = instance.members_instance or instance
    for name, schedule in built(members, budget, lambda each: each.of_libraries and wanted(each.name)):
        made = compacted(schedule)
        yield name, made if instance.members is None else instance.members.lifted(made)


def by_name(
    instance: Instance, name: str, batches: int = 1, orders: Sequence[Sequence[int]] | None = None
) -> Schedule | None:
    """The schedule of one algorithm; None if the machine lacks a link, or no algorithm is for this demand.

    Parameters
    ----------
    name : as `built` says it.
    batches : into this many batches that follow each other each part is cut.
    orders : the orders in which the ranks stand along it, one for each channel; None: where it was found.

    Raises
    ------
    KeyError : no algorithm for the demand and this many ranks has that name.
    """
    books = instance.once(books_of)
    if books is None:
        return None
    return books.schedule(algorithm_named(books.requested, books.parts, name, orders), batches, set())


def fastest(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules of the same size cut into different numbers of chunks, each faster than those before.

    `instances` : the coarsest first, which says which algorithms are promising; of those that deal shares,
        the finest says that.
    """
    every = [books for instance in instances if (books := instance.once(books_of))]
    if not every:
        return
    for books in every[1:]:
        books.take_algorithms_of(every[0])
    deciding, deal = budget.share(FOR_PROMISE), any(each.shares > 1 for each in every[-1].algorithms)
    whole = deciding.share(1 / 2 if deal else 1)
    promise = _promising(every[0], whole, lambda each: each.shares == 1)
    promise |= _promising(every[-1], deciding, lambda each: each.shares > 1)
    writing, candidates = budget.share(WRITING), list[Candidate]()
    for number, books in enumerate(every):
        if number and not budget.remaining_s():
            break
        share = writing.share(1 / (len(every) - number))
        are_promising = (lambda each: each.name in promise), promise.__getitem__
        candidates += books.candidates(share, *are_promising, apart=True)
    yield from _improving(_in_time(least_work_first(candidates, budget), budget))


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


def _in_time(
    turns: Iterable[tuple[int, Candidate]],
    budget: Budget,
    surely: int = -1,
    most_in_vain: float = float("inf"),
    known_us: float = float("inf"),
) -> Iterator[tuple[str, Schedule]]:
    """Schedules of those candidates that there is time for, with their names; no schedule twice.

    Once more than `surely` sends were timed, those are left out that promise too little, and all but those of
    libraries if the last `most_in_vain` were no better than what was there. The first is timed whether there
    is time or not, if it is no work of seconds and promises much less than `known_us`.
    """
    best_us, in_vain, seen, work = float("inf"), 0, set[int](), Work(budget, SURELY_TIMED, TIMED_PER_S)
    off = dict[str, float]()
    for candidate in soonest_first(turns, off):
        estimate_us, name = candidate.estimate_us, candidate.algorithm.name
        is_in_vain = in_vain >= most_in_vain and not candidate.algorithm.of_libraries
        hopeless = is_in_vain or estimate_us > HOPELESS * best_us
        is_first = not seen and candidate.work <= ONE_TIMED
        is_needed = is_first and estimate_us < MUCH_FASTER * known_us < float("inf")
        if (hopeless and work.done > surely) or not (is_needed or work.allows(candidate.work)):
            continue
        schedule = candidate.schedule(seen)
        if schedule is not None:
            work.did(candidate.work)
            in_vain = 0 if schedule.makespan_us < best_us - TOLERANCE_US else in_vain + 1
            best_us = min(best_us, schedule.makespan_us)
            off[name] = schedule.makespan_us / estimate_us if estimate_us else 1.0
            yield candidate.name, schedule


def soonest_first(turns: Iterable[tuple[int, Candidate]], off: Mapping[str, float]) -> Iterator[Candidate]:
    """The candidates in order of their turns, then of their corrected estimates; those of libraries sooner.

    `off` : by algorithm name, the last measured time divided by its estimate. When it changes, it corrects
        the estimates of the other candidates of that algorithm.
    """

    def expected_us(candidate: Candidate) -> float:
        favour = LIBRARIES_SOONER if candidate.algorithm.of_libraries else 1.0
        return candidate.estimate_us * off.get(candidate.algorithm.name, favour)

    waiting = [(turn, expected_us(each), place, each) for place, (turn, each) in enumerate(turns)]
    heapify(waiting)
    while waiting:
        candidate = heappop(waiting)[-1]
        before = off.get(candidate.algorithm.name)
        yield candidate
        if off.get(candidate.algorithm.name) != before:
            waiting = [(turn, expected_us(each), place, each) for turn, _, place, each in waiting]
            heapify(waiting)


def _improving(
    schedules: Iterable[tuple[str, Schedule]], best_us: float = float("inf")
) -> Iterator[Schedule]:
    """Those that are faster than all before."""
    for _, schedule in schedules:
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield compacted(schedule)


def _estimate_us(candidate: Candidate) -> float:
    """A key to sort by."""
    return candidate.estimate_us


def few_equivalent_first(candidates: Iterable[Candidate]) -> Iterator[tuple[int, Candidate]]:
    """The candidates with their turns: of those of one instance with the same estimate, some are the first.

    They are often the same in other words. And with more chunks, sends above the largest group are cut, of
    which a schedule in another order may be faster than its estimate says.
    """
    equivalent = Counter[tuple[Books, float]]()
    for candidate in candidates:
        key = candidate.books, round(candidate.estimate_us, 3)
        yield equivalent[key] // _EQUIVALENT, candidate
        equivalent[key] += 1


def least_work_first(candidates: Sequence[Candidate], budget: Budget) -> Iterator[tuple[int, Candidate]]:
    """The turns of `few_equivalent_first`, and before them the cheapest candidate of each algorithm.

    Its time corrects the algorithm's other estimates. These first turns take a fraction of the time; the
    cheapest algorithms come first.
    """
    least = dict[str, Candidate]()
    for each in sorted(candidates, key=lambda candidate: (candidate.work, candidate.estimate_us)):
        least.setdefault(each.algorithm.name, each)
    left, once = FOR_ONCE_EACH * TIMED_PER_S * budget.remaining_s(), set[Candidate]()
    for each in least.values():
        left -= each.work
        if left < 0:
            break
        once.add(each)
    for turn, each in few_equivalent_first(candidates):
        yield (-1 if each in once else turn), each


def _promising(books: Books, budget: Budget, wanted: Callable[[Algorithm], bool]) -> dict[str, float]:
    """Names of the algorithms that may be among the fastest, also with more chunks than the instance has.

    Each has its estimate, microseconds. Those of libraries that may be are all among them: nothing slower is
    worth a file.
    """
    every = sorted(books.candidates(budget, wanted), key=_estimate_us)
    worth = [each for each in every if each.estimate_us <= WORTH * every[0].estimate_us]
    of_libraries = (each for each in worth[MOST_PROMISING:] if each.algorithm.of_libraries)
    promising = (*worth[:MOST_PROMISING], *of_libraries)
    return {each.algorithm.name: each.estimate_us for each in reversed(promising)}
