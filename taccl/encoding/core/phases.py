"""The two phases of a problem with sums: a reduce phase, as copies read backwards, and a broadcast phase.

A sum for one rank is a copy from that rank, read backwards in time on the reversed links. A sum that
many ranks want (AllReduce) is a sum at the chunk's owner followed by copies from there; schedules of the two
phases are merged into one, chunk by chunk, with no barrier between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from taccl.encoding.core.ordering import Ordering
from taccl.encoding.core.sequence import in_sequence
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.encoding.core.tuning import PHASES_LISTED_PER_UNIT, PHASES_MANY_ROWS, PHASES_WAITING_DOUBLES
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import BoolArray, Collective, IntArray, Placement
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget

_Part = TypeVar("_Part")


@dataclass(frozen=True, eq=False)
class Phases(Generic[_Part]):
    """The reduce phase of a problem as copies to be read backwards, then its broadcast phase; either may
    be None.

    A part is a `Problem` here, and an `Instance` where an instance has made it.
    """

    reduce_phase: _Part | None
    broadcast_phase: _Part | None


def phases(problem: Problem, owners: IntArray | None, group: Callable[[], SymmetryGroup]) -> Phases[Problem]:
    """What has to be summed, as a problem on the reversed links, and what has to be copied.

    `owners` says where each sum is made that many ranks want, shape (num_chunks,); None: at the chunk's
    owner. The phases keep the symmetries that also take each owner to the owner of its image: `group` is
    requested the problem's group if it comes to that.
    """
    collective = problem.collective
    if not collective.is_reduction:
        return Phases(None, problem)
    summed = collective.reduces
    wanted_once = collective.num_wanted == 1
    if summed.all() and wanted_once.all():
        return Phases(problem.reversed(), None)
    at_owner = _at(default_owners(collective) if owners is None else owners, summed)
    sums = _only(collective, summed, at_owner, name="reduce phase")
    start = _both(at_owner, collective.inputs.where(~summed[collective.inputs.chunk]))
    copies = replace(collective, name="broadcast phase", inputs=start, reduces=np.zeros_like(summed))
    kept = replace(problem, symmetry=_keeping(problem, copies, group), ready_us=None, tail_us=None)
    kept = replace(kept, sum_work_us=None)  # of neither phase alone: what joins them knows it
    # A sum's inputs are late in the reduce phase; what follows outputs, follows copies.
    late = {cell: us for cell, us in problem.ready_at.items() if summed[cell[0]]}
    alone = {cell: us for cell, us in problem.ready_at.items() if not summed[cell[0]]}
    of_sums = replace(kept, collective=sums, ready_us=_column(sums.inputs, late))
    return Phases(
        of_sums.reversed(),
        replace(kept, collective=copies, ready_us=_column(start, alone), tail_us=problem.tail_us),
    )


def owners_of(schedule: Schedule) -> IntArray:
    """Where a compact schedule makes each chunk's sum, else where the chunk starts, shape (num_chunks,)."""
    collective, adds = schedule.problem.collective, schedule.reduce
    ranks = collective.num_ranks
    begin = collective.inputs.chunk * ranks + collective.inputs.rank
    into, out_of = (schedule.chunk[adds] * ranks + end[adds] for end in (schedule.dst, schedule.src))
    held = np.concatenate([begin, into])
    chunk, rank = np.divmod(held[np.isin(held, out_of, invert=True)], ranks)
    owners = np.full(collective.num_chunks, ranks)
    np.minimum.at(owners, chunk, rank)
    owners[owners == ranks] = 0
    return owners


def _keeping(
    problem: Problem, copies: Collective, group: Callable[[], SymmetryGroup]
) -> tuple[IntArray, ...]:
    """The symmetries of a problem that its sums' owners have too: compositions, if not all of its own."""
    if all(copies.chunk_map(np.asarray(each)) is not None for each in problem.symmetry):
        return problem.symmetry
    elements = group().rank_map[1:]
    return tuple(element for element in elements if copies.chunk_map(element) is not None)


