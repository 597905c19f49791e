"""Sums from copies: every engine only copies, and this module makes reductions of it.

A sum for one rank is a copy from that rank, read backwards in time on the reversed links. A sum that
many ranks want (AllReduce) is a sum for the chunk's home followed by copies from there; the two
halves are found apart and then scheduled as one, chunk by chunk, with no barrier between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.collectives import BoolArray, Collective, IntArray, Placement
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, decisions_of, in_order, list_schedule, predecessors, tails_us
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine
from taccl.encoding.symmetry.group import symmetry_group
from taccl.encoding.symmetry.quotient import quotient
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: The part of the time for schedules in which ranks that are alike do alike.
_ALIKE = 0.5
#: Above so many pairs of a chunk and a rank, the time is all for those.
_LARGE = 5_000
#: Where a joint engine follows, the halves alone get this share of the time, and then other orders
#: of their sends this share of what is left.
_PAIRS_BESIDE_WHOLE = 0.5
_ORDERS_BEFORE_WHOLE = 0.1


@dataclass(frozen=True, eq=False)
class Halves:
    """A problem as copies to be read backwards (its sums), then copies (its spread); either may be None."""

    sums: Problem | None
    spread: Problem | None


def halves(problem: Problem, roots: IntArray | None = None) -> Halves:
    """What has to be summed, as a problem on the reversed links, and what has to be copied.

    `roots` says where each sum is made that many ranks want, shape (num_chunks,); by default at the
    chunk's home. The halves keep the symmetries that also take each root to the root of its image.
    """
    collective = problem.collective
    if not collective.is_reduction:
        return Halves(None, problem)
    summed = collective.reduces
    wanted_once = collective.post.sum(axis=1) == 1
    if summed.all() and wanted_once.all():
        return Halves(problem.reversed(), None)
    at_root = _at_home(collective, summed) if roots is None else _at(roots, summed)
    sums = _only(collective, summed, at_root, name="sums")
    start = _joined(at_root, _rows(collective.inputs, ~summed))
    spread = replace(collective, name="spread", inputs=start, reduces=np.zeros_like(summed))
    kept = replace(problem, symmetry=_keeping(problem, spread))
    return Halves(replace(kept, collective=sums).reversed(), replace(kept, collective=spread))


def roots_of(schedule: Schedule) -> IntArray:
    """Where a compact schedule makes each chunk's sum, else where the chunk starts, shape (num_chunks,)."""
    takes_part = schedule.problem.collective.pre.copy()
    adds = schedule.reduce
    takes_part[schedule.chunk[adds], schedule.dst[adds]] = True
    takes_part[schedule.chunk[adds], schedule.src[adds]] = False
    return np.asarray(takes_part.argmax(axis=1))


def _keeping(problem: Problem, spread: Collective) -> tuple[IntArray, ...]:
    """The symmetries of a problem that its sums' roots have too: compositions, if not all of its own."""
    if all(spread.chunk_map(np.asarray(each)) is not None for each in problem.symmetry):
        return problem.symmetry
    elements = symmetry_group(problem).rank_map[1:]
    return tuple(element for element in elements if spread.chunk_map(element) is not None)


def _at(roots: IntArray, summed: BoolArray) -> Placement:
    chunk = np.flatnonzero(summed)
    return Placement(chunk, roots[chunk], chunk)


def _at_home(collective: Collective, summed: BoolArray) -> Placement:
    """Each summed chunk at the rank where its sum is to be made: its home, if that wants it."""
    chunk = np.flatnonzero(summed)
    home = collective.home[chunk]
    wants = collective.post[chunk, home]
    rank = np.where(wants, home, collective.post[chunk].argmax(axis=1))
    return Placement(chunk, rank, chunk)


def _rows(placement: Placement, chunks: BoolArray) -> Placement:
    keep = chunks[placement.chunk]
    return Placement(placement.chunk[keep], placement.rank[keep], placement.offset[keep])


