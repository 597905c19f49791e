"""What must wait for what at one rank.

The actions of a rank have one order. An action that touches a cell must wait for the last earlier one
that wrote it, and one that writes it also for those that have read it since. In place, the input and the
output share cells, so what writes an output cell also waits for the readers of the input cell under it.

Waits are columns: those of action k are [starts[k]] up to [starts[k + 1]] of the second column, rising.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from taccl.backend.lower.actions import COPY, INPUT, OUTPUT, SCRATCH, Actions, buffer_and_offset, by_first
from taccl.model.collective import BoolArray, IntArray
from taccl.model.tolerance import TOLERANCE_US
from taccl.support.jit import Loop

#: Where the waits of each action begin (and the last end), and all waits.
Waits: TypeAlias = tuple[IntArray, IntArray]


def works_in_place(actions: Actions, input_shift: int, rows: int = 0) -> bool:
    """Whether the input and the output may share memory.

    No input cell may be read after the output cell under it was changed, and no change may have to
    wait, beyond the times of the schedule, for an earlier reader of the input.

    `rows` says how many actions there are at all ranks (see `compiled.Loop`).
    """
    own = copies_onto_itself(actions, input_shift)
    src, dst, cells = numbered_cells(actions, input_shift)
    return bool(
        _no_change_is_early(
            rows,
            reads=actions.reads & (actions.src < OUTPUT) & ~own,
            reads_target=actions.reads_target,
            writes=actions.writes & (actions.dst >= OUTPUT) & (actions.dst < SCRATCH) & ~own,
            src=src,
            dst=dst,
            count=actions.count,
            ready_us=actions.ready_us + TOLERANCE_US,
            done_us=actions.done_us,
            cells=cells,
        )
    )


def hazards(
    actions: Actions, shifts: Sequence[int | None], quiet_copies: bool = False, rows: int = 0
) -> Waits:
    """For each action, the earlier ones that it must wait for, each once.

    Parameters
    ----------
    shifts : of each way in which it is called: in place, input cell k is output cell k + this; None apart.
        What is ordered for the shared memory is also ordered for the two apart, but for quiet copies.
    quiet_copies : in place, a copy of a cell onto itself need not wait for those that read it.
    rows : how many actions there are at all ranks.
    """
    by_shift = [_hazards(actions, shift, quiet_copies, rows) for shift in shifts]
    if len(by_shift) == 1:
        return by_shift[0]
    number = len(actions)
    starts = np.zeros(number + 1, dtype=np.int64)
    pairs = [np.repeat(np.arange(number), np.diff(of_each)) * number + waits for of_each, waits in by_shift]
    both = np.unique(np.concatenate(pairs))
    np.cumsum(np.bincount(both // max(number, 1), minlength=number), out=starts[1:])
    return starts, both % max(number, 1)


def _hazards(actions: Actions, input_shift: int | None, quiet_copies: bool, rows: int) -> Waits:
    src, dst, cells = numbered_cells(actions, input_shift)
    writes = actions.writes
    if quiet_copies and input_shift is not None:
        writes &= ~copies_onto_itself(actions, input_shift)
    first_held, held = by_first(actions.held_back, len(actions))
    starts, waits = _find_hazards(
        rows,
        reads=actions.reads,
        reads_target=actions.reads_target,
        writes=writes,
        src=src,
        dst=dst,
        count=actions.count,
        first_held=first_held,
        held=held,
        cells=cells,
    )
    return np.array(starts, dtype=np.int64), np.array(waits, dtype=np.int64)


def in_place(places: IntArray, input_shift: int) -> IntArray:
    """The output cells that are the same memory in place; other cells as they are."""
    return np.where(places < OUTPUT, places - INPUT + OUTPUT + input_shift, places)


def numbered_cells(actions: Actions, input_shift: int | None = None) -> tuple[IntArray, IntArray, int]:
    """Sources and destinations as numbers from 0, one after the other in each buffer; and how many there are.

    `input_shift` : if given, cells that are one in place are one.
    """
    places = np.concatenate([actions.src, actions.dst])
    if input_shift is not None:
        places = in_place(places, input_shift)
    buffer, offset = buffer_and_offset(places)
    number = np.zeros(len(places), dtype=np.int64)
    size = 0
    for each in range(3):
        here = buffer == each
        offsets = offset[here]
        if len(offsets):
            first = int(offsets.min())
            number[here] = offsets - first + size
            size += int(offsets.max()) - first + int(actions.count.max())
    return number[: len(actions)], number[len(actions) :], size


def drop_implied(actions: Actions, block_of: IntArray, waits: Waits, rows: int = 0) -> Waits:
    """Without the waits that follow from the order within thread blocks and from other waits.

    Each action has a clock: per thread block, the last action known to be done when it starts. A wait for an
    action that the clock shows as done is dropped. The latest waits are taken first, since they bring
    the most knowledge.
    """
    first_known, known = by_first(actions.known, len(actions))
    at_end = np.full((len(actions), int(block_of.max(initial=-1)) + 1), -1, dtype=np.int32)
    starts, kept = _drop(
        rows,
        block_of=block_of,
        first_known=first_known,
        known=known,
        first_wait=waits[0],
        waits=waits[1],
        at_end=at_end,
    )
    return np.array(starts, dtype=np.int64), np.array(kept, dtype=np.int64)


def copies_onto_itself(actions: Actions, input_shift: int) -> BoolArray:
    """Whether each action copies a rank's own data to where they are in place."""
    to_itself = actions.dst == in_place(actions.src, input_shift)
    return np.asarray((actions.op == COPY) & (actions.src < OUTPUT) & to_itself)


