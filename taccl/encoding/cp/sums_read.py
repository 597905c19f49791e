"""What a solution of the model of all programs says, and a known schedule as a hint to its search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from taccl.encoding.cp.sums_model import SumModel
from taccl.encoding.cp.sums_ways import Item, is_own
from taccl.encoding.timing import Decision, in_order
from taccl.problem import Problem
from taccl.schedule import Schedule
from taccl.schedule.derivation import compacted, sets_of_rows
from taccl.schedule.partial_sums import disjoint_union

#: Sends in an order in which they can happen, and for each the sends that it waits for.
Program = tuple[list[Decision], list[list[int]]]


def schedule_of(problem: Problem, program: Program) -> Schedule:
    """The program with its true times, in the compact form if it has one."""
    decisions, waits = program
    return compacted(in_order(problem, decisions, waits))


def program_of(model: SumModel, value: Callable[[Any], int]) -> Program:
    """The sends that a solution says; `value` gives the value of a variable."""
    timed: list[tuple[int, int, list[Item]]] = []
    for link, sends in enumerate(model.sends):
        for send in sends:
            items = [item for item, member in send.members.items() if value(member)]
            if items:
                timed.append((value(send.start), link, items))
    timed.sort(key=lambda send: send[0])
    whole, dst = model.ways.whole, model.problem.topology.dst.tolist()
    src = model.problem.topology.src.tolist()
    brought = {
        (chunk, part, dst[link]): index
        for index, (_, link, items) in enumerate(timed)
        for chunk, part in items
    }
    pieces = {
        (chunk, part, rank): piece
        for (chunk, piece, part, rank), union in model.made.items()
        if value(union)
    }

    def sources(chunk: int, part: int, rank: int) -> set[int]:
        if is_own(model.problem, chunk, part, rank):
            return set()
        if (chunk, part, rank) in brought:
            return {brought[chunk, part, rank]}
        piece = pieces[chunk, part, rank]
        return sources(chunk, piece, rank) | sources(chunk, part ^ piece, rank)

    decisions, waits = [], []
    for _, link, items in timed:
        sums = tuple(0 if part == whole[chunk] else part for chunk, part in items)
        decisions.append(Decision(tuple(chunk for chunk, _ in items), link, any(sums), sums))
        waits.append(sorted(set[int]().union(*(sources(*item, src[link]) for item in items))))
    return decisions, waits


def add_hint(model: SumModel, schedule: Schedule) -> None:
    """Hint what is sent when, what is made of what, and from when on it is there, as far as the model has it."""
    whole = model.ways.whole
    sets = sets_of_rows(schedule, whole)
    start, end = _in_ticks(model, schedule.start_us), _in_ticks(model, schedule.end_us)
    chunk, src, dst = schedule.chunk.tolist(), schedule.src.tolist(), schedule.dst.tolist()
    known: dict[int, tuple[Any, int]] = {}

    def hint(variable: Any, value: int) -> None:
        if not isinstance(variable, int):
            known.setdefault(variable.index, (variable, int(value)))

    came: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in sorted(range(len(schedule)), key=lambda row: end[row]):
        came[chunk[row], dst[row]].setdefault(sets[row], end[row])

    def get(of: int, part: int, rank: int) -> int:
        """Hint how a rank comes to have a part, and return from when on it has it."""
        cell = (of, part, rank)
        if is_own(model.problem, *cell):
            return 0
        pieces = came[of, rank]
        if part in pieces:
            when = pieces[part]
        else:
            own = (1 << rank,) if is_own(model.problem, of, 1 << rank, rank) else ()
            union = disjoint_union(part, [*own, *pieces]) or (part,)
            first = _first(union, part, rank)
            if first == part or (of, first, part, rank) not in model.made:
                return 0
            when = max(get(of, first, rank), get(of, part ^ first, rank))
            hint(model.made[of, first, part, rank], 1)
        if cell in model.got:
            hint(model.got[cell], 1)
            hint(model.at[cell], when)
        return when

    for row in range(len(schedule)):
        get(chunk[row], sets[row], src[row])
        get(chunk[row], sets[row], dst[row])
    wanted = model.problem.collective.outputs
    finish = max(
        (get(of, whole[of], rank) for of, rank in zip(wanted.chunk.tolist(), wanted.rank.tolist(), strict=True)),
        default=0,
    )
    hint(model.finish, finish)
    _hint_sends(model, schedule, sets, start, hint)
    for variable in (*model.got.values(), *model.made.values()):
        hint(variable, 0)
    for variable, value in known.values():
        model.cp.add_hint(variable, value)


def _first(pieces: Iterable[int], part: int, rank: int) -> int:
    """Of the pieces of a part the one that `splits` names first."""
    key = 1 << rank if part >> rank & 1 else part & -part
    return next(piece for piece in pieces if piece & key)


def _hint_sends(
    model: SumModel, schedule: Schedule, sets: list[int], start: list[int], hint: Callable[[Any, int], None]
) -> None:
    alpha, cost = model.costs
    rows_of: dict[int, list[int]] = defaultdict(list)
    for row, send in enumerate(schedule.sends.of_row.tolist()):
        rows_of[send].append(row)
    on_link: dict[int, list[list[int]]] = defaultdict(list)
    for rows in rows_of.values():
        on_link[int(schedule.link[rows[0]])].append(rows)
    for link, sends in enumerate(model.sends):
        carried = [
            (start[rows[0]], {(int(schedule.chunk[row]), sets[row]) for row in rows}) for rows in on_link[link]
        ]
        if sends and isinstance(sends[0].count, int):  # each item has a send of its own
            items = {item: when for when, group in carried for item in group}
            carried = [(items.get(item, -1), {item}) for send in sends for item in send.members]
        else:
            carried.sort(key=lambda each: each[0])
            carried += [(-1, set())] * (len(sends) - len(carried))
        for send, (when, group) in zip(sends, carried, strict=False):
            hint(send.active, when >= 0)
            for item, member in send.members.items():
                hint(member, when >= 0 and item in group)
            if when >= 0:
                hint(send.start, when)
                if not isinstance(send.count, int):
                    hint(send.count, len(group))
                    hint(send.end, when + alpha[link] + cost[link] * len(group))


def _in_ticks(model: SumModel, us: np.ndarray) -> list[int]:
    ticks: list[int] = np.floor(us / model.ticks.tick_us + 1e-6).astype(np.int64).tolist()
    return ticks
