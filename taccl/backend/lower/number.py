"""Actions and waits become the thread blocks and steps of a program.

A step waits for one other step at most; for more, `nop` steps stand directly before it and wait for the
rest. Two `re` steps in a row with the same target and source would be merged by the
runtimes, with a wait between them lost. None are made: additions to one cell arrive from different
peers, so there is a receive or another thread block between any two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.lower.actions import (
    BUFFERS,
    OP_CODE,
    OPS,
    RECV,
    SCRATCH,
    SEND,
    Actions,
    buffer_and_offset,
    peer_of,
)
from taccl.backend.lower.blocks import DraftBlock, RankBlocks
from taccl.backend.lower.sizes import Sizes
from taccl.backend.program import Buffer, Op, RankProgram, Step, ThreadBlock
from taccl.model.collective import BoolArray, IntArray


def number_steps(rank: int, of_rank: RankBlocks, scratch: Sequence[IntArray], sizes: Sizes) -> RankProgram:
    """The program of one rank.

    Thread blocks that others wait for come first: the runtimes can only wait for low ids.

    Parameters
    ----------
    scratch : for every rank, what `scratch_map` made of its actions.
    """
    actions, (starts, waits) = of_rank.actions, of_rank.waits
    is_waited_for = of_rank.is_waited_for
    ordered = of_rank.in_order() or [DraftBlock(-1, -1, [])]
    sizes_of_blocks = np.array([len(block.actions) for block in ordered], dtype=np.int64)
    order = np.array([number for block in ordered for number in block.actions], dtype=np.int64)
    block_of = np.repeat(np.arange(len(ordered)), sizes_of_blocks)
    num_steps = of_rank.num_steps[order]
    end = np.cumsum(num_steps)
    bounds = np.concatenate([[0], end])[np.concatenate([[0], np.cumsum(sizes_of_blocks)])]
    at_block, at_step = np.zeros((2, len(actions)), dtype=np.int64)
    at_block[order] = block_of
    at_step[order] = end - 1 - bounds[block_of]

    # A row for each step: its action, and which of the action's waits it waits for; nops are before it.
    action = np.repeat(order, num_steps)
    turn = np.arange(len(action)) - np.repeat(end - num_steps, num_steps)
    is_last = turn == np.repeat(num_steps, num_steps) - 1
    does_wait = starts[action + 1] > starts[action]
    awaited = np.zeros(len(action), dtype=np.int64)
    awaited[does_wait] = waits[(starts[action] + turn)[does_wait]]
    depends: list[tuple[int, int] | None] = [
        (block, step) if waiting else None
        for block, step, waiting in zip(
            at_block[awaited].tolist() if len(actions) else [],
            at_step[awaited].tolist() if len(actions) else [],
            does_wait.tolist(),
            strict=True,
        )
    ]
    named = _named(actions, rank, scratch)
    steps = _steps(actions, named, action, is_last, depends, is_waited_for)
    made = tuple(
        ThreadBlock(
            id=block_id,
            send=-1 if block.send < 0 else peer_of(block.send),
            recv=-1 if block.recv < 0 else peer_of(block.recv),
            channel=block.channel,
            steps=tuple(steps[bounds[block_id] : bounds[block_id + 1]]),
        )
        for block_id, block in enumerate(ordered)
    )
    used = int(scratch[rank].max(initial=-1)) + 1
    return RankProgram(rank, sizes.input_chunks[rank], sizes.output_chunks[rank], used, made)


def _steps(
    actions: Actions,
    named: tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]],
    action: IntArray,
    is_last: BoolArray,
    depends: Sequence[tuple[int, int] | None],
    is_waited_for: BoolArray,
) -> list[Step]:
    """The last step of an action carries it out; the steps before are nops.

    Parameters
    ----------
    named : buffers and offsets of the actions' sources and destinations.
    action, is_last, depends : of each step.
    is_waited_for : of each action.
    """
    src, dst = named
    op, src_buffer, src_offset, dst_buffer, dst_offset, count, has_dependent = (
        np.where(is_last, column[action], of_nop).tolist()
        for column, of_nop in (
            (actions.op, OP_CODE[Op.NOP]),
            (src[0], BUFFERS.index(Buffer.INPUT)),
            (src[1], -1),
            (dst[0], BUFFERS.index(Buffer.OUTPUT)),
            (dst[1], -1),
            (actions.count, 0),
            (is_waited_for, False),
        )
    )
    return list(
        map(
            Step,
            map(OPS.__getitem__, op),
            map(BUFFERS.__getitem__, src_buffer),
            src_offset,
            map(BUFFERS.__getitem__, dst_buffer),
            dst_offset,
            count,
            depends,
            has_dependent,
        )
    )


def _named(
    actions: Actions, rank: int, scratch: Sequence[IntArray]
) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Buffers and offsets of sources and destinations as the file names them.

    A send's destination and a receive's source are at the peer; the runtimes ignore them. Where the
    peer stores nothing, the step names its own side twice.
    """
    peer = peer_of(actions.endpoint)
    there = actions.endpoint >= 0
    src_rank = np.where(there & (actions.op == RECV), peer, rank)
    dst_rank = np.where(there & (actions.op == SEND), peer, rank)
    src, has_src = _packed(actions.src, src_rank, scratch)
    dst, has_dst = _packed(actions.dst, dst_rank, scratch)
    named = np.where(has_src, src, dst), np.where(has_dst, dst, src)
    return buffer_and_offset(named[0]), buffer_and_offset(named[1])


def _packed(places: IntArray, ranks: IntArray, scratch: Sequence[IntArray]) -> tuple[IntArray, BoolArray]:
    """Places in the program, and whether they are there."""
    packed, is_there = places.copy(), np.ones(len(places), dtype=np.bool_)
    in_scratch = np.flatnonzero(places >= SCRATCH)
    for rank in np.unique(ranks[in_scratch]).tolist():
        rows = in_scratch[ranks[in_scratch] == rank]
        offset, known = places[rows] - SCRATCH, scratch[rank]
        new = np.where(offset < len(known), known[np.minimum(offset, len(known) - 1)], -1)
        packed[rows] = SCRATCH + new
        is_there[rows] = new >= 0
    return packed, is_there
