"""Copies behind sends whose source is overwritten, for a runtime that says too early that a send is done.

With LL, RCCL publishes that a plain send is done while some of its threads may still read the source
(docs/msccl-xml.md). The threads of a thread block meet in every other step. So what overwrites
the source waits for a copy of one chunk to scratch, directly behind the send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.lower.actions import COPY, SCRATCH, SEND, Actions, Pairs, scratch_map
from taccl.backend.lower.blocks import DraftBlock
from taccl.backend.lower.hazards import copies_onto_itself, hazards, numbered_cells
from taccl.model.collective import IntArray


def put_copies_behind_sends(
    actions: Actions, blocks: Sequence[DraftBlock], input_shift: int, rows: int = 0
) -> Actions:
    """All actions, with the copies, which are put into `blocks`, too.

    Parameters
    ----------
    input_shift : in place, input cell k is output cell k + this.
    rows : how many actions there are at all ranks.
    """
    block_of = np.full(len(actions), -1, dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of[block.actions] = number
    overwritten = _overwritten(actions, block_of, input_shift, rows)
    if not len(overwritten):
        return actions
    behind = np.unique(overwritten[:, 1])
    is_behind = np.zeros(len(actions), dtype=np.bool_)
    is_behind[behind] = True
    moved = np.arange(len(actions)) + np.cumsum(is_behind) - is_behind
    sends = actions.take(behind)
    copies = replace(
        sends,
        op=np.full(len(behind), COPY, dtype=np.int64),
        dst=SCRATCH + _end_of_scratch(actions) + block_of[behind],
        count=np.ones(len(behind), dtype=np.int64),
        ready_us=sends.done_us,
        unit=np.full(len(behind), -1, dtype=np.int64),
        known=sends.known[:0],
        held_back=sends.held_back[:0],
        turns=sends.turns[:0],
    )
    copy = np.full(len(actions), -1, dtype=np.int64)
    copy[behind] = len(actions) + np.arange(len(behind))
    held = np.stack([overwritten[:, 0], copy[overwritten[:, 1]]], axis=1)
    order = np.empty(len(actions) + len(behind), dtype=np.int64)
    order[moved] = np.arange(len(actions))
    order[moved[behind] + 1] = copy[behind]
    for block in blocks:
        numbers = moved[block.actions].tolist() if block.actions else []
        copied = is_behind[block.actions].tolist() if block.actions else []
        block.actions = [
            new
            for number, has_copy in zip(numbers, copied, strict=True)
            for new in range(number, number + 1 + has_copy)
        ]
    return actions.then(copies).waiting_for(held).take(order)


def _overwritten(actions: Actions, block_of: IntArray, input_shift: int, rows: int) -> Pairs:
    """Pairs of an action that overwrites, and a send of another thread block that reads what it does."""
    starts, waits = hazards(actions, [input_shift], rows=rows)
    number = np.repeat(np.arange(len(actions)), np.diff(starts))
    src, dst, _ = numbered_cells(actions, input_shift)
    wanted = (actions.op[waits] == SEND) & (block_of[waits] != block_of[number])
    wanted &= actions.writes[number] & ~copies_onto_itself(actions, input_shift)[number]
    wanted &= (dst[number] < src[waits] + actions.count[waits]) & (
        src[waits] < dst[number] + actions.count[number]
    )
    # What is received here was made of all that a send which is known to be done has sent.
    known = actions.known[:, 0] * len(actions) + actions.known[:, 1]
    wanted &= ~np.isin(number * len(actions) + waits, known)
    return np.stack([number[wanted], waits[wanted]], axis=1)


def _end_of_scratch(actions: Actions) -> int:
    """The offset behind all of the scratch that it uses."""
    return int(np.flatnonzero(scratch_map(actions) >= 0).max(initial=-1)) + 1