def default_owners(collective: Collective) -> IntArray:
    """Where sums are made by default: a chunk's owner, if that wants it, shape (num_chunks,)."""
    owner = collective.owner
    places = collective.outputs.chunk * collective.num_ranks + collective.outputs.rank
    wants = np.isin(np.arange(len(owner)) * collective.num_ranks + owner, places)
    return np.asarray(np.where(wants, owner, collective.destination))


def _at(owners: IntArray, summed: BoolArray) -> Placement:
    chunk = np.flatnonzero(summed)
    return Placement(chunk, owners[chunk], chunk)


def _column(placement: Placement, moments: Mapping[tuple[int, int], float]) -> FloatArray | None:
    """The moment of each row of a placement; None where all are 0."""
    if not moments:
        return None
    cells = zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True)
    return np.array([moments.get(cell, 0.0) for cell in cells])


def _both(one: Placement, other: Placement) -> Placement:
    columns = zip((one.chunk, one.rank, one.offset), (other.chunk, other.rank, other.offset), strict=True)
    return Placement(*(np.concatenate(pair) for pair in columns))


def _only(collective: Collective, summed: BoolArray, at_owner: Placement, name: str) -> Collective:
    """The sums alone. Chunks that are not summed stay where they are: one copy each, wanted there."""
    others = np.flatnonzero(~summed)
    rest = Placement(others, np.maximum(collective.source[others], 0), others)
    return replace(
        collective,
        name=name,
        inputs=_both(collective.inputs.where(summed[collective.inputs.chunk]), rest),
        outputs=_both(at_owner, rest),
        reduces=np.ones_like(summed),
    )


def mirrored(copies: Schedule) -> list[Decision]:
    """The sums that a schedule of the reversed problem is, read backwards, in the order of their ends."""
    return [replace(decision, reduce=True) for decision in reversed(_by_end(copies))]


def as_sums(problem: Problem, copies: Schedule) -> Schedule:
    """Read copies of the reversed problem backwards, as sums, in the order of their ends.

    It takes as long as the copies where the topology reads backwards, and is made from columns.
    """
    return _one_after_the_other(problem, copies, None)


def as_copies(reversed_problem: Problem, sums: Schedule) -> Schedule | None:
    """A compact schedule of sums for one rank each as copies, read backwards; None if it is not compact."""
    if sums.sums is not None:
        return None
    decisions = [replace(decision, reduce=False) for decision in reversed(_by_end(sums))]
    return in_order(reversed_problem, decisions)


def _by_end(schedule: Schedule) -> list[Decision]:
    sends = schedule.sends
    order = np.lexsort((sends.start_us, sends.end_us))
    rank = np.argsort(sends.by_start)
    decisions = decisions_of(schedule)
    return [decisions[rank[send]] for send in order]


def merged(
    problem: Problem, sums: Schedule | None, copies: Schedule | None, budget: Budget | None = None
) -> Schedule:
    """One schedule of `problem` made of schedules of its phases.

    Of several orders - all sums first and then all copies, or what most waits for first - the one
    that ends first is taken, so the result is never later than the two phases after each other. Of very many
    sends, and once a budget is over, it is the first. Sums alone are read backwards (`as_sums`) where that
    takes as long as the copies.
    """
    rows = sum(len(each) for each in (sums, copies) if each is not None)
    if budget is not None:
        budget.spend(rows / PHASES_LISTED_PER_UNIT)
    if sums is not None and copies is None and problem.topology.reads_backwards:
        return as_sums(problem, sums)
    if rows > PHASES_MANY_ROWS:
        return _one_after_the_other(problem, sums, copies)
    in_turn = in_order(problem, _decisions(problem, sums, copies))
    if budget is not None and not budget.remaining_s():
        return in_turn
    return min(in_turn, *merged_with_care(problem, sums, copies, budget), key=lambda each: each.makespan_us)


