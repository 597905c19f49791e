"""The memory of all ranks and what they count in it, in one piece that processes can share.

Buffers are arrays of 32-bit words. Packets lie in scratch as the runtime lays them: after each word of data
one with the number of the call. Counters of channels, semaphores and barriers persist from call to call.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute_plan.call import PlanCall
from taccl.backend.plan import Channel, ExecutionPlan
from taccl.backend.program import Buffer
from taccl.errors import TacclError

Words = NDArray[np.uint32]
WORD = 4
_BARRIERS = 16


@dataclass(frozen=True, slots=True)
class End:
    """One end of a channel: its number among all ends, and that of the other end (None: it has none)."""

    number: int
    rank: int
    peer: int
    other: int | None
    name: str


def ends_of(plan: ExecutionPlan) -> dict[tuple[int, Channel], tuple[End, ...]]:
    """Per rank and kind the ends of its channels, by channel number; see `RankChannels.peers`."""
    places: dict[tuple[Channel, int, int, int], int] = {}
    order: list[tuple[Channel, int, int, int, int]] = []
    for rank in range(plan.num_ranks):
        for kind in (Channel.MEMORY, Channel.PORT):
            met: dict[int, int] = {}
            for number, peer in enumerate(plan.ranks[rank].peers_of(kind)):
                nth = met.get(peer, 0)
                met[peer] = nth + 1
                places[kind, rank, peer, nth] = len(order)
                order.append((kind, rank, peer, nth, number))
    ends: dict[tuple[int, Channel], list[End]] = {}
    for place, (kind, rank, peer, nth, number) in enumerate(order):
        name = f"{kind.value} channel {number} of rank {rank} (to rank {peer})"
        other = places.get((kind, peer, rank, nth))
        ends.setdefault((rank, kind), []).append(End(place, rank, peer, other, name))
    return {key: tuple(row) for key, row in ends.items()}


class World:
    """Memory and counters.

    Parameters
    ----------
    data : shape (World.words(call),), zeros; None: made here.

    Attributes
    ----------
    come, awaited : per end of a channel, signals that came and signals that were waited for so far.
    semaphores : per rank its values. arrived, left : per rank and barrier, who is there, and how often all
        have left it.
    started, ended : per rank, kernels that began, and lanes that came to the end of theirs, of all calls.
    acts, looks, state : per rank, for who watches from outside.
    """

    def __init__(self, call: PlanCall, data: Words | None = None) -> None:
        plan = call.plan
        self.call = call
        self.data: Words = np.zeros(self.words(call), dtype=np.uint32) if data is None else data
        self._next = 0
        self.ends = ends_of(plan)
        count = sum(map(len, self.ends.values()))
        self.come, self.awaited = self._numbers(count), self._numbers(count)
        self.semaphores = [self._numbers(len(rank.semaphores)) for rank in plan.ranks]
        self.arrived = self._numbers(plan.num_ranks * _BARRIERS).reshape(-1, _BARRIERS)
        self.left = self._numbers(plan.num_ranks * _BARRIERS).reshape(-1, _BARRIERS)
        self.started, self.ended = self._numbers(plan.num_ranks), self._numbers(plan.num_ranks)
        self.acts, self.looks, self.state = (self._numbers(plan.num_ranks) for _ in range(3))
        self.allocations: list[dict[Buffer, Words]] = []
        for rank in range(plan.num_ranks):
            scratch = self._take(call.size(rank, Buffer.SCRATCH) // WORD)
            if call.requested.in_place:
                both = self._take(_in_place_bytes(call, rank) // WORD)
                self.allocations.append({Buffer.INPUT: both, Buffer.OUTPUT: both, Buffer.SCRATCH: scratch})
            else:
                given = self._take(call.size(rank, Buffer.INPUT) // WORD)
                made = self._take(call.size(rank, Buffer.OUTPUT) // WORD)
                self.allocations.append({Buffer.INPUT: given, Buffer.OUTPUT: made, Buffer.SCRATCH: scratch})

    def begin(self) -> None:
        """Give semaphores their first values."""
        for rank, values in zip(self.call.plan.ranks, self.semaphores, strict=True):
            values[:] = rank.semaphores

    @staticmethod
    def words(call: PlanCall) -> int:
        """How many words all of it takes."""
        plan = call.plan
        ends = sum(len(rank.peers_of(kind)) for rank in plan.ranks for kind in (Channel.MEMORY, Channel.PORT))
        numbers = 2 * ends + sum(len(rank.semaphores) for rank in plan.ranks)
        numbers += plan.num_ranks * (2 * _BARRIERS + 5)
        total = 2 * numbers
        for rank in range(plan.num_ranks):
            total += call.size(rank, Buffer.SCRATCH) // WORD
            if call.requested.in_place:
                total += _in_place_bytes(call, rank) // WORD
            else:
                total += (call.size(rank, Buffer.INPUT) + call.size(rank, Buffer.OUTPUT)) // WORD
        return total

    def user(self, rank: int, buffer: Buffer) -> NDArray[Any]:
        """The elements of a rank's input or output."""
        first = self.call.start(rank, buffer) // WORD
        words = self.allocations[rank][buffer][first : first + self.call.size(rank, buffer) // WORD]
        return words.view(self.call.requested.dtype)

    def _take(self, words: int) -> Words:
        first = self._next
        self._next += words
        return self.data[first : self._next]

    def _numbers(self, count: int) -> NDArray[np.int64]:
        return self._take(2 * count).view(np.int64)


def check_room(call: PlanCall) -> None:
    """Refuse calls whose buffers do not fit in this machine.

    Raises
    ------
    TacclError : they do not.
    """
    needed = World.words(call) * WORD
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a system that says so
        return
    if needed > there:
        raise TacclError(
            f"the buffers of {call.plan.num_ranks} ranks take {needed >> 20} MB, and there are "
            f"{there >> 20} MB here",
            hint="a smaller --size",
        )


def _in_place_bytes(call: PlanCall, rank: int) -> int:
    return max(call.start(rank, buffer) + call.size(rank, buffer) for buffer in (Buffer.INPUT, Buffer.OUTPUT))