def _joined(one: Placement, other: Placement) -> Placement:
    columns = zip((one.chunk, one.rank, one.offset), (other.chunk, other.rank, other.offset), strict=True)
    return Placement(*(np.concatenate(pair) for pair in columns))


def _only(collective: Collective, summed: BoolArray, at_home: Placement, name: str) -> Collective:
    """The sums alone. Chunks that are not summed stay where they are: one copy each, wanted there."""
    others = np.flatnonzero(~summed)
    rest = Placement(others, collective.pre[others].argmax(axis=1), others)
    return replace(
        collective,
        name=name,
        inputs=_joined(_rows(collective.inputs, summed), rest),
        outputs=_joined(at_home, rest),
        reduces=np.ones_like(summed),
    )


def mirrored(problem: Problem, copies: Schedule) -> list[Decision]:
    """The sums that a schedule of the reversed problem is, read backwards, in the order of their ends."""
    return [replace(decision, reduce=True) for decision in reversed(_by_end(copies))]


def _copies(reversed_problem: Problem, sums: Schedule) -> Schedule | None:
    """A compact schedule of sums for one rank each as copies, read backwards; None if it is not compact."""
    if sums.sums is not None:
        return None
    decisions = [replace(decision, reduce=False) for decision in reversed(_by_end(sums))]
    return in_order(reversed_problem, decisions)


def _by_end(schedule: Schedule) -> list[Decision]:
    sends = schedule.sends
    order = np.lexsort((sends.start_us, sends.end_us))
    rank = np.argsort(np.lexsort((sends.end_us, sends.start_us)))
    decisions = decisions_of(schedule)
    return [decisions[rank[send]] for send in order]


def joined(problem: Problem, sums: Schedule | None, spread: Schedule | None) -> Schedule:
    """One schedule of `problem` made of schedules of its halves.

    Of several orders - all sums first and then all copies, or what most waits for first - the one
    that ends first is taken, so the result is never later than the two halves after each other.
    """
    first = [] if sums is None else mirrored(problem, sums)
    then = [] if spread is None else decisions_of(spread)
    decisions = first + then
    candidates = [in_order(problem, decisions)]
    if first:
        candidates.append(list_schedule(problem, decisions))
    if first and then:
        candidates.append(list_schedule(problem, decisions, _sums_by_tail_then_copies(problem, decisions)))
    return min(candidates, key=lambda schedule: schedule.makespan_us)


def _sums_by_tail_then_copies(problem: Problem, decisions: list[Decision]) -> list[float]:
    """Priorities by tail inside each half, every sum before any copy that could go at the same time."""
    tails = tails_us(problem, decisions, predecessors(problem, decisions))
    longest = max(tails, default=0.0)
    return [tail + longest * decision.reduce for tail, decision in zip(tails, decisions, strict=True)]


#: An engine that improves a schedule with sums and copies as a whole.
Joint = Callable[[Problem, SearchOptions, Budget, Schedule], Iterator[Update]]


