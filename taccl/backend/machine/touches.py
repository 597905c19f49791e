"""Who touches which cells when: what of a run races are found from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from taccl.backend.machine.acts import Ints
from taccl.model.collective import BoolArray

#: What does it, instead of threads that handle some bytes at a time: no thread at all; all of a block, one
#: thing after the other.
NO_THREAD, WHOLE_BLOCK = 0, -1
#: Bytes that a thread handles at a time: of plain data, of packets.
PLAIN_WIDTH, PACKET_WIDTH = 16, 8


class Who(IntEnum):
    """What kind of actor."""

    HOST = 0
    BLOCK = 1
    TRANSFER = 2


@dataclass(frozen=True, eq=False)
class Touches:
    """One row per range of cells that somebody touches, in the order in which they happened.

    Parameters
    ----------
    first, count : the cells. writes, packets : whether they are written, and whether as packets.
    who : of `Who`. act : the act; of a host -1. rank : of the host. actor : one number for all that one actor
        does at once. call : in which it does so; of a host, the call before which it does.
    moment : knows all that is known then; of `each` cell one of its own, this being the first.
    column, tick : tell, in a clock, that it is done.
    segment : of threads, between two meetings of their block; nobody else has the same.
    width : bytes that a thread handles at a time, `NO_THREAD` or `WHOLE_BLOCK`.
    """

    first: Ints
    count: Ints
    writes: Ints
    packets: Ints
    who: Ints
    act: Ints
    rank: Ints
    actor: Ints
    call: Ints
    moment: Ints
    column: Ints
    tick: Ints
    segment: Ints
    width: Ints
    each: Ints

    def __len__(self) -> int:
        return len(self.first)

    def accesses(self) -> Accesses:
        """Range by range, cell by cell."""
        touch = np.repeat(np.arange(len(self), dtype=np.int32), self.count)
        before = np.cumsum(self.count) - self.count
        within = (np.arange(len(touch)) - before[touch]).astype(np.int32)
        return Accesses(self, touch, self.first[touch] + within, self.writes[touch].astype(np.bool_), within)


@dataclass(frozen=True, eq=False)
class Accesses:
    """One row per touched cell: its touch, the cell, whether it is written, which of the touch's it is."""

    touches: Touches
    touch: Ints
    cell: Ints
    writes: BoolArray
    within: Ints


@dataclass(frozen=True, slots=True)
class When:
    """What is known at a touch, and how others know that it is done, as `Touches` says."""

    moment: int
    column: int
    tick: int
    segment: int
    width: int = NO_THREAD
    each: bool = False


@dataclass(eq=False)
class TouchWriter:
    """Touches that come one by one."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    actors: int = 0

    def actor(self, who: Who, act: int, rank: int, call: int) -> tuple[int, int, int, int, int]:
        """Somebody who is going to touch memory, once."""
        self.actors += 1
        return who, act, rank, self.actors - 1, call

    def add(
        self,
        first: int,
        count: int,
        actor: tuple[int, int, int, int, int],
        when: When,
        writes: bool = False,
        packets: bool = False,
    ) -> None:
        """An actor touches `count` cells from `first` on."""
        at = (when.moment, when.column, when.tick, when.segment, when.width, when.each)
        self.rows.append((first, count, writes, packets, *actor, *at))

    def touches(self) -> Touches:
        """All that was written, as columns."""
        return Touches(*np.array(self.rows, dtype=np.int64).reshape(-1, 15).T)
