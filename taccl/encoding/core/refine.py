"""A schedule for coarse chunks is one for finer chunks: what travelled as one chunk travels as several.

So cutting finer never makes anything slower, and the best schedule of a coarser cut is where the search for a
finer one begins. And a schedule for fine chunks of which several always travel together is one for coarser
chunks: it has fewer operations, and larger bounds hold for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.errors import ScheduleError
from taccl.model.collective import IntArray, Placement
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.partial_sums import PartialSums
from taccl.model.tolerance import EQUAL


def refined(schedule: Schedule, finer: Problem) -> Schedule:
    """The schedule for the same problem with each chunk cut into several, which travel together.

    It takes as long as before where `finer.max_group` holds all the pieces of each group; larger groups leave
    as several sends, each with an alpha of its own.

    Raises
    ------
    ScheduleError : `finer` is another problem, or no finer cut of this one.
    """
    pieces = _pieces(schedule.problem, finer)
    if (schedule.sends.count * pieces).max(initial=0) > finer.max_group:
        parts = (_cut(decision, pieces, finer.max_group) for decision in decisions_of(schedule))
        return in_order(finer, chain.from_iterable(parts))
    sums = schedule.sums
    return Schedule(
        problem=finer,
        chunk=_of(schedule.chunk, pieces),
        link=np.repeat(schedule.link, pieces),
        start_us=np.repeat(schedule.start_us, pieces),
        end_us=np.repeat(schedule.end_us, pieces),
        reduce=np.repeat(schedule.reduce, pieces),
        group=np.repeat(schedule.group, pieces),
        sums=None if sums is None else PartialSums(np.repeat(sums.of_row, pieces), sums.members),
    )


def coarsened(schedule: Schedule, coarser: Problem) -> Schedule | None:
    """The schedule for the same problem with fewer chunks; None where not all pieces of each travel together.

    Chunks that are there and wanted at the same ranks may change places, so any of them may be the pieces of
    one. Chunks with sizes or times of their own are left as they are.

    Raises
    ------
    ScheduleError : the schedule's problem is no finer cut of `coarser`.
    """
    finer = schedule.problem
    pieces = _pieces(coarser, finer)
    of_each_chunk = finer.sizes, finer.ready_us, finer.tail_us, finer.sum_work_us
    if any(column is not None for column in of_each_chunk):
        return None
    if (schedule.sends.count > pieces * coarser.max_group).any():
        return None
    number = _numbers(list(zip(_places(finer), _ways(schedule), strict=True)), _places(coarser), pieces)
    if number is None:
        return None
    kept = schedule.take(np.flatnonzero(number[schedule.chunk] >= 0))
    return replace(kept, problem=coarser, chunk=number[kept.chunk]).sorted()


def _numbers(
    of_pieces: Sequence[tuple[Hashable, bytes]], of_chunks: Sequence[Hashable], pieces: int
) -> IntArray | None:
    """For one piece of each chunk the number of that chunk, -1 for the others; None if some are left over.

    Parameters
    ----------
    of_pieces : for each piece its place (`_places`) and its way.
    of_chunks : for each chunk its place.
    pieces : how many are a chunk.
    """
    together, free = defaultdict[Hashable, list[int]](list), defaultdict[Hashable, list[int]](list)
    for piece, place_and_way in enumerate(of_pieces):
        together[place_and_way].append(piece)
    for chunk, place in enumerate(of_chunks):
        free[place].append(chunk)
    if any(len(same) % pieces for same in together.values()):
        return None
    number = np.full(len(of_pieces), -1)
    for same in together.values():
        for first in same[::pieces]:
            number[first] = free[of_pieces[first][0]].pop()
    return number


def _ways(schedule: Schedule) -> Iterator[bytes]:
    """For each chunk what is the same for those that are in the same sends, in the same sums."""
    sums = np.full(len(schedule), -1) if schedule.sums is None else schedule.sums.numbers()
    order = np.lexsort((sums, schedule.group, schedule.chunk))
    rows = np.stack([schedule.group, sums], axis=1)[order]
    ends = np.cumsum(np.bincount(schedule.chunk, minlength=schedule.problem.num_chunks))
    return (each.tobytes() for each in np.split(rows, ends[:-1]))


def _places(problem: Problem) -> list[Hashable]:
    """For each chunk what is the same for those that may change places: where they are, and are wanted.

    Whose a chunk is counts only where limits say what an owner may do.
    """
    collective, limits = problem.collective, problem.limits
    columns: list[list[Hashable]] = [collective.reduces.tolist()]
    if limits.may_use is not None or limits.own_first is not None:
        columns.append(collective.owner.tolist())
    for placement in (collective.inputs, collective.outputs):
        ranks = placement.rank[np.lexsort((placement.rank, placement.chunk))]
        ends = np.cumsum(np.bincount(placement.chunk, minlength=problem.num_chunks))
        columns.append([each.tobytes() for each in np.split(ranks, ends[:-1])])
    return list(zip(*columns, strict=True))


def _of(chunk: IntArray, pieces: int) -> IntArray:
    """The pieces of each chunk, one after another."""
    return np.asarray((chunk[:, None] * pieces + np.arange(pieces)).ravel())


def _cut(decision: Decision, pieces: int, most: int) -> list[Decision]:
    """A send with the pieces of its chunks, as equal sends of at most `most` pieces each."""
    chunks = tuple(_of(np.array(decision.chunks), pieces).tolist())
    sums = None if decision.sums is None else tuple(np.repeat(np.array(decision.sums, object), pieces))
    sends = -(-len(chunks) // most)
    ends = [len(chunks) * number // sends for number in range(sends + 1)]
    parts = []
    for begin, end in pairwise(ends):
        named = None if sums is None else sums[begin:end]
        reduce = decision.reduce if named is None else any(named)
        parts.append(replace(decision, chunks=chunks[begin:end], reduce=reduce, sums=named))
    return parts


def _pieces(coarse: Problem, finer: Problem) -> int:
    """How many chunks of the one problem are a chunk of the other."""
    one, other = coarse.collective, finer.collective
    pieces, rest = divmod(other.num_chunks, max(1, one.num_chunks))
    same_links = coarse.topology.num_links == finer.topology.num_links and bool(
        (coarse.topology.src == finer.topology.src).all()
        and (coarse.topology.dst == finer.topology.dst).all()
    )
    if (
        rest
        or not pieces
        or not same_links
        or abs(finer.chunk_mb * pieces - coarse.chunk_mb) > EQUAL * coarse.chunk_mb
        or (np.repeat(one.owner, pieces) != other.owner).any()
        or (np.repeat(one.reduces, pieces) != other.reduces).any()
        or not _is_cut(one.inputs, other.inputs, pieces)
        or not _is_cut(one.outputs, other.outputs, pieces)
    ):
        raise ScheduleError(
            "a schedule can be refined for a finer cut of its own problem only",
            findings=[f"{finer!r} is none of {coarse!r}"],
        )
    return pieces


def _is_cut(one: Placement, other: Placement, pieces: int) -> bool:
    """Whether the pieces of each chunk are where it is."""
    ranks = 1 + max(one.rank.max(initial=0), other.rank.max(initial=0))
    expected = np.sort(_of(one.chunk, pieces) * ranks + np.repeat(one.rank, pieces))
    return np.array_equal(expected, np.sort(other.chunk * ranks + other.rank))
