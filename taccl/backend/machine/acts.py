"""Acts: what thread blocks do in one call, as columns, whatever kind of file says it.

A *block* does its acts one after the other. An act may wait for others, adds to *counters* or takes from
them, and moves data between *cells*. A counter is a number that only grows by `gives` and is used up by
`takes`: the end of a channel where signals arrive, the pieces in a connection, a semaphore, a barrier.

A two-sided step is one MOVE: it waits for a piece on the connection that it receives on (`takes`) and for
room on the one that it sends on (`gives`, of which a run says how many a counter holds), and what travels
lies in cells of its own, the *slots*. A dependency on a step of another block is an AWAIT before the MOVE.
A one-sided put is a MOVE or, through a port, a PUSH, and says nothing to anybody: SIGNAL and WAIT do.

What each kind says of memory, a *full* edge carrying data and a *relaxed* one execution only (see `order`):

- MEET: the threads of the block meet. What each did and learned, all know from here on.
- BARRIER: a MEET of `amount` blocks.
- SIGNAL: adds one to `gives`, with what its lane knows; through a port also with the transfers that it comes
  after. WAIT: takes one from `takes`; its lane learns what the signals since the last MEET carried. Full, or
  relaxed if either is.
- RELEASE and ACQUIRE: the same for a counter that several blocks may give to, so that an acquisition learns
  only what it has to have waited for. Full.
- AWAIT: waits until the act `awaits` is done in the same iteration; uses nothing up. Full.
- MOVE: adds up the sources of a move, cell by cell, and writes the sum to all its targets. With `takes` it
  learns, chunk by chunk, what the sender knew (full).
- PUSH: queues a move at the channel's `end`; it is done later, after what was queued before it there. With a
  signal it gives after the move. FLUSH (and a PUSH that flushes): waits for what its lane has queued there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Any

import numpy as np

from taccl.backend.machine.layout import Layout
from taccl.backend.machine.report import Finding, Layer, Location, Severity
from taccl.model.collective import BoolArray, IntArray

#: Columns of whole numbers of any width.
Ints = np.ndarray[tuple[int, ...], np.dtype[np.signedinteger[Any]]]


class Kind(IntEnum):
    """What an act does; the module's docstring says how."""

    MEET = 0
    BARRIER = 1
    SIGNAL = 2
    WAIT = 3
    RELEASE = 4
    ACQUIRE = 5
    AWAIT = 6
    FLUSH = 7
    MOVE = 8
    PUSH = 9


class Flag(IntFlag):
    """What is special about an act: a relaxed signal or wait, one of a port, a PUSH with signal or flush."""

    RELAXED = 1
    PORT = 2
    SIGNALS = 4
    FLUSHES = 8


class Role(IntFlag):
    """What an operand is: a target (else a source), packets, a caller's input."""

    TARGET = 1
    PACKETS = 2
    INPUT = 4


@dataclass(frozen=True, eq=False)
class Acts:
    """One row per act, blocks in order, and within a block in the order of its program.

    Parameters
    ----------
    first_of_block : shape (num_blocks + 1,); the acts of block b are first_of_block[b] up to [b + 1].
    rank : shape (num_blocks,); the rank of each block.
    initial : shape (num_counters,); the value of each counter before the first call.
    kind : a `Kind`.
    block : the block.
    operation : which executed operation of the file it belongs to; `Names` knows them.
    lane : within an operation of several lanes (threads that wait or signal at once), which.
    end : the end of the channel that signals, waits, pushes and flushes are on; -1: none.
    takes, gives : the counter of which it takes one, or to which it adds one, per piece; -1: none.
    awaits : of AWAIT the act; -1 there: one that nothing ever ends.
    amount : of MOVE the chunks that are moved, of BARRIER the blocks that meet; else 1.
    flags : of `Flag`.
    """

    first_of_block: IntArray
    rank: IntArray
    initial: IntArray
    kind: Ints
    block: Ints
    operation: Ints
    lane: Ints
    end: Ints
    takes: Ints
    gives: Ints
    awaits: Ints
    amount: Ints
    flags: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def num_blocks(self) -> int:
        return len(self.rank)

    @property
    def num_counters(self) -> int:
        return len(self.initial)

    def where(self, *kinds: Kind) -> IntArray:
        """The acts of some kinds, in order."""
        return np.flatnonzero(np.isin(self.kind, kinds))


@dataclass(frozen=True, eq=False)
class Moves:
    """The data that acts move: per move an amount, and operands, the sources before the targets.

    Parameters
    ----------
    first_of_act : shape (num_acts + 1,); the moves of act a are first_of_act[a] up to [a + 1].
    count : per move the cells of each operand.
    first_operand : shape (num_moves + 1,); the operands of move m are first_operand[m] up to [m + 1].
    cell : per operand its first cell. upper : the first cell in the calls that use the upper half of scratch.
    role : per operand, of `Role`.
    """

    first_of_act: Ints
    count: Ints
    first_operand: Ints
    cell: Ints
    upper: Ints
    role: Ints

    @cached_property
    def act(self) -> Ints:
        """Per move its act."""
        return np.repeat(np.arange(len(self.first_of_act) - 1, dtype=np.int32), np.diff(self.first_of_act))

    @cached_property
    def move(self) -> Ints:
        """Per operand its move."""
        return np.repeat(np.arange(len(self.count), dtype=np.int32), np.diff(self.first_operand))

    @property
    def has_packets(self) -> bool:
        """Whether any operand is packets."""
        return bool((self.role & Role.PACKETS).any())

    def is_target(self) -> BoolArray:
        """Per operand, whether it is written."""
        return np.asarray((self.role & Role.TARGET) != 0)


