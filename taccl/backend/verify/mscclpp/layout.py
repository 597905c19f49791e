"""Where operations of a plan cut chunks, and at which sizes of call they do so unlike.

A chunk is cut wherever an operation of the plan begins or ends inside one: at the parts of ranges that
blocks share, and at the slices of pipelines. Every operation moves bytes by whole chunks, so the same cuts
serve all. Scratch holds plain bytes and packets in different places, and with double buffering twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, floor, lcm

import numpy as np

from taccl.backend.machine.layout import Layout
from taccl.backend.plan import NO_LARGEST, ExecutionPlan, Operation, Share, Turns
from taccl.backend.verify.mscclpp.header import largest_chunk, smallest_chunk
from taccl.model.collective import IntArray

#: The most parts of a range that are distinguished by a size that all of them divide.
MOST_PARTS = 10_000
#: This many pipelines of unlike slices are held against each other.
MOST_PIPELINES = 6


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of a buffer, from the first to before the end."""

    start: int
    end: int


def part_of(extent: Extent, share: Share | None, alignment: int) -> Extent:
    """The part of an operand that a block works on: units of `alignment`, the first parts one unit longer."""
    if share is None:
        return extent
    units = (extent.end - extent.start) // alignment
    each, rest = divmod(units, share.parts)
    first = share.number * each + min(share.number, rest)
    count = each + (share.number < rest)
    return Extent(extent.start + first * alignment, extent.start + (first + count) * alignment)


def slice_of(extent: Extent, turn: int, unit_bytes: int) -> Extent:
    """What a turn of a pipeline does of an operand."""
    start = min(extent.end, extent.start + turn * unit_bytes)
    return Extent(start, min(extent.end, start + unit_bytes))


def num_turns(operation: Operation, chunk_bytes: int) -> int:
    """How often a pipeline runs its operations."""
    turns = operation.turns
    return 0 if turns is None else -(-turns.num_chunks * chunk_bytes // turns.unit_bytes)


def all_operations(plan: ExecutionPlan) -> Iterator[Operation]:
    """Every operation, those inside of pipelines too."""
    for rank in plan.ranks:
        for block in rank.blocks:
            for operation in block.operations:
                yield operation
                yield from operation.inner


def chunk_sizes(plan: ExecutionPlan) -> tuple[int, ...]:
    """Bytes of a chunk in the calls that are looked at: those in which operations cut their ranges unlike.

    The smallest that the plan serves; and where it cuts ranges, one at which all parts are equal, and one
    that leaves a remainder. Pipelines take one turn, two and three; and any two of them unequally many, if
    there is a size at which they do.
    """
    step = plan.alignment
    least = smallest_chunk(plan) or step
    most = max(least, (largest_chunk(plan) or NO_LARGEST) // step * step)
    parts = {
        max(1, all_operation.share.parts)
        for all_operation in all_operations(plan)
        if all_operation.share is not None
    }
    pipelines = {
        all_operation.turns for all_operation in all_operations(plan) if all_operation.turns is not None
    }
    wanted = [least]
    if parts:
        even = step * min(lcm(*parts), MOST_PARTS)
        wanted += [_up(least, even), _up(least, even) + even - step]
    if pipelines:
        unit = max(turns.unit_bytes / max(1, turns.num_chunks) for turns in pipelines)
        wanted += [_up(int(2 * unit), step), _up(int(2.5 * unit), step) + step]
        wanted += _unequal_turns(pipelines, least, most, step)
    return tuple(sorted({min(most, max(least, size)) for size in wanted}))


def _unequal_turns(pipelines: Iterable[Turns], least: int, most: int, step: int) -> Iterator[int]:
    """For each two pipelines the smallest size at which one takes more turns than the other."""
    slices = sorted(
        {
            Fraction(pipeline.unit_bytes, pipeline.num_chunks)
            for pipeline in pipelines
            if pipeline.num_chunks > 0
        }
    )
    for shorter, longer in combinations(slices[:MOST_PIPELINES], 2):
        fewest = ceil(least / longer)
        for turns in range(fewest, fewest + MOST_PARTS):
            size = max(least, (floor(turns * shorter / step) + 1) * step)
            if size > most:
                break
            if size <= turns * longer:
                yield size
                break


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def cuts_of(plan: ExecutionPlan, chunk_bytes: int) -> IntArray:
    """Where pieces of a chunk begin, in bytes from its start, sorted; the first is 0."""
    cuts = {0}
    seen = set()
    for operation in all_operations(plan):
        sizes = frozenset(each.size for each in (*operation.sources, *operation.targets))
        if operation.share is not None and (sizes, operation.share) not in seen:
            seen.add((sizes, operation.share))
            parts = (part_of(Extent(0, n * chunk_bytes), operation.share, plan.alignment) for n in sizes)
            cuts |= _ends(parts, chunk_bytes)
        if operation.turns is not None:
            unit, turns = operation.turns.unit_bytes, num_turns(operation, chunk_bytes)
            for inner in operation.inner:
                for size in {each.size for each in (*inner.sources, *inner.targets)}:
                    whole = part_of(Extent(0, size * chunk_bytes), inner.share, plan.alignment)
                    cuts |= _ends((slice_of(whole, turn, unit) for turn in range(turns)), chunk_bytes)
    return np.array(sorted(cuts), dtype=np.int64)


def _ends(extents: Iterable[Extent], chunk_bytes: int) -> set[int]:
    return {end % chunk_bytes for extent in extents for end in (extent.start, extent.end)}


def layout_of(plan: ExecutionPlan, chunk_bytes: int, shift: IntArray | None) -> Layout:
    """Lay out all buffers of a plan.

    Parameters
    ----------
    shift : shape (num_ranks,); in place, input chunk k is output chunk k + shift. None: out of place.
    """
    chunks = np.array(
        [(rank.input_chunks, rank.output_chunks, rank.scratch_chunks) for rank in plan.ranks], dtype=np.int64
    )
    return Layout.of(
        chunks.clip(min=0),
        shift,
        cuts=cuts_of(plan, chunk_bytes),
        chunk_bytes=chunk_bytes,
        has_packets=True,
        has_halves=plan.double_scratch,
    )