def reducing(engine: Engine, jointly: Joint | None = None) -> Engine:
    """The engine, for problems with sums too.

    Where sums are copied on and ranks are alike, the quotient is answered first (`quotient.py`), with half
    of the budget. Each half of the problem has its own share, and the rest goes into overlapping them: by
    `jointly`, where there is one, which may decide everything anew, and by other orders of the same sends.
    Sums are made where the incumbent makes them, if there is one.
    """

    def solve(
        problem: Problem, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        parts = halves(problem)
        if parts.sums is None:
            yield from engine(problem, options, budget, incumbent)
            return
        best = incumbent
        # One half alone, and a symmetry that is asked for, are the engine's own business.
        alike = None if problem.symmetry or parts.spread is None else quotient(problem)
        is_large = problem.num_chunks * problem.num_ranks > _LARGE
        if alike is not None:
            part = budget.share(1.0 if is_large else _ALIKE)
            for update in _in_halves(engine, None, alike.problem, options, part, None):
                found = update.schedule
                # A bound of the quotient is none of the whole.
                if found and (best is None or found.makespan_us < best.makespan_us - TOLERANCE_US):
                    best = alike.lifted(found)
                    yield Update(update.stage, best)
        if best is None or (budget.remaining_s() and not (is_large and alike is not None)):
            yield from _in_halves(engine, jointly, problem, options, budget, best)

    return solve


def _in_halves(
    engine: Engine,
    jointly: Joint | None,
    problem: Problem,
    options: SearchOptions,
    budget: Budget,
    best: Schedule | None,
) -> Iterator[Update]:
    """Better and better schedules of a problem with sums, from schedules of its halves."""
    parts = halves(problem, None if best is None or best.sums is not None else roots_of(best))
    whole = jointly is not None and parts.spread is not None
    share = budget.share(_PAIRS_BESIDE_WHOLE if whole else 1.0)
    for update in _pairs(engine, parts, options, share, best):
        if isinstance(update, Update):
            yield update
            continue
        stage, sums, spread = update
        schedule = joined(problem, sums, spread)
        if best is None or schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update(stage, best)
    if best is None or parts.spread is None:
        return
    if jointly is not None:
        for schedule in overlapped(best, options.seed, budget.share(_ORDERS_BEFORE_WHOLE)):
            best = schedule
            yield Update("overlap", schedule)
        for update in jointly(problem, options, budget, best):
            best = update.schedule or best
            yield update
    for schedule in overlapped(best, options.seed, budget):
        yield Update("overlap", schedule)


_Pair = tuple[str, Schedule | None, Schedule | None]


def _pairs(
    engine: Engine, parts: Halves, options: SearchOptions, budget: Budget, best: Schedule | None
) -> Iterator[_Pair | Update]:
    """Improving pairs of halves: the first schedule of each at once, then the better ones of each.

    What an engine proves of sums alone, read backwards, it proves of the problem: that is passed on, where
    the topology's schedules read backwards are schedules. (Sums that each go to one rank may as well leave
    each rank once; `bounds` says why.) Sums alone begin with the best schedule of the problem, read
    backwards.
    """
    if parts.sums is not None and parts.spread is None:
        incumbent = None if best is None else _copies(parts.sums, best)
        for update in engine(parts.sums, options, budget, incumbent):
            if update.schedule is not None:
                yield update.stage, update.schedule, None
            if update.lower_bound_us and parts.sums.topology.reads_backwards:
                yield replace(update, schedule=None)
        return
    assert parts.sums is not None and parts.spread is not None
    first, second = budget.share(0.4), budget.share(0.8)
    sums_stream = _with_schedules(engine(parts.sums, options, first, None))
    spread_stream = _with_schedules(engine(parts.spread, options, second, None))
    sums, spread = next(sums_stream, None), next(spread_stream, None)
    if sums is None or spread is None:
        return
    yield sums.stage, sums.schedule, spread.schedule
    for sums in sums_stream:
        yield sums.stage, sums.schedule, spread.schedule
    for spread in spread_stream:
        yield spread.stage, sums.schedule, spread.schedule


def _with_schedules(updates: Iterator[Update]) -> Iterator[Update]:
    return (update for update in updates if update.schedule is not None)


def overlapped(schedule: Schedule, seed: int, budget: Budget) -> Iterator[Schedule]:
    """Better orders of the same sends: list scheduling with the tails, more and more perturbed."""
    problem, random = schedule.problem, np.random.default_rng(seed)
    decisions = decisions_of(schedule)
    tails = np.array(tails_us(problem, decisions, predecessors(problem, decisions)))
    best = schedule
    favoured = tails
    while budget.remaining_s() and len(decisions):
        width = float(random.choice((0.02, 0.1, 0.3))) * tails.max()
        priority = favoured + width * random.standard_normal(len(tails))
        trial = list_schedule(problem, decisions, priority.tolist())
        if trial.makespan_us <= best.makespan_us:
            favoured = priority
        if trial.makespan_us < best.makespan_us - TOLERANCE_US:
            best = trial
            yield best