class Names(ABC):
    """How a kind of file speaks of acts and of what they wait for."""

    @abstractmethod
    def act(self, act: int) -> str:
        """`rank 0, thread block 1, operation 2 (put)`."""

    def act_and_line(self, act: int) -> str:
        """The same, with the line of the file where that is known."""
        return self.act(act)

    @abstractmethod
    def counter(self, counter: int) -> str:
        """What a counter is: `memory channel 3 (to rank 1)`."""

    @abstractmethod
    def wait(self, stuck: Stuck) -> str:
        """What a stuck block does: `waits for data on channel 3 from rank 0 to rank 1`; not for packets."""

    @abstractmethod
    def place(self, act: int) -> tuple[int, ...]:
        """Which operation of the file an act belongs to, the same in every turn of a loop."""

    def how_to_order(self) -> str:
        """What lets one of two acts that race come second."""
        return "let the one that has to come second wait for the other"

    @abstractmethod
    def location(self, act: int) -> Location:
        """Where an act is in the file."""

    def finding(
        self,
        act: int,
        rule: str,
        message: str,
        hint: str,
        severity: Severity = "error",
        layer: Layer = "concurrency",
        runtimes: tuple[str, ...] = (),
    ) -> Finding:
        """A finding about an act; `message` follows its name."""
        said = f"{self.act(act)}{'' if message.startswith(':') else ' '}{message}"
        finding = Finding(layer, severity, rule, said, runtimes=runtimes, hint=hint)
        return finding.at(self.location(act))


@dataclass(frozen=True, slots=True)
class Stuck:
    """A block that never goes on.

    Parameters
    ----------
    act : where it stands.
    counter : the counter that has too little, or, with `for_room`, too much that nobody has taken; -1: none.
    awaits : the act that should be done; -1: none, or none ever ends it.
    cell : the cell that lacks a packet; -1: none does.
    """

    act: int
    counter: int = -1
    for_room: bool = False
    awaits: int = -1
    cell: int = -1


@dataclass(frozen=True, eq=False)
class Machine:
    """What all blocks do in one call of one size.

    Parameters
    ----------
    acts, moves : columns. layout : the memory of all ranks. names : how the file speaks of them.
    """

    acts: Acts
    moves: Moves
    layout: Layout
    names: Names


class Writer:
    """Makes columns of acts and moves that come one by one, block by block."""

    def __init__(self) -> None:
        self._ranks: list[int] = []
        self._first_of_block: list[int] = []
        self._initial: list[int] = []
        self._acts: list[tuple[int, ...]] = []
        self._first_of_act: list[int] = []
        self._counts: list[int] = []
        self._first_operand: list[int] = []
        self._operands: list[tuple[int, int, int]] = []

    def block(self, rank: int) -> int:
        """Begin a block of a rank; its number."""
        self._ranks.append(rank)
        self._first_of_block.append(len(self._acts))
        return len(self._ranks) - 1

    def counter(self, value: int = 0) -> int:
        """A new counter with a value at first; its number."""
        self._initial.append(value)
        return len(self._initial) - 1

    def act(
        self,
        kind: Kind,
        operation: int,
        *,
        lane: int = 0,
        end: int = -1,
        takes: int = -1,
        gives: int = -1,
        awaits: int = -1,
        amount: int = 1,
        flags: int = 0,
    ) -> int:
        """The next act of the block; its number."""
        block = len(self._ranks) - 1
        self._first_of_act.append(len(self._counts))
        self._acts.append((kind, block, operation, lane, end, takes, gives, awaits, amount, flags))
        return len(self._acts) - 1

    def move(self, operands: Sequence[tuple[int, int, int]], count: int) -> None:
        """A move of the act before; operands are (cell, upper, role), the sources first."""
        self._counts.append(count)
        self._first_operand.append(len(self._operands))
        self._operands.extend(operands)

    def columns(self) -> tuple[Acts, Moves]:
        """All that was written."""
        acts = np.array(self._acts, dtype=np.int64).reshape(-1, 10).T
        operands = np.array(self._operands, dtype=np.int64).reshape(-1, 3).T
        return (
            Acts(
                np.array([*self._first_of_block, len(self._acts)], dtype=np.int64),
                np.array(self._ranks, dtype=np.int64),
                np.array(self._initial, dtype=np.int64),
                acts[0].astype(np.int8),
                *map(_narrow, acts[1:]),
            ),
            Moves(
                np.array([*self._first_of_act, len(self._counts)], dtype=np.int64),
                np.array(self._counts, dtype=np.int64),
                np.array([*self._first_operand, len(self._operands)], dtype=np.int64),
                _narrow(operands[0]),
                _narrow(operands[1]),
                operands[2].astype(np.int8),
            ),
        )


def _narrow(column: Ints) -> Ints:
    """The column in 32 bits, for which loops are compiled, or in 64 where it needs them."""
    fits = not len(column) or int(np.abs(column).max()) < 2**31
    return np.ascontiguousarray(column, dtype=np.int32 if fits else np.int64)
