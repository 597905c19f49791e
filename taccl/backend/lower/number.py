"""Actions and waits become the thread blocks and steps of a program.

A step waits for one other step at most; for more, `nop` steps stand directly before it and wait for the
rest. Two `re` steps in a row with the same target and source would be merged by the
runtimes, with a wait between them lost. None are made: additions to one cell arrive from different
peers, so there is a receive or another thread block between any two.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.lower.actions import Action, Place
from taccl.backend.lower.blocks import Block
from taccl.backend.lower.sizes import Sizes
from taccl.backend.program import Buffer, Op, RankProgram, Step, ThreadBlock


def number_steps(
    rank: int,
    actions: Sequence[Action],
    blocks: Sequence[Block],
    waits: Sequence[Sequence[int]],
    scratch: Sequence[dict[int, int]],
    sizes: Sizes,
) -> RankProgram:
    """The program of one rank.

    Thread blocks that others wait for come first: the runtimes can only wait for low ids.

    Parameters
    ----------
    waits : for each action, the actions that its thread block waits for.
    scratch : for every rank, what `scratch_map` made of its actions.
    """
    waited_for = {wait for waits_of_one in waits for wait in waits_of_one}
    ordered = sorted(
        blocks or [Block(None, None, [])],
        key=lambda block: (
            waited_for.isdisjoint(block.actions),
            block.channel,
            -1 if block.recv is None else block.recv.peer,
            -1 if block.send is None else block.send.peer,
        ),
    )
    where: dict[int, tuple[int, int]] = {}
    for block_id, block in enumerate(ordered):
        step = 0
        for number in block.actions:
            step += max(1, len(waits[number]))
            where[number] = (block_id, step - 1)

    def step_of(number: int) -> Step:
        action = actions[number]
        src, dst = _named(action, rank, scratch)
        return Step(
            op=action.op,
            src=src.buffer,
            src_offset=src.offset,
            dst=dst.buffer,
            dst_offset=dst.offset,
            count=action.count,
            depends=where[waits[number][-1]] if waits[number] else None,
            has_dependent=number in waited_for,
        )

    made = []
    for block_id, block in enumerate(ordered):
        steps: list[Step] = []
        for number in block.actions:
            steps += [_nop(where[wait]) for wait in waits[number][:-1]]
            steps.append(step_of(number))
        made.append(
            ThreadBlock(
                id=block_id,
                send=-1 if block.send is None else block.send.peer,
                recv=-1 if block.recv is None else block.recv.peer,
                channel=block.channel,
                steps=tuple(steps),
            )
        )
    return RankProgram(
        rank, sizes.input_chunks[rank], sizes.output_chunks[rank], len(scratch[rank]), tuple(made)
    )


def scratch_map(actions: Sequence[Action]) -> dict[int, int]:
    """The offset in the program of each scratch cell that a rank uses: without holes, in order."""
    used: set[int] = set()
    for action in actions:
        for places in (action.reads(), action.writes()):
            used.update(place.offset for place in places if place.buffer is Buffer.SCRATCH)
    return {offset: new for new, offset in enumerate(sorted(used))}


def _named(action: Action, rank: int, scratch: Sequence[dict[int, int]]) -> tuple[Place, Place]:
    """Source and destination as the file names them.

    A send's destination and a receive's source are at the peer; the runtimes ignore them. Where the
    peer stores nothing, the step names its own side twice.
    """
    src_rank = dst_rank = rank
    if action.endpoint is not None and action.op is Op.SEND:
        dst_rank = action.endpoint.peer
    elif action.endpoint is not None and action.op is Op.RECV:
        src_rank = action.endpoint.peer
    src = _packed(action.src, scratch[src_rank])
    dst = _packed(action.dst, scratch[dst_rank])
    named = (src or dst, dst or src)
    assert named[0] is not None and named[1] is not None  # a step's own side is in its rank's map
    return named[0], named[1]


def _packed(place: Place, scratch: dict[int, int]) -> Place | None:
    if place.buffer is not Buffer.SCRATCH:
        return place
    offset = scratch.get(place.offset)
    return None if offset is None else Place(Buffer.SCRATCH, offset)


def _nop(wait: tuple[int, int]) -> Step:
    return Step(Op.NOP, Buffer.INPUT, -1, Buffer.OUTPUT, -1, 0, depends=wait)
