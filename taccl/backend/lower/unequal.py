"""Chunks of unequal sizes, for files that count in elements of one size: how many elements each cell has.

A cell of a buffer is as large as the chunk that lies, lands or is copied there, and cells lie side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from taccl.backend.lower.actions import INPUT, OFFSET_BITS, OUTPUT, SCRATCH, SEND, Actions
from taccl.backend.lower.flow import Flow
from taccl.backend.machine.unequal import ROUNDED_BY, in_elements, placed_elements, starts_side_by_side
from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray
from taccl.model.problem import Problem
from taccl.model.units import MB

#: Of input, output and scratch of a rank, the element at which each cell begins, and the end of the last.
Starts: TypeAlias = tuple[IntArray, IntArray, IntArray]


def elements_of(problem: Problem) -> tuple[IntArray, int]:
    """Elements of each chunk, shape (num_chunks,), and bytes of an element.

    Of equal chunks each is one element. Of unequal ones an element is the largest that all are multiples of.

    Raises
    ------
    CollectiveError : unequal chunks that are no whole number of bytes.
    """
    exact = problem.size_mb * MB
    if problem.sizes is None:
        return np.ones(problem.num_chunks, dtype=np.int64), max(1, math.ceil(exact[0]))
    whole = np.rint(exact).astype(np.int64)
    bad = np.flatnonzero((whole < 1) | (np.abs(exact - whole) > ROUNDED_BY * exact))
    if len(bad):
        raise CollectiveError(
            f"chunk {bad[0]} has {exact[bad[0]]:g} bytes, which is no whole number",
            hint="sizes in whole bytes",
        )
    unit = int(np.gcd.reduce(whole))
    return whole // unit, unit


@dataclass(frozen=True, eq=False)
class EqualChunks:
    """A problem in chunks of one size, for files that know no others.

    Parameters
    ----------
    collective : that of the problem, or if its chunks are unequal, each cut into its elements.
    size_bytes : of a call; of unequal chunks, its largest buffer.
    elements : as `elements_of`; None: all chunks are of one size.
    """

    collective: Collective
    size_bytes: int
    elements: IntArray | None

    @staticmethod
    def of(problem: Problem) -> EqualChunks:
        """Of any problem. Raises as `elements_of`."""
        if problem.sizes is None:
            return EqualChunks(problem.collective, problem.size_bytes, None)
        elements, element_bytes = elements_of(problem)
        collective = in_elements(problem.collective, elements)
        return EqualChunks(collective, collective.chunks_per_size * element_bytes, elements)


def starts_of(flow: Flow, elements: IntArray, rank: int, actions: Actions) -> Starts:
    """The cells of a rank, in elements.

    Parameters
    ----------
    elements : of each chunk.
    actions : with scratch that has no holes.
    """
    collective = flow.schedule.problem.collective
    cells: dict[int, int] = {}
    for first, rows in ((INPUT, collective.inputs), (OUTPUT, collective.outputs)):
        cells.update(enumerate(placed_elements(rows, rank, elements).tolist(), first))
    end = np.cumsum(flow.columns.count)
    columns = (actions.op, actions.receives, actions.src, actions.dst, actions.count, actions.send)
    for op, receives, src, dst, count, send in zip(*(column.tolist() for column in columns), strict=True):
        if op == SEND:
            continue
        if receives:
            sizes = elements[flow.columns.chunk[end[send] - count : end[send]]].tolist()
        else:
            sizes = [cells[src + at] for at in range(count)]
        cells.update(enumerate(sizes, dst))
    made = []
    for first in (INPUT, OUTPUT, SCRATCH):
        number = sum(cell >> OFFSET_BITS == first >> OFFSET_BITS for cell in cells)
        made.append(starts_side_by_side([cells[first + at] for at in range(number)]))
    return made[0], made[1], made[2]
