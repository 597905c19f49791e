"""Run the thread blocks against connections of a given depth, and see where everything stops.

The program is a network of sequential processes with FIFO connections and one-way flags. Such a
system is monotone: a step that can run stays able to run until it does. So if one greedy execution
ends, all do, and if one gets stuck, all get stuck at the same steps; one run decides.

Iterations cannot deadlock each other either: program order leads from an iteration to the next,
flags and matched pieces stay within one, and a full connection waits for a piece of the same
iteration or an earlier one. No edge leads back, so every cycle lies within one iteration, and as all
iterations are alike, the first shows it. A second one is run all the same by default.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from taccl.backend.verify.connections import Connections
from taccl.backend.verify.executed_steps import ExecutedSteps

Reason = Literal["flag", "data", "slot"]


@dataclass(frozen=True, slots=True)
class Blocked:
    """A block that cannot go on.

    Parameters
    ----------
    block, index : the block row and the executed step that it stands before or in.
    reason : it waits for a flag, for data from its connection, or for a free slot in one.
    waits_for : the block row that would have to act; None if none ever can.
    waits_for_index : with `flag`, the step that would raise it; else -1.
    connection : with `data` and `slot`, the connection; else -1.
    """

    block: int
    index: int
    reason: Reason
    waits_for: int | None
    waits_for_index: int = -1
    connection: int = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """`order`: steps of the first iteration as they were completed. `blocked`: empty if all ended."""

    order: tuple[int, ...]
    blocked: tuple[Blocked, ...]

    @property
    def ends(self) -> bool:
        return not self.blocked


def execute(
    executed: ExecutedSteps,
    connections: Connections,
    slots: int | None = None,
    chunks_per_piece: int | None = None,
    iterations: int = 1,
) -> Outcome:
    """Run every block as far as it goes.

    Parameters
    ----------
    slots : pieces that a connection holds before its sender waits; None for no bound.
    chunks_per_piece : a step of `count` chunks moves in pieces of this many; None: in one.
    iterations : times that every block runs through its steps.

    A fused step takes a piece in and passes it on in one act: it needs the data and the free slot at
    the same time. Time and memory are linear in the pieces moved (waits are woken, never polled).
    """
    run = _Run(executed, connections, slots, chunks_per_piece, iterations)
    run.all_blocks()
    return Outcome(tuple(run.order), run.blocked())


class _Run:
    def __init__(
        self,
        executed: ExecutedSteps,
        connections: Connections,
        slots: int | None,
        chunks_per_piece: int | None,
        iterations: int,
    ) -> None:
        self.executed, self.connections = executed, connections
        self.iterations = iterations
        self.slots = 2**60 if slots is None else slots
        counts = executed.columns.count[executed.step].clip(min=1)
        pieces = counts * 0 + 1 if chunks_per_piece is None else -(-counts // chunks_per_piece)
        self.pieces: list[int] = pieces.tolist()
        self.first: list[int] = executed.first_of_block.tolist()
        self.receives_on: list[int] = connections.receives_on.tolist()
        self.sends_on: list[int] = connections.sends_on.tolist()
        self.sender: list[int] = connections.sender.tolist()
        self.receiver: list[int] = connections.receiver.tolist()
        self.waits = executed.waits
        self.never = {index for index, _ in executed.never}
        num_blocks = len(self.first) - 1
        self.at = self.first[:-1]
        self.iteration = [0] * num_blocks
        self.left = [self.pieces[at] if at < len(self.pieces) else 0 for at in self.at]
        self.sent = [0] * len(self.sender)
        self.received = [0] * len(self.sender)
        self.completed = [0] * len(executed)
        self.flag_waiters: dict[int, list[int]] = {}
        self.order: list[int] = []

    def all_blocks(self) -> None:
        ready = deque(range(len(self.at)))
        is_ready = [True] * len(self.at)
        while ready:
            block = ready.popleft()
            is_ready[block] = False
            for woken in self._advance(block):
                if not is_ready[woken]:
                    is_ready[woken] = True
                    ready.append(woken)

    def _advance(self, block: int) -> list[int]:
        """Run one block until it blocks or ends; the blocks that this may have freed."""
        woken: list[int] = []
        first, end = self.first[block], self.first[block + 1]
        if first == end:
            return woken
        receives_on, sends_on = self.receives_on, self.sends_on
        sent, received = self.sent, self.received
        while self.iteration[block] < self.iterations:
            index = self.at[block]
            if self._waits_for_flag(block, index):
                break
            moved = self.left[block]
            into, out = receives_on[index], sends_on[index]
            if into >= 0 and sent[into] - received[into] < moved:
                moved = sent[into] - received[into]
            if out >= 0 and self.slots - sent[out] + received[out] < moved:
                moved = self.slots - sent[out] + received[out]
            if moved <= 0:
                break
            if into >= 0:
                received[into] += moved
                woken.append(self.sender[into])
            if out >= 0:
                sent[out] += moved
                woken.append(self.receiver[out])
            self.left[block] -= moved
            if self.left[block] == 0:
                self._complete(block, index, first, end)
                if index in self.flag_waiters:
                    woken.extend(self.flag_waiters.pop(index))
        return woken

    def _waits_for_flag(self, block: int, index: int) -> bool:
        if index in self.never:
            return True
        for awaited in self.waits[index]:
            if self.completed[awaited] <= self.iteration[block]:
                self.flag_waiters.setdefault(awaited, []).append(block)
                return True
        return False

    def _complete(self, block: int, index: int, start: int, end: int) -> None:
        if self.completed[index] == 0:
            self.order.append(index)
        self.completed[index] += 1
        following = index + 1
        if following == end:
            following = start
            self.iteration[block] += 1
        self.at[block] = following
        self.left[block] = self.pieces[following]

    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(
            self._why(block)
            for block, iteration in enumerate(self.iteration)
            if iteration < self.iterations and self.first[block] < self.first[block + 1]
        )

    def _why(self, block: int) -> Blocked:
        index = self.at[block]
        if index in self.never:
            return Blocked(block, index, "flag", None)
        for awaited in self.executed.waits[index]:
            if self.completed[awaited] <= self.iteration[block]:
                holder = int(self.executed.block[awaited])
                return Blocked(block, index, "flag", holder, waits_for_index=awaited)
        into, out = self.receives_on[index], self.sends_on[index]
        if into >= 0 and self.sent[into] == self.received[into]:
            return Blocked(block, index, "data", self.sender[into], connection=into)
        return Blocked(block, index, "slot", self.receiver[out], connection=out)