def care_takes_s(problem: Problem) -> float:
    """About how long `merged_with_care` takes for all sums and copies of a problem, in seconds.

    The more rows there are, the more of them wait for the same ports, and the longer takes each.
    """
    rows = 2 * problem.num_chunks * problem.num_ranks
    return 2 * rows * (1 + rows / PHASES_WAITING_DOUBLES) / PHASES_LISTED_PER_UNIT / UNITS_PER_S


def merged_with_care(
    problem: Problem, sums: Schedule | None, copies: Schedule | None, budget: Budget | None = None
) -> list[Schedule]:
    """Schedules made of those of the phases in which what most waits for goes first; none without sums."""
    if sums is None:
        return []
    decisions = _decisions(problem, sums, copies)
    ordering = Ordering.of(problem, decisions)
    candidates = [ordering.schedule(ordering.timed())]
    if copies is not None:
        candidates.append(ordering.schedule(ordering.timed(_sums_by_tail_then_copies(ordering))))
    if budget is not None:
        budget.spend(len(candidates) * len(decisions) / PHASES_LISTED_PER_UNIT)
    return candidates


def _decisions(problem: Problem, sums: Schedule | None, copies: Schedule | None) -> list[Decision]:
    """All sums, read backwards, and then all copies."""
    first = [] if sums is None else mirrored(sums)
    return first + ([] if copies is None else decisions_of(copies))


def _one_after_the_other(problem: Problem, sums: Schedule | None, copies: Schedule | None) -> Schedule:
    """All sums in the order in which they are read backwards, then all copies in theirs."""
    parts: list[tuple[Schedule, IntArray, bool]] = []
    if sums is not None:
        parts.append((sums, np.lexsort((-sums.group, -sums.start_us, -sums.end_us)), True))
    if copies is not None:
        parts.append((copies, np.lexsort((copies.group, copies.end_us, copies.start_us)), False))
    return in_sequence(
        problem,
        chunk=np.concatenate([each.chunk[order] for each, order, _ in parts]),
        link=np.concatenate([each.link[order] for each, order, _ in parts]),
        reduce=np.concatenate([np.full(len(order), adds) for _, order, adds in parts]),
        group=np.concatenate([2 * each.group[order] + adds for each, order, adds in parts]),
    )


def _sums_by_tail_then_copies(ordering: Ordering) -> FloatArray:
    """Priorities by tail inside each phase, every sum before any copy that could go at the same time."""
    tails_us = ordering.tails_us
    adds = np.array([decision.reduce for decision in ordering.decisions], dtype=np.bool_)
    return np.asarray(tails_us + tails_us.max(initial=0.0) * adds)


def overlapped(schedule: Schedule, seed: int, budget: Budget) -> Iterator[Schedule]:
    """Better orders of the same sends: list scheduling with the tails, more and more perturbed."""
    problem, random = schedule.problem, np.random.default_rng(seed)
    first_s = 3 * len(schedule) / PHASES_LISTED_PER_UNIT / UNITS_PER_S
    if budget.remaining_s() <= first_s:
        return  # the first would not be there in time
    ordering = Ordering.of(problem, decisions_of(schedule))
    many, tails_us = len(ordering.decisions), ordering.tails_us
    best = schedule
    favoured = tails_us
    while budget.remaining_s() and many:
        budget.spend(many / PHASES_LISTED_PER_UNIT)
        width = float(random.choice((0.02, 0.1, 0.3))) * tails_us.max()
        priority = favoured + width * random.standard_normal(many)
        timed = ordering.timed(priority)
        if timed.end_us.max() > best.makespan_us + TOLERANCE_US:
            continue
        trial = ordering.schedule(timed)
        if trial.makespan_us <= best.makespan_us:
            favoured = priority
        if trial.makespan_us < best.makespan_us - TOLERANCE_US:
            best = trial
            yield best
