"""Races: two steps of one rank that touch one cell, at least one writing, with nothing to order them.

Accesses to a cell are taken in one order that respects happens-before (see `happens_before`). If every
access comes after the write before it, and every write after the reads before it, then any two that
conflict are ordered; so the pairs to look at are linear in the accesses.

A copy of a cell onto itself, as in place, puts there what is there: it counts as a read, which needs no order
with other reads, but one with every step that writes.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.conflicts import conflicting
from taccl.backend.machine.report import Collector
from taccl.backend.program import Op
from taccl.backend.verify.msccl_xml.columns import OP_CODE, READS_SOURCE, WRITES_TARGET
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.happens_before import Pairs, is_upstream, unordered
from taccl.backend.verify.msccl_xml.memory import Memory
from taccl.model.collective import BoolArray, IntArray


def check_races(
    executed: ExecutedSteps,
    connections: Connections,
    order: IntArray,
    memory: Memory,
    collector: Collector,
    runtimes: tuple[str, ...] = (),
) -> int:
    """Findings for every racing pair of steps, and how many there are.

    Parameters
    ----------
    order : all steps, in an order that respects happens-before.
    runtimes : those that the findings concern; none for all.
    """
    _overlaps(executed, memory, collector, runtimes)
    pairs = conflicts(executed, order, memory)
    pairs = pairs.where(executed.block[pairs.first] != executed.block[pairs.second])
    racing = _one_cell_each(executed, pairs.where(unordered(executed, connections, order, pairs)))
    for u, v, cell in zip(racing.first.tolist(), racing.second.tolist(), racing.cell.tolist(), strict=True):
        _report(executed, connections, memory, u, v, cell, collector, runtimes)
    return len(racing)


def _one_cell_each(executed: ExecutedSteps, pairs: Pairs) -> Pairs:
    """Each two steps once, with the first cell at which they meet."""
    _, kept = np.unique(pairs.first * len(executed) + pairs.second, return_index=True)
    return pairs.where(kept)


def _accesses(executed: ExecutedSteps, memory: Memory) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """Every access as (step, cell, which of its chunks, whether it writes)."""
    columns, steps = executed.columns, executed.step
    rank, op = executed.rank, columns.op[steps]
    rows = np.arange(len(executed))
    source = memory.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    reads, writes, accumulates = READS_SOURCE[op], changes(executed, memory), op == OP_CODE[Op.REDUCE]
    merged = np.array(
        [(row, each) for row, sources in executed.sources.items() for each in sources[:-1]], dtype=np.int64
    ).reshape(-1, 2)
    merged_row, merged_step = merged[:, 0], merged[:, 1]
    merged_cell = memory.base[rank[merged_row], columns.src[merged_step]] + columns.src_offset[merged_step]
    row = np.concatenate([rows[reads], rows[accumulates], merged_row, rows[writes]])
    cell = np.concatenate([source[reads], target[accumulates], merged_cell, target[writes]])
    is_write = np.arange(len(row)) >= len(row) - int(writes.sum())
    counts = columns.count[steps][row].clip(min=0)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(row, counts), np.repeat(cell, counts) + within, within, np.repeat(is_write, counts)


def changes(executed: ExecutedSteps, memory: Memory) -> BoolArray:
    """Per step, whether it writes anything but what is there: no copy of a cell onto itself."""
    columns, steps, rank = executed.columns, executed.step, executed.rank
    source = memory.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    onto_itself = (columns.op[steps] == OP_CODE[Op.COPY]) & (source == target)
    return np.asarray(WRITES_TARGET[columns.op[steps]] & ~onto_itself)


def conflicts(executed: ExecutedSteps, sequence: IntArray, memory: Memory) -> Pairs:
    """The pairs of accesses that have to be ordered."""
    row, cell, chunk, is_write = _accesses(executed, memory)
    if not len(row):
        return Pairs(row, row, row, row, row)
    when = np.empty(len(executed), dtype=np.int64)
    when[sequence] = np.arange(len(sequence))
    earlier, later = conflicting(cell, when[row], is_write)
    return Pairs(row[earlier], row[later], cell[earlier], chunk[earlier], chunk[later])


def _report(
    executed: ExecutedSteps,
    connections: Connections,
    memory: Memory,
    u: int,
    v: int,
    cell: int,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> None:
    columns = executed.columns
    u_step, v_step = int(executed.step[u]), int(executed.step[v])
    rank = int(columns.block_rank[executed.block[u]])
    block, line = columns.block_id[executed.block[u]], int(columns.line[u_step])
    where = f" (line {line})" if line else ""
    why = "nothing says which comes first"
    if is_upstream(connections, u, v):
        why = "fused steps pass on each chunk before they have the next, so the first may return too early"
    collector.add(
        columns.at_step(
            v_step,
            "concurrency",
            "error",
            "race",
            f"touches {memory.name(rank, cell)} {memory.mode}, and so does thread block {block}, step "
            f"{columns.position[u_step]}{where}; one of them writes, and {why}",
            hint='let the one that has to come second wait for the other (depid, deps; hasdep="1" there)',
            runtimes=runtimes,
        )
    )


def _overlaps(
    executed: ExecutedSteps, memory: Memory, collector: Collector, runtimes: tuple[str, ...]
) -> None:
    """A step whose source and target overlap without being the same reads what it is writing."""
    columns, steps = executed.columns, executed.step
    op, rank = columns.op[steps], executed.rank
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
                runtimes=runtimes,
            )
        )
