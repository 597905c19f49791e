"""What must wait for what at one rank.

The actions of a rank have one order. An action that touches a cell must wait for the last earlier one
that wrote it, and one that writes it also for those that have read it since. In place, the input and the
output share cells, so what writes an output cell also waits for the readers of the input cell under it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.lower.actions import Action, Place
from taccl.backend.program import Buffer, Op
from taccl.schedule import TOLERANCE_US


def works_in_place(actions: Sequence[Action], input_shift: int) -> bool:
    """Whether the input and the output may share memory.

    No input cell may be read after the output cell under it was changed, and no change may have to
    wait, beyond the times of the schedule, for an earlier reader of the input.
    """
    changed: set[Place] = set()
    read_until: dict[Place, float] = {}
    for action in actions:
        own = copies_onto_itself(action, input_shift)
        if action.src.buffer is Buffer.INPUT and not own:
            for place in action.reads():
                cell = in_place(place, input_shift)
                if cell in changed:
                    return False
                read_until[cell] = max(read_until.get(cell, 0.0), action.done_us)
        if action.dst.buffer is Buffer.OUTPUT and not own:
            for place in action.writes():
                if read_until.get(place, 0.0) > action.ready_us + TOLERANCE_US:
                    return False
                changed.add(place)
    return True


def hazards(
    actions: Sequence[Action], input_shift: int | None, quiet_copies: bool = False
) -> list[list[int]]:
    """For each action, the earlier ones that it must wait for, each once.

    Parameters
    ----------
    input_shift : in place, input cell k is output cell k + this; None if never run in place. What is
        ordered for the shared memory is also ordered for the two apart, but for quiet copies.
    quiet_copies : in place, a copy of a cell onto itself need not wait for those that read it.
    """
    if quiet_copies and input_shift is not None:
        together = zip(hazards(actions, None), _hazards(actions, input_shift, True), strict=True)
        return [sorted({*apart, *shared}) for apart, shared in together]
    return _hazards(actions, input_shift, False)


def _hazards(actions: Sequence[Action], input_shift: int | None, quiet_copies: bool) -> list[list[int]]:
    writer: dict[Place, int] = {}
    readers: dict[Place, list[int]] = {}
    waits: list[list[int]] = []
    for number, action in enumerate(actions):
        needed: set[int] = set(action.held_back)
        reads = action.reads()
        if input_shift is not None and action.src.buffer is Buffer.INPUT:
            reads = tuple(in_place(place, input_shift) for place in reads)
        for cell in reads:
            if cell in writer:
                needed.add(writer[cell])
        quiet = quiet_copies and input_shift is not None and copies_onto_itself(action, input_shift)
        for cell in () if quiet else action.writes():
            if cell in writer:
                needed.add(writer[cell])
            needed.update(readers.pop(cell, ()))
            writer[cell] = number
        for cell in reads:
            if writer.get(cell) != number:
                readers.setdefault(cell, []).append(number)
        waits.append(sorted(needed))
    return waits


def in_place(place: Place, input_shift: int) -> Place:
    """The output cell that is the same memory in place; other cells as they are."""
    if place.buffer is not Buffer.INPUT:
        return place
    return Place(Buffer.OUTPUT, place.offset + input_shift)


def drop_implied(
    actions: Sequence[Action], block_of: Sequence[int], waits: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Without the waits that follow from the order within thread blocks and from other waits.

    Each action has a clock: per thread block, the last action known to be done when it starts. A wait for an
    action that the clock shows as done is dropped. The latest waits are taken first, since they bring
    the most knowledge.
    """
    blocks = max(block_of, default=-1) + 1
    at_end = np.full((len(actions), blocks), -1, dtype=np.int64)
    last = np.full(blocks, -1, dtype=np.int64)
    kept: list[list[int]] = []
    for number, action in enumerate(actions):
        block = block_of[number]
        clock = at_end[number]
        if last[block] >= 0:
            clock[:] = at_end[last[block]]
        for done in action.known:
            np.maximum(clock, at_end[done], out=clock)
        mine = []
        for wait in sorted(waits[number], reverse=True):
            if clock[block_of[wait]] < wait:
                mine.append(wait)
                np.maximum(clock, at_end[wait], out=clock)
        clock[block] = number
        last[block] = number
        kept.append(mine[::-1])
    return kept


def copies_onto_itself(action: Action, input_shift: int) -> bool:
    """Whether it copies a rank's own data to where they are in place."""
    return (
        action.op is Op.COPY
        and action.src.buffer is Buffer.INPUT
        and action.dst == Place(Buffer.OUTPUT, action.src.offset + input_shift)
    )
