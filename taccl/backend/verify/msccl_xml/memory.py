"""Where the three buffers of every rank lie, in place and out of place.

All chunks of all ranks get one number each, a *cell*. In place, the input and the output buffer of a
rank overlap, and two names have one cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.backend.machine.expected import Expectation
from taccl.backend.machine.report import Collector
from taccl.backend.step_rows import BUFFERS
from taccl.backend.verify.msccl_xml.columns import (
    INPUT,
    OUTPUT,
    READS_SOURCE,
    SCRATCH,
    WRITES_TARGET,
    Columns,
)
from taccl.model.collective import IntArray

Mode = Literal["in place", "out of place"]


@dataclass(frozen=True, eq=False)
class Memory:
    """Cells of one mode.

    Parameters
    ----------
    base : shape (num_ranks, 3); the cell of offset 0 of input, output and scratch.
    size : shape (num_ranks, 3); chunks that each buffer has.
    num_cells : over all ranks.
    """

    mode: Mode
    base: IntArray
    size: IntArray
    num_cells: int

    @staticmethod
    def of(columns: Columns, expectation: Expectation | None, mode: Mode) -> Memory:
        size = buffer_sizes(columns, expectation)
        shift = np.zeros(len(size), dtype=np.int64)
        if expectation is not None:
            shift = expectation.in_place_shift
        inputs, outputs, scratch = size.T
        starts = np.zeros_like(size)
        if mode == "in place":
            starts[:, INPUT], starts[:, OUTPUT] = np.maximum(shift, 0), np.maximum(-shift, 0)
            starts[:, SCRATCH] = np.maximum(starts[:, INPUT] + inputs, starts[:, OUTPUT] + outputs)
        else:
            starts[:, OUTPUT] = inputs
            starts[:, SCRATCH] = inputs + outputs
        total = starts[:, SCRATCH] + scratch
        first = np.cumsum(total) - total
        return Memory(mode, starts + first[:, None], size, int(total.sum()))

    def name(self, rank: int, cell: int) -> str:
        """`o[5]`, or `o[5] (in place also i[1])`."""
        names = [
            f"{BUFFERS[buffer].value}[{cell - self.base[rank, buffer]}]"
            for buffer in (OUTPUT, INPUT, SCRATCH)
            if 0 <= cell - self.base[rank, buffer] < self.size[rank, buffer]
        ]
        return names[0] if len(names) == 1 else f"{names[0]} (in place also {names[1]})"


def buffer_sizes(columns: Columns, expectation: Expectation | None) -> IntArray:
    """Chunks in input, output and scratch of every rank, shape (num_ranks, 3).

    What the collective says about input and output; what the file declares where it says nothing.
    """
    program = columns.program
    size = np.array(
        [(rank.input_chunks, rank.output_chunks, rank.scratch_chunks) for rank in program.ranks],
        dtype=np.int64,
    ).reshape(-1, 3)
    if expectation is not None:
        size[:, INPUT], size[:, OUTPUT] = expectation.input_size, expectation.output_size
    return size.clip(min=0)


def check_bounds(columns: Columns, expectation: Expectation | None, collector: Collector) -> None:
    """Every chunk that a step touches lies inside its buffer; anything else is fatal."""
    size = buffer_sizes(columns, expectation)
    rank = columns.block_rank[columns.step_block]
    for used, buffer, offset, verb in (
        (READS_SOURCE, columns.src, columns.src_offset, "reads"),
        (WRITES_TARGET, columns.dst, columns.dst_offset, "writes"),
    ):
        room = size[rank, buffer]
        outside = used[columns.op] & ((offset < 0) | (offset + columns.count > room))
        for step in np.flatnonzero(outside):
            name, count = BUFFERS[buffer[step]].value, columns.count[step]
            held = "no chunk" if room[step] == 0 else f"chunks 0 .. {room[step] - 1}"
            extent = f"{name}[{offset[step]}]"
            if count > 1:
                extent += f" .. {name}[{offset[step] + count - 1}]"
            collector.add(
                columns.at_step(
                    int(step),
                    "meaning",
                    "error",
                    "out-of-bounds",
                    f"{verb} {extent}, but buffer {name} of this rank has {held}",
                    hint="correct the offset or cnt, or s_chunks for scratch",
                ),
                fatal=True,
            )
