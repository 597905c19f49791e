"""What is known to have happened, where, in every order of execution.

Moments are points in the lives of threads: a meeting of a block, what a lane knows when it signals, the end
of a transfer, a step begun or done. Each knows all that the moments before it know, and some add one thing:
a *tick* of a *column*, which says how many segments of a block, transfers of a channel, steps or turns of a
host are over. So whether one thing comes before another is one comparison in a vector clock (Mattern 1989),
and clocks are made a bounded number of columns at a time.

Knowledge has levels. A full edge carries data: what is known to be done is also visible. A relaxed signal,
and below it a packet, only say that something was done: of the sender's data they carry what was there when
its kernel began. Edges inside of a rank are a level of their own, at which no knowledge leaves a rank: there
the k-th columns of all ranks share one, and one table settles most questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.backend.machine.acts import Ints
from taccl.backend.machine.tuning import CLOCK_ENTRIES, REACH_BITS
from taccl.model.collective import BoolArray, IntArray
from taccl.support.jit import Loop, runs_compiled

#: Levels of knowledge: data inside of a rank; data; execution by signals; execution by signals and packets.
LOCAL, DATA, RELAXED, PACKETS = -1, 0, 1, 2

Edge = tuple[int, int]  # the earlier moment, and the level at which it is wholly known
Clocks = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


@dataclass(frozen=True, eq=False)
class Order:
    """Moments, each after the moments that it knows; they are numbered in an order that respects all edges.

    Parameters
    ----------
    first_edge : shape (num_moments + 1,); the edges into moment m are first_edge[m] up to [m + 1].
    earlier, level : per edge where it comes from, and the level at which that is wholly known.
    kernel : per moment the one at which its kernel began; below an edge's level that alone is known.
    column, tick : per moment what it adds; column -1: nothing.
    local : per column its number among those of its rank.
    """

    first_edge: Ints
    earlier: Ints
    level: Ints
    kernel: Ints
    column: Ints
    tick: Ints
    local: IntArray

    @property
    def num_moments(self) -> int:
        return len(self.kernel)

    def knows(self, level: int, moment: Ints, column: Ints, tick: Ints) -> BoolArray:
        """Per row, whether a moment knows at this level that a column has reached a tick."""
        known = np.zeros(len(moment), dtype=np.bool_)
        if not len(moment):
            return known
        if level == LOCAL:
            clock = self._clocks(level, self.local, int(self.local.max()) + 1)
            return np.asarray(clock[moment, self.local[column]] >= tick)
        requested = np.unique(column)
        width = max(1, CLOCK_ENTRIES // self.num_moments)
        for start in range(0, len(requested), width):
            index = np.full(len(self.local), -1, dtype=np.int64)
            chosen = requested[start : start + width]
            index[chosen] = np.arange(len(chosen))
            rows = np.flatnonzero(index[column] >= 0)
            clock = self._clocks(level, index, len(chosen))
            known[rows] = clock[moment[rows], index[column[rows]]] >= tick[rows]
        return known

    def _clocks(self, level: int, index: IntArray, width: int) -> Clocks:
        """Per moment what it knows of the columns that have an index."""
        table = np.zeros((self.num_moments, width), dtype=np.int32)
        adds = np.append(index, -1)[self.column]  # -1: the last, which is none
        source = np.where(self.level <= level, self.earlier, self.kernel[self.earlier])
        if runs_compiled(self.num_moments):
            columns = {"first_edge": self.first_edge, "source": source, "adds": adds, "tick": self.tick}
            _fill(self.num_moments, **columns, table=table)
        else:
            self._fill_rows(table, source.tolist(), adds.tolist())
        return table

    def _fill_rows(self, table: Clocks, source: list[int], adds: list[int]) -> None:
        """Fill the table, moment by moment and a row at a time, which needs no compiler."""
        maximum, tick, starts = np.maximum, self.tick.tolist(), self.first_edge.tolist()
        for moment, row in enumerate(table):
            for before in source[starts[moment] : starts[moment + 1]]:
                maximum(row, table[before], out=row)
            if adds[moment] >= 0:
                row[adds[moment]] = tick[moment]

    def reaches(self, first: IntArray, second: IntArray) -> BoolArray:
        """Per row, whether a chain of edges of any level leads from one moment to another."""
        found = np.zeros(len(first), dtype=np.bool_)
        sources = np.unique(first)
        starts, earlier = (self.first_edge.tolist(), self.earlier.tolist()) if len(first) else ([], [])
        for start in range(0, len(sources), REACH_BITS):
            bit = {int(source): 1 << k for k, source in enumerate(sources[start : start + REACH_BITS])}
            rows = [row for row, source in enumerate(first.tolist()) if source in bit]
            last = max(int(second[row]) for row in rows)
            reached = [0] * (last + 1)
            for moment in range(min(bit), last + 1):
                mask = bit.get(moment, 0)
                for edge in range(starts[moment], starts[moment + 1]):
                    mask |= reached[earlier[edge]]
                reached[moment] = mask
            for row in rows:
                found[row] = bool(reached[int(second[row])] & bit[int(first[row])])
        return found


def _fill_clocks(
    first_edge: Sequence[int], source: Sequence[int], adds: Sequence[int], tick: Sequence[int], table: Clocks
) -> None:
    """Fill the table, moment by moment."""
    columns = range(table.shape[1])
    for moment in range(len(adds)):
        for edge in range(first_edge[moment], first_edge[moment + 1]):
            for k in columns:
                table[moment, k] = max(table[moment, k], table[source[edge], k])
        if adds[moment] >= 0:
            table[moment, adds[moment]] = tick[moment]


_fill = Loop(_fill_clocks)


@dataclass(eq=False)
class OrderWriter:
    """Moments that come one by one."""

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

    def has_reached(self, moments: Sequence[int], earlier: int) -> bool:
        """Whether one of some moments comes after another, or is it; a search backwards."""
        stack, seen = list(moments), set()
        while stack:
            here = stack.pop()
            if here == earlier:
                return True
            if here > earlier and here not in seen:
                seen.add(here)
                stack.extend(moment for moment, _ in self.before[here])
        return False

    def order(self) -> Order:
        """All that was written, as columns."""
        edges = np.array([edge for edges in self.before for edge in edges], dtype=np.int32).reshape(-1, 2)
        counts = np.fromiter(map(len, self.before), dtype=np.int64, count=len(self.before))
        return Order(
            first_edge=np.append(0, np.cumsum(counts)).astype(np.int32),
            earlier=np.ascontiguousarray(edges[:, 0]),
            level=edges[:, 1].astype(np.int8),
            kernel=np.array(self.kernel, dtype=np.int32),
            column=np.array(self.column, dtype=np.int32),
            tick=np.array(self.tick, dtype=np.int32),
            local=np.arange(self.num_columns),
        )
