"""Races: two steps of one rank that touch one cell, at least one writing, with nothing to order them.

Happens-before is the transitive closure of program order within a block, a published flag before
the steps that wait for it, and a send before the receive that gets its data; it leads across ranks.
That a full connection holds its sender up is not used: it depends on the runtime and on the size.

Accesses to a cell are taken in one order that respects all of these. If every access comes after the
write before it, and every write after the reads before it, then any two that conflict are ordered;
so the pairs to look at are linear in the accesses. Whether u comes before v is read from vector
clocks: clock[v][b] is how far into block b everything lies that comes before v. First with the edges
inside a rank only and the blocks of that rank, which settles most pairs in time and memory
O(transfers * blocks per rank). Then, for what is left, with all edges, and only for the blocks that
such pairs start from, some at a time: O(transfers * blocks in question) time, bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.program import Op
from taccl.backend.verify.columns import OP_CODE, READS_SOURCE, WRITES_TARGET
from taccl.backend.verify.connections import Connections
from taccl.backend.verify.memory import Memory
from taccl.backend.verify.report import Collector
from taccl.backend.verify.transfers import Transfers
from taccl.collectives import BoolArray, IntArray

#: Entries of one table of clocks (4 bytes each).
CLOCK_ENTRIES = 2**25


def check_races(
    transfers: Transfers, connections: Connections, order: Sequence[int], memory: Memory, collector: Collector
) -> int:
    """Findings for every racing pair of steps, and how many there are.

    `order` : all transfers, in an order that respects happens-before.
    """
    _overlaps(transfers, memory, collector)
    sequence = np.array(order, dtype=np.int64)
    first, second, cell = conflicts(transfers, sequence, memory)
    apart = transfers.block[first] != transfers.block[second]
    first, second, cell = first[apart], second[apart], cell[apart]
    _, kept = np.unique(first * len(transfers) + second, return_index=True)
    first, second, cell = first[kept], second[kept], cell[kept]
    for within_rank in (True, False):
        unordered = ~_ordered(transfers, connections, sequence, first, second, within_rank)
        first, second, cell = first[unordered], second[unordered], cell[unordered]
    for u, v, where in zip(first.tolist(), second.tolist(), cell.tolist(), strict=True):
        _report(transfers, memory, u, v, where, collector)
    return len(first)


def _accesses(transfers: Transfers, memory: Memory) -> tuple[IntArray, IntArray, BoolArray]:
    """Every access as (transfer, cell, whether it writes)."""
    columns, steps = transfers.columns, transfers.step
    rank, op = transfers.rank, columns.op[steps]
    rows = np.arange(len(transfers))
    source = memory.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    reads, writes, accumulates = READS_SOURCE[op], WRITES_TARGET[op], op == OP_CODE[Op.REDUCE]
    merged = np.array(
        [(row, each) for row, sources in transfers.sources.items() for each in sources[:-1]], dtype=np.int64
    ).reshape(-1, 2)
    merged_row, merged_step = merged[:, 0], merged[:, 1]
    merged_cell = memory.base[rank[merged_row], columns.src[merged_step]] + columns.src_offset[merged_step]
    row = np.concatenate([rows[reads], rows[accumulates], merged_row, rows[writes]])
    cell = np.concatenate([source[reads], target[accumulates], merged_cell, target[writes]])
    is_write = np.arange(len(row)) >= len(row) - int(writes.sum())
    counts = columns.count[steps][row].clip(min=0)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(row, counts), np.repeat(cell, counts) + within, np.repeat(is_write, counts)


def conflicts(
    transfers: Transfers, sequence: IntArray, memory: Memory
) -> tuple[IntArray, IntArray, IntArray]:
    """(earlier transfer, later transfer, cell) of the pairs that have to be ordered."""
    row, cell, is_write = _accesses(transfers, memory)
    if not len(row):
        return row, row, row
    when = np.empty(len(transfers), dtype=np.int64)
    when[sequence] = np.arange(len(sequence))
    by_time = np.lexsort((is_write, when[row], cell))
    row, cell, is_write = row[by_time], cell[by_time], is_write[by_time]
    place = np.arange(len(row))
    last_write = np.maximum.accumulate(np.where(is_write, place, -1))
    before = np.concatenate([[-1], last_write[:-1]]).astype(np.int64)
    after_write = (before >= 0) & (cell[before] == cell)
    next_write = np.minimum.accumulate(np.where(is_write, place, len(row))[::-1])[::-1]
    next_write = np.minimum(next_write, len(row) - 1)
    overwritten = ~is_write & is_write[next_write] & (cell[next_write] == cell)
    first = np.concatenate([row[before[after_write]], row[overwritten]])
    second = np.concatenate([row[after_write], row[next_write[overwritten]]])
    return first, second, np.concatenate([cell[after_write], cell[overwritten]])


def _ordered(
    transfers: Transfers,
    connections: Connections,
    sequence: IntArray,
    first: IntArray,
    second: IntArray,
    within_rank: bool,
) -> BoolArray:
    """Per pair, whether the first transfer happens before the second."""
    ordered = np.zeros(len(first), dtype=np.bool_)
    if not len(first):
        return ordered
    position = np.arange(len(transfers)) - transfers.first_of_block[transfers.block]
    num_blocks = len(transfers.first_of_block) - 1
    blocks = np.arange(num_blocks) if within_rank else np.unique(transfers.block[first])
    rank = transfers.columns.block_rank
    if within_rank:  # the k-th block of every rank shares the k-th column
        first_of_rank = np.searchsorted(rank, rank)
        passes = [(np.arange(num_blocks) - first_of_rank, np.ones(len(first), dtype=np.bool_))]
    else:
        passes = []
        width = max(1, CLOCK_ENTRIES // len(transfers))
        for start in range(0, len(blocks), width):
            column = np.full(num_blocks, -1)
            column[blocks[start : start + width]] = np.arange(len(blocks[start : start + width]))
            passes.append((column, column[transfers.block[first]] >= 0))
    for column, asked in passes:
        clock = _clocks(transfers, connections, sequence, column, position, within_rank)
        u, v = first[asked], second[asked]
        ordered[asked] = clock[v, column[transfers.block[u]]] >= position[u]
    return ordered


def _clocks(
    transfers: Transfers,
    connections: Connections,
    sequence: IntArray,
    column: IntArray,
    position: IntArray,
    within_rank: bool,
) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Vector clocks, shape (num_transfers, num_columns); -1 where nothing of a block comes before."""
    clock = np.full((len(transfers), int(column.max()) + 1), -1, dtype=np.int32)
    own: list[int] = column[transfers.block].tolist()
    at: list[int] = position.tolist()
    source: list[int] = connections.source.tolist()
    waits = transfers.waits
    maximum = np.maximum
    for transfer in sequence.tolist():
        row = clock[transfer]
        if at[transfer]:
            row[:] = clock[transfer - 1]
        for awaited in waits[transfer]:
            maximum(row, clock[awaited], out=row)
        if not within_rank and source[transfer] >= 0:
            maximum(row, clock[source[transfer]], out=row)
        if own[transfer] >= 0:
            row[own[transfer]] = at[transfer]
    return clock


