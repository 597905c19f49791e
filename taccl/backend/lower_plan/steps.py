"""The steps of a two-sided program in one row, its messages, and what surely happens before what.

It knows thread blocks that send and receive; plans it must not know. Nothing is taken from how deep the
queues between ranks are: a step is known to be done only where data or a dependency says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.program import Op, Program, Step, ThreadBlock
from taccl.collective import IntArray
from taccl.errors import ProgramLimitError, VerificationError

#: Entries of the table of what each step knows: 4 bytes each.
MAX_KNOWN = 200_000_000


@dataclass(frozen=True, slots=True)
class Node:
    """A step, and where it stands.

    Parameters
    ----------
    index : its number in `Steps.nodes`.
    rank, block : the rank, and the number of the thread block in `Steps.blocks`.
    at : its position in its thread block.
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
    connection : (rank that sends, rank that receives, channel).
    send, receive : nodes.
    """

    connection: tuple[int, int, int]
    send: int
    receive: int


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of a program.

    Parameters
    ----------
    blocks : (rank, thread block) of all ranks, in their order.
    by_block : the nodes of each block.
    sent, received : the message that a node sends, that it receives.
    before : the nodes that each waits for directly: in its block, by its dependency, by its message.
    order : an order of all nodes in which each comes after those.
    known : shape (nodes, blocks); how many steps of a block surely are done when a node is done, itself
        included.
    """

    program: Program
    nodes: tuple[Node, ...]
    blocks: tuple[tuple[int, ThreadBlock], ...]
    by_block: tuple[tuple[int, ...], ...]
    messages: tuple[Message, ...]
    sent: dict[int, Message]
    received: dict[int, Message]
    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    known: IntArray

    def is_before(self, first: int, second: int) -> bool:
        """Whether a node surely is done when another begins."""
        node = self.nodes[first]
        return first != second and bool(self.known[second, node.block] > node.at)


def read_steps(program: Program) -> Steps:
    """Take a program apart.

    Raises
    ------
    VerificationError : a send without a receive of as many chunks, or steps that wait for each other.
    ProgramLimitError : more steps and thread blocks than can be looked through.
    """
    blocks = tuple((rank.rank, block) for rank in program.ranks for block in rank.thread_blocks)
    nodes: list[Node] = []
    by_block: list[tuple[int, ...]] = []
    for number, (rank, block) in enumerate(blocks):
        first = len(nodes)
        nodes += [Node(first + at, rank, number, at, step) for at, step in enumerate(block.steps)]
        by_block.append(tuple(range(first, len(nodes))))
    if len(nodes) * len(blocks) > MAX_KNOWN:
        raise ProgramLimitError(
            f"{len(nodes)} steps in {len(blocks)} thread blocks are more than can be looked through",
            hint="fewer chunks or instances",
        )
    messages = tuple(_messages(blocks, nodes, by_block))
    received = {each.receive: each for each in messages}
    before = _before(blocks, nodes, by_block, received)
    order = _ordered(before)
    return Steps(
        program=program,
        nodes=tuple(nodes),
        blocks=blocks,
        by_block=tuple(by_block),
        messages=messages,
        sent={each.send: each for each in messages},
        received=received,
        before=before,
        order=order,
        known=_known(nodes, before, order, len(blocks)),
    )


def _messages(
    blocks: Sequence[tuple[int, ThreadBlock]], nodes: Sequence[Node], by_block: Sequence[Sequence[int]]
) -> Iterator[Message]:
    """The k-th send and the k-th receive of each connection."""
    sends: dict[tuple[int, int, int], list[int]] = {}
    receives: dict[tuple[int, int, int], list[int]] = {}
    for (rank, block), mine in zip(blocks, by_block, strict=True):
        sends.setdefault((rank, block.send, block.channel), []).extend(
            each for each in mine if nodes[each].step.op.sends
        )
        receives.setdefault((block.recv, rank, block.channel), []).extend(
            each for each in mine if nodes[each].step.op.receives
        )
    for connection in sorted({*sends, *receives}):
        out, into = sends.get(connection, []), receives.get(connection, [])
        counts = [[nodes[each].step.count for each in side] for side in (out, into)]
        if counts[0] != counts[1] or ((out or into) and (min(connection) < 0 or connection[0] == connection[1])):
            src, dst, channel = connection
            raise VerificationError(
                f"what rank {src} sends to rank {dst} on channel {channel} is not what that receives",
                hint="taccl verify says all that is wrong",
            )
        for send, receive in zip(out, into, strict=True):
            yield Message(connection, send, receive)


def _before(
    blocks: Sequence[tuple[int, ThreadBlock]],
    nodes: Sequence[Node],
    by_block: Sequence[Sequence[int]],
    received: dict[int, Message],
) -> tuple[tuple[int, ...], ...]:
    number_of = {(rank, block.id): number for number, (rank, block) in enumerate(blocks)}
    before = []
    for node in nodes:
        waits = [node.index - 1] if node.at else []
        if node.step.depends is not None:
            block, at = node.step.depends
            waits.append(by_block[number_of[node.rank, block]][at])
        if node.index in received:
            waits.append(received[node.index].send)
        before.append(tuple(waits))
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
) -> IntArray:
    known = np.zeros((len(nodes), num_blocks), dtype=np.int32)
    for index in order:
        row, node = known[index], nodes[index]
        for wait in before[index]:
            np.maximum(row, known[wait], out=row)
        row[node.block] = node.at + 1
    return known


def waits_only(step: Step) -> bool:
    """Whether a step does nothing but wait."""
    return step.op is Op.NOP
