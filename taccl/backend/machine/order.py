"""What is known to have happened, where, in every order of execution of a plan.

Moments are points in the lives of threads: a meeting of a block, what a lane knows when it signals, the end
of a transfer. Each knows all that the moments before it know, and some add one thing: a *tick* of a
*column*, which says how many segments of a block, transfers of a channel or turns of a host are over. So
whether one thing comes before another is one comparison in a vector clock (Mattern 1989), and clocks are
made a bounded number of columns at a time.

Knowledge has three levels. A full edge carries data: what is known to be done is also visible. A relaxed
signal, and below it a packet, only say that something was done: of the sender's data they carry what was
there when its kernel began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.model.collective import BoolArray, IntArray

#: Levels of knowledge: data; execution by signals; execution by signals and packets.
DATA, RELAXED, PACKETS = 0, 1, 2
#: Entries of one table of clocks (4 bytes each).
CLOCK_ENTRIES = 2**25
#: Bits of one pass of reachability.
REACH_BITS = 2**12

Edge = tuple[int, int]  # the earlier moment, and the level at which it is wholly known


@dataclass(eq=False)
class Order:
    """Moments, each after the moments that it knows; they are numbered in an order that respects all edges.

    Parameters
    ----------
    before : per moment its edges.
    kernel : per moment the one at which its kernel began.
    column, tick : per moment what it adds; column -1: nothing.
    num_columns : how many there are.
    """

    before: list[tuple[Edge, ...]] = field(default_factory=list)
    kernel: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    tick: list[int] = field(default_factory=list)
    num_columns: int = 0

    def new_column(self) -> int:
        """One more thing to count."""
        self.num_columns += 1
        return self.num_columns - 1

    def moment(self, kernel: int, before: Sequence[Edge], column: int = -1, tick: int = 0) -> int:
        """A new moment; `kernel` -1: a kernel begins with it."""
        number = len(self.before)
        self.before.append(tuple(before))
        self.kernel.append(number if kernel < 0 else kernel)
        self.column.append(column)
        self.tick.append(tick)
        return number

    def knows(self, level: int, moment: IntArray, column: IntArray, tick: IntArray) -> BoolArray:
        """Per row, whether a moment knows at this level that a column has reached a tick."""
        known = np.zeros(len(moment), dtype=np.bool_)
        requested = np.unique(column)
        width = max(1, CLOCK_ENTRIES // max(1, len(self.before)))
        for start in range(0, len(requested), width):
            place = np.full(self.num_columns, -1, dtype=np.int64)
            chosen = requested[start : start + width]
            place[chosen] = np.arange(len(chosen))
            rows = np.flatnonzero(place[column] >= 0)
            clock = self._clocks(level, place.tolist(), len(chosen))
            known[rows] = clock[moment[rows], place[column[rows]]] >= tick[rows]
        return known

    def _clocks(
        self, level: int, place: list[int], width: int
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        table = np.zeros((len(self.before), width), dtype=np.int32)
        maximum, kernel = np.maximum, self.kernel
        for number, edges in enumerate(self.before):
            row = table[number]
            for earlier, kind in edges:
                maximum(row, table[earlier if kind <= level else kernel[earlier]], out=row)
            column = self.column[number]
            if column >= 0 and place[column] >= 0:
                row[place[column]] = self.tick[number]
        return table

    def reaches(self, first: IntArray, second: IntArray) -> BoolArray:
        """Per row, whether a chain of edges of any level leads from one moment to another."""
        found = np.zeros(len(first), dtype=np.bool_)
        sources = np.unique(first)
        for start in range(0, len(sources), REACH_BITS):
            bit = {int(each): 1 << k for k, each in enumerate(sources[start : start + REACH_BITS])}
            rows = [row for row, each in enumerate(first.tolist()) if each in bit]
            last = max(int(second[row]) for row in rows)
            reached = [0] * (last + 1)
            for number in range(min(bit), last + 1):
                mask = bit.get(number, 0)
                for earlier, _ in self.before[number]:
                    mask |= reached[earlier]
                reached[number] = mask
            for row in rows:
                found[row] = bool(reached[int(second[row])] & bit[int(first[row])])
        return found

    def has_reached(self, moments: Sequence[int], earlier: int) -> bool:
        """Whether one of some moments comes after another, or is it; a search backwards."""
        stack, seen = list(moments), set()
        while stack:
            here = stack.pop()
            if here == earlier:
                return True
            if here > earlier and here not in seen:
                seen.add(here)
                stack.extend(each for each, _ in self.before[here])
        return False
