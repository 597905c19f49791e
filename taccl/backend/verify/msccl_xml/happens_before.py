"""What comes before what in every order of execution, chunk by chunk.

Happens-before is the transitive closure of program order within a block, a published flag before
the steps that wait for it, and a send before the receive that gets its data; it leads across ranks.
That a full connection holds its sender up is not used: it depends on the runtime and on the size.

A step of several chunks is no single act. A fused step (rcs, rrs, rrcs) passes its first chunk on before it
has the second, so what returns to a rank through fused steps alone may be there while the first send still
reads. Along such a chain, from a send through fused steps to the last receive, chunk k at one step comes
before chunk k at the next, and nothing else does. With Simple, a connection hands on whole slices, so all
chunks up to k come before chunk k; with LL and LL128 every word has its own flag, and threads of one block
are in no order. Everything that is done before a step of the chain starts, comes before all that follows it.

Whether u comes before v is read from vector clocks: clock[v][b] is how far into block b everything lies
that comes before v. First with the edges inside a rank only and the blocks of that rank, which settles most
pairs in time and memory O(steps * blocks per rank). Then, for what is left, with all edges, and only for
the blocks that such pairs start from, some at a time: O(steps * blocks in question) time, bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.program import Op, Protocol
from taccl.backend.verify.msccl_xml.columns import OP_CODE
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.model.collective import BoolArray, IntArray
from taccl.support.jit import Loop

#: Entries of one table of clocks (4 bytes each).
CLOCK_ENTRIES = 2**25

Clocks = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Accesses to one cell that have to be ordered, an earlier and a later one in some order of execution.

    Parameters
    ----------
    first, second : steps. cell : what both touch.
    first_chunk, second_chunk : which of its chunks each touches there, from 0.
    """

    first: IntArray
    second: IntArray
    cell: IntArray
    first_chunk: IntArray
    second_chunk: IntArray

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: BoolArray | IntArray) -> Pairs:
        """Some of them."""
        return Pairs(
            self.first[chosen],
            self.second[chosen],
            self.cell[chosen],
            self.first_chunk[chosen],
            self.second_chunk[chosen],
        )


def unordered(
    executed: ExecutedSteps,
    connections: Connections,
    sequence: IntArray,
    pairs: Pairs,
    flags_of_sends_are_early: bool = False,
) -> BoolArray:
    """Per pair, whether nothing says that the first access comes before the second.

    Parameters
    ----------
    sequence : all steps, in an order that respects happens-before.
    flags_of_sends_are_early : a flag that a plain send publishes does not say that it has read its source.
    """
    rows = np.arange(len(pairs))
    for within_rank in (True, False):
        left = pairs.where(rows)
        ordered = _ordered(executed, connections, sequence, left, within_rank, flags_of_sends_are_early)
        rows = rows[~ordered]
    rows = rows[~_ordered_by_chunk(executed, connections, pairs.where(rows))]
    found = np.zeros(len(pairs), dtype=np.bool_)
    found[rows] = True
    return found


def is_upstream(connections: Connections, first: int, second: int) -> bool:
    """Whether the data that `second` receives were sent by `first`, or went through it as a fused step."""
    here = int(connections.source[second])
    while here >= 0:
        if here == first:
            return True
        here = int(connections.source[here])
    return False


def _ordered_by_chunk(executed: ExecutedSteps, connections: Connections, pairs: Pairs) -> BoolArray:
    """Per pair, whether the second access is to what the first has sent on its way, or comes after that."""
    if executed.columns.program.protocol is Protocol.SIMPLE:
        in_order = pairs.first_chunk <= pairs.second_chunk
    else:
        in_order = pairs.first_chunk == pairs.second_chunk
    for row in np.flatnonzero(in_order).tolist():
        in_order[row] = is_upstream(connections, int(pairs.first[row]), int(pairs.second[row]))
    return in_order


def _ordered(
    executed: ExecutedSteps,
    connections: Connections,
    sequence: IntArray,
    pairs: Pairs,
    within_rank: bool,
    early: bool,
) -> BoolArray:
    """Per pair, whether the whole first step is done before the second starts on any chunk."""
    ordered = np.zeros(len(pairs), dtype=np.bool_)
    if not len(pairs):
        return ordered
    position = np.arange(len(executed)) - executed.first_of_block[executed.block]
    num_blocks = len(executed.first_of_block) - 1
    start_blocks = executed.block[pairs.first]
    passes = []
    if within_rank:  # the k-th block of every rank shares the k-th column
        rank = executed.columns.block_rank
        passes.append(np.arange(num_blocks) - np.searchsorted(rank, rank))
    else:
        blocks = np.unique(start_blocks)
        width = max(1, CLOCK_ENTRIES // 2 // len(executed))
        for start in range(0, len(blocks), width):
            column = np.full(num_blocks, -1)
            column[blocks[start : start + width]] = np.arange(len(blocks[start : start + width]))
            passes.append(column)
    for column in passes:
        requested = column[start_blocks] >= 0
        clock = _clocks(executed, connections, sequence, column, position, within_rank, early)
        u, v = pairs.first[requested], pairs.second[requested]
        ordered[requested] = clock[v, column[executed.block[u]]] >= position[u]
    return ordered


def _clocks(
    executed: ExecutedSteps,
    connections: Connections,
    sequence: IntArray,
    column: IntArray,
    position: IntArray,
    within_rank: bool,
    early: bool,
) -> Clocks:
    """What is done before each step starts on any of its chunks, shape (num_executed, num_columns).

    -1 where nothing of a block is. Two tables are kept: what is done when a step is done, which later
    steps of its block and steps that wait for it know; and what is done before it starts, which is all
    that chunks of it tell to those who get them one by one.
    """
    starts, awaited = executed.flat_waits
    done = np.full((len(executed), int(column.max()) + 1), -1, dtype=np.int32)
    before = done if within_rank else np.empty_like(done)
    is_early = np.zeros(len(executed), dtype=np.bool_)
    if early:
        is_early = executed.columns.op[executed.step] == OP_CODE[Op.SEND]
    _fill(
        done.size,
        sequence=sequence,
        own=column[executed.block],
        position=position,
        source=connections.source,
        starts=starts,
        awaited=awaited,
        is_early=is_early,
        within_rank=within_rank,
        done=done,
        before=before,
    )
    return before


def _fill_clocks(
    sequence: Sequence[int],
    own: Sequence[int],
    position: Sequence[int],
    source: Sequence[int],
    starts: Sequence[int],
    awaited: Sequence[int],
    is_early: Sequence[bool],
    within_rank: bool,
    done: Clocks,
    before: Clocks,
) -> None:
    """Fill the two tables, row by row; `own` is the column of a step's block, or -1."""
    columns = range(done.shape[1])
    for index in sequence:
        if position[index] > 0:
            for k in columns:
                done[index, k] = done[index - 1, k]
        for place in range(starts[index], starts[index + 1]):
            wait = awaited[place]
            known = done[index, own[wait]] if own[wait] >= 0 else -1
            for k in columns:
                done[index, k] = max(done[index, k], done[wait, k])
            if own[wait] >= 0 and is_early[wait]:
                done[index, own[wait]] = max(known, position[wait] - 1)
        if not within_rank:
            sent = source[index]
            for k in columns:
                before[index, k] = done[index, k] if sent < 0 else max(done[index, k], before[sent, k])
                if sent >= 0:
                    done[index, k] = max(done[index, k], done[sent, k])
        if own[index] >= 0:
            done[index, own[index]] = position[index]


_fill = Loop(_fill_clocks)
