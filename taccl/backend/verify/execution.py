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

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.backend.verify.connections import Connections
from taccl.backend.verify.executed_steps import ExecutedSteps
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
    iteration, next_waiter = [0] * blocks, [-1] * blocks
    left = [pieces[step] if step < steps else 0 for step in at]
    sent, received = [0] * len(sender), [0] * len(sender)
    completed, first_waiter, last_waiter = [0] * steps, [-1] * steps, [-1] * steps
    order = [0] * steps
    done = 0
    ring, is_ready, waits = list(range(blocks)), [True] * blocks, [False] * blocks
    head, ready = 0, blocks
    while ready > 0:
        block = ring[head]
        head, ready = (head + 1) % blocks, ready - 1
        is_ready[block] = False
        while iteration[block] < iterations and first[block] < first[block + 1]:
            index = at[block]
            missing = -1
            for place in range(starts[index], starts[index + 1]):
                if missing < 0 and completed[awaited[place]] <= iteration[block]:
                    missing = awaited[place]
            if never[index]:
                break
            if missing >= 0:
                if not waits[block]:
                    waits[block], next_waiter[block] = True, -1
                    if first_waiter[missing] < 0:
                        first_waiter[missing] = block
                    else:
                        next_waiter[last_waiter[missing]] = block
                    last_waiter[missing] = block
                break
            moved = left[block]
            into, out = receives_on[index], sends_on[index]
            if into >= 0:
                moved = min(moved, sent[into] - received[into])
            if out >= 0:
                moved = min(moved, slots - sent[out] + received[out])
            if moved <= 0:
                break
            woken_by_taking, woken_by_giving, waiter = -1, -1, -1
            if into >= 0:
                received[into] += moved
                woken_by_taking = sender[into]
            if out >= 0:
                sent[out] += moved
                woken_by_giving = receiver[out]
            left[block] -= moved
            if left[block] == 0:
                if completed[index] == 0:
                    order[done] = index
                    done += 1
                completed[index] += 1
                following = index + 1
                if following == first[block + 1]:
                    following = first[block]
                    iteration[block] += 1
                at[block] = following
                left[block] = pieces[following]
                waiter, first_waiter[index] = first_waiter[index], -1
            for woken in (woken_by_taking, woken_by_giving):
                if woken >= 0 and not is_ready[woken]:
                    is_ready[woken] = True
                    ring[(head + ready) % blocks] = woken
                    ready += 1
            while waiter >= 0:
                waits[waiter] = False
                if not is_ready[waiter]:
                    is_ready[waiter] = True
                    ring[(head + ready) % blocks] = waiter
                    ready += 1
                waiter = next_waiter[waiter]
    return order[:done], at, iteration, completed, sent, received


_run_blocks = Loop(_run_all)
