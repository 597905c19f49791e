"""What is left of a collective that was interrupted: chunks are where they had arrived.

Of a sum, each rank has some partial sums. The rest of it is a sum again, of fewer contributions: as many of
these partial sums as are disjoint and make the whole, the largest first, and what a rank has of them is its
one contribution. Where some rank has the whole, the rest is copies of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.mending import links_now
from taccl.encoding.core.timing import decisions_of, in_order, without_dead_ends
from taccl.errors import ScheduleError, UnitError
from taccl.model.collective import BoolArray, Collective, Placement
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.finish import arrivals_us
from taccl.model.schedule.partial_sums import PartialSums, contributors, disjoint_union
from taccl.model.units import MAX_TIME_US
from taccl.support.arguments import number

#: A chunk and a rank.
Cell = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Rest:
    """What is left of a collective.

    Parameters
    ----------
    problem : what has arrived are its inputs. The input of a chunk that is summed is the sum of some
        contributions.
    contributions : for each chunk that was summed and each rank where it starts now, the ranks whose
        contributions are in that, as a set (`schedule.partial_sums`).
    schedule : the sends that are left; None: what they carry is no sum of what ranks have now.
    from_us : when in the call its 0 is, us.
    """

    problem: Problem
    contributions: dict[Cell, int]
    schedule: Schedule | None
    from_us: float


def rest_of(schedule: Schedule, at_us: float, now: LogicalTopology) -> Rest:
    """The sends that had not begun by a moment, with what had arrived as inputs.

    What was under way then still arrives, where its link is one of the machine now, and what is left of it
    at the rate that the link has now. The rest begins when all of that has ended and its ports are free. What
    was on a link that is gone, and what had come to a switch or server alone, is sent again. The inputs of a
    rank are its inputs, then what it had received, in the order of arrival; a partial sum lies where the
    rank's own contribution did.

    Raises
    ------
    UnitError : no such moment. ScheduleError : there are sums, and a rank with data may not sum.
    """
    at_us = number(at_us, "the moment of the change", UnitError, least=0.0, most=MAX_TIME_US, unit="us")
    problem = schedule.problem
    _check_members_sum(problem)
    links = links_now(problem.topology, now)
    left = np.array([link is not None for link in links])
    under_way = (schedule.start_us < at_us) & (schedule.end_us > at_us) & left[schedule.link]
    is_member = schedule.dst < problem.topology.num_members
    arrives = ((schedule.end_us <= at_us) | under_way) & is_member
    end_us = _end_us(schedule, under_way, at_us, links, now)
    from_us = float(end_us[under_way].max(initial=at_us))
    has = _contributions(schedule, arrives)
    rest = _problem_of(schedule, replace(schedule, end_us=end_us).take(np.flatnonzero(arrives)), has, from_us)
    return Rest(rest, has, _sends_left(schedule, rest, ~arrives, has), from_us)


def _check_members_sum(problem: Problem) -> None:
    may_sum, members = problem.topology.may_sum, problem.topology.num_members
    if problem.collective.is_reduction and may_sum is not None and not may_sum[:members].all():
        raise ScheduleError("a rank with data may not sum: what it has of a sum is not one contribution")


def _end_us(
    schedule: Schedule, under_way: BoolArray, at_us: float, links: list[int | None], now: LogicalTopology
) -> FloatArray:
    """When each row ends: those under way with what is left of them at the costs that their link has now."""
    end_us: FloatArray = schedule.end_us.copy()
    sends = schedule.sends
    for send in np.unique(sends.of_row[under_way]).tolist():
        link = links[int(sends.link[send])]
        assert link is not None
        takes_us = float(now.duration_us(np.array([link]), float(sends.size_mb[send]))[0])
        lasted_us = float(sends.end_us[send] - sends.start_us[send])
        part_left = float(sends.end_us[send] - at_us) / lasted_us
        end_us[sends.of_row == send] = at_us + part_left * max(takes_us, lasted_us)
    return end_us


def _contributions(schedule: Schedule, arrives: BoolArray) -> dict[Cell, int]:
    """For each chunk that is summed, which contributions each rank has of those that make the rest of it."""
    collective = schedule.problem.collective
    whole = contributors(collective)
    held: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    summed = collective.reduces[collective.inputs.chunk]
    for chunk, rank in _cells(collective.inputs.where(summed)):
        held[chunk][rank].add(1 << rank)
    sets, arrived = sets_of_rows(schedule, whole), arrives & collective.reduces[schedule.chunk]
    chunks, ranks = schedule.chunk.tolist(), schedule.dst.tolist()
    for row in np.flatnonzero(arrived).tolist():
        held[chunks[row]][ranks[row]].add(sets[row])
    return {
        (chunk, rank): made
        for chunk, at in held.items()
        for rank, made in (_wholes(whole[chunk], at) or _disjoint(at)).items()
    }


def _wholes(whole: int, held: dict[int, set[int]]) -> dict[int, int]:
    """The ranks that have the whole sum."""
    return {rank: whole for rank, sets in held.items() if disjoint_union(whole, sets) is not None}


def _disjoint(held: dict[int, set[int]]) -> dict[int, int]:
    """Disjoint sums that make the whole, the largest first: what each rank has of them.

    Whatever lacks when all that was sent had its turn is a contribution that its own rank still has.
    """
    found: dict[int, int] = {}
    taken = 0
    every = [
        (-each.bit_count(), each == 1 << rank, rank, each) for rank, sets in held.items() for each in sets
    ]
    for *_, rank, each in sorted(every):
        if not each & taken:
            found[rank] = found.get(rank, 0) | each
            taken |= each
    return found


def _problem_of(schedule: Schedule, arrived: Schedule, has: dict[Cell, int], from_us: float) -> Problem:
    """The problem whose inputs are what has arrived."""
    problem, collective = schedule.problem, schedule.problem.collective
    inputs, whole = collective.inputs, contributors(collective)
    offset_of = dict(zip(_cells(inputs), inputs.offset.tolist(), strict=True))
    order = np.argsort(arrived.end_us, kind="stable")
    came = zip(arrived.chunk[order].tolist(), arrived.dst[order].tolist(), strict=True)
    size = inputs.buffer_size(collective.num_ranks)
    rows: dict[Cell, int] = {}
    for chunk, rank in dict.fromkeys((*offset_of, *came)):
        if collective.reduces[chunk] and (chunk, rank) not in has:
            continue
        if (chunk, rank) not in offset_of:
            offset_of[chunk, rank] = int(size[rank])
            size[rank] += 1
        rows[chunk, rank] = offset_of[chunk, rank]
    reduces = collective.reduces.copy()
    reduces[[chunk for (chunk, _), each in has.items() if each == whole[chunk]]] = False
    columns = np.array([(*cell, offset) for cell, offset in rows.items()], dtype=np.int64).reshape(-1, 3).T
    rest = replace(
        collective,
        name=f"rest of {collective.name}",
        inputs=Placement(*columns),
        reduces=reduces,
        root=None,
    )
    since_us = _since_us(arrived, rest, from_us)
    work_us = None if problem.sum_work_us is None else np.where(reduces, problem.sum_work_us, 0.0)
    moments = replace(problem, ready_us=None, tail_us=None, sum_work_us=None, symmetry=())
    return replace(
        replace(moments, collective=rest),
        ready_us=np.array([_ready_us(problem, cell, since_us, has, from_us) for cell in rows]),
        tail_us=_tails_left_us(problem, since_us, from_us),
        sum_work_us=work_us,
    )


def _since_us(arrived: Schedule, rest: Collective, from_us: float) -> dict[Cell, float]:
    """Since when ranks have what is whole: wanted copies, and whole sums with the work on them done.

    Of a sum made at a rank that does not want it, all of the work is still to be done.
    """
    problem = arrived.problem
    outputs, is_whole = problem.collective.outputs, ~rest.reduces[rest.inputs.chunk]
    whole = set(_cells(rest.inputs.where(is_whole)))
    moments_us = zip(_cells(outputs), arrivals_us(arrived).tolist(), strict=True)
    since_us = {cell: moment for cell, moment in moments_us if cell in whole}
    if problem.sum_work_us is None:
        return since_us
    worked_on = {cell for cell in whole if problem.collective.reduces[cell[0]]}
    return {cell: from_us + float(problem.sum_work_us[cell[0]]) for cell in worked_on} | since_us


def _ready_us(
    problem: Problem, cell: Cell, since_us: dict[Cell, float], has: dict[Cell, int], from_us: float
) -> float:
    """When an input of the rest is there: what is no whole, once the own contribution in it is."""
    own = has.get(cell, 1 << cell[1]) >> cell[1] & 1
    return max(since_us.get(cell, problem.ready_at.get(cell, 0.0) * own) - from_us, 0.0)


def _tails_left_us(problem: Problem, since_us: dict[Cell, float], from_us: float) -> FloatArray | None:
    """What still follows each output: less where it has begun."""
    if problem.tail_us is None:
        return None
    cells = _cells(problem.collective.outputs)
    begun_us = np.array([max(from_us - since_us.get(cell, from_us), 0.0) for cell in cells])
    return np.asarray(np.maximum(problem.tail_us - begun_us, 0.0))


def _sends_left(schedule: Schedule, rest: Problem, again: BoolArray, has: dict[Cell, int]) -> Schedule | None:
    """The sends of some rows, whose sums are those of the rest; None where they cannot be."""
    if not schedule.problem.collective.reduces.any():
        return without_dead_ends(in_order(rest, decisions_of(schedule.take(np.flatnonzero(again)))))
    parts: dict[int, dict[int, int]] = defaultdict(dict)
    for (chunk, rank), each in has.items():
        parts[chunk][rank] = each
    sets = sets_of_rows(schedule, contributors(schedule.problem.collective))
    kept, carried, src = [], [], schedule.src
    for row in np.flatnonzero(again).tolist():
        chunk, sender, carries = int(schedule.chunk[row]), int(src[row]), 0
        if schedule.reduce[row]:
            carries = _of_parts(sets[row], parts[chunk], sender) if rest.collective.reduces[chunk] else 0
            if not carries:
                continue
        kept.append(row)
        carried.append(carries)
    left = schedule.take(np.array(kept, dtype=np.int64))
    if schedule.sums is not None:
        left = replace(left, sums=PartialSums.of_sets(carried, schedule.problem.num_ranks))
    try:
        left = in_order(rest, decisions_of(replace(left, problem=rest)))
        left.check()
    except ScheduleError:
        return None
    return left


def _of_parts(carried: int, parts: dict[int, int], sender: int) -> int:
    """A set of contributions as one of the ranks that have them now; 0: another one has them all."""
    if any(not carried & ~part for rank, part in parts.items() if rank != sender):
        return 0
    made = 0
    for rank, part in parts.items():
        if not part & ~carried:
            made |= 1 << rank
    return made


def _cells(placement: Placement) -> list[Cell]:
    return list(zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True))
