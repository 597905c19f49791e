"""Who touches which cells when: the record of a run, from which races are found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from taccl.backend.verify.mscclpp.acts import Act
from taccl.model.collective import BoolArray, IntArray

#: Bytes that a thread handles at a time: of plain data, of packets; 0: no thread does it.
PLAIN_WIDTH, PACKET_WIDTH, NO_THREAD = 16, 8, 0


class Who(IntEnum):
    """What kind of actor."""

    HOST = 0
    BLOCK = 1
    TRANSFER = 2


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who touches memory, once.

    Parameters
    ----------
    rank : of the host. block, act : of the others; -1 and None for a host.
    call : in which it does so, from 0; of a host, the call before which it does.
    """

    who: Who
    rank: int
    block: int
    act: Act | None
    call: int


@dataclass(frozen=True, slots=True)
class When:
    """What is known at an access, and how others know that it is done.

    Parameters
    ----------
    moment : knows all that is known then; of `each` cell one of its own, this being the first.
    column, tick : tell, in a clock, that it is done.
    segment : of threads, between two meetings of their block; nobody else has the same.
    width : bytes that a thread handles at a time.
    """

    moment: int
    column: int
    tick: int
    segment: int
    width: int = NO_THREAD
    each: bool = False


@dataclass(frozen=True, eq=False)
class Access:
    """One row per cell that is touched.

    Parameters
    ----------
    cell, writes, packets : what, whether it is written, and whether as packets.
    actor : who. call : when.
    moment, column, tick, segment, width : as `When` says.
    start : of threads, from which cell on they count.
    element : its moment is one of this thread alone.
    """

    cell: IntArray
    writes: BoolArray
    packets: BoolArray
    actor: IntArray
    call: IntArray
    moment: IntArray
    column: IntArray
    tick: IntArray
    segment: IntArray
    width: IntArray
    start: IntArray
    element: BoolArray

    def __len__(self) -> int:
        return len(self.cell)


@dataclass(eq=False)
class Record:
    """Accesses as ranges of cells, in the order in which they happened."""

    actors: list[Actor] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)

    def new_actor(self, actor: Actor) -> int:
        """The number of an actor."""
        self.actors.append(actor)
        return len(self.actors) - 1

    def add(
        self, first: int, count: int, actor: int, when: When, writes: bool = False, packets: bool = False
    ) -> None:
        """An actor touches `count` cells from `first` on."""
        row = (when.moment, when.column, when.tick, when.segment, when.width, when.each)
        self.rows.append((first, count, writes, packets, actor, self.actors[actor].call, *row))

    def columns(self) -> Access:
        """Range by range, cell by cell."""
        table = np.array(self.rows, dtype=np.int64).reshape(-1, 12)
        counts = table[:, 1]
        row = np.repeat(np.arange(len(table)), counts)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        first, _, writes, packets, actor, call, moment, column, tick, segment, width, each = table[row].T
        return Access(
            cell=first + within,
            writes=writes.astype(np.bool_),
            packets=packets.astype(np.bool_),
            actor=actor,
            call=call,
            moment=moment + within * each,
            column=column,
            tick=tick,
            segment=segment,
            width=width,
            start=first,
            element=each.astype(np.bool_),
        )
