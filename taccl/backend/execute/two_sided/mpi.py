"""Run this process's rank of a program under mpirun, over MPI (mpi4py, the optional extra `mpi`).

A piece is a synchronous-mode send: it completes when the receiver has taken the piece, so a
connection has room while fewer than `slots` of its sends are open. Receives are posted only when a
thread block takes a piece, so nothing is buffered beyond what the program's connections hold. The tag is
the channel. One thread runs all thread blocks of the rank by turns.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from taccl.backend.execute.agents import End, Ranked
from taccl.backend.execute.call import Call
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.host import Answers, Host
from taccl.backend.execute.outcome import Execution, conclude
from taccl.backend.execute.reference import Array
from taccl.backend.execute.shared import check_room
from taccl.backend.execute.turns import take_turns
from taccl.backend.execute.two_sided.blocks import RunningBlock
from taccl.backend.execute.two_sided.memory import Memory, check_executable, lay_out, memory_elements
from taccl.backend.execute.two_sided.run import TwoSidedJob
from taccl.backend.execute.two_sided.workload import Workload, make_workload
from taccl.backend.program import Buffer, Program
from taccl.errors import TacclError

_Done = TypeVar("_Done")

#: A program is stuck when nothing has moved on any rank for so long (seconds).
QUIET_S = 3.0
_FIRST_NAP_S, _LONGEST_NAP_S = 1e-5, 2e-3


class World:
    """All processes that mpirun started, and this one's place among them.

    Raises
    ------
    TacclError : mpi4py is not installed, or finds no MPI library.
    """

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise TacclError(
                f"the MPI backend needs mpi4py and an MPI library: {error}",
                hint="pip install 'taccl[mpi]', and openmpi or mpich from the system's packages",
            ) from None
        except RuntimeError as error:
            raise TacclError(
                f"mpi4py finds no MPI library: {str(error).splitlines()[0]}",
                hint="install openmpi or mpich from the system's packages",
            ) from None
        self.mpi: Any = MPI
        self.comm: Any = MPI.COMM_WORLD.Dup()
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()

    def agree(self, error: TacclError | None) -> None:
        """If any process has an error, raise its own or the first on every process."""
        errors = [each for each in self.comm.allgather(error and (error.exit_code, str(error))) if each]
        if error is not None:
            raise error
        if errors:
            other = TacclError(errors[0][1])
            other.exit_code = errors[0][0]
            raise other

    def all_do(self, work: Callable[[], _Done]) -> _Done:
        """Do this process's part of some work; if that of any process fails, raise on every process."""
        done, trouble = None, None
        try:
            done = work()
        except TacclError as error:
            trouble = error
        self.agree(trouble)
        assert done is not None
        return done


