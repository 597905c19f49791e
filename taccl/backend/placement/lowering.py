"""From a schedule to where its sums are made."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from taccl.backend.placement.document import Handover, MeetingPlaces, RankPlan
from taccl.errors import CollectiveError, ProgramLimitError
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import contributors

#: Rows of a schedule, each from a rank to a rank.
_Rows = dict[int, tuple[int, int]]


def check_problem(problem: Problem) -> None:
    """Refuse what sums nothing.

    Raises
    ------
    CollectiveError : with the reason.
    """
    if not problem.collective.reduces.all():
        raise CollectiveError(
            f"a placement says where sums are made, and {problem.collective.name} makes none of some chunks",
            hint="--collective allreduce, reducescatter or reduce",
        )


def meeting_places(schedule: Schedule) -> MeetingPlaces:
    """Where each chunk's sum is made, and what each rank sends to whom for it.

    Where several ranks make a sum, one of them does, and the others get it over the same links.

    Raises
    ------
    ProgramLimitError : these links do not lead from there to all that want the sum.
    """
    problem = schedule.problem
    collective, topology = problem.collective, problem.topology
    whole = contributors(collective)
    starts, wanted = (
        [set(of_ranks) for of_ranks in _by_chunk(placement.chunk, placement.rank, collective.num_chunks)]
        for placement in (collective.inputs, collective.outputs)
    )
    order = np.argsort(schedule.start_us, kind="stable")
    of_chunk = _by_chunk(schedule.chunk[order], order, collective.num_chunks)
    sets, src, dst = sets_of_rows(schedule, whole), schedule.src.tolist(), schedule.dst.tolist()
    at: list[int] = []
    kinds: list[list[list[int]]] = [[[] for _ in range(problem.num_ranks)] for _ in ("sums", "copies")]
    for chunk, rows in enumerate(of_chunk):
        pairs = {row: (src[row], dst[row]) for row in rows}
        is_part = {row for row in rows if schedule.reduce[row] and sets[row] != whole[chunk]}
        root, sums, copies = _trees(pairs, is_part, starts[chunk], wanted[chunk])
        at.append(root)
        for kind, chosen in zip(kinds, (sums, copies), strict=True):
            for row in chosen:
                kind[src[row]].append(row)
    return MeetingPlaces(
        collective=collective.name,
        root=collective.root,
        chunks_per_rank=collective.chunks_per_rank,
        size_bytes=problem.size_bytes,
        chunk_bytes=tuple(np.rint(problem.size_mb * units.MB).astype(np.int64).tolist()),
        at=tuple(at),
        ranks=tuple(
            RankPlan(
                topology.rank_name(rank),
                rank >= collective.num_members,
                *(_handed(schedule, kind[rank]) for kind in kinds),
            )
            for rank in range(problem.num_ranks)
        ),
    )


def _by_chunk(chunk: IntArray, value: IntArray, many: int) -> list[list[int]]:
    """The values of each chunk."""
    found: list[list[int]] = [[] for _ in range(many)]
    for each, of_it in zip(chunk.tolist(), value.tolist(), strict=True):
        found[each].append(of_it)
    return found


def _trees(
    pairs: _Rows, is_part: set[int], starts: set[int], wanted: set[int]
) -> tuple[int, Iterable[int], Iterable[int]]:
    """Where the sum of a chunk is made, the rows that lead there, and the rows that lead from there."""
    leaves = {pairs[row][0] for row in is_part}
    ends = (starts | {pairs[row][1] for row in is_part}) - leaves
    if len(ends) == 1 and len(leaves) == len(is_part):
        return ends.pop(), sorted(is_part), sorted(set(pairs) - is_part)
    for root in sorted(starts | wanted):
        sums = _tree({row: pairs[row][::-1] for row in is_part}, root)
        copies = _tree({row: pairs[row] for row in pairs if row not in sums.values()}, root)
        if starts <= {root, *sums} and wanted <= {root, *copies}:
            return root, sums.values(), copies.values()
    raise ProgramLimitError(
        "the schedule makes some sums at several ranks, and a placement names one for each chunk",
        hint="--engine routes makes most at one; --no-file keeps the schedule",
    )


def _tree(pairs: _Rows, root: int) -> dict[int, int]:
    """The rows by which each rank is reached first from a root, in order of their rows."""
    by: dict[int, int] = {}
    reached, before = {root}, 0
    while before < len(reached):
        before = len(reached)
        for row, (one, other) in pairs.items():
            if one in reached and other not in reached:
                reached.add(other)
                by[other] = row
    return by


def _handed(schedule: Schedule, rows: list[int]) -> tuple[Handover, ...]:
    """What one rank sends to whom, in the order in which it does."""
    to: dict[int, list[int]] = {}
    dst = schedule.dst
    for row in sorted(rows, key=lambda each: (schedule.start_us[each], each)):
        to.setdefault(int(dst[row]), []).append(int(schedule.chunk[row]))
    return tuple(Handover(peer, tuple(to[peer])) for peer in sorted(to))
