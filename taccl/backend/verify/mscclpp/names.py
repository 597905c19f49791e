"""How findings speak of the acts of a plan, and of the channels, semaphores and barriers."""

from __future__ import annotations

from dataclasses import dataclass, field

from taccl.backend.machine.acts import Names, Stuck
from taccl.backend.machine.report import Location
from taccl.backend.plan import Channel, ExecutionPlan, OpName


@dataclass(frozen=True, eq=False)
class Ends:
    """The two ends of every channel, numbered over all ranks.

    Parameters
    ----------
    first : of each rank and kind the number of its channel 0's end.
    partner : per end the other end; -1: the channel has none that anybody could wait at.
    place : per end its rank, kind, channel number and peer.
    """

    first: dict[tuple[int, Channel], int]
    partner: list[int]
    place: list[tuple[int, Channel, int, int]]

    @staticmethod
    def of(plan: ExecutionPlan) -> Ends:
        """The j-th channel of a kind from A to B and the j-th from B to A are one."""
        ends = Ends({}, [], [])
        nth: dict[tuple[Channel, int, int, int], int] = {}
        for rank in plan.ranks:
            for kind in (Channel.MEMORY, Channel.PORT):
                ends.first[rank.rank, kind] = len(ends.place)
                seen: dict[int, int] = {}
                for number, peer in enumerate(rank.peers_of(kind)):
                    nth[kind, rank.rank, peer, seen.setdefault(peer, 0)] = len(ends.place)
                    seen[peer] += 1
                    ends.place.append((rank.rank, kind, number, peer))
        ends.partner.extend(-1 for _ in ends.place)
        for (kind, rank_number, peer, j), end in nth.items():
            ends.partner[end] = nth.get((kind, peer, rank_number, j), -1)
        return ends

    def name(self, end: int) -> str:
        """`memory channel 3 (to rank 1)`."""
        _, kind, number, peer = self.place[end]
        return f"{kind.value} channel {number} (to rank {peer})"


@dataclass(frozen=True, eq=False)
class PlanNames(Names):
    """The operations, channels, semaphores and barriers of a plan.

    Parameters
    ----------
    ends : of channels; the counter of an end has its number.
    operations : per executed operation its rank, block, step, place in a pipeline (-1: none) and name.
    semaphores : per rank the counters of its semaphores. barriers : of counters that are barriers, their ids.
    operation_of : per act its operation.
    """

    ends: Ends
    operations: list[tuple[int, int, int, int, OpName]]
    semaphores: list[list[int]]
    barriers: dict[int, int] = field(default_factory=dict)
    operation_of: list[int] = field(default_factory=list)

    def operation(self, rank: int, block: int, step: int, inner: int, name: OpName) -> int:
        """The number of one more executed operation."""
        self.operations.append((rank, block, step, inner, name))
        return len(self.operations) - 1

    def act(self, act: int) -> str:
        rank, block, step, inner, name = self.operations[self.operation_of[act]]
        inside = "" if inner < 0 else f".{inner}"
        return f"rank {rank}, thread block {block}, operation {step}{inside} ({name.value})"

    def place(self, act: int) -> tuple[int, ...]:
        return self.operations[self.operation_of[act]][:4]

    def location(self, act: int) -> Location:
        return Location(*self.operations[self.operation_of[act]][:3])

    def counter(self, counter: int) -> str:
        if counter < len(self.ends.place):
            return f"rank {self.ends.place[counter][0]}'s end of {self.ends.name(counter)}"
        if counter in self.barriers:
            return f"barrier {self.barriers[counter]}"
        return f"semaphore {next(some.index(counter) for some in self.semaphores if counter in some)}"

    def wait(self, stuck: Stuck) -> str:
        if stuck.counter in self.barriers:
            return f"waits at {self.counter(stuck.counter)}"
        if stuck.counter >= len(self.ends.place):
            return f"waits for {self.counter(stuck.counter)}"
        return f"waits on {self.ends.name(stuck.counter)}"
