"""Copies behind sends whose source is overwritten, for a runtime that says too early that a send is done.

With LL, RCCL publishes that a plain send is done while some of its threads may still read the source
(docs/msccl-xml.md). The threads of a thread block meet in every other step. So what overwrites
the source waits for a copy of one chunk to scratch, directly behind the send.

It knows the actions of one rank and their thread blocks; it does not know schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.lower.actions import Action, Place
from taccl.backend.lower.blocks import Block
from taccl.backend.lower.hazards import copies_onto_itself, hazards, in_place
from taccl.backend.program import Buffer, Op


def put_copies_behind_sends(
    actions: Sequence[Action], blocks: Sequence[Block], input_shift: int
) -> list[Action]:
    """All actions, with the copies, which are put into `blocks`, too.

    Parameters
    ----------
    input_shift : in place, input cell k is output cell k + this.
    """
    block_of = {number: block for block in blocks for number in block.actions}
    overwritten = _overwritten(actions, block_of, input_shift)
    if not overwritten:
        return list(actions)
    behind = {send for sends in overwritten.values() for send in sends}
    moved, made = {}, 0
    for number in range(len(actions)):
        moved[number] = number + made
        made += number in behind
    spare = _first_free_scratch(actions)
    target = {id(block): Place(Buffer.SCRATCH, spare + at) for at, block in enumerate(blocks)}
    everything: list[Action] = []
    for number, action in enumerate(actions):
        action.known = tuple(moved[known] for known in action.known)
        copies = (moved[send] + 1 for send in overwritten.get(number, ()))
        action.held_back = (*(moved[wait] for wait in action.held_back), *copies)
        everything.append(action)
        if number in behind:
            everything.append(_copy_behind(action, target[id(block_of[number])]))
    for block in blocks:
        block.actions = [
            new
            for number in block.actions
            for new in range(moved[number], moved[number] + (2 if number in behind else 1))
        ]
    return everything


def _overwritten(
    actions: Sequence[Action], block_of: dict[int, Block], input_shift: int
) -> dict[int, list[int]]:
    """For each action that overwrites what sends of other thread blocks read: those sends."""
    found: dict[int, list[int]] = {}
    for number, waits in enumerate(hazards(actions, input_shift)):
        if copies_onto_itself(actions[number], input_shift):
            continue
        written = {in_place(place, input_shift) for place in actions[number].writes()}
        for wait in waits:
            if actions[wait].op is not Op.SEND or block_of[wait] is block_of[number]:
                continue
            if wait in actions[number].known:  # what is received here was made of all that it sent
                continue
            if any(in_place(place, input_shift) in written for place in actions[wait].reads()):
                found.setdefault(number, []).append(wait)
    return found


def _copy_behind(send: Action, target: Place) -> Action:
    return Action(
        Op.COPY, send.src, target, 1, send.position, send.send, send.endpoint, send.done_us, send.done_us
    )


def _first_free_scratch(actions: Sequence[Action]) -> int:
    used = (
        place.offset
        for action in actions
        for place in (*action.reads(), *action.writes())
        if place.buffer is Buffer.SCRATCH
    )
    return max(used, default=-1) + 1
