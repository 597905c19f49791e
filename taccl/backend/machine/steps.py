"""The order of a run whose blocks do one step after the other, chunk by chunk.

Happens-before is the transitive closure of program order within a block, a step that is done before the
steps that wait for it, and a send before the receive that gets its data; it leads across ranks. That a full
connection holds its sender up is not used: it depends on the runtime and on the size.

A step of several chunks is no single act. A fused step (it receives and sends) passes its first chunk on
before it has the second, so what returns to a rank through fused steps alone may be there while the first
send still reads. So a step is two moments: *begun* knows what is done before it starts on any chunk, which is
all that its chunks tell to those who get them one by one, and *done* knows that it is. Along a chain of fused
steps, chunk k at one step comes before chunk k at the next; where connections hand on chunks in order, all
chunks up to k do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.acts import Acts, Kind, Machine, Role
from taccl.backend.machine.order import DATA, LOCAL, Order
from taccl.backend.machine.races import Pairs, unordered
from taccl.backend.machine.touches import WHOLE_BLOCK, Touches, Who
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule.numbering import by_value


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a run, in the order in which they happened.

    Parameters
    ----------
    act : per step. index : per act its step, -1: none.
    source : per step the step whose data it receives, -1: none.
    in_order : whether connections hand on chunks in order.
    """

    acts: Acts
    act: IntArray
    index: IntArray
    source: IntArray
    in_order: bool

    @staticmethod
    def of(acts: Acts, sequence: IntArray, in_order: bool) -> Steps:
        """The steps of a run: its moves, the k-th receive of a counter matched with the k-th send."""
        act = sequence[acts.kind[sequence] == Kind.MOVE]
        index = np.full(len(acts), -1, dtype=np.int64)
        index[act] = np.arange(len(act))
        moves = acts.where(Kind.MOVE)
        taking, giving = moves[acts.takes[moves] >= 0], moves[acts.gives[moves] >= 0]
        taking = taking[by_value(acts.takes[taking])]
        giving = giving[by_value(acts.gives[giving])]
        source = np.full(len(act), -1, dtype=np.int64)
        source[index[taking]] = index[giving]
        return Steps(acts, act, index, source, in_order)

    def __len__(self) -> int:
        return len(self.act)

    def order(self, early_sends: bool = False) -> Order:
        """Two moments a step, after one that knows nothing.

        Parameters
        ----------
        early_sends : that a plain send is done, for those who wait for it, does not say that it has read its
            source.
        """
        acts, number = self.acts, np.arange(len(self))
        has_source = self.source >= 0
        waiter, awaited = self._waits()
        waits = np.bincount(waiter, minlength=len(self))
        counts = np.empty(1 + 2 * len(self), dtype=np.int32)
        counts[0], counts[1::2], counts[2::2] = 0, 1 + waits + has_source, 1 + has_source
        first_edge = np.append(0, np.cumsum(counts)).astype(np.int32)
        begun, done = first_edge[1:-1:2], first_edge[2::2][: len(self)]
        earlier = np.zeros(first_edge[-1], dtype=np.int32)
        level = np.full(first_edge[-1], LOCAL, dtype=np.int8)
        earlier[begun] = self._before()
        in_row = by_value(waiter)
        nth = np.arange(len(waiter)) - (np.cumsum(waits) - waits)[waiter[in_row]]
        knows_all: BoolArray = np.ones(len(awaited), dtype=np.bool_)
        if early_sends:
            knows_all = acts.takes[self.act[awaited]] >= 0
        earlier[begun[waiter[in_row]] + 1 + nth] = (1 + 2 * awaited + knows_all)[in_row]
        earlier[done] = 1 + 2 * number
        receives = np.flatnonzero(has_source)
        last = done[receives] - 1
        earlier[last], level[last] = 1 + 2 * self.source[receives], DATA
        earlier[done[receives] + 1], level[done[receives] + 1] = 2 + 2 * self.source[receives], DATA
        column, tick = np.full(len(counts), -1, dtype=np.int32), np.zeros(len(counts), dtype=np.int32)
        column[2::2], tick[2::2] = acts.block[self.act], self._ticks()
        local = np.arange(acts.num_blocks) - np.searchsorted(acts.rank, acts.rank)
        kernel = np.zeros(len(counts), dtype=np.int32)
        return Order(first_edge, earlier, level, kernel, column, tick, local)

    def _waits(self) -> tuple[IntArray, IntArray]:
        """The steps that wait for others, and the others, each wait once; who waits is the next move."""
        rows = self.acts.where(Kind.AWAIT)
        moves = self.acts.where(Kind.MOVE)
        waiter = moves[np.searchsorted(moves, rows)]
        return self.index[waiter], self.index[self.acts.awaits[rows]]

    def _before(self) -> IntArray:
        """Per step the moment at which the step before it in its block is done, or the first of all."""
        moves = self.acts.where(Kind.MOVE)
        before = np.zeros(len(self), dtype=np.int64)
        same = self.acts.block[moves[1:]] == self.acts.block[moves[:-1]]
        before[self.index[moves[1:][same]]] = 2 + 2 * self.index[moves[:-1][same]]
        return before

    def _ticks(self) -> IntArray:
        """Per step its position in its block, from 1."""
        return 1 + self.act - self.acts.first_of_block[self.acts.block[self.act]]

    def touches(self, machine: Machine) -> Touches:
        """What the steps touch; slots are nobody else's, and a copy of a cell onto itself only reads it."""
        moves = machine.moves
        move = moves.first_of_act[self.act]
        operands = np.diff(moves.first_operand)[move]
        step = np.repeat(np.arange(len(self), dtype=np.int32), operands)
        row = np.arange(len(step)) - (np.cumsum(operands) - operands)[step] + moves.first_operand[move][step]
        first, writes = moves.cell[row], (moves.role[row] & Role.TARGET) != 0
        alone = writes & (operands[step] == 2) & (first == np.append(-1, first[:-1]))
        kept = np.flatnonzero((first < machine.layout.num_cells) & ~alone)
        first, writes, step = first[kept], writes[kept], step[kept]
        act = self.act[step]
        nothing = np.zeros(len(step), dtype=np.int8)
        block = self.acts.block[act]
        return Touches(
            first=first,
            count=moves.count[move[step]],
            writes=writes,
            packets=nothing,
            who=nothing + int(Who.BLOCK),
            act=act,
            rank=self.acts.rank[block],
            actor=step,
            call=nothing,
            moment=1 + 2 * step,
            column=block,
            tick=self._ticks()[step],
            segment=step,
            width=nothing + WHOLE_BLOCK,
            each=nothing,
        )

    def is_upstream(self, first: int, second: int) -> bool:
        """Whether the data that an act receives were sent by another, or went through it as a fused step."""
        here = int(self.source[self.index[second]])
        while here >= 0:
            if self.act[here] == first:
                return True
            here = int(self.source[here])
        return False

    def unordered(self, order: Order, pairs: Pairs) -> Pairs:
        """Pairs of accesses of which nothing says that the first comes before the second.

        What happens inside of ranks settles most, and the chunks that are handed on the rest.
        """
        for level in (LOCAL, DATA):
            pairs = pairs.where(unordered(order, pairs, level))
        act, within = pairs.accesses.touches.act, pairs.accesses.within
        first, second = within[pairs.first], within[pairs.second]
        handed_on = first <= second if self.in_order else first == second
        for row in np.flatnonzero(handed_on).tolist():
            u, v = (int(act[touch[row]]) for touch in pairs.touches)
            handed_on[row] = self.is_upstream(u, v)
        return pairs.where(~handed_on)
