"""What every cell holds while a plan runs: a number for its contributions, by call, and who put it there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from taccl.backend.machine.values import UNWRITTEN, Values
from taccl.backend.verify.mscclpp.acts import Cells, Move
from taccl.backend.verify.mscclpp.layout import Layout
from taccl.model.collective import BoolArray, IntArray


@dataclass(eq=False)
class Contents:
    """The memory of all ranks.

    The input of rank r in call k counts as that of rank k * num_ranks + r, so that what is left over from an
    earlier call is reported from what belongs here.

    Parameters
    ----------
    cells : per cell the number of its value. writer : per cell the actor that wrote it last; -1: none.
    flag : per cell the call whose packet is there; -1: none. packet_moment : per cell what a reader knows
        of its writing; -1: nothing.
    upper : whether this call uses the upper half of scratch.
    unwritten : (actor, cell) of reads of memory that nobody has written.
    changed_inputs : (actor, cell) of writes that change a caller's input out of place.
    twice : (actor, cell) of packets where this call has put others already.
    """

    layout: Layout
    values: Values
    cells: IntArray
    writer: IntArray
    flag: IntArray
    packet_moment: IntArray
    call: int = -1
    upper: bool = False
    unwritten: list[tuple[int, int]] = field(default_factory=list)
    changed_inputs: list[tuple[int, int]] = field(default_factory=list)
    twice: list[tuple[int, int]] = field(default_factory=list)

    @staticmethod
    def of(layout: Layout, calls: int) -> Contents:
        """Memory before the first call."""
        nothing = np.full(layout.num_cells, -1, dtype=np.int64)
        width = max(1, int(layout.chunks[:, 0].max()))
        return Contents(
            layout=layout,
            values=Values(calls * len(layout.chunks), width),
            cells=np.full(layout.num_cells, UNWRITTEN, dtype=np.int64),
            writer=nothing.copy(),
            flag=nothing.copy(),
            packet_moment=nothing.copy(),
        )

    def begin_call(self, call: int) -> None:
        """Hosts have put new data into the inputs, and nobody knows what into the outputs."""
        self.call = call
        self.upper = bool(self.layout.half.any()) and call % 2 == 1
        pieces, num_ranks = len(self.layout.cuts), len(self.layout.chunks)
        for rank, (start, end) in enumerate(self.layout.user.tolist()):
            self.cells[start:end] = UNWRITTEN
            self.writer[start:end] = -1
            chunks, first = int(self.layout.chunks[rank, 0]), int(self.layout.base[rank, 0])
            numbers = np.array(self.values.inputs(call * num_ranks + rank, chunks), dtype=np.int64)
            self.cells[first : first + chunks * pieces] = np.repeat(numbers, pieces)

    def place(self, cells: Cells) -> int:
        """The first cell of an operand in this call."""
        return cells.upper if self.upper else cells.first

    def outputs(self, rank: int) -> tuple[IntArray, IntArray]:
        """What the cells of a rank's output hold, and who wrote them."""
        first = int(self.layout.base[rank, 1])
        last = first + int(self.layout.chunks[rank, 1]) * len(self.layout.cuts)
        return self.cells[first:last].copy(), self.writer[first:last].copy()

    def missing_packet(self, move: Move) -> int | None:
        """A cell whose packet of this call is not there yet."""
        for source in move.sources:
            if source.packets:
                first = self.place(source)
                lacks = self.flag[first : first + move.count] != self.call
                if lacks.any():
                    return first + int(np.argmax(lacks))
        return None

    def carry_out(self, move: Move, actor: int, moments: IntArray | None) -> list[tuple[int, int, int]]:
        """Read, add and write; `moments` : when each packet is written, if there are packets.

        Returns which packets were there already: cell, and the moments of the packet before and of this one.
        """
        rewritten: list[tuple[int, int, int]] = []
        total = self._read(move.sources[0], move.count, actor)
        for source in move.sources[1:]:
            more = self._read(source, move.count, actor)
            add = self.values.sum
            total = np.array(
                [add(a, b) for a, b in zip(total.tolist(), more.tolist(), strict=True)], dtype=np.int64
            )
        for target in move.targets:
            first = self.place(target)
            last = first + move.count
            if target.packets:
                self._note(self.twice, actor, first, self._again(first, last, total))
                if moments is not None:
                    for k in np.flatnonzero(self.flag[first:last] == self.call).tolist():
                        rewritten.append((first + k, int(self.packet_moment[first + k]), int(moments[k])))
                    self.packet_moment[first:last] = moments
                self.flag[first:last] = self.call
            elif target.is_input and not self.layout.in_place:
                self._note(self.changed_inputs, actor, first, self.cells[first:last] != total)
            self.cells[first:last] = total
            self.writer[first:last] = actor
        return rewritten

    def _again(self, first: int, last: int, total: IntArray) -> BoolArray:
        is_there: BoolArray = np.equal(self.flag[first:last], self.call)
        is_there &= self.cells[first:last] != total
        return is_there

    def _read(self, source: Cells, count: int, actor: int) -> IntArray:
        first = self.place(source)
        found: IntArray = self.cells[first : first + count].copy()
        self._note(self.unwritten, actor, first, found == UNWRITTEN)
        return found

    @staticmethod
    def _note(notes: list[tuple[int, int]], actor: int, first: int, wrong: BoolArray) -> None:
        if wrong.any():
            notes.append((actor, first + int(np.argmax(wrong))))
