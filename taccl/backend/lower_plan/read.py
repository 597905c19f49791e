"""Graphs of what is lowered: the actions of a schedule in thread blocks, or a two-sided program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from taccl.backend.lower.actions import (
    BUFFERS,
    OPS,
    RECV,
    SEND,
    Actions,
    buffer_and_offset,
    channel_of,
    scratch_map,
    without_holes,
)
from taccl.backend.lower.blocks import RankBlocks
from taccl.backend.lower.unequal import Starts
from taccl.backend.lower_plan.graph import Action, Graph, arranged
from taccl.backend.lower_plan.places import Aliases, Place
from taccl.backend.program import Program
from taccl.errors import VerificationError
from taccl.model.collective import IntArray

#: Whom a connection leads from and to, its channel, and a position among its sends.
_Key = tuple[int, int, int, int]


def graph_of_actions(
    ranks: Sequence[RankBlocks],
    names: Aliases,
    node_of: Sequence[int],
    packets: bool,
    starts_of: Callable[[int, Actions], Starts] | None = None,
) -> Graph:
    """The actions of all ranks, which are not fused.

    `starts_of` : of the actions of a rank, where its cells begin, if they are of unequal sizes.
    """
    actions: list[Action] = []
    blocks: list[tuple[int, list[int]]] = []
    waits: dict[int, list[int]] = {}
    turns: list[tuple[int, int]] = []
    scratch: list[int] = []
    sends: dict[int, tuple[int, int, int]] = {}
    receives: dict[int, tuple[int, int]] = {}
    for rank, of_rank in enumerate(ranks):
        mine, first = without_holes(of_rank.actions), len(actions)
        starts = None if starts_of is None else starts_of(rank, mine)
        scratch.append(int((scratch_map(mine) >= 0).sum() if starts is None else starts[2][-1]))
        sources, targets = (_places(cells, mine.count, rank, names, starts) for cells in (mine.src, mine.dst))
        rows = zip(
            mine.op.tolist(), sources, targets, mine.send.tolist(), mine.endpoint.tolist(), strict=True
        )
        for number, (code, source, target, send, endpoint) in enumerate(rows, first):
            if code == SEND:
                sends[send] = rank, channel_of(endpoint), number
            elif code == RECV:
                receives[send] = rank, number
            actions.append(Action(number, rank, 0, 0, OPS[code], source, target))
        starts, others = (column.tolist() for column in of_rank.waits)
        for number in np.flatnonzero(np.diff(of_rank.waits[0])).tolist():
            waits[first + number] = [first + each for each in others[starts[number] : starts[number + 1]]]
        for block in of_rank.in_order():
            blocks.append((rank, [first + number for number in block.actions]))
        turns += (first + mine.turns).tolist()
    pairs = {
        (src, receives[send][0], channel, number): receives[send][1]
        for send, (src, channel, number) in sends.items()
    }
    return arranged(actions, blocks, _in_order(pairs), waits, scratch, node_of, packets, turns)


def _places(
    cells: IntArray, count: IntArray, rank: int, names: Aliases, starts: Starts | None
) -> Iterator[Place]:
    """Places by the one name of each."""
    buffers, offsets = buffer_and_offset(cells)
    for buffer, offset, size in zip(buffers.tolist(), offsets.tolist(), count.tolist(), strict=True):
        first, end = offset, offset + size
        if starts is not None:
            first, end = int(starts[buffer][first]), int(starts[buffer][end])
        yield names.place(rank, BUFFERS[buffer], first, end - first)


def graph_of_program(program: Program, names: Aliases, node_of: Sequence[int], packets: bool) -> Graph:
    """The steps of a program, whatever runtime it is for; its nops are actions that do nothing.

    Raises
    ------
    VerificationError : a send without a receive of as many chunks, or steps that wait for each other.
    ProgramLimitError : more steps and thread blocks than can be looked through.
    """
    actions: list[Action] = []
    blocks: list[tuple[int, list[int]]] = []
    waits: dict[int, list[int]] = {}
    sends: dict[tuple[int, int, int], list[int]] = {}
    receives: dict[tuple[int, int, int], list[int]] = {}
    for rank in program.ranks:
        first = {}
        number = len(actions)
        for block in rank.thread_blocks:
            first[block.id] = number
            number += len(block.steps)
        for block in rank.thread_blocks:
            begin = len(actions)
            for step in block.steps:
                number = len(actions)
                source = names.place(rank.rank, step.src, step.src_offset, step.count)
                target = names.place(rank.rank, step.dst, step.dst_offset, step.count)
                actions.append(Action(number, rank.rank, 0, 0, step.op, source, target))
                if step.depends is not None:
                    waits[number] = [first[step.depends[0]] + step.depends[1]]
                if step.op.sends:
                    sends.setdefault((rank.rank, block.send, block.channel), []).append(number)
                if step.op.receives:
                    receives.setdefault((block.recv, rank.rank, block.channel), []).append(number)
            blocks.append((rank.rank, [*range(begin, len(actions))]))
    pairs: dict[_Key, int] = {}
    for connection in sorted({*sends, *receives}):
        sent, heard = sends.get(connection, []), receives.get(connection, [])
        src, dst, channel = connection
        counts = [[actions[each].target.size for each in side] for side in (sent, heard)]
        if counts[0] != counts[1] or min(src, dst) < 0 or src == dst:
            raise VerificationError(
                f"what rank {src} sends to rank {dst} on channel {channel} is not what that receives",
                hint="taccl verify says all that is wrong",
            )
        for send, receive in zip(sent, heard, strict=True):
            pairs[src, dst, channel, send] = receive
    scratch = [rank.scratch_chunks for rank in program.ranks]
    return arranged(actions, blocks, _in_order(pairs), waits, scratch, node_of, packets)


def _in_order(pairs: Mapping[_Key, int]) -> list[tuple[int, int]]:
    """Sends and receives, connection by connection."""
    return [(key[3], receive) for key, receive in sorted(pairs.items())]
