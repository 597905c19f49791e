"""Steps of a program kept as columns and made one by one when they are requested.

A program of a million transfers has two
million steps: as objects they take most of a gigabyte, as columns 80 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, overload

import numpy as np

from taccl.backend.program import Buffer, Op, Step
from taccl.model.collective import IntArray

#: What the numbers in the columns stand for.
OPS = tuple(Op)
BUFFERS = (Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH)
_OP_CODE = {op: code for code, op in enumerate(OPS)}
_BUFFER_CODE = {buffer: code for code, buffer in enumerate(BUFFERS)}

Column = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


@dataclass(frozen=True, eq=False)
class StepTable:
    """Steps of many thread blocks, a row each. All columns are whole numbers of 32 bits.

    Parameters
    ----------
    op, src, dst : places in `OPS` and `BUFFERS`.
    src_offset, dst_offset, count : in chunks.
    dep_block, dep_step : what the step waits for; a negative `dep_block` for nothing.
    has_dependent : 0 or 1.
    line : in the file.
    """

    op: Column
    src: Column
    src_offset: Column
    dst: Column
    dst_offset: Column
    count: Column
    dep_block: Column
    dep_step: Column
    has_dependent: Column
    line: Column

    def cut(self, first: int, end: int) -> tuple[Column, ...]:
        """Some rows of each column, in the order above."""
        return tuple(getattr(self, field.name)[first:end] for field in fields(self))


class StepRows(Sequence[Step]):
    """The rows `first` up to `end` of a table as a sequence of steps, equal to a tuple of the same steps."""

    __slots__ = ("end", "first", "table")

    def __init__(self, table: StepTable, first: int, end: int) -> None:
        self.table, self.first, self.end = table, first, end

    def __len__(self) -> int:
        return self.end - self.first

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...

    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        row = range(self.first, self.end)[index]
        return next(self._steps(row, row + 1))

    def __iter__(self) -> Iterator[Step]:
        return self._steps(self.first, self.end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (StepRows, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (tuple, (tuple(self),))  # whoever takes one thread block elsewhere does not take all along

    def _steps(self, first: int, end: int) -> Iterator[Step]:
        columns = [column.tolist() for column in self.table.cut(first, end)]
        for op, src, src_offset, dst, dst_offset, count, block, step, has_dependent, line in zip(
            *columns, strict=True
        ):
            yield Step(
                OPS[op],
                BUFFERS[src],
                src_offset,
                BUFFERS[dst],
                dst_offset,
                count,
                None if block < 0 else (block, step),
                has_dependent != 0,
                line,
            )


def fields_of_steps(blocks: Sequence[Sequence[Step]]) -> IntArray:
    """The fields of all steps of all blocks, one after the other, in the order of `StepTable`.

    Shape (10, number of steps); block and step -1 where a step waits for nothing, line 0 where there is none.
    """
    numbers = np.empty((10, sum(map(len, blocks))), dtype=np.int64)
    place = 0
    for are_rows, some in groupby(blocks, key=lambda steps: isinstance(steps, StepRows)):
        for part in _cuts(some) if are_rows else _objects(some):
            numbers[:, place : place + len(part[0])] = part
            place += len(part[0])
    none = numbers[6] < 0
    numbers[6:8, none] = -1
    return numbers


def _objects(blocks: Iterable[Iterable[Step]]) -> Iterator[IntArray]:
    rows = [
        (
            _OP_CODE[step.op],
            _BUFFER_CODE[step.src],
            step.src_offset,
            _BUFFER_CODE[step.dst],
            step.dst_offset,
            step.count,
            -1 if step.depends is None else step.depends[0],
            -1 if step.depends is None else step.depends[1],
            step.has_dependent,
            step.line or 0,
        )
        for steps in blocks
        for step in steps
    ]
    yield np.array(rows, dtype=np.int64).reshape(-1, 10).T


def _cuts(blocks: Iterable[Sequence[Step]]) -> Iterator[tuple[Column, ...]]:
    """Of blocks that are all rows of tables; those that stand side by side in one are taken together."""
    table, first, end = None, 0, 0
    for steps in blocks:
        if not isinstance(steps, StepRows):
            raise TypeError("these steps are in no table")
        if table is not None and (steps.table is not table or steps.first != end):
            yield table.cut(first, end)
            table = None
        if table is None:
            table, first = steps.table, steps.first
        end = steps.end
    if table is not None:
        yield table.cut(first, end)
