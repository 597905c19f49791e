"""The interpreter of one thread block, as a generator that stops wherever it may have to wait.

It holds the meaning of every kind of step once, however it is run. Whoever drives it looks
whether a wait is over, and goes on with the block only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from taccl.backend.execute.agents import Wait
from taccl.backend.execute.call import Call
from taccl.backend.execute.reference import Array
from taccl.backend.execute.two_sided.memory import Memory
from taccl.backend.execute.two_sided.workload import BlockWork, ExecutedStep, Workload
from taccl.backend.program import Op
from taccl.errors import VerificationError

#: Numbers that a thread block publishes in one iteration are below this.
_NUMBERS = 2**24

_WRITES = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND}
_ADDS_RECEIVED = frozenset({Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND})


def mark(iteration: int, number: int) -> int:
    """What a flag holds: numbers of a later iteration are higher than all of an earlier one."""
    return iteration * _NUMBERS + min(max(number, -1), _NUMBERS - 1)


class Queues(Protocol):
    """Connections, and the flags of thread blocks, wherever they are kept."""

    def holds_piece(self, connection: int) -> bool:
        """Whether there is a piece to take; once there is, it stays so until the receiver takes it."""
        ...

    def has_room(self, connection: int) -> bool:
        """Whether a slot is free; once one is, it stays so until the sender puts a piece in."""
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

    def published(self, block: int) -> int:
        """The flag of a thread block of this rank."""
        ...


class RunningBlock:
    """One thread block being run.

    `step`, `iteration` say where it stands; `step` is the number of steps once it has ended.
    `sent` counts pieces.
    """

    def __init__(
        self, workload: Workload, work: BlockWork, call: Call, memory: Memory, queues: Queues
    ) -> None:
        self.workload, self.work, self.call, self.memory, self.queues = workload, work, call, memory, queues
        self.step = self.iteration = self.sent = 0
        self.waits_for: Wait | None = None
        self.ended = False

    @property
    def agents(self) -> tuple[RunningBlock]:
        """A thread block does all by itself."""
        return (self,)

    def stuck(self) -> str | None:
        """Where it stands and what it waits for."""
        if self.ended:
            return None
        if self.waits_for is None or self.waits_for.says is None:
            return f"{self.name()} has not ended"
        return f"{self.name()}{self._during()} {self.waits_for.says()}"

    def name(self) -> str:
        """`rank 3, thread block 2, step 5 (rrc)`."""
        return self.work.name(self.step)

    def _during(self) -> str:
        if self.call.iterations == 1:
            return ""
        return f" (iteration {self.iteration + 1} of {self.call.iterations})"

    def run(self) -> Iterator[Wait | None]:
        """Yield each wait, to be resumed when it is over, and None where others may come first.

        Raises
        ------
        VerificationError : a piece arrives that is not of the length that its receiver expects.
        """
        steps = self.work.steps
        for iteration in range(self.call.iterations):
            self.iteration = iteration
            begin = iteration * self.call.piece
            size = min(self.call.piece, self.call.chunk - begin)
            for number, step in enumerate(steps):
                self.step = number
                for block, awaited in step.waits:
                    yield self._flag(block, awaited)
                for first in range(0, step.count, self.call.chunks_per_piece):
                    chunks = min(self.call.chunks_per_piece, step.count - first)
                    yield from self._move(step, first * self.call.chunk + begin, size * chunks)
                if step.publishes:
                    self.queues.publish(self.work.index, mark(iteration, step.number))
        self.step = len(steps)
        self.ended = True

    def _move(self, step: ExecutedStep, begin: int, size: int) -> Iterator[Wait | None]:
        """One piece of a step: `size` elements from element `begin` of its chunks on.

        Reading the operand of a reduction and writing its result are two acts: others may come between.
        """
        op, combine = step.op, self.call.combine
        if op.receives:
            yield self._data()
        if op.sends:
            yield self._room()
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
            self.sent += 1
            self.queues.put(self.work.outgoing, content)

    def _source(self, step: ExecutedStep, begin: int, size: int, number: int = 0) -> Array:
        offset = step.src_offsets[number] * self.call.chunk + begin
        source: Array = self.memory.view(step.src, offset, size).copy()
        return source

    def _target(self, step: ExecutedStep, begin: int, size: int) -> Array:
        return self.memory.view(step.dst, step.dst_offset * self.call.chunk + begin, size)

    def _received(self, size: int) -> Array:
        content = self.queues.take(self.work.incoming)
        if len(content) != size:
            raise VerificationError(
                f"{self.name()} receives a piece of {len(content)} elements where it expects {size}",
                hint="the two ends of a connection must have equal cnt, step by step",
            )
        return content

    def _flag(self, block: int, awaited: int) -> Wait:
        """For a thread block of this rank to have published a number, or more."""
        if block < 0:
            return Wait(lambda: False, lambda: "waits for a thread block that its rank does not have")
        least, other = mark(self.iteration, awaited), self.workload.blocks[block]
        number = least - mark(self.iteration, 0)
        return Wait(
            lambda: self.queues.published(block) >= least,
            lambda: f"waits for step {number} of thread block {other.id} to be done and to tell",
        )

    def _data(self) -> Wait:
        connection = self.work.incoming
        return Wait(
            lambda: self.queues.holds_piece(connection),
            lambda: f"waits for data on {self.workload.connection_name(connection)}",
        )

    def _room(self) -> Wait:
        connection, slots = self.work.outgoing, self.call.slots
        return Wait(
            lambda: self.queues.has_room(connection),
            lambda: f"waits for room on {self.workload.connection_name(connection)}, which holds {slots}",
        )
