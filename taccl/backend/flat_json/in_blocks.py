"""Actions as a two-sided program in which each end of a message has a thread block of its own.

So each step starts as soon as what it waits for is done, as the actions do, and whatever shows or simulates
programs does it with actions.
"""

from __future__ import annotations

from taccl.backend.flat_json.cells import buffer_elements
from taccl.backend.flat_json.document import Action, ActionRank, ActionsProgram, Do
from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock

_OP = {Do.SEND: Op.SEND, Do.RECEIVE: Op.RECV, Do.COPY: Op.COPY, Do.REDUCE: Op.REDUCE}
_ONE_PART = ("gather", "scatter")


def in_blocks(actions: ActionsProgram) -> Program:
    """The program; its chunks are elements."""
    channels = _channels(actions)
    sizes = buffer_elements(actions).tolist()
    per_loop = actions.call_elements
    if actions.collective in _ONE_PART:
        per_loop //= len(actions.ranks)
    ranks = tuple(
        RankProgram(number, inputs, outputs, scratch, _blocks(number, rank, channels))
        for number, (rank, (inputs, outputs, scratch)) in enumerate(zip(actions.ranks, sizes, strict=True))
    )
    return Program(
        name=actions.name,
        collective=actions.collective,
        num_ranks=len(ranks),
        num_channels=1 + max(channels.values(), default=0),
        chunks_per_loop=per_loop,
        protocol=Protocol.SIMPLE,
        in_place=False,
        out_of_place=True,
        min_bytes=actions.min_bytes,
        max_bytes=actions.max_bytes,
        ranks=ranks,
    )


def _channels(actions: ActionsProgram) -> dict[tuple[int, int, int], int]:
    """Of each message a channel that no other between the two ranks has."""
    channels: dict[tuple[int, int, int], int] = {}
    taken: dict[tuple[int, int], int] = {}
    for rank, of_rank in enumerate(actions.ranks):
        for action in of_rank.actions:
            if action.do is Do.SEND:
                pair = (rank, action.peer)
                channels[rank, action.peer, action.message] = taken.setdefault(pair, 0)
                taken[pair] += 1
    return channels


def _blocks(
    rank: int, of_rank: ActionRank, channels: dict[tuple[int, int, int], int]
) -> tuple[ThreadBlock, ...]:
    """A thread block for each chain of actions, with a nop for each wait but one."""
    numbers = of_rank.chains(local=True)
    block_of = {index: number for number, inside in enumerate(numbers) for index in inside}
    waits = {
        index: [other for other in action.after if block_of[other] != block_of[index]]
        for index, action in enumerate(of_rank.actions)
    }
    step_of: dict[int, int] = {}
    for inside in numbers:
        step = -1
        for index in inside:
            step += max(1, len(waits[index]))
            step_of[index] = step
    awaited = {other for others in waits.values() for other in others}
    blocks = []
    for number, inside in enumerate(numbers):
        steps = []
        for index in inside:
            *early, last = [None] if not waits[index] else waits[index]
            steps += [_nop(block_of[other], step_of[other]) for other in early if other is not None]
            depends = None if last is None else (block_of[last], step_of[last])
            steps.append(_step(of_rank.actions[index], depends, index in awaited))
        first = of_rank.actions[inside[0]]
        send = first.peer if first.do is Do.SEND else -1
        recv = first.peer if first.do is Do.RECEIVE else -1
        pair = (rank, first.peer) if first.do is Do.SEND else (first.peer, rank)
        channel = channels.get((*pair, first.message), 0)
        blocks.append(ThreadBlock(number, send, recv, channel, tuple(steps)))
    return tuple(blocks)


def _nop(block: int, step: int) -> Step:
    return Step(Op.NOP, Buffer.INPUT, 0, Buffer.INPUT, 0, 0, (block, step), False)


def _step(action: Action, depends: tuple[int, int] | None, is_awaited: bool) -> Step:
    span = action.target if action.source is None else action.source
    source, target = action.source or span, action.target or span
    assert source is not None and target is not None
    return Step(
        _OP[action.do],
        *(source.buffer, source.offset, target.buffer, target.offset),
        count=action.elements,
        depends=depends,
        has_dependent=is_awaited,
    )
