"""Acts: the single things that thread blocks do in one call, with the cells that they touch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from taccl.backend.machine.report import Finding, Layer, Severity
from taccl.backend.plan import Channel, ExecutionPlan, OpName
from taccl.backend.verify.mscclpp.layout import Layout


class Kind(Enum):
    """What an act does."""

    MEET = "meet"
    BARRIER = "barrier"
    SIGNAL = "signal"
    WAIT = "wait"
    RELEASE = "release"
    ACQUIRE = "acquire"
    FLUSH = "flush"
    MOVE = "move"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class Cells:
    """The first cell of an operand; whether packets are there, and whether it is an input.

    `upper` : the first cell in the calls that use the upper half of scratch.
    """

    first: int
    upper: int
    packets: bool = False
    is_input: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """The sum of `sources` goes to all `targets`, cell by cell, `count` of each."""

    sources: tuple[Cells, ...]
    targets: tuple[Cells, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Push:
    """What a lane queues on a port channel: a transfer, perhaps a signal, perhaps a wait for its end."""

    end: int
    move: Move | None
    signals: bool = False
    flushes: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a block does.

    Parameters
    ----------
    step, inner : the operation, and within a pipeline which of its operations; -1: none.
    name : of that operation.
    ends : of signals and waits, per lane the end of a channel: where the block is.
    semaphores : per lane.
    relaxed, port : of signals and waits.
    barrier : of barriers, its number and how many blocks meet.
    moves : of data, one after the other.
    pushes : per lane.
    """

    kind: Kind
    step: int
    inner: int
    name: OpName
    ends: tuple[int, ...] = ()
    semaphores: tuple[int, ...] = ()
    relaxed: bool = False
    port: bool = False
    barrier: tuple[int, int] = (0, 0)
    moves: tuple[Move, ...] = ()
    pushes: tuple[Push, ...] = ()


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
class Unfolded:
    """All acts of one call.

    Parameters
    ----------
    blocks : per block its rank and place in the rank.
    acts : per block.
    ends : of channels.
    semaphore : of each rank the number of its semaphore 0, semaphores being numbered over all ranks.
    initial : per semaphore its value at first.
    """

    plan: ExecutionPlan
    layout: Layout
    ends: Ends
    blocks: list[tuple[int, int]] = field(default_factory=list)
    acts: list[tuple[Act, ...]] = field(default_factory=list)
    semaphore: list[int] = field(default_factory=list)
    initial: list[int] = field(default_factory=list)

    def place(self, block: int, act: Act) -> str:
        """`rank 0, thread block 1, operation 2 (put)`."""
        rank, number = self.blocks[block]
        inside = "" if act.inner < 0 else f".{act.inner}"
        return f"rank {rank}, thread block {number}, operation {act.step}{inside} ({act.name.value})"

    def finding(
        self,
        block: int,
        act: Act,
        rule: str,
        message: str,
        hint: str,
        severity: Severity = "error",
        layer: Layer = "concurrency",
    ) -> Finding:
        """A finding about an act; `message` follows its name."""
        rank, number = self.blocks[block]
        said = f"{self.place(block, act)} {message}"
        return Finding(layer, severity, rule, said, rank, number, act.step, hint=hint)


def signals_in_no_order(unfolded: Unfolded) -> set[tuple[int, int, int]]:
    """Signals of several lanes to one end with no meeting between, as (block, place of the act, lane)."""
    found = set()
    for block, acts in enumerate(unfolded.acts):
        sent: dict[int, list[tuple[int, int, int]]] = {}
        for place, act in enumerate(acts):
            if act.kind in (Kind.MEET, Kind.BARRIER):
                sent.clear()
            ends = act.ends if act.kind is Kind.SIGNAL else ()
            for lane, end in enumerate(ends or [push.end for push in act.pushes if push.signals]):
                some = sent.setdefault(end, [])
                some.append((block, place, lane))
                if len({each[-1] for each in some}) > 1:
                    found.update(some)
    return found
