"""Execute a plan: on NumPy arrays, several calls in a row, checked against NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from taccl.backend.execute.agents import Ranked, Wait
from taccl.backend.execute.host import Answers, Host
from taccl.backend.execute.job import Lock
from taccl.backend.execute.one_sided.call import PlanCall, make_plan_call
from taccl.backend.execute.one_sided.lanes import Block
from taccl.backend.execute.one_sided.memory import PlanWorld
from taccl.backend.execute.one_sided.ports import Port
from taccl.backend.execute.outcome import Execution, Subject, conclude
from taccl.backend.execute.requested import RunKeywords, RunRequested
from taccl.backend.execute.run import Stage, check_ranks_as
from taccl.backend.execute.shared import Region
from taccl.backend.plan import Channel, ExecutionPlan, Operation
from taccl.errors import VerificationError
from taccl.model.collective import IntArray

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SEND_RECEIVE = "sendrecv"


class HostAgent(Host):
    """The host of a rank while others act. It rewrites nothing that its rank's own ports still read: `taccl
    verify` warns where a plan leaves that open.
    """

    def __init__(
        self, world: PlanWorld, rank: int, lanes: int, ports: list[Port], answers: Answers, check: bool
    ) -> None:
        super().__init__(world, rank, answers, world.call.calls)
        self.world, self.lanes, self.ports, self.check = world, lanes, ports, check
        self.ended = False
        self.waits_for: Wait | None = None

    def run(self) -> Iterator[Wait | None]:
        """Call after call."""
        for call in range(self.calls):
            self.prepare(call)
            yield None
            self.world.started[self.rank] = call + 1
            yield Wait(partial(self._has_ended, call))
            if self.check and self.answers.is_known:
                self.compare(call)
            yield Wait(lambda: all(port.is_idle() for port in self.ports))
        self.ended = True

    def _has_ended(self, call: int) -> bool:
        """Whether all lanes of the rank are through with a call."""
        return bool(self.world.ended[self.rank] >= self.lanes * (call + 1))


@dataclass(frozen=True, eq=False)
class PlanJob:
    """A series of calls of a plan."""

    call: PlanCall
    check: bool

    @property
    def seed(self) -> int:
        """Of the order."""
        return self.call.requested.seed

    @property
    def planned(self) -> int:
        """Ranges that all calls write into memory of one other rank each, one for each turn of a pipeline."""
        return self.call.calls * sum(
            _away(operation) + _turns(operation, self.call.chunk) * sum(map(_away, operation.inner))
            for rank in self.call.plan.ranks
            for block in rank.blocks
            for operation in block.operations
        )

    def world(self, region: Region, *, is_shared: bool) -> PlanWorld:
        """Memory and counters; processes share all of it."""
        return PlanWorld(self.call, region)

    def answers(self, look: Callable[[], None]) -> Answers:
        """NumPy's answers."""
        requested = self.call.requested
        sources = senders(requested.num_ranks) if requested.collective == _SEND_RECEIVE else []
        return Answers(requested, look, sources)

    def ranked(self, world: PlanWorld, rank: int, look: Callable[[], None], lock: Lock) -> Ranked:
        """Host, thread blocks and ports of a rank."""
        each = self.call.plan.ranks[rank]
        ports = {end.number: Port(world, end) for end in world.ends.get((rank, Channel.PORT), ())}
        blocks = [Block(world, each, block, ports, lock) for block in each.blocks]
        lanes = sum(len(block.lanes) for block in blocks)
        for port in ports.values():
            port.last_lanes = lanes * self.call.calls
        host = HostAgent(world, rank, lanes, list(ports.values()), self.answers(look), self.check)
        return Ranked(blocks, (host, *ports.values()), host.verdict)

    def sent(self, world: PlanWorld) -> int:
        """Only the ranks themselves count what they write."""
        return 0

    @property
    def subject(self) -> Subject:
        """What is known of the outcome beforehand."""
        blocks = [block for rank in self.call.plan.ranks for block in rank.blocks]
        steps = sum(1 + len(operation.inner) for block in blocks for operation in block.operations)
        return Subject(self.call.requested, len(blocks), steps, self.call.calls)


def execute_plan(plan: ExecutionPlan, **keywords: Unpack[RunKeywords]) -> Execution:
    """Run a plan, call after call, each with new inputs; ranks may drift apart.

    Parameters
    ----------
    plan : one in which every number leads somewhere (`taccl.backend.one_sided.check_executable`).
    keywords : as in `RunRequested`; without `in_place` as the plan says.

    Raises
    ------
    TacclError : the call does not fit the plan.
    VerificationError : the plan would reach outside of its memory, or there was no time left. A wrong result,
        and thread blocks that are stuck, are no errors here but in what is returned.
    """
    return run_plan(plan, RunRequested(**keywords))


def run_plan(plan: ExecutionPlan, requested: RunRequested) -> Execution:
    """As `execute_plan`."""
    check_ranks_as(requested.ranks_as)
    if plan.alignment % 16:
        raise VerificationError(
            f"buffer_alignment is {plan.alignment}, and loads take 16 bytes", hint="set it to 16"
        )
    deadline, ranks_as = requested.deadline, requested.ranks_as
    job = PlanJob(make_plan_call(plan, requested), requested.check)
    began = time.monotonic()
    stage = Stage.of(job, ranks_as, plan.num_ranks, deadline.look)
    ends = stage.run(deadline)
    known = requested.check and job.answers(deadline.look).is_known
    notes = leftovers(stage.world)
    return conclude(job.subject, ranks_as, ends, known, time.monotonic() - began, notes=notes)


def senders(ranks: int) -> list[IntArray]:
    """Each way in which ranks may be grouped for sendrecv: per rank, the one before it in its group.

    All groups have one size and one stride; the group of all comes first.
    """
    found = []
    everyone = np.arange(ranks)
    for size in (each for each in range(ranks, 1, -1) if ranks % each == 0):
        for stride in sorted({1, ranks // size}):
            group = everyone // (size * stride) * (size * stride) + everyone % stride
            found.append(group + (everyone // stride % size - 1) % size * stride)
    return found or [np.arange(1)]


def leftovers(world: PlanWorld) -> tuple[str, ...]:
    """Ends of channels on which more signals came than were waited for, where any were."""
    return tuple(
        f"{world.come[end.number]} signals came on {end.name} and {world.awaited[end.number]} were waited "
        "for: later calls run ahead"
        for ends in world.ends.values()
        for end in ends
        if 0 < world.awaited[end.number] < world.come[end.number]
    )


def _away(operation: Operation) -> int:
    return sum(target.remote is not None for target in operation.targets)


def _turns(operation: Operation, chunk: int) -> int:
    turns = operation.turns
    return 1 if turns is None or turns.unit_bytes < 1 else -(-turns.num_chunks * chunk // turns.unit_bytes)
