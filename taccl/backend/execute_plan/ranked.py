"""The agents of a rank (host, lanes of thread blocks, ports), and what they report when a run is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from taccl.backend.execute_plan.agents import Agent
from taccl.backend.execute_plan.call import PlanCall
from taccl.backend.execute_plan.host import Answers, Host, Verdict
from taccl.backend.execute_plan.lanes import Block
from taccl.backend.execute_plan.memory import World
from taccl.backend.execute_plan.ports import Port
from taccl.backend.plan import Channel, Operation


@dataclass(frozen=True, eq=False)
class Ranked:
    """The agents of one rank."""

    host: Host
    blocks: tuple[Block, ...]
    ports: tuple[Port, ...]

    @property
    def agents(self) -> list[Agent]:
        """All of them."""
        return [self.host, *(lane for block in self.blocks for lane in block.lanes), *self.ports]

    @property
    def sent(self) -> int:
        """Operands that were written into memory of other ranks."""
        return sum(block.sent for block in self.blocks)

    @property
    def ended(self) -> bool:
        """Whether all calls are over."""
        return all(agent.ended for agent in self.agents)


def agents_of(
    world: World, rank: int, answers: Answers, check: bool, look: Callable[[], None], lock: Lock
) -> Ranked:
    """The agents of a rank.

    Raises
    ------
    VerificationError : an operation would reach outside of its memory.
    """
    each = world.call.plan.ranks[rank]
    ports: dict[int, Port] = {}
    ends = world.ends.get((rank, Channel.PORT), ())
    ports.update({end.number: Port(world, end) for end in ends})
    blocks = tuple(Block(world, each, block, ports, lock) for block in each.blocks)
    lanes = sum(len(block.lanes) for block in blocks)
    for port in ports.values():
        port.last_lanes = lanes * world.call.calls
    host = Host(world, rank, lanes, list(ports.values()), answers, check, look)
    return Ranked(host, blocks, tuple(ports.values()))


@dataclass(frozen=True, slots=True)
class End:
    """What one rank, or all together, have to say when a run is over."""

    sent: int
    verdicts: tuple[Verdict, ...]
    stuck: tuple[str, ...]
    notes: tuple[str, ...] = ()


def planned(call: PlanCall) -> int:
    """Ranges that all calls write into memory of one other rank each, one for each turn of a pipeline."""
    return call.calls * sum(
        _away(operation) + _turns(operation, call.chunk) * sum(map(_away, operation.inner))
        for rank in call.plan.ranks
        for block in rank.blocks
        for operation in block.operations
    )


def _away(operation: Operation) -> int:
    return sum(target.remote is not None for target in operation.targets)


def _turns(operation: Operation, chunk: int) -> int:
    turns = operation.turns
    return 1 if turns is None or turns.unit_bytes < 1 else -(-turns.num_chunks * chunk // turns.unit_bytes)


def stuck_of(ranks: Sequence[Ranked]) -> tuple[str, ...]:
    """A sentence for each thread block that cannot go on, with where it stands and what it waits for."""
    reported = []
    for rank in ranks:
        for block in rank.blocks:
            waiting = [lane for lane in block.lanes if not lane.ended]
            known = [
                (lane, lane.waits_for.says)
                for lane in waiting
                if lane.waits_for is not None and lane.waits_for.says is not None
            ]
            if known:
                lane, says = known[0]
                reported.append(f"{lane.where()}: {says()}")
    if not reported and not all(rank.ended for rank in ranks):
        reported = ["nothing goes on, and no thread block says what it waits for"]
    return tuple(reported)


def leftovers(world: World) -> tuple[str, ...]:
    """Ends of channels on which more signals came than were waited for, where any were."""
    return tuple(
        f"{world.come[end.number]} signals came on {end.name} and {world.awaited[end.number]} were waited "
        "for: later calls run ahead"
        for ends in world.ends.values()
        for end in ends
        if 0 < world.awaited[end.number] < world.come[end.number]
    )