class MpiQueues:
    """Connections of one rank over MPI, and its flags; `Queues` for its blocks."""

    def __init__(self, world: World, workload: Workload, call: Call) -> None:
        self.mpi, self.workload, self.slots = world.mpi, workload, call.slots
        self.dtype = np.dtype(call.dtype)
        self.comm = world.comm.Dup()
        self.flags = [-1] * len(workload.blocks)
        self.arrived: dict[int, tuple[Any, int]] = {}
        self.open_sends: dict[int, deque[tuple[Any, Array]]] = {}
        self.moved_at = time.monotonic()

    def holds_piece(self, connection: int) -> bool:
        if connection not in self.arrived:
            channel, source, _ = self.workload.connections[connection]
            status = self.mpi.Status()
            message = self.comm.Improbe(source=source, tag=channel, status=status)
            if message is not None:
                self.arrived[connection] = message, status.Get_count(self.mpi.BYTE)
        return connection in self.arrived

    def has_room(self, connection: int) -> bool:
        return self._open(connection) < self.slots

    def _open(self, connection: int) -> int:
        """Pieces of a connection that its receiver has not taken."""
        sends = self.open_sends.setdefault(connection, deque())
        while sends and sends[0][0].Test():
            sends.popleft()
        return len(sends)

    def take(self, connection: int) -> Array:
        message, size = self.arrived.pop(connection)
        piece: Array = np.empty(size // self.dtype.itemsize, dtype=self.dtype)
        message.Recv([piece, size, self.mpi.BYTE])
        self.moved_at = time.monotonic()
        return piece

    def put(self, connection: int, piece: Array) -> None:
        channel, _, target = self.workload.connections[connection]
        request = self.comm.Issend([piece, piece.nbytes, self.mpi.BYTE], dest=target, tag=channel)
        self.open_sends.setdefault(connection, deque()).append((request, piece))
        self.moved_at = time.monotonic()

    def publish(self, block: int, value: int) -> None:
        self.flags[block] = value
        self.moved_at = time.monotonic()

    def published(self, block: int) -> int:
        return self.flags[block]

    def left_over(self) -> list[tuple[int, int]]:
        """Connections of which pieces were never taken, and how many."""
        return [
            (open_send, self._open(open_send))
            for open_send in sorted(self.open_sends)
            if self._open(open_send)
        ]

    def drain(self) -> None:
        """Throw away whatever is still on its way between any two ranks, so that MPI can shut down."""
        for message, size in self.arrived.values():
            message.Recv([bytearray(size), size, self.mpi.BYTE])
        self.arrived.clear()
        barrier = None
        while barrier is None or not barrier.Test():
            status = self.mpi.Status()
            message = self.comm.Improbe(source=self.mpi.ANY_SOURCE, tag=self.mpi.ANY_TAG, status=status)
            if message is not None:
                size = status.Get_count(self.mpi.BYTE)
                message.Recv([bytearray(size), size, self.mpi.BYTE])
            elif barrier is None and not self.left_over():
                barrier = self.comm.Ibarrier()


class _Rounds:
    """Agreement between ranks that cannot go on: one all-reduce after the other.

    What a round yields is the same on all ranks, so all of them come to the same end.
    """

    def __init__(
        self, world: World, queues: MpiQueues, blocks: list[RunningBlock], deadline: Deadline
    ) -> None:
        self.world, self.queues, self.blocks = world, queues, blocks
        self.comm = world.comm.Dup()
        self.deadline = deadline
        self.failed = False
        self.end: Literal["ended", "stuck", "late", "failed"] | None = None
        self.nap = _FIRST_NAP_S
        self._begin()

    def _begin(self) -> None:
        now = time.monotonic()
        ended = all(block.ended for block in self.blocks)
        left_s = self.deadline.limit_s - self.deadline.elapsed_s
        mine = [not self.failed, ended, now - self.queues.moved_at, left_s]
        self.sent, self.got = np.array(mine, dtype=np.float64), np.empty(4)
        self.request = self.comm.Iallreduce(self.sent, self.got, op=self.world.mpi.MIN)

    def __call__(self) -> bool:
        """Take part; whether to look again."""
        if self.request.Test():
            fine, ended, quiet, left = self.got.tolist()
            if not fine:
                self.end = "failed"
            elif ended:
                self.end = "ended"
            elif quiet >= QUIET_S:
                self.end = "stuck"
            elif left < 0:
                self.end = "late"
            if self.end is not None:
                return False
            self._begin()
        quiet_here = time.monotonic() - self.queues.moved_at
        self.nap = min(2 * self.nap, _LONGEST_NAP_S) if quiet_here > _LONGEST_NAP_S else _FIRST_NAP_S
        time.sleep(self.nap)
        return True

    def to_the_end(self) -> None:
        """Take part until all have come to an end."""
        while self.end is None:
            self()


def execute_over_mpi(
    program: Program, call: Call, world: World, deadline: Deadline, *, check: bool = True
) -> Execution:
    """Run this process's rank; every process has to call this, and all return the same outcome.

    Raises
    ------
    TacclError : mpirun has started another number of processes than the program has ranks.
    VerificationError : it cannot be executed, is not at an end in time on some rank, or a step failed.
    """
    if world.size != program.num_ranks:
        raise TacclError(
            f"the file is for {program.num_ranks} ranks, and MPI has started {world.size}",
            hint=f"mpirun -n {program.num_ranks} taccl run FILE --backend mpi",
        )
    began = time.monotonic()
    job = TwoSidedJob(program, make_workload(program), call)
    deadline.counts("making the inputs", job.planned, lambda: 0)

    def compared() -> bool:
        host.compare(0)
        return True

    def prepared() -> tuple[Memory, Host]:
        check_executable(call, program)
        elements = memory_elements(call, program, world.rank)
        check_room(elements * call.item_bytes, 1, "a smaller --size")
        memory = lay_out(call, program, world.rank, np.empty(elements, dtype=call.dtype))
        host = Host(_Own(memory), world.rank, Answers(call, deadline.look))
        host.prepare(0)
        return memory, host

    memory, host = world.all_do(prepared)
    queues = MpiQueues(world, job.workload, call)
    blocks = job.blocks(world.rank, memory, queues)
    deadline.counts("moving data", job.planned, lambda: sum(block.sent for block in blocks))
    ends, pieces = _run(world, call, queues, blocks, deadline)
    deadline.turns_to("comparing the result")
    known = check and call.checkable
    if known and all(end.ended for end in ends):
        world.all_do(compared)
    verdicts = world.comm.allgather(host.verdict)
    ends = tuple(replace(end, verdict=verdict) for end, verdict in zip(ends, verdicts, strict=True))
    return conclude(job.subject, "mpi", ends, known, time.monotonic() - began, job.left_over(pieces))


@dataclass(frozen=True, eq=False)
class _Own:
    """The buffers of the one rank that this process has."""

    memory: Memory

    def user(self, rank: int, buffer: Buffer) -> Array:
        return self.memory.buffers[buffer]

    def unwritten(self, rank: int) -> Array:
        return self.memory.data


def _run(
    world: World, call: Call, queues: MpiQueues, blocks: list[RunningBlock], deadline: Deadline
) -> tuple[tuple[End, ...], list[tuple[int, int]]]:
    """Run the blocks of this rank; what all ranks have to say, and the pieces that nobody took."""
    rounds = _Rounds(world, queues, blocks, deadline)
    failure: TacclError | None = None
    try:
        take_turns(blocks, random.Random(f"{call.seed} {world.rank}"), rounds, deadline.look)
    except TacclError as error:
        failure, rounds.failed = error, True
    rounds.to_the_end()
    end, left_over = Ranked(blocks).end(), queues.left_over()
    world.comm.Barrier()  # what is thrown away would look like room to a rank that still looks
    queues.drain()
    if rounds.end == "late" and failure is None:
        failure = deadline.missed()
    world.agree(failure)
    said: list[tuple[End, list[tuple[int, int]]]] = world.comm.allgather((end, left_over))
    return tuple(each for each, _ in said), [piece for _, pieces in said for piece in pieces]
