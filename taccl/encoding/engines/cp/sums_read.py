"""What a solution of the model of all programs says, and a known schedule as a hint to its search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.cp.sums_model import Cell, SumModel
from taccl.encoding.engines.cp.sums_parts import Item, is_own
from taccl.encoding.sending_model.hints import Hints
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import disjoint_union
from taccl.model.schedule.schedule import compacted

#: Sends in an order in which they can happen, and for each the sends that it waits for.
Program = tuple[list[Decision], list[list[int]]]


def schedule_of(problem: Problem, program: Program) -> Schedule:
    """The program with its true times, in the compact form if it has one."""
    decisions, waits = program
    return compacted(in_order(problem, decisions, waits))


def program_of(model: SumModel, value: Callable[[Any], int]) -> Program:
    """The sends that a solution says; `value` gives the value of a variable."""
    timed: list[tuple[int, int, list[Item]]] = []
    for link, sends in enumerate(model.sending.sends_on):
        for send in sends:
            items = [item for item, member in send.members.items() if value(member)]
            if items:
                timed.append((value(send.start), link, items))
    timed.sort(key=lambda send: send[0])
    whole, dst = model.candidates.whole, model.problem.topology.dst.tolist()
    src = model.problem.topology.src.tolist()
    brought = {
        (chunk, part, dst[link]): index
        for index, (_, link, items) in enumerate(timed)
        for chunk, part in items
    }
    pieces = {
        (chunk, part, rank): piece for (chunk, piece, part, rank), union in model.made.items() if value(union)
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
    """Hint what is sent when, what is made of what, and from when on it is there."""
    hints = Hints(model.sending)
    rows = _Rows(model, schedule, hints)
    for chunk, part, src, dst in zip(rows.chunk, rows.part, rows.src, rows.dst, strict=True):
        rows.get((chunk, part, src), tells=True)
        rows.get((chunk, part, dst), tells=True)
    outputs = model.problem.collective.outputs
    wanted = zip(outputs.chunk.tolist(), outputs.rank.tolist(), strict=True)
    ends = [rows.get((chunk, model.candidates.whole[chunk], rank), tells=True) for chunk, rank in wanted]
    hints.hint(model.sending.finish, max(ends, default=0))
    hints.hint_sends(schedule, list(zip(rows.chunk, rows.part, strict=True)))
    for variable in (*model.got.values(), *model.made.values()):
        hints.hint(variable, 0)
    hints.add()


class _Rows:
    """The rows of a schedule in ticks, and what they bring when.

    Interchangeable chunks have the names that the model gives them.
    """

    def __init__(self, model: SumModel, schedule: Schedule, hints: Hints[Item]) -> None:
        self._model, self._hints = model, hints
        self.chunk: list[int] = schedule.chunk.tolist()
        self.src: list[int] = schedule.src.tolist()
        self.dst: list[int] = schedule.dst.tolist()
        self.part = sets_of_rows(schedule, model.candidates.whole)
        self._ends = hints.in_ticks(schedule.end_us)
        self._note_what_came()
        name = list(range(model.problem.num_chunks))
        for chunks, rank in model.in_order():
            done = [self.get((chunk, model.candidates.whole[chunk], rank)) for chunk in chunks]
            for new, (_, old) in zip(chunks, sorted(zip(done, chunks, strict=True)), strict=True):
                name[old] = new
        self.chunk = [name[chunk] for chunk in self.chunk]
        self._note_what_came()

    def _note_what_came(self) -> None:
        self._came: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for row in sorted(range(len(self._ends)), key=self._ends.__getitem__):
            self._came[self.chunk[row], self.dst[row]].setdefault(self.part[row], self._ends[row])

    def get(self, cell: Cell, tells: bool = False) -> int:
        """From when on a rank has a part; how it comes to have it is hinted, if `tells`."""
        chunk, part, rank = cell
        model = self._model
        if is_own(model.problem, *cell):
            return 0
        came = self._came[chunk, rank]
        if part in came:
            when = came[part]
        else:
            own = (1 << rank,) if is_own(model.problem, chunk, 1 << rank, rank) else ()
            pieces = disjoint_union(part, [*own, *came]) or (part,)
            first = _first(pieces, part, rank)
            if (chunk, first, part, rank) not in model.made:
                return 0
            when = max(self.get((chunk, piece, rank), tells) for piece in (first, part ^ first))
            if tells:
                self._hints.hint(model.made[chunk, first, part, rank], 1)
        if tells and cell in model.got:
            self._hints.hint(model.got[cell], 1)
            self._hints.hint(model.at[(chunk, part), rank], when)
        return when


def _first(pieces: Iterable[int], part: int, rank: int) -> int:
    """Of the pieces of a part the one that `splits` names first."""
    key = 1 << rank if part >> rank & 1 else part & -part
    return next(piece for piece in pieces if piece & key)
