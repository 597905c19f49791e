"""The actions of all ranks in thread blocks: who waits for whom, and what surely happens before what.

Passes go from one `Graph` to another: they move actions to other thread blocks, add waits, or note which
messages are pulled, which sums are made at once and what lands apart. Nothing is taken from how deep the
queues between ranks are: an action is known to be done only where data or a wait says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from taccl.backend.lower_plan.places import Cell, Place
from taccl.backend.program import Op
from taccl.errors import ProgramLimitError, VerificationError

#: Shape (actions, blocks): how many actions of a block surely are done when an action is, itself included.
Known: TypeAlias = NDArray[np.int32]
#: Entries of a table of that: 4 bytes each.
MAX_KNOWN = 200_000_000

#: A receiver that adds needs what came next to what it has.
ADDING = frozenset({Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND})
READING = ADDING | {Op.SEND, Op.COPY, Op.REDUCE}
WRITING = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP}


@dataclass(frozen=True, slots=True)
class Action:
    """What a rank does at once, and in which thread block.

    Parameters
    ----------
    index : its number in `Graph.actions`.
    rank, block, at : the rank, the number of the thread block in `Graph.blocks`, the position in that.
    source : what it reads; of a receive, what it writes.
    target : what it writes; of a send, what it reads, and of a sum that is sent on only, where it would be.
    """

    index: int
    rank: int
    block: int
    at: int
    op: Op
    source: Place
    target: Place

    @property
    def reads(self) -> bool:
        """Whether it reads its source."""
        return self.op in READING

    @property
    def writes(self) -> bool:
        """Whether it writes its target; a sum reads it, too."""
        return self.op in WRITING

    def may_write(self, place: Place) -> bool:
        """Whether it writes some of a place of its rank."""
        return self.op in WRITING and self.target.overlaps(place)


@dataclass(frozen=True, slots=True)
class Message:
    """What one action sends and another receives.

    Parameters
    ----------
    src, dst : ranks.
    connection : the thread blocks that send and receive.
    send, receive : actions.
    """

    src: int
    dst: int
    connection: tuple[int, int]
    send: int
    receive: int


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block: actions that run in order.

    Parameters
    ----------
    rank : its rank.
    actions : their numbers.
    """

    rank: int
    actions: range


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums that others make.

    Parameters
    ----------
    put_off : sums that do nothing, with the one that does it.
    also : by sum, what it adds next to its own source.
    """

    put_off: Mapping[int, int] = field(default_factory=dict)
    also: Mapping[int, tuple[Place, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """The actions of all ranks.

    Parameters
    ----------
    actions, blocks, messages : all of them; blocks rank by rank.
    waits : by action, the others of its rank that it waits for, next to the one before it in its block.
    scratch : by rank, the chunks of scratch that actions name.
    node_of : by rank; ranks of one node read and write each other's memory, others go through ports.
    packets : whether messages are packets, which are read as they come and tell nothing but their data.
    before : all that each action waits for directly: the one before it, `waits`, the send of its message.
    order : an order of all actions in which each comes after those.
    known : what is known to be done when an action is done.
    new : the number of each action, by the one that it had before it was arranged in these blocks.
    turns : pairs of sends of a rank; the first takes its turn at a port after the second.
    pulls : by send, the sum at the receiver that reads what it would send.
    rows : by first receive, sums that the last of them does; a receive stands before each of them.
    sums : those that others make.
    apart : sends of what lands where nobody else ever writes.
    switches : the members of switches that sum and copy for them, which may be used.
    copies : by first action, those that copy one place to one place of all members of a switch: sends, and
        what does it at home; they are neighbours in a thread block.
    """

    actions: tuple[Action, ...]
    blocks: tuple[Block, ...]
    messages: tuple[Message, ...]
    waits: Mapping[int, Sequence[int]]
    scratch: tuple[int, ...]
    node_of: tuple[int, ...]
    packets: bool
    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    known: Known
    new: Mapping[int, int]
    turns: tuple[tuple[int, int], ...] = ()
    pulls: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[int, Sequence[int]] = field(default_factory=dict)
    sums: Sums = Sums()
    apart: frozenset[int] = frozenset()
    switches: tuple[tuple[int, ...], ...] = ()
    copies: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def is_before(self, first: int, second: int) -> bool:
        """Whether an action surely is done when another begins."""
        action = self.actions[first]
        return first != second and bool(self.known[second, action.block] > action.at)

    @cached_property
    def sent(self) -> dict[int, Message]:
        """By action, the message that it sends."""
        return {message.send: message for message in self.messages}

    @cached_property
    def received(self) -> dict[int, Message]:
        """By action, the message that it receives."""
        return {message.receive: message for message in self.messages}

    @cached_property
    def by_rank(self) -> list[list[Action]]:
        """The actions of each rank."""
        ranks: list[list[Action]] = [[] for _ in self.node_of]
        for action in self.actions:
            ranks[action.rank].append(action)
        return ranks

    @cached_property
    def touching(self) -> dict[Cell, list[int]]:
        """By chunk, the actions that read or write it."""
        touching: dict[Cell, list[int]] = {}
        for action in self.actions:
            for cell in {cell for place in self.touched(action) for cell in place.cells(action.rank)}:
                touching.setdefault(cell, []).append(action.index)
        return touching

    def touched(self, action: Action) -> Iterator[Place]:
        """What an action reads and writes."""
        if action.index in self.sums.put_off:
            return
        if action.reads:
            yield action.source
        if action.writes:
            yield action.target
        yield from self.sums.also.get(action.index, ())

    def users(self, rank: int, place: Place) -> set[int]:
        """The actions of a rank that touch some of a place: what lands in a slot of its own does not."""
        return {user for cell in place.cells(rank) for user in self.touching.get(cell, ())}

    @cached_property
    def hops(self) -> list[int]:
        """By action, over how many ranks one after another came what it waits for."""
        return self.hops_where_early(())

    def hops_where_early(self, early: Collection[int]) -> list[int]:
        """The same if these actions waited for nobody."""
        hops = [0] * len(self.actions)
        for index in self.order:
            if index in early:
                continue
            rank, most = self.actions[index].rank, 0
            for wait in self.before[index]:
                most = max(most, hops[wait] + (self.actions[wait].rank != rank))
            hops[index] = most
        return hops

    @cached_property
    def known_without_messages(self) -> Known:
        """`known` by the order of actions and waits alone: as if messages reported nothing but data."""
        before = [
            tuple(wait for wait in waits if self.actions[wait].rank == action.rank)
            for action, waits in zip(self.actions, self.before, strict=True)
        ]
        return _known(self.actions, before, self.order, len(self.blocks))

    @cached_property
    def known_at_end(self) -> list[Known]:
        """By rank, how many actions of each thread block surely are done when its kernel ends."""
        known = [np.zeros(len(self.blocks), dtype=np.int32) for _ in self.node_of]
        for block in self.blocks:
            if block.actions:
                np.maximum(known[block.rank], self.known[block.actions[-1]], out=known[block.rank])
        return known

    def is_near(self, message: Message) -> bool:
        """Whether its ranks reach each other's memory."""
        return self.node_of[message.src] == self.node_of[message.dst]

    def waiting(self, waits: Iterable[tuple[int, int]]) -> Graph:
        """The same with more waits: pairs of an action and one of its rank that it waits for.

        Raises
        ------
        VerificationError : they would wait for each other.
        """
        more = {action: list(some) for action, some in self.waits.items()}
        for action, wait in waits:
            more.setdefault(action, []).append(wait)
        rows = [(block.rank, block.actions) for block in self.blocks]
        return self.rearranged(rows, more)

    def rearranged(
        self, blocks: Sequence[tuple[int, Sequence[int]]], waits: Mapping[int, Iterable[int]]
    ) -> Graph:
        """The same actions in other thread blocks; `Graph.new` has their numbers there.

        Parameters
        ----------
        blocks : by thread block, its rank and its actions.
        waits : by action, what it waits for next to the one before it and the send of its message.

        Raises
        ------
        VerificationError : they would wait for each other.
        """
        pairs = [(message.send, message.receive) for message in self.messages]
        return arranged(
            self.actions, blocks, pairs, waits, self.scratch, self.node_of, self.packets, self.turns
        )

    def cut(self, at: Mapping[int, Sequence[int]]) -> tuple[Graph, list[tuple[int, int]]]:
        """Thread blocks taken apart, each part waiting for the one before it.

        Parameters
        ----------
        at : by thread block, the positions at which one more begins.

        Returns
        -------
        The graph, and of each of its thread blocks the one that it is a part of, and the position there.
        """
        rows, parts = [], []
        waits = {action: list(some) for action, some in self.waits.items()}
        for number, block in enumerate(self.blocks):
            starts = [0, *at.get(number, ()), len(block.actions)]
            for first, end in pairwise(starts):
                mine = block.actions[first:end]
                if first:
                    waits.setdefault(mine[0], []).insert(0, mine[0] - 1)
                rows.append((block.rank, mine))
                parts.append((number, first))
        return (self.rearranged(rows, waits) if at else self), parts


