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
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np

from taccl.backend.execute.block import RunningBlock, Wait
from taccl.backend.execute.call import Call
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.memory import (
    Array,
    Memory,
    check_executable,
    check_memory,
    fill,
    memory_elements,
)
from taccl.backend.execute.outcome import (
    Execution,
    Share,
    best_root,
    conclude,
    findings_of,
    left_over_pieces,
    stuck_blocks,
    wrong_by_root,
)
from taccl.backend.execute.plan import Workload, make_plan
from taccl.backend.execute.reference import Answer
from taccl.backend.execute.turns import take_turns
from taccl.backend.program import Program
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


class MpiExchange:
    """Connections of one rank over MPI, and its flags; `Exchange` for its blocks."""

    def __init__(self, world: World, plan: Workload, call: Call) -> None:
        self.mpi, self.plan, self.slots, self.dtype = world.mpi, plan, call.slots, np.dtype(call.dtype)
        self.comm = world.comm.Dup()
        self.flags = [-1] * len(plan.blocks)
        self.arrived: dict[int, tuple[Any, int]] = {}
        self.open_sends: dict[int, deque[tuple[Any, Array]]] = {}
        self.moved_at = time.monotonic()

    def is_over(self, wait: Wait) -> bool:
        if wait.kind == "flag":
            return wait.index >= 0 and self.flags[wait.index] >= wait.mark
        return self._has_piece(wait.index) if wait.kind == "data" else self._open(wait.index) < self.slots

    def _has_piece(self, connection: int) -> bool:
        if connection not in self.arrived:
            channel, source, _ = self.plan.connections[connection]
            status = self.mpi.Status()
            message = self.comm.Improbe(source=source, tag=channel, status=status)
            if message is not None:
                self.arrived[connection] = message, status.Get_count(self.mpi.BYTE)
        return connection in self.arrived

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
        channel, _, target = self.plan.connections[connection]
        request = self.comm.Issend([piece, piece.nbytes, self.mpi.BYTE], dest=target, tag=channel)
        self.open_sends.setdefault(connection, deque()).append((request, piece))
        self.moved_at = time.monotonic()

    def publish(self, block: int, value: int) -> None:
        self.flags[block] = value
        self.moved_at = time.monotonic()

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
        self, world: World, exchange: MpiExchange, blocks: list[RunningBlock], deadline: Deadline
    ) -> None:
        self.world, self.exchange, self.blocks = world, exchange, blocks
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
        mine = [not self.failed, ended, now - self.exchange.moved_at, left_s]
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
        quiet_here = time.monotonic() - self.exchange.moved_at
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
    plan, answer = make_plan(program), Answer(call, deadline.look)
    deadline.begins("making the inputs", plan, call, lambda: 0)

    def prepared() -> Memory:
        check_executable(call, program)
        check_memory(call, program, [world.rank])
        data: Array = np.empty(memory_elements(call, program, world.rank), dtype=call.dtype)
        return fill(call, program, world.rank, data, answer.input_of(world.rank), deadline.look)

    memory = world.all_do(prepared)
    exchange = MpiExchange(world, plan, call)
    blocks = [RunningBlock(each, call, memory, exchange) for each in plan.of_rank(world.rank)]
    deadline.begins("moving data", plan, call, lambda: sum(block.pieces for block in blocks))
    share = _run(world, plan, call, exchange, blocks, deadline)
    deadline.turns_to("comparing the result")
    findings: tuple[str, ...] = ()
    memories = {world.rank: memory}
    if check and not share.stuck:
        wrong = world.all_do(lambda: wrong_by_root(answer, memories))
        total = tuple(map(sum, zip(*world.comm.allgather(wrong), strict=True)))
        share = replace(share, wrong=total)
        mine = world.all_do(lambda: findings_of(answer, memories, best_root(call, total)))
        findings = tuple(text for texts in world.comm.allgather(mine) for text in texts)
    return conclude(plan, answer, "mpi", share, findings, check, time.monotonic() - began)


def _run(
    world: World,
    plan: Workload,
    call: Call,
    exchange: MpiExchange,
    blocks: list[RunningBlock],
    deadline: Deadline,
) -> Share:
    """Run the blocks of this rank; what all ranks together have to say."""
    rounds = _Rounds(world, exchange, blocks, deadline)
    failure: TacclError | None = None
    try:
        take_turns(blocks, exchange, random.Random(f"{call.seed} {world.rank}"), rounds, deadline.look)
    except TacclError as error:
        failure, rounds.failed = error, True
    rounds.to_the_end()
    stuck = () if rounds.end == "ended" else stuck_blocks(blocks, plan, call)
    share = Share(
        sum(block.pieces for block in blocks), (), stuck, left_over_pieces(exchange.left_over(), plan)
    )
    world.comm.Barrier()  # what is thrown away would look like room to a rank that still looks
    exchange.drain()
    if rounds.end == "late" and failure is None:
        failure = deadline.missed()
    world.agree(failure)
    shares: list[Share] = world.comm.allgather(share)
    return Share(
        pieces=sum(each.pieces for each in shares),
        stuck=tuple(text for each in shares for text in each.stuck),
        left_over=tuple(text for each in shares for text in each.left_over),
    )