def _report(transfers: Transfers, memory: Memory, u: int, v: int, cell: int, collector: Collector) -> None:
    columns = transfers.columns
    u_step, v_step = int(transfers.step[u]), int(transfers.step[v])
    rank = int(columns.block_rank[transfers.block[u]])
    block, line = columns.block_id[transfers.block[u]], int(columns.line[u_step])
    where = f" (line {line})" if line else ""
    collector.add(
        columns.at_step(
            v_step,
            "concurrency",
            "error",
            "race",
            f"touches {memory.name(rank, cell)} {memory.mode}, and so does thread block {block}, step "
            f"{columns.position[u_step]}{where}; one of them writes, and nothing says which comes first",
            hint='let the one that has to come second wait for the other (depid, deps; hasdep="1" there)',
        )
    )


def _overlaps(transfers: Transfers, memory: Memory, collector: Collector) -> None:
    """A step whose source and target overlap without being the same reads what it is writing."""
    columns, steps = transfers.columns, transfers.step
    op, rank = columns.op[steps], transfers.rank
    source = memory.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    distance = np.abs(source - target)
    tangled = READS_SOURCE[op] & WRITES_TARGET[op] & (distance > 0) & (distance < columns.count[steps])
    for row in np.flatnonzero(tangled):
        collector.add(
            columns.at_step(
                int(steps[row]),
                "concurrency",
                "error",
                "overlap",
                f"{memory.mode}, its source and its target overlap, so it reads chunks that it is writing",
                hint="cut it into steps that do not overlap",
            )
        )
