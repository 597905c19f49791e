"""When things are where in a schedule: what its rules look up.

A schedule that breaks any rule has facts, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.blocks import blocks, column_of, first_row
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.derivation import Derivation, derive
from taccl.model.schedule.numbering import different
from taccl.model.tolerance import over_us

NEVER = np.inf
#: All cells are numbered where there are this many for each place: where something starts, is wanted, comes
#: from or goes to.
_CELLS_PER_PLACE = 2


@dataclass(frozen=True, eq=False)
class ScheduleFacts:
    """When things are where.

    A *cell* is a chunk at a rank. Where few of them matter, only those are numbered: where a chunk starts, is
    wanted, comes from or goes to. So an AlltoAll over a thousand ranks has a few million and not 10**9.
    """

    num_ranks: int
    keys: IntArray | None  # of each cell: chunk * num_ranks + rank; None: that is the cell's number
    src: IntArray  # cell that each row comes from
    dst: IntArray  # cell that each row goes to
    wanted: IntArray  # cell of each row of the postcondition, but for explicit sums
    contributes: BoolArray  # per cell: in the precondition of a chunk that is reduced
    is_origin: BoolArray  # per cell: the finished chunk is there without being copied to it
    copies: BoolArray  # per row: a copy, but for those of chunks whose sums are explicit
    derivation: Derivation | None  # of a schedule whose sums are explicit
    root: IntArray  # cell of each chunk's root of the sum; -1 if not reduced or not unique
    partial_ready_us: FloatArray  # per cell: all contributions expected there count as arrived
    held_from_us: FloatArray  # per cell: the finished chunk counts as there from then on; inf: never

    @staticmethod
    def of(schedule: Transfers) -> ScheduleFacts:
        collective, ranks = schedule.problem.collective, schedule.problem.num_ranks
        inputs, outputs, reduces = collective.inputs, collective.outputs, collective.reduces
        keys, (starts, wanted, src, dst), num_cells = _numbered(
            collective.num_chunks * ranks,
            inputs.chunk * ranks + inputs.rank,
            outputs.chunk * ranks + outputs.rank,
            _cells(schedule, schedule.problem.topology.src),
            _cells(schedule, schedule.problem.topology.dst),
        )
        contributes, is_origin = np.zeros((2, num_cells), dtype=np.bool_)
        contributes[starts[reduces[inputs.chunk]]] = True
        is_origin[starts[~reduces[inputs.chunk]]] = True
        derivation, adds, copies = None, np.flatnonzero(schedule.reduce), ~schedule.reduce
        if schedule.sums is None:
            adds = adds[reduces[schedule.chunk[adds]]]
        else:
            derivation, adds = derive(schedule), adds[:0]
            copies &= ~reduces[schedule.chunk]
            wanted = wanted[~reduces[outputs.chunk]]

        partial_ready = _partial_ready_us(schedule, num_cells, starts, adds, dst)
        ends = ends_of(contributes, src[adds], dst[adds])
        root = _roots(collective.num_chunks, ends, (ends if keys is None else keys[ends]) // ranks)

        is_origin[root[root >= 0]] = True
        held = np.full(num_cells, NEVER)
        held[is_origin] = partial_ready[is_origin]
        work_us = schedule.problem.sum_work_us
        if work_us is not None:
            worked = np.flatnonzero((root >= 0) & (work_us > 0))
            held[root[worked]] = over_us(
                np.maximum(held[root[worked]], 0.0) + work_us[worked], work_us[worked]
            )
        for rows in blocks(len(schedule)):
            np.minimum.at(held, dst[rows], np.where(copies[rows], _arrives_us(schedule, rows), NEVER))
        return ScheduleFacts(
            *(ranks, keys, src, dst, wanted, contributes, is_origin),
            *(copies, derivation, root, partial_ready, held),
        )

    def chunk_of(self, cell: IntArray) -> IntArray:
        """The chunk of each cell."""
        return (cell if self.keys is None else self.keys[cell]) // self.num_ranks

    def rank_of(self, cell: IntArray) -> IntArray:
        """The rank of each cell."""
        return (cell if self.keys is None else self.keys[cell]) % self.num_ranks


def _cells(schedule: Transfers, end: IntArray) -> IntArray:
    """For each row, the cell of its chunk at one end of its link."""
    chunk, link, ranks = schedule.chunk, schedule.link, schedule.problem.num_ranks
    return column_of(
        len(schedule), np.int64, lambda rows: chunk[rows].astype(np.int64) * ranks + end[link[rows]]
    )


def _partial_ready_us(
    schedule: Transfers, num_cells: int, starts: IntArray, adds: IntArray, dst: IntArray
) -> FloatArray:
    """From when on all contributions expected at each cell count as arrived.

    Where nothing is added or late, that is one value, and takes no memory: cells may be tens of millions.
    """
    ready_us = schedule.problem.ready_us
    if ready_us is None and not len(adds):
        return np.broadcast_to(-np.inf, (num_cells,))
    partial_ready = np.full(num_cells, -np.inf)
    if ready_us is not None:
        partial_ready[starts] = over_us(ready_us, 0.0)
    np.maximum.at(partial_ready, dst[adds], _arrives_us(schedule, adds))
    return partial_ready


def _arrives_us(schedule: Transfers, rows: IntArray | slice) -> FloatArray:
    """From when on what some rows bring counts as there."""
    end = schedule.end_us[rows]
    return over_us(end, end - schedule.start_us[rows])


def _numbered(most: int, *parts: IntArray) -> tuple[IntArray | None, list[IntArray], int]:
    """The keys of cells (None: each is its own number), the cells of each part, and how many there are."""
    if most <= _CELLS_PER_PLACE * sum(map(len, parts)):
        return None, list(parts), most
    keys, numbers = different(np.concatenate(parts))
    return keys, np.split(numbers, np.cumsum([len(part) for part in parts])[:-1]), len(keys)


def _roots(num_chunks: int, ends: IntArray, chunk: IntArray) -> IntArray:
    """For each chunk, the one cell among the ends of its sum; else -1. `chunk` is that of each end."""
    root = np.full(num_chunks, -1, dtype=np.int64)
    root[chunk] = ends
    root[np.bincount(chunk, minlength=num_chunks) != 1] = -1
    return root


def ends_of(contributes: BoolArray, add_src: IntArray, add_dst: IntArray) -> IntArray:
    """The cells that take part in a sum and pass nothing on."""
    takes_part = contributes.copy()
    takes_part[add_dst] = True
    takes_part[add_src] = False
    return np.flatnonzero(takes_part)


def is_later(when_us: FloatArray, cell: IntArray, before: IntArray, among: BoolArray | None = None) -> bool:
    """Whether each cell (of some rows) has a later time than the one before it.

    Then no way from cell to cell goes in a circle.
    """

    def is_not(rows: slice) -> BoolArray:
        bad = np.asarray(when_us[cell[rows]] <= when_us[before[rows]])
        return bad if among is None else bad & among[rows]

    return first_row(len(cell), is_not) is None


def followed_to_the_end(to: IntArray, cell: IntArray, facts: ScheduleFacts) -> IntArray:
    """Where each cell leads if `cell` leads on to `to`, again and again; inside a circle, anywhere in it."""
    leads_to = np.arange(len(facts.held_from_us))
    leads_to[cell] = to
    for _ in range(max(1, facts.num_ranks).bit_length()):
        leads_to = leads_to[leads_to]
    return leads_to


def first_true(bad: BoolArray) -> int | None:
    """The first true position."""
    position = int(bad.argmax()) if len(bad) else 0
    return position if len(bad) and bad[position] else None


def in_words(schedule: Transfers, row: int) -> str:
    """A row as findings name it."""
    return (
        f"row {row} (chunk {schedule.chunk[row]}, {schedule.src[row]} -> {schedule.dst[row]}, "
        f"{schedule.start_us[row]:.3f} us)"
    )