def arranged(
    actions: Sequence[Action],
    blocks: Sequence[tuple[int, Sequence[int]]],
    messages: Sequence[tuple[int, int]],
    waits: Mapping[int, Iterable[int]],
    scratch: Sequence[int],
    node_of: Sequence[int],
    packets: bool,
    turns: Iterable[Sequence[int]] = (),
) -> Graph:
    """The graph of some actions; `Graph.new` has their numbers by their positions in `actions`.

    Parameters
    ----------
    blocks : by thread block, its rank and the positions of its actions.
    messages : positions of sends and receives.
    waits : by position, positions of what it waits for.
    scratch, node_of, packets : as in `Graph`.
    turns : pairs of positions.

    Raises
    ------
    VerificationError : they would wait for each other.
    ProgramLimitError : more actions and thread blocks than can be looked through.
    """
    if len(actions) * len(blocks) > MAX_KNOWN:
        raise ProgramLimitError(
            f"{len(actions)} steps in {len(blocks)} thread blocks are more than can be looked through",
            hint="fewer chunks or instances",
        )
    new: dict[int, int] = {}
    made: list[Action] = []
    rows: list[Block] = []
    for number, (rank, mine) in enumerate(blocks):
        begin = len(made)
        for at, old in enumerate(mine):
            new[old] = len(made)
            made.append(replace(actions[old], index=len(made), block=number, at=at))
        rows.append(Block(rank, range(begin, len(made))))
    sent = tuple(_message(made[new[send]], made[new[receive]]) for send, receive in messages)
    send_of = {message.receive: message.send for message in sent}
    of_rank = {new[old]: tuple(new[each] for each in some) for old, some in waits.items()}
    before: list[tuple[int, ...]] = []
    for action in made:
        mine = [action.index - 1] if action.at else []
        mine += of_rank.get(action.index, ())
        if action.index in send_of:
            mine.append(send_of[action.index])
        before.append(tuple(dict.fromkeys(mine)))
    order = _ordered(before)
    known = _known(made, before, order, len(rows))
    return Graph(
        actions=tuple(made),
        blocks=tuple(rows),
        messages=sent,
        waits={index: some for index, some in of_rank.items() if some},
        scratch=tuple(scratch),
        node_of=tuple(node_of),
        packets=packets,
        before=tuple(before),
        order=order,
        known=known,
        turns=tuple((new[after], new[before]) for after, before in turns),
        new=new,
    )


def _message(send: Action, receive: Action) -> Message:
    return Message(send.rank, receive.rank, (send.block, receive.block), send.index, receive.index)


def _ordered(before: Sequence[Sequence[int]]) -> tuple[int, ...]:
    missing = [len(waits) for waits in before]
    after: list[list[int]] = [[] for _ in before]
    for action, waits in enumerate(before):
        for wait in waits:
            after[wait].append(action)
    order = [action for action, count in enumerate(missing) if not count]
    for action in order:  # it grows
        for follower in after[action]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    if len(order) < len(before):
        raise VerificationError("steps wait for each other", hint="taccl verify says which")
    return tuple(order)


def _known(
    actions: Sequence[Action], before: Sequence[Sequence[int]], order: Sequence[int], num_blocks: int
) -> Known:
    known = np.zeros((len(actions), num_blocks), dtype=np.int32)
    for index in order:
        row, action = known[index], actions[index]
        for wait in before[index]:
            np.maximum(row, known[wait], out=row)
        row[action.block] = action.at + 1
    return known
