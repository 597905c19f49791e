"""Execute a program on symbols: every cell holds a multiset of contributions.

Values (see `expected`) are interned: a cell holds a small number, equal values have equal numbers,
and each sum of two values is computed once. A move of `count` chunks is a slice of a list, so the
cost is linear in the chunks moved plus the number of distinct sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from taccl.backend.program import Op
from taccl.backend.verify.columns import INPUT, OPS
from taccl.backend.verify.connections import Connections
from taccl.backend.verify.executed_steps import ExecutedSteps
from taccl.backend.verify.expected import NOWHERE, Value
from taccl.backend.verify.memory import Memory
from taccl.collective import BoolArray, IntArray

#: The number of the value of memory that nobody wrote.
UNWRITTEN = 0


class Values:
    """The values that occur, numbered: 0 is unwritten memory, then come the inputs, then sums as they occur.

    `width` is the largest number of chunks in an input buffer; input chunk k of rank r has the number
    1 + r * width + k, so inputs cost no memory.
    """

    def __init__(self, num_ranks: int, width: int) -> None:
        self._width = width
        self._first_sum = 1 + num_ranks * width
        self._sum_of: list[Value] = []
        self._number_of: dict[Value, int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def __getitem__(self, number: int) -> Value:
        if number == UNWRITTEN:
            return ((NOWHERE, 1, 0),)
        if number < self._first_sum:
            rank, offset = divmod(number - 1, self._width)
            return ((offset, 1 << rank, 0),)
        return self._sum_of[number - self._first_sum]

    def inputs(self, rank: int, size: int) -> range:
        """The numbers of the first `size` input chunks of a rank."""
        first = 1 + rank * self._width
        return range(first, first + size)

    def number(self, value: Value) -> int:
        """The number of a value, new if it has not occurred."""
        if len(value) == 1:
            offset, ranks, twice = value[0]
            if offset == NOWHERE:
                return UNWRITTEN
            if not twice and ranks & (ranks - 1) == 0 and offset < self._width:
                return self.inputs(ranks.bit_length() - 1, self._width)[offset]
        number = self._number_of.get(value)
        if number is None:
            number = self._number_of[value] = self._first_sum + len(self._sum_of)
            self._sum_of.append(value)
        return number

    def sum(self, a: int, b: int) -> int:
        """The union of two multisets; three times counts as twice."""
        key = (a, b)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.number(_union(self[a], self[b]))
        return known

    def is_tainted(self, number: int) -> bool:
        """Whether unwritten memory is part of it."""
        return self[number][0][0] == NOWHERE


def _union(a: Value, b: Value) -> Value:
    if len(a) == 1 and len(b) == 1 and a[0][0] == b[0][0]:
        (offset, ranks, twice), (_, more, more_twice) = a[0], b[0]
        return ((offset, ranks | more, twice | more_twice | (ranks & more)),)
    merged = {offset: (ranks, twice) for offset, ranks, twice in a}
    for offset, ranks, twice in b:
        before, before_twice = merged.get(offset, (0, 0))
        merged[offset] = (before | ranks, before_twice | twice | (before & ranks))
    return tuple((offset, *merged[offset]) for offset in sorted(merged))


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
