"""Execute a program: on NumPy arrays, with bounded connections, checked against NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from taccl.backend.execute.agents import Ranked
from taccl.backend.execute.call import Call
from taccl.backend.execute.host import Answers, Host
from taccl.backend.execute.job import Lock
from taccl.backend.execute.outcome import Execution, Subject, conclude
from taccl.backend.execute.reference import Array
from taccl.backend.execute.requested import RunKeywords, RunRequested
from taccl.backend.execute.run import Stage, check_ranks_as
from taccl.backend.execute.shared import Region, World
from taccl.backend.execute.two_sided.blocks import Queues, RunningBlock
from taccl.backend.execute.two_sided.call import make_call
from taccl.backend.execute.two_sided.memory import Memory, check_executable, lay_out, memory_elements
from taccl.backend.execute.two_sided.queues import LocalQueues, SharedQueues
from taccl.backend.execute.two_sided.workload import Workload, make_workload
from taccl.backend.program import Buffer, Program
from taccl.errors import TacclError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TwoSidedWorld(World):
    """The buffers of all ranks, and the connections between them."""

    def __init__(self, job: TwoSidedJob, region: Region, *, is_shared: bool) -> None:
        super().__init__(job.program.num_ranks, region)
        call, work = job.call, job.workload
        sizes = len(work.connections), call.slots, len(work.blocks)
        self.queues = (
            SharedQueues(region, *sizes, job.slot_elements, call.dtype) if is_shared else LocalQueues(*sizes)
        )
        self.memories = [
            lay_out(
                call, job.program, rank, region.take(memory_elements(call, job.program, rank), call.dtype)
            )
            for rank in range(job.program.num_ranks)
        ]

    def begin(self) -> None:
        """No thread block has published anything."""
        if isinstance(self.queues, SharedQueues):
            self.queues.begin()

    def user(self, rank: int, buffer: Buffer) -> Array:
        """The elements of a rank's input or output."""
        return self.memories[rank].buffers[buffer]

    def unwritten(self, rank: int) -> Array:
        """All elements of a rank."""
        return self.memories[rank].data


@dataclass(frozen=True, eq=False)
class TwoSidedJob:
    """A program, folded, and its call."""

    program: Program
    workload: Workload
    call: Call

    @property
    def seed(self) -> int:
        """Of the order."""
        return self.call.seed

    @property
    def planned(self) -> int:
        """Pieces that will be sent."""
        return self.workload.planned_pieces(self.call)

    @property
    def slot_elements(self) -> int:
        """Elements of the longest piece."""
        call = self.call
        return min(call.piece, call.chunk) * min(call.chunks_per_piece, self.workload.most_chunks)

    def world(self, region: Region, *, is_shared: bool) -> TwoSidedWorld:
        """Buffers, and connections that processes share or that this one has."""
        return TwoSidedWorld(self, region, is_shared=is_shared)

    def ranked(self, world: TwoSidedWorld, rank: int, look: Callable[[], None], lock: Lock) -> Ranked:
        """The thread blocks of a rank."""
        if isinstance(world.queues, SharedQueues):
            world.queues.lock = lock
        return Ranked(self.blocks(rank, world.memories[rank], world.queues))

    def blocks(self, rank: int, memory: Memory, queues: Queues) -> list[RunningBlock]:
        """The thread blocks of a rank on its memory."""
        return [
            RunningBlock(self.workload, each, self.call, memory, queues)
            for each in self.workload.of_rank(rank)
        ]

    def sent(self, world: TwoSidedWorld) -> int:
        """As the connections count it."""
        return world.queues.sent

    @property
    def subject(self) -> Subject:
        """What is known of the outcome beforehand."""
        blocks = self.workload.blocks
        return Subject(
            self.call, len(blocks), sum(len(block.steps) for block in blocks), slots=self.call.slots
        )

    def left_over(self, pieces: list[tuple[int, int]]) -> tuple[str, ...]:
        """A sentence for each connection with pieces that nobody took."""
        return tuple(
            f"{number} pieces on {self.workload.connection_name(connection)} were sent and never received"
            for connection, number in pieces
        )


def execute(program: Program, **keywords: Unpack[RunKeywords]) -> Execution:
    """Run a program once; without `in_place` as it claims, out of place if it claims both.

    Parameters
    ----------
    keywords : as in `RunRequested`.

    Raises
    ------
    TacclError : the call does not fit the program.
    VerificationError : the program cannot be executed at all, or there was no time left. A wrong result, and
        blocks that are stuck, are no errors here but in what is returned.
    """
    requested = RunRequested(**keywords)
    in_place = program.in_place and not program.out_of_place
    return _run(program, requested, in_place if requested.in_place is None else requested.in_place)


def run_program(program: Program, requested: RunRequested) -> Iterator[Execution]:
    """As `execute`, for each way of calling a program that is requested or that it claims.

    Raises
    ------
    TacclError : several calls in a row are requested; or as `execute`.
    """
    if requested.calls not in (None, 1):
        raise TacclError(
            "several calls in a row are for one-sided plans; a call of a program leaves nothing behind",
            hint="leave --calls out",
        )
    for in_place in modes_of(program, requested.in_place):
        yield _run(program, requested, in_place)


def _run(program: Program, requested: RunRequested, in_place: bool) -> Execution:
    check_ranks_as(requested.ranks_as)
    deadline, ranks_as = requested.deadline, requested.ranks_as
    call = make_call(program, requested, in_place=in_place)
    check_executable(call, program)
    job = TwoSidedJob(program, make_workload(program), call)
    began = time.monotonic()
    deadline.counts("making the inputs", job.planned, lambda: 0)
    stage = Stage.of(job, ranks_as, program.num_ranks, deadline.look)
    answers = Answers(call, deadline.look)
    hosts = [Host(stage.world, rank, answers) for rank in range(program.num_ranks)]
    for host in hosts:
        host.prepare(0)
    ends = stage.run(deadline)
    known = requested.check and call.checkable
    if known and all(end.ended for end in ends):
        deadline.turns_to("comparing the result")
        for host in hosts:
            host.compare(0)
    ends = tuple(replace(end, verdict=host.verdict) for end, host in zip(ends, hosts, strict=True))
    left_over = job.left_over(stage.world.queues.left_over())
    return conclude(job.subject, ranks_as, ends, known, time.monotonic() - began, left_over)


def modes_of(program: Program, requested: bool | None) -> list[bool]:
    """In place or not: what is requested, or else each that the program claims."""
    if requested is not None:
        return [requested]
    claims = [mode for mode, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    return claims or [False]
