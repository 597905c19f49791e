"""When things are where in a schedule: what its rules look up.

It knows the rows and when they arrive, and judges nothing: a schedule that breaks any rule has facts, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.network import FloatArray
from taccl.schedule.columns import Schedule
from taccl.schedule.derivation import Derivation, derive
from taccl.schedule.numbering import different
from taccl.tolerance import over_us

NEVER = np.inf


@dataclass(frozen=True, eq=False)
class Facts:
    """When things are where.

    A *cell* is a chunk at a rank. Only cells that matter are numbered: where a chunk starts, is wanted,
    comes from or goes to. So an AlltoAll over a thousand ranks has a few million and not 10**9.
    """

    chunk: IntArray  # of each cell
    rank: IntArray  # of each cell
    src: IntArray  # cell that each row comes from
    dst: IntArray  # cell that each row goes to
    wanted: IntArray  # cell of each row of the postcondition, but for explicit sums
    is_start: BoolArray  # per cell: in the precondition
    is_origin: BoolArray  # per cell: the finished chunk is there without being copied to it
    copies: BoolArray  # per row: a copy, but for those of chunks whose sums are explicit
    derivation: Derivation | None  # of a schedule whose sums are explicit
    root: IntArray  # cell of each chunk's root of the sum; -1 if not reduced or not unique
    partial_ready_us: FloatArray  # per cell: all contributions expected there count as arrived
    held_from_us: FloatArray  # per cell: the finished chunk counts as there from then on; inf: never

    @staticmethod
    def of(schedule: Schedule) -> Facts:
        collective, ranks = schedule.problem.collective, schedule.problem.num_ranks
        parts = (
            collective.inputs.chunk * ranks + collective.inputs.rank,
            collective.outputs.chunk * ranks + collective.outputs.rank,
            schedule.chunk.astype(np.int64) * ranks + schedule.src,
            schedule.chunk.astype(np.int64) * ranks + schedule.dst,
        )
        keys, inverse = different(np.concatenate(parts))
        starts, wanted, src, dst = np.split(inverse, np.cumsum([len(part) for part in parts])[:-1])
        chunk, rank = np.divmod(keys, ranks)
        is_start = np.zeros(len(keys), dtype=np.bool_)
        is_start[starts] = True
        explicit = schedule.sums is not None
        compact = ~collective.reduces[chunk] if explicit else np.ones(len(keys), dtype=np.bool_)
        adds = schedule.reduce & collective.reduces[schedule.chunk] & (not explicit)
        copies = ~schedule.reduce & compact[src]

        arrives = over_us(schedule.end_us, schedule.end_us - schedule.start_us)
        partial_ready = np.full(len(keys), -np.inf)
        if schedule.problem.ready_us is not None:
            partial_ready[starts] = over_us(schedule.problem.ready_us, 0.0)
        np.maximum.at(partial_ready, dst[adds], arrives[adds])
        root = _roots(
            collective.num_chunks, chunk, is_start & collective.reduces[chunk], src[adds], dst[adds]
        )

        is_origin = is_start & ~collective.reduces[chunk]
        is_origin[root[root >= 0]] = True
        held = np.where(is_origin, partial_ready, NEVER)
        np.minimum.at(held, dst[copies], arrives[copies])
        derivation = derive(schedule) if explicit else None
        wanted = wanted[compact[wanted]]
        return Facts(
            chunk, rank, src, dst, wanted, is_start, is_origin, copies, derivation, root, partial_ready, held
        )


def _roots(
    num_chunks: int, chunk: IntArray, contributes: BoolArray, add_src: IntArray, add_dst: IntArray
) -> IntArray:
    """For each chunk, the one cell that takes part in its sum and passes nothing on; else -1."""
    root = np.full(num_chunks, -1, dtype=np.int64)
    ends = ends_of(contributes, add_src, add_dst)
    root[chunk[ends]] = ends
    root[np.bincount(chunk[ends], minlength=num_chunks) != 1] = -1
    return root


def ends_of(contributes: BoolArray, add_src: IntArray, add_dst: IntArray) -> IntArray:
    """The cells that take part in a sum and pass nothing on."""
    takes_part = contributes.copy()
    takes_part[add_dst] = True
    takes_part[add_src] = False
    return np.flatnonzero(takes_part)


def followed_to_the_end(to: IntArray, cell: IntArray, facts: Facts, num_ranks: int) -> IntArray:
    """Where each cell leads if `cell` leads on to `to`, again and again; inside a circle, anywhere in it."""
    leads_to = np.arange(len(facts.rank))
    leads_to[cell] = to
    for _ in range(max(1, num_ranks).bit_length()):
        leads_to = leads_to[leads_to]
    return leads_to


def first_true(bad: BoolArray) -> int | None:
    """The first true position."""
    position = int(bad.argmax()) if len(bad) else 0
    return position if len(bad) and bad[position] else None


def in_words(schedule: Schedule, row: int) -> str:
    """A row as findings name it."""
    return (
        f"row {row} (chunk {schedule.chunk[row]}, {schedule.src[row]} -> {schedule.dst[row]}, "
        f"{schedule.start_us[row]:.3f} us)"
    )
