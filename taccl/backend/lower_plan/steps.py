"""The steps of a two-sided program in one row, its messages, and what surely happens before what. Nothing is
taken from how deep the queues between ranks are: a step is known to be done only where data or a dependency
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from taccl.backend.program import Program, Step
from taccl.errors import ProgramLimitError, VerificationError

Known: TypeAlias = NDArray[np.int32]

#: Entries of the table of what each step knows: 4 bytes each.
MAX_KNOWN = 200_000_000


#: By (rank, id of a thread block), the steps at which one more thread block begins.
Cuts = Mapping[tuple[int, int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Node:
    """A step, and where it stands.

    Parameters
    ----------
    index : its number in `Steps.nodes`.
    rank, block : the rank, and the number of the thread block in `Steps.blocks`.
    at : its position in that.
    """

    index: int
    rank: int
    block: int
    at: int
    step: Step


@dataclass(frozen=True, slots=True)
class Message:
    """What one step sends and another receives.

    Parameters
    ----------
    src, dst : ranks.
    connection : the thread blocks that send and receive.
    send, receive : nodes.
    """

    src: int
    dst: int
    connection: tuple[int, int]
    send: int
    receive: int


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block: steps that run in order.

    Parameters
    ----------
    rank, id : its rank, and the thread block of the program that it is, or is a part of.
    nodes : its steps.
    first : which step of the program's thread block the first of them is.
    """

    rank: int
    id: int
    nodes: range
    first: int


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of a program.

    Parameters
    ----------
    blocks : of all ranks, in their order.
    sent, received : the message that a node sends, that it receives.
    before : the nodes that each waits for directly: the one before it in the program's thread block, its
        dependency, the send of its message.
    order : an order of all nodes in which each comes after those.
    known : shape (nodes, blocks); how many steps of a block surely are done when a node is done, itself
        included.
    """

    program: Program
    nodes: tuple[Node, ...]
    blocks: tuple[Block, ...]
    messages: tuple[Message, ...]
    sent: dict[int, Message]
    received: dict[int, Message]
    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    known: Known

    def is_before(self, first: int, second: int) -> bool:
        """Whether a node surely is done when another begins."""
        node = self.nodes[first]
        return first != second and bool(self.known[second, node.block] > node.at)


def read_steps(program: Program, cuts: Cuts) -> Steps:
    """Take a program apart.

    Parameters
    ----------
    cuts : thread blocks that are taken apart; each part waits for the one before it.

    Raises
    ------
    VerificationError : a send without a receive of as many chunks, or steps that wait for each other.
    ProgramLimitError : more steps and thread blocks than can be looked through.
    """
    nodes: list[Node] = []
    blocks: list[Block] = []
    for rank in program.ranks:
        for block in rank.thread_blocks:
            for first, end in pairwise([0, *cuts.get((rank.rank, block.id), ()), len(block.steps)]):
                begin, number = len(nodes), len(blocks)
                nodes += [
                    Node(begin + at, rank.rank, number, at, step)
                    for at, step in enumerate(block.steps[first:end])
                ]
                blocks.append(Block(rank.rank, block.id, range(begin, len(nodes)), first))
    if len(nodes) * len(blocks) > MAX_KNOWN:
        raise ProgramLimitError(
            f"{len(nodes)} steps in {len(blocks)} thread blocks are more than can be looked through",
            hint="fewer chunks or instances",
        )
    whole: dict[tuple[int, int], list[int]] = {}
    for each in blocks:
        whole.setdefault((each.rank, each.id), []).extend(each.nodes)
    messages = tuple(_messages(program, nodes, whole))
    received = {message.receive: message for message in messages}
    before = _before(nodes, whole, received)
    order = _ordered(before)
    return Steps(
        program=program,
        nodes=tuple(nodes),
        blocks=tuple(blocks),
        messages=messages,
        sent={message.send: message for message in messages},
        received=received,
        before=before,
        order=order,
        known=_known(nodes, before, order, len(blocks)),
    )


def rearranged(
    steps: Steps, blocks: Sequence[Sequence[int]], waits: Mapping[int, Iterable[int]]
) -> tuple[Steps, dict[int, int]]:
    """The same steps in other thread blocks, and their new numbers by their old ones.

    Parameters
    ----------
    blocks : by thread block, its steps; no cuts may have been made.
    waits : by step, what it waits for next to the one before it and the send of its message.

    Raises
    ------
    VerificationError : they would wait for each other.
    """
    new: dict[int, int] = {}
    nodes: list[Node] = []
    made: list[Block] = []
    for number, (block, mine) in enumerate(zip(steps.blocks, blocks, strict=True)):
        for at, old in enumerate(mine):
            new[old] = len(nodes)
            nodes.append(replace(steps.nodes[old], index=len(nodes), block=number, at=at))
        made.append(replace(block, nodes=range(len(nodes) - len(mine), len(nodes)), first=0))
    messages = tuple(
        replace(
            message,
            connection=(nodes[new[message.send]].block, nodes[new[message.receive]].block),
            send=new[message.send],
            receive=new[message.receive],
        )
        for message in steps.messages
    )
    received = {message.receive: message for message in messages}
    before: list[tuple[int, ...]] = [()] * len(nodes)
    for old, index in new.items():
        mine = [index - 1] if nodes[index].at else []
        mine += [new[each] for each in waits.get(old, ())]
        mine += [received[index].send] if index in received else []
        before[index] = tuple(dict.fromkeys(mine))
    order = _ordered(before)
    return replace(
        steps,
        nodes=tuple(nodes),
        blocks=tuple(made),
        messages=messages,
        sent={message.send: message for message in messages},
        received=received,
        before=tuple(before),
        order=order,
        known=_known(nodes, before, order, len(made)),
    ), new


def known_without_messages(steps: Steps) -> Known:
    """`Steps.known` by the order of steps and dependencies alone: as if messages reported nothing but
    data.
    """
    before = [
        tuple(wait for wait in waits if steps.nodes[wait].rank == node.rank)
        for node, waits in zip(steps.nodes, steps.before, strict=True)
    ]
    return _known(steps.nodes, before, steps.order, len(steps.blocks))


def _messages(
    program: Program, nodes: Sequence[Node], whole: Mapping[tuple[int, int], Sequence[int]]
) -> Iterator[Message]:
    """The k-th send and the k-th receive of each connection."""
    sends: dict[tuple[int, int, int], list[int]] = {}
    receives: dict[tuple[int, int, int], list[int]] = {}
    for rank in program.ranks:
        for block in rank.thread_blocks:
            mine = [nodes[each] for each in whole[rank.rank, block.id]]
            out, into = (rank.rank, block.send, block.channel), (block.recv, rank.rank, block.channel)
            sends.setdefault(out, []).extend(each.index for each in mine if each.step.op.sends)
            receives.setdefault(into, []).extend(each.index for each in mine if each.step.op.receives)
    for connection in sorted({*sends, *receives}):
        sent, heard = sends.get(connection, []), receives.get(connection, [])
        if not sent and not heard:
            continue
        src, dst, channel = connection
        counts = [[nodes[each].step.count for each in side] for side in (sent, heard)]
        if counts[0] != counts[1] or min(src, dst) < 0 or src == dst:
            raise VerificationError(
                f"what rank {src} sends to rank {dst} on channel {channel} is not what that receives",
                hint="taccl verify says all that is wrong",
            )
        for send, receive in zip(sent, heard, strict=True):
            yield Message(src, dst, (nodes[send].block, nodes[receive].block), send, receive)


def _before(
    nodes: Sequence[Node],
    whole: Mapping[tuple[int, int], Sequence[int]],
    received: Mapping[int, Message],
) -> tuple[tuple[int, ...], ...]:
    before: list[tuple[int, ...]] = [()] * len(nodes)
    for (rank, _), mine in whole.items():
        for place, index in enumerate(mine):
            waits = [mine[place - 1]] if place else []
            depends = nodes[index].step.depends
            if depends is not None:
                waits.append(whole[rank, depends[0]][depends[1]])
            if index in received:
                waits.append(received[index].send)
            before[index] = tuple(dict.fromkeys(waits))
    return tuple(before)


def _ordered(before: Sequence[Sequence[int]]) -> tuple[int, ...]:
    missing = [len(waits) for waits in before]
    after: list[list[int]] = [[] for _ in before]
    for node, waits in enumerate(before):
        for wait in waits:
            after[wait].append(node)
    order = [node for node, count in enumerate(missing) if not count]
    for node in order:  # it grows
        for follower in after[node]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    if len(order) < len(before):
        raise VerificationError("steps wait for each other", hint="taccl verify says which")
    return tuple(order)


def _known(
    nodes: Sequence[Node], before: Sequence[Sequence[int]], order: Sequence[int], num_blocks: int
) -> Known:
    known = np.zeros((len(nodes), num_blocks), dtype=np.int32)
    for index in order:
        row, node = known[index], nodes[index]
        for wait in before[index]:
            np.maximum(row, known[wait], out=row)
        row[node.block] = node.at + 1
    return known
