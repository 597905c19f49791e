"""Run the thread blocks against connections of a given depth, and see where everything stops.

The program is a network of sequential processes with FIFO connections and one-way flags. Such a
system is monotone: a step that can run stays able to run until it does. So if one greedy execution
ends, all do, and if one gets stuck, all get stuck at the same steps; one run decides.

Iterations cannot deadlock each other either: program order leads from an iteration to the next,
flags and matched pieces stay within one, and a full connection waits for a piece of the same
iteration or an earlier one. No edge leads back, so every cycle lies within one iteration, and as all
iterations are equivalent, the first shows it. A second one is run all the same by default.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.model.collective import IntArray
from taccl.support.jit import Loop

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

    order: IntArray
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
    counts = executed.columns.count[executed.step].clip(min=1)
    pieces = counts * 0 + 1 if chunks_per_piece is None else -(-counts // chunks_per_piece)
    never = np.zeros(len(executed), dtype=np.bool_)
    never[[index for index, _ in executed.never]] = True
    starts, awaited = executed.flat_waits
    run = _Run(
        executed,
        connections,
        *_run_blocks(
            len(executed),
            first=executed.first_of_block,
            pieces=pieces,
            starts=starts,
            awaited=awaited,
            never=never,
            receives_on=connections.receives_on,
            sends_on=connections.sends_on,
            sender=connections.sender,
            receiver=connections.receiver,
            slots=2**60 if slots is None else slots,
            iterations=iterations,
        ),
    )
    return Outcome(np.array(run.order, dtype=np.int64), run.blocked(iterations))


@dataclass(frozen=True, eq=False)
class _Run:
    """Where everything stands after a run.

    Parameters
    ----------
    order : steps as they were completed for the first time.
    at, iteration : of each block, the step that it stands before or in, and how often it has ended.
    completed : how often each step was completed.
    sent, received : pieces of each connection.
    """

    executed: ExecutedSteps
    connections: Connections
    order: Sequence[int]
    at: Sequence[int]
    iteration: Sequence[int]
    completed: Sequence[int]
    sent: Sequence[int]
    received: Sequence[int]

    def blocked(self, iterations: int) -> tuple[Blocked, ...]:
        """The blocks that have steps and have not gone through them so often."""
        has_steps = np.diff(self.executed.first_of_block) > 0
        stuck = np.flatnonzero((np.array(self.iteration) < iterations) & has_steps)
        never = {step for step, _ in self.executed.never}
        return tuple(self._why(block, never) for block in stuck.tolist())

    def _why(self, block: int, never: Set[int]) -> Blocked:
        index, connections = self.at[block], self.connections
        if index in never:
            return Blocked(block, index, "flag", None)
        for awaited in self.executed.waits_of(index):
            if self.completed[awaited] <= self.iteration[block]:
                holder = int(self.executed.block[awaited])
                return Blocked(block, index, "flag", holder, waits_for_index=awaited)
        into, out = int(connections.receives_on[index]), int(connections.sends_on[index])
        if into >= 0 and self.sent[into] == self.received[into]:
            return Blocked(block, index, "data", int(connections.sender[into]), connection=into)
        return Blocked(block, index, "slot", int(connections.receiver[out]), connection=out)


def _run_all(
    first: Sequence[int],
    pieces: Sequence[int],
    starts: Sequence[int],
    awaited: Sequence[int],
    never: Sequence[bool],
    receives_on: Sequence[int],
    sends_on: Sequence[int],
    sender: Sequence[int],
    receiver: Sequence[int],
    slots: int,
    iterations: int,
) -> tuple[list[int], list[int], list[int], list[int], list[int], list[int]]:
    """The columns of `_Run`: one block after the other, each until it ends or has to wait.

    Blocks that may be able to go on stand in a ring, each once. Those that wait for a step stand in a list of
    its own: `next_waiter[block]` comes after `block`.
    """
    blocks, steps = len(first) - 1, len(pieces)
    at = [first[block] for block in range(blocks)]
    left = [pieces[step] if step < steps else 0 for step in at]
    iteration, completed, order = [0] * blocks, [0] * steps, [0] * steps
    sent, received = [0] * len(sender), [0] * len(sender)
    first_waiter, last_waiter, next_waiter = [-1] * steps, [-1] * steps, [-1] * blocks
    ring, is_ready, waits = list(range(blocks)), [True] * blocks, [False] * blocks
    head, ready, done = 0, blocks, 0
    while ready > 0:
        block = ring[head]
        head, ready = (head + 1) % blocks, ready - 1
        is_ready[block] = False
        while iteration[block] < iterations and first[block] < first[block + 1]:
            index = at[block]
            if never[index]:
                break
            missing = _missing(index, iteration[block], starts, awaited, completed)
            if missing >= 0:
                _wait_for(missing, block, first_waiter, last_waiter, next_waiter, waits)
                break
            into, out = receives_on[index], sends_on[index]
            moved = left[block] if into < 0 else min(left[block], sent[into] - received[into])
            if out >= 0:
                moved = min(moved, slots - sent[out] + received[out])
            if moved <= 0:
                break
            if into >= 0:
                received[into] += moved
                ready += _wake(sender[into], head + ready, ring, is_ready)
            if out >= 0:
                sent[out] += moved
                ready += _wake(receiver[out], head + ready, ring, is_ready)
            left[block] -= moved
            if left[block] > 0:
                continue
            if completed[index] == 0:
                order[done] = index
                done += 1
            completed[index] += 1
            iteration[block] += index + 1 == first[block + 1]
            at[block] = index + 1 if index + 1 < first[block + 1] else first[block]
            left[block] = pieces[at[block]]
            if first_waiter[index] >= 0:
                ready += _wake_list(first_waiter[index], head + ready, ring, is_ready, next_waiter, waits)
                first_waiter[index] = -1
    return order[:done], at, iteration, completed, sent, received


def _missing(
    index: int, iteration: int, starts: Sequence[int], awaited: Sequence[int], completed: Sequence[int]
) -> int:
    """The first step that this step waits for and that this iteration has not completed, or -1."""
    for wait in range(starts[index], starts[index + 1]):
        if completed[awaited[wait]] <= iteration:
            return awaited[wait]
    return -1


def _wait_for(
    step: int,
    block: int,
    first_waiter: list[int],
    last_waiter: list[int],
    next_waiter: list[int],
    waits: list[bool],
) -> None:
    """Put the block at the end of the list of those that wait for the step, unless it waits already."""
    if waits[block]:
        return
    waits[block], next_waiter[block] = True, -1
    if first_waiter[step] < 0:
        first_waiter[step] = block
    else:
        next_waiter[last_waiter[step]] = block
    last_waiter[step] = block


def _wake(block: int, end: int, ring: list[int], is_ready: list[bool]) -> int:
    """Put the block at the end of the ring unless it is in there; 1 if it came in."""
    if is_ready[block]:
        return 0
    is_ready[block] = True
    ring[end % len(ring)] = block
    return 1


def _wake_list(
    waiter: int, end: int, ring: list[int], is_ready: list[bool], next_waiter: list[int], waits: list[bool]
) -> int:
    """Put the waiters of a list, from this one on, at the end of the ring; how many came in."""
    woken = 0
    while waiter >= 0:
        waits[waiter] = False
        woken += _wake(waiter, end + woken, ring, is_ready)
        waiter = next_waiter[waiter]
    return woken


_run_blocks = Loop(_run_all, (_missing, _wait_for, _wake, _wake_list))
