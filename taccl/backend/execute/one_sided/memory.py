"""The memory of all ranks and what they count in it.

Buffers are arrays of 32-bit words. Packets lie in scratch as the runtime lays them: after each word of data
one with the number of the call. Counters of channels, semaphores and barriers persist from call to call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.one_sided.call import PlanCall
from taccl.backend.execute.shared import Region, World
from taccl.backend.plan import ends_of
from taccl.backend.program import Buffer

Words = NDArray[np.uint32]
WORD = 4
_BARRIERS = 16


class PlanWorld(World):
    """Memory and counters.

    Attributes
    ----------
    come, awaited : per end of a channel, signals that came and signals that were waited for so far.
    semaphores : per rank its values. arrived, left : per rank and barrier, who is there, and how often all
        have left it.
    started, ended : per rank, kernels that began, and lanes that came to the end of theirs, of all calls.
    """

    def __init__(self, call: PlanCall, region: Region) -> None:
        plan = call.plan
        super().__init__(plan.num_ranks, region)
        self.call = call
        self.ends = ends_of(plan)
        count = sum(map(len, self.ends.values()))
        self.come, self.awaited = region.numbers(count), region.numbers(count)
        self.semaphores = [region.numbers(len(rank.semaphores)) for rank in plan.ranks]
        barriers = plan.num_ranks * _BARRIERS
        self.arrived, self.left = (region.numbers(barriers).reshape(-1, _BARRIERS) for _ in range(2))
        self.started, self.ended = region.numbers(plan.num_ranks), region.numbers(plan.num_ranks)
        self.allocations = [_allocation(call, rank, region) for rank in range(plan.num_ranks)]

    def begin(self) -> None:
        """Give semaphores their first values."""
        for rank, values in zip(self.call.plan.ranks, self.semaphores, strict=True):
            values[:] = rank.semaphores

    def user(self, rank: int, buffer: Buffer) -> NDArray[Any]:
        """The elements of a rank's input or output."""
        first = self.call.start(rank, buffer) // WORD
        words = self.allocations[rank][buffer][first : first + self.call.size(rank, buffer) // WORD]
        return words.view(self.call.requested.dtype)

    def unwritten(self, rank: int) -> NDArray[Any]:
        """What a caller hands over anew: the output. Scratch stays as the last call left it."""
        return self.user(rank, Buffer.OUTPUT)


def _allocation(call: PlanCall, rank: int, region: Region) -> dict[Buffer, Words]:
    def words(size: int) -> Words:
        return region.take(size // WORD, np.uint32)

    scratch = words(call.size(rank, Buffer.SCRATCH))
    if not call.requested.in_place:
        given, made = words(call.size(rank, Buffer.INPUT)), words(call.size(rank, Buffer.OUTPUT))
        return {Buffer.INPUT: given, Buffer.OUTPUT: made, Buffer.SCRATCH: scratch}
    users = (Buffer.INPUT, Buffer.OUTPUT)
    both = words(max(call.start(rank, buffer) + call.size(rank, buffer) for buffer in users))
    return {Buffer.INPUT: both, Buffer.OUTPUT: both, Buffer.SCRATCH: scratch}
