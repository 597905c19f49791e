"""Thread blocks that share out what one did: each moves a part of every range, on channels of its own. All
parts of a block do the same operations, so part i of each waits for parts i of others only, and chunks stay
as large as they were: a plan takes no more operations, scratch or lowering for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan, Share
from taccl.backend.program import Buffer

#: First chunk and number of chunks.
_Extent: TypeAlias = tuple[int, int]
_COUNTING = frozenset({OpName.RELEASE, OpName.ACQUIRE})


def share_out(plan: ExecutionPlan, parts: int) -> ExecutionPlan:
    """The same plan with every thread block `parts` times.

    Parameters
    ----------
    plan : one without barriers, pipelines and shares, for which `cuts_alike` holds.
    """
    return replace(plan, ranks=tuple(_shared(rank, parts) for rank in plan.ranks))


def cuts_equally(plan: ExecutionPlan) -> bool:
    """Whether what one range writes no other range has a part of only: then all cut it in the same places."""
    written: dict[tuple[int, Buffer], set[_Extent]] = {}
    touched: dict[tuple[int, Buffer], set[_Extent]] = {}
    for rank in plan.ranks:
        for block in rank.blocks:
            for operation in block.operations:
                for memory, extent in _ranges(rank, block, operation, operation.sources):
                    touched.setdefault(memory, set()).add(extent)
                for memory, extent in _ranges(rank, block, operation, operation.targets):
                    touched.setdefault(memory, set()).add(extent)
                    written.setdefault(memory, set()).add(extent)
    return not any(_is_cut_unlike(mine, touched[memory]) for memory, mine in written.items())


def _is_cut_unlike(written: set[_Extent], touched: set[_Extent]) -> bool:
    """Whether a written extent overlaps another one."""
    end, last_is_written = 0, False
    for extent in sorted(touched):
        is_written = extent in written
        if extent[0] < end and (is_written or last_is_written):
            return True
        if extent[0] >= end:
            last_is_written = False
        end, last_is_written = max(end, sum(extent)), last_is_written or is_written
    return False


def _ranges(
    rank: RankPlan, block: PlanBlock, operation: Operation, ranges: tuple[Range, ...]
) -> Iterator[tuple[tuple[int, Buffer], _Extent]]:
    """The memories behind each, and which chunks of them."""
    for each in ranges:
        for memory in rank.memories_of(block, operation, each):
            yield memory, (each.index, each.size)


def _shared(rank: RankPlan, parts: int) -> RankPlan:
    return replace(
        rank,
        blocks=tuple(_part(block, number, parts) for block in rank.blocks for number in range(parts)),
        channels=tuple(
            replace(row, peers=tuple(peer for peer in row.peers for _ in range(parts)))
            for row in rank.channels
        ),
        semaphores=tuple(value for value in rank.semaphores for _ in range(parts)),
    )


def _part(block: PlanBlock, number: int, parts: int) -> PlanBlock:
    share = Share(number, parts)

    def own(operation: Operation) -> Operation:
        if operation.name in _COUNTING:
            mine = tuple(semaphore * parts + number for semaphore in operation.semaphores)
            return replace(operation, semaphores=mine)
        return replace(operation, share=share) if operation.sources or operation.targets else operation

    return replace(
        block,
        id=block.id * parts + number,
        operations=tuple(map(own, block.operations)),
        channels=tuple(
            # No thread block signals through a switch, so all parts use one channel of it.
            row
            if row.kind is Channel.SWITCH
            else replace(row, ids=tuple(each * parts + number for each in row.ids))
            for row in block.channels
        ),
    )
