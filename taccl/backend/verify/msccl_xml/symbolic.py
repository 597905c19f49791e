"""Execute a program on symbols: every cell holds a multiset of contributions, by its number (see `values`).

A move of `count` chunks is a slice of a list, so the cost is linear in the chunks moved plus the number of
distinct sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from taccl.backend.machine.values import UNWRITTEN, Values
from taccl.backend.program import Op
from taccl.backend.step_rows import OPS
from taccl.backend.verify.msccl_xml.columns import INPUT
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.memory import Memory
from taccl.model.collective import BoolArray, IntArray


@dataclass(eq=False)
class Trace:
    """What one symbolic execution saw.

    Parameters
    ----------
    values : the numbering that the cells use.
    cells : per cell, the value in the end.
    writer : per cell, the step that wrote it last; -1 if none did.
    unwritten_reads : (step, cell) of each read of a cell that nobody had written.
    clobbered : (step, cell) of each write that changed an input chunk out of place.
    """

    values: Values
    cells: list[int]
    writer: list[int]
    unwritten_reads: list[tuple[int, int]] = field(default_factory=list)
    clobbered: list[tuple[int, int]] = field(default_factory=list)


def run_symbolically(
    executed: ExecutedSteps,
    connections: Connections,
    order: IntArray,
    memory: Memory,
    has_input: BoolArray,
) -> Trace:
    """The contents of all cells after the steps in `order`, which respects every dependency.

    Parameters
    ----------
    has_input : shape (num_ranks,); the ranks whose input buffer holds data at the start.
    """
    trace = _initial(memory, has_input)
    cells, writer, add = trace.cells, trace.writer, trace.values.sum
    columns, steps = executed.columns, executed.step
    op_of = columns.op[steps].tolist()
    count_of: list[int] = columns.count[steps].tolist()
    rank = executed.rank
    source_cell: list[int] = (memory.base[rank, columns.src[steps]] + columns.src_offset[steps]).tolist()
    target_cell: list[int] = (memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]).tolist()
    guards_input = (memory.mode == "out of place") & (columns.dst[steps] == INPUT)
    guarded: list[bool] = guards_input.tolist()
    sent_by: list[int] = connections.source.tolist()
    in_flight: dict[int, list[int]] = {}

    def read(index: int, cell: int, count: int) -> list[int]:
        found = cells[cell : cell + count]
        if UNWRITTEN in found:
            trace.unwritten_reads.extend(
                (index, cell + k) for k, value in enumerate(found) if value == UNWRITTEN
            )
        return found

    def write(index: int, content: list[int]) -> None:
        cell = target_cell[index]
        if guarded[index]:
            trace.clobbered.extend(
                (index, cell + k) for k, value in enumerate(content) if cells[cell + k] != value
            )
        cells[cell : cell + len(content)] = content
        writer[cell : cell + len(content)] = [index] * len(content)

    for index in order.tolist():
        op, count = OPS[op_of[index]], count_of[index]
        if op is Op.SEND:
            in_flight[index] = read(index, source_cell[index], count)
        elif op is Op.COPY:
            write(index, read(index, source_cell[index], count))
        elif op is Op.REDUCE:
            total = read(index, target_cell[index], count)
            for source in _sources(executed, memory, index, source_cell[index]):
                total = [add(a, b) for a, b in zip(total, read(index, source, count), strict=True)]
            write(index, total)
        else:
            content = in_flight.pop(sent_by[index])
            if op not in (Op.RECV, Op.RECV_COPY_SEND):
                local = read(index, source_cell[index], count)
                content = [add(a, b) for a, b in zip(local, content, strict=True)]
            if op is not Op.RECV_REDUCE_SEND:
                write(index, content)
            if op.sends:
                in_flight[index] = content
    return trace


def _initial(memory: Memory, has_input: BoolArray) -> Trace:
    values = Values(len(memory.size), int(memory.size[:, INPUT].max(initial=0)))
    cells = [UNWRITTEN] * memory.num_cells
    for rank in np.flatnonzero(has_input).tolist():
        size, base = int(memory.size[rank, INPUT]), int(memory.base[rank, INPUT])
        cells[base : base + size] = values.inputs(rank, size)
    return Trace(values, cells, [-1] * memory.num_cells)


def _sources(executed: ExecutedSteps, memory: Memory, index: int, own: int) -> list[int]:
    """First cells of what a `re` adds: its own source, or all that were merged into it."""
    merged = executed.sources.get(index)
    if merged is None:
        return [own]
    columns = executed.columns
    step = int(executed.step[index])
    base = int(memory.base[executed.columns.block_rank[executed.block[index]], columns.src[step]])
    return [base + int(columns.src_offset[each]) for each in merged]