def _find_hazards_in_columns(
    reads: Sequence[bool],
    reads_target: Sequence[bool],
    writes: Sequence[bool],
    src: Sequence[int],
    dst: Sequence[int],
    count: Sequence[int],
    first_held: Sequence[int],
    held: Sequence[int],
    cells: int,
) -> tuple[list[int], list[int]]:
    """Waits from columns over actions; the readers of a cell since it was written are a linked list."""
    writer = [-1] * cells
    last_reader = [-1] * cells
    reader = [0 for _ in range(0)]
    reader_before = [0 for _ in range(0)]
    starts = [0]
    waits = [0 for _ in range(0)]
    for number in range(len(src)):
        needed = [held[entry] for entry in range(first_held[number], first_held[number + 1])]
        if reads[number]:
            _need_writers(src[number], src[number] + count[number], writer, needed)
        if reads_target[number]:
            _need_writers(dst[number], dst[number] + count[number], writer, needed)
        if writes[number]:
            for cell in range(dst[number], dst[number] + count[number]):
                if writer[cell] >= 0:
                    needed.append(writer[cell])
                node = last_reader[cell]
                while node >= 0:
                    needed.append(reader[node])
                    node = reader_before[node]
                last_reader[cell] = -1
                writer[cell] = number
        for side in range(2):
            if reads_target[number] if side else reads[number]:
                first = dst[number] if side else src[number]
                for cell in range(first, first + count[number]):
                    if writer[cell] != number:
                        reader_before.append(last_reader[cell])
                        last_reader[cell] = len(reader)
                        reader.append(number)
        _append_sorted(needed, waits)
        starts.append(len(waits))
    return starts, waits


def _need_writers(begin: int, end: int, writer: Sequence[int], needed: list[int]) -> None:
    """Add the last writers of cells."""
    for cell in range(begin, end):
        if writer[cell] >= 0:
            needed.append(writer[cell])


def _append_sorted(needed: Sequence[int], waits: list[int]) -> None:
    """Append the waits of one action, rising and without those that are there twice."""
    begin = len(waits)
    for wait in needed:
        end = len(waits)
        while end > begin and waits[end - 1] > wait:
            end -= 1
        if end == begin or waits[end - 1] != wait:
            waits.insert(end, wait)


def _no_change_is_early_in_columns(
    reads: Sequence[bool],
    reads_target: Sequence[bool],
    writes: Sequence[bool],
    src: Sequence[int],
    dst: Sequence[int],
    count: Sequence[int],
    ready_us: Sequence[float],
    done_us: Sequence[float],
    cells: int,
) -> bool:
    """The answer of `works_in_place`: `reads` of the input and `writes` of the output alone."""
    changed = [False] * cells
    read_until = [0.0] * cells
    for number in range(len(src)):
        if reads[number]:
            for side in range(2 if reads_target[number] else 1):
                first = dst[number] if side else src[number]
                for cell in range(first, first + count[number]):
                    if changed[cell]:
                        return False
                    read_until[cell] = max(read_until[cell], done_us[number])
        if writes[number]:
            for cell in range(dst[number], dst[number] + count[number]):
                if read_until[cell] > ready_us[number]:
                    return False
                changed[cell] = True
    return True


def _drop_in_columns(
    block_of: Sequence[int],
    first_known: Sequence[int],
    known: Sequence[int],
    first_wait: Sequence[int],
    waits: Sequence[int],
    at_end: IntArray,
) -> tuple[list[int], list[int]]:
    """The waits that stay; row k of `at_end` becomes the clock at the end of action k."""
    last = [-1] * at_end.shape[1]
    starts = [0]
    kept = [0 for _ in range(0)]
    for number in range(len(block_of)):
        block = block_of[number]
        clock = at_end[number]
        if last[block] >= 0:
            clock[:] = at_end[last[block]]
        for place in range(first_known[number], first_known[number + 1]):
            clock[:] = np.maximum(clock, at_end[known[place]])
        begin = len(kept)
        for back in range(first_wait[number + 1] - first_wait[number]):
            wait = waits[first_wait[number + 1] - 1 - back]
            if clock[block_of[wait]] < wait:
                kept.insert(begin, wait)
                clock[:] = np.maximum(clock, at_end[wait])
        clock[block] = number
        last[block] = number
        starts.append(len(kept))
    return starts, kept


_find_hazards = Loop(_find_hazards_in_columns, (_need_writers, _append_sorted))
_no_change_is_early = Loop(_no_change_is_early_in_columns)
_drop = Loop(_drop_in_columns)
