"""The interpreter of one thread block, as a generator that stops wherever it may have to wait.

It holds the meaning of every kind of step once, for all routes of running it. Whoever drives it looks
whether a wait is over, and goes on with the block only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from taccl.backend.execute.call import Call
from taccl.backend.execute.memory import Array, Memory
from taccl.backend.execute.plan import BlockWork, ExecutedStep, Workload
from taccl.backend.program import Op
from taccl.errors import VerificationError

#: Numbers that a thread block publishes in one iteration are below this.
_NUMBERS = 2**24

_WRITES = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND}
_ADDS_RECEIVED = frozenset({Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND})


def mark(iteration: int, number: int) -> int:
    """What a flag holds: numbers of a later iteration are higher than all of an earlier one."""
    return iteration * _NUMBERS + min(max(number, -1), _NUMBERS - 1)


WaitKind = Literal["flag", "data", "room"]


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread block waits for.

    `flag`: that thread block `index` has published `mark` or more (index -1: never). `data`: that
    connection `index` holds a piece. `room`: that it has a free slot.
    """

    kind: WaitKind
    index: int
    mark: int = 0


class Exchange(Protocol):
    """Connections and flags, wherever they are kept."""

    def is_over(self, wait: Wait) -> bool:
        """Whether the block may go on; once it may, it stays so until the block acts."""
        ...

    def take(self, connection: int) -> Array:
        """The oldest piece of a connection that holds one."""
        ...

    def put(self, connection: int, piece: Array) -> None:
        """Add a piece, which nobody changes afterwards, to a connection that has room."""
        ...

    def publish(self, block: int, value: int) -> None:
        """Set the flag of a thread block."""
        ...


class RunningBlock:
    """One thread block being run.

    `step`, `iteration` say where it stands; `step` is the number of steps once it has ended.
    `pieces` counts those that it has sent.
    """

    def __init__(self, plan: BlockWork, call: Call, memory: Memory, exchange: Exchange) -> None:
        self.plan, self.call, self.memory, self.exchange = plan, call, memory, exchange
        self.step = self.iteration = self.pieces = 0
        self.waits_for: Wait | None = None
        self.ended = False

    def run(self) -> Iterator[Wait | None]:
        """Yield each wait, to be resumed when it is over, and None where others may come first.

        Raises
        ------
        VerificationError : a piece arrives that is not of the length that its receiver expects.
        """
        steps = self.plan.steps
        for iteration in range(self.call.iterations):
            self.iteration = iteration
            begin = iteration * self.call.piece
            size = min(self.call.piece, self.call.chunk - begin)
            for number, step in enumerate(steps):
                self.step = number
                for block, awaited in step.waits:
                    yield Wait("flag", block, mark(iteration, awaited))
                for first in range(0, step.count, self.call.chunks_per_piece):
                    chunks = min(self.call.chunks_per_piece, step.count - first)
                    yield from self._move(step, first * self.call.chunk + begin, size * chunks)
                if step.publishes:
                    self.exchange.publish(self.plan.index, mark(iteration, step.number))
        self.step = len(steps)
        self.ended = True

    def _move(self, step: ExecutedStep, begin: int, size: int) -> Iterator[Wait | None]:
        """One piece of a step: `size` elements from element `begin` of its chunks on.

        Reading the operand of a reduction and writing its result are two acts: others may come between.
        """
        op, combine = step.op, self.call.combine
        if op.receives:
            yield Wait("data", self.plan.incoming)
        if op.sends:
            yield Wait("room", self.plan.outgoing)
        if op.receives:
            content = self._received(size)
        else:
            yield None
            content = self._source(step, begin, size)
        if op in _ADDS_RECEIVED:
            content = combine(content, self._source(step, begin, size))
            yield None
        elif op is Op.REDUCE:
            content = combine(self._target(step, begin, size), content)
            for number in range(1, len(step.src_offsets)):
                content = combine(content, self._source(step, begin, size, number))
            yield None
        if op in _WRITES:
            self._target(step, begin, size)[:] = content
        if op.sends:
            self.pieces += 1
            self.exchange.put(self.plan.outgoing, content)

    def _source(self, step: ExecutedStep, begin: int, size: int, number: int = 0) -> Array:
        offset = step.src_offsets[number] * self.call.chunk + begin
        source: Array = self.memory.view(step.src, offset, size).copy()
        return source

    def _target(self, step: ExecutedStep, begin: int, size: int) -> Array:
        return self.memory.view(step.dst, step.dst_offset * self.call.chunk + begin, size)

    def _received(self, size: int) -> Array:
        content = self.exchange.take(self.plan.incoming)
        if len(content) != size:
            raise VerificationError(
                f"{self.name()} receives a piece of {len(content)} elements where it expects {size}",
                hint="the two ends of a connection must have equal cnt, step by step",
            )
        return content

    def name(self) -> str:
        return self.plan.name(self.step)


def describe_wait(name: str, wait: Wait, plan: Workload, call: Call, iteration: int) -> str:
    """What a blocked thread block waits for, in a sentence."""
    during = f" (iteration {iteration + 1} of {call.iterations})" if call.iterations > 1 else ""
    if wait.kind == "flag":
        if wait.index < 0:
            return f"{name} waits for a thread block that its rank does not have"
        other = plan.blocks[wait.index]
        number = wait.mark - mark(iteration, 0)
        return f"{name}{during} waits for step {number} of thread block {other.id} to be done and to tell"
    where = plan.connection_name(wait.index)
    if wait.kind == "data":
        return f"{name}{during} waits for data on {where}"
    return f"{name}{during} waits for room on {where}, which holds {call.slots}"


class LocalExchange:
    """Connections and flags in the memory of one process, for one thread at a time."""

    def __init__(self, plan: Workload, slots: int) -> None:
        self.slots = slots
        self.held: list[list[Array]] = [[] for _ in plan.connections]
        self.flags = [-1] * len(plan.blocks)

    def is_over(self, wait: Wait) -> bool:
        if wait.kind == "flag":
            return wait.index >= 0 and self.flags[wait.index] >= wait.mark
        held = len(self.held[wait.index])
        return held > 0 if wait.kind == "data" else held < self.slots

    def take(self, connection: int) -> Array:
        return self.held[connection].pop(0)

    def put(self, connection: int, piece: Array) -> None:
        self.held[connection].append(piece)

    def publish(self, block: int, value: int) -> None:
        self.flags[block] = value

    def left_over(self) -> list[tuple[int, int]]:
        """Connections that still hold pieces, and how many."""
        return [(connection, len(held)) for connection, held in enumerate(self.held) if held]
