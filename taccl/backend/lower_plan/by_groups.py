"""A collective of all ranks through the switches that they are members of, whatever its schedule is.

Each switch has a group of ranks, and members of equal position in their groups work together: such a rank
sums the parts of its position in its group, by the switch; ports carry sums between groups; the switch copies
what comes of it to the group. The runtime has no load-reduce without a store, so a sum that is no result yet
is stored in scratch of a pair of members: of the channels of a switch those have the fewest members.

A rank has two thread blocks: one sums and sends while the other receives, adds and copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taccl.backend.lower_plan.emit import Emitter, End, own
from taccl.backend.lower_plan.meetings import find_meeting
from taccl.backend.lower_plan.places import Place, aliases
from taccl.backend.lower_plan.resources import Resources
from taccl.backend.lower_plan.tuning import (
    MAX_CHANNELS,
    MAX_OPERANDS,
    MAX_OPERATION_CHANNELS,
    PIECES,
)
from taccl.backend.plan import OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.model.network import LogicalTopology

#: Collectives that have such plans, as plans spell them.
GROUPED = frozenset({"allreduce", "allgather", "reducescatter"})

Groups = tuple[tuple[int, ...], ...]


def groups_of(topology: LogicalTopology, switches: Sequence[tuple[int, ...]]) -> Groups:
    """The switches' members, if each rank is in one group, all are of one size, and ports join positions.

    Nothing, if that is not so.
    """
    groups = tuple(dict.fromkeys(switches))
    all_once = sorted(rank for group in groups for rank in group) == [*range(topology.num_members)]
    if not all_once or len({len(group) for group in groups}) != 1:
        return ()
    memories = [int(topology.memory_of[group[0]]) for group in groups]
    joined = all(
        pair in topology.link_index
        for position in zip(*groups, strict=True)
        for pair in ((a, b) for a in position for b in position if a != b)
    )
    return groups if joined and len({*memories}) == len(groups) else ()


@dataclass(frozen=True, slots=True)
class GroupCut:
    """How a collective is cut for its groups.

    Parameters
    ----------
    collective : as plans spell it, one of `GROUPED`.
    groups : the members of each.
    pieces : parts of what a rank sums, or gives, that follow each other.
    has_roots : whether each sum of an AllReduce is made in one group and sent back; else in all groups.
    in_place : the calls that it serves.
    """

    collective: str
    groups: Groups
    pieces: int
    has_roots: bool
    in_place: bool

    @property
    def ranks(self) -> int:
        """How many there are."""
        return sum(map(len, self.groups))

    @property
    def is_rooted(self) -> bool:
        """Whether each sum is made in one group only."""
        return self.collective == "reducescatter" or self.has_roots

    @property
    def sums(self) -> int:
        """What one rank sums, or gives: this many items of `item` chunks, one after another."""
        return self.pieces * (len(self.groups) if self.is_rooted else 1)

    @property
    def item(self) -> int:
        """Chunks of an item: as many as make each rank's part a whole number of them."""
        if self.collective != "allreduce" or self.has_roots:
            return 1
        many = len(self.groups)
        return many // math.gcd(many, self.pieces)

    @property
    def chunks_per_rank(self) -> int:
        """Chunks of a rank's part of the whole."""
        if self.collective == "allreduce":
            return self.sums * self.item // len(self.groups)
        return self.pieces


def shapes_of(collective: str, groups: Groups, in_place: bool) -> Iterator[list[GroupCut]]:
    """Ways to cut a collective of `GROUPED` that are worth a try, each by its number of pieces, ascending."""
    if len(groups) == 1:
        yield [GroupCut(collective, groups, 1, False, in_place)]
        return
    for has_roots in (False, True) if collective == "allreduce" and len(groups) > 2 else (False,):
        yield [GroupCut(collective, groups, pieces, has_roots, in_place) for pieces in PIECES]


def group_plans(shape: GroupCut, node_of: Sequence[int]) -> list[RankPlan]:
    """What each rank does; the sizes of input and output are left open.

    Raises
    ------
    ProgramLimitError : a group has more members than can tell each other that all have come.
    """
    made = _Grouped(shape, node_of)
    for group in range(len(shape.groups)):
        for position in range(len(shape.groups[0])):
            if shape.collective == "allgather":
                made.gather(group, position)
            else:
                made.sum_up(group, position)
    return made.ranks()


class _Grouped:
    """All thread blocks in the making; those of rank r are 2 r, which sums and sends, and 2 r + 1."""

    def __init__(self, shape: GroupCut, node_of: Sequence[int]) -> None:
        groups = shape.groups
        self.shape, self.groups = shape, groups
        self.meeting = find_meeting(len(groups[0]), MAX_CHANNELS)
        self.resources = Resources(node_of, 2 * shape.ranks)
        self.blocks = [Emitter() for _ in range(2 * shape.ranks)]
        self.semaphores, self.acquired = [0] * shape.ranks, [0] * shape.ranks
        self.names = aliases(shape.collective, shape.ranks, shape.chunks_per_rank, shape.in_place)
        size = len(groups[0])
        #: by position, the positions of the pair; the last one of an odd number is three
        self.pairs = [
            tuple(range(first, size if first + 3 == size else min(size, first + 2)))
            for first in range(0, size, 2)
            if first + 1 < size or size == 1
        ]
        sums = 0 if shape.collective == "allgather" else max(map(len, self.pairs)) * shape.sums
        #: of scratch: where what came from other groups begins, and what is made of that
        self.slots = sums * shape.item
        self.results = self.slots + (len(groups) - 1) * shape.pieces * shape.item

    def sum_up(self, group: int, position: int) -> None:
        """An AllReduce or a ReduceScatter: what one rank does."""
        shape, rank = self.shape, self.groups[group][position]
        first, second, others = 2 * rank, 2 * rank + 1, self._others(group)
        adds = self.blocks[second]
        there = [2 * self.groups[each][position] for each in others]
        if not shape.has_roots:  # else who sends has heard that what was sent in the last call has been read
            adds.tell_started([self._end(second, block) for block in there])
        self._meet(first)
        if not others:
            self._sum_alone(rank, position)
            self._meet(first)
            return
        self._send_sums(group, position)
        for root, piece in sorted(self._items(group), key=lambda item: (item[1], item[0] != group)):
            if root in (None, group):
                self._take_over(second)
                adds.wait([self._end(second, block) for block in there])
                self._finish_sum(group, position, root, piece)
            elif shape.collective == "allreduce":
                adds.wait([self._end(second, 2 * self.groups[root][position] + 1)])
                wanted = self._place(rank, Buffer.OUTPUT, position, root, piece)
                self._copy(second, self._result(root, piece), wanted)
        self._meet(second)

    def _send_sums(self, group: int, position: int) -> None:
        """What the first thread block does: sums of its group, for itself and for other groups."""
        rank, others, pair = self.groups[group][position], self._others(group), self._pair(group, position)
        first = 2 * rank
        for number, (root, piece) in enumerate(self._items(group)):
            stored = self._sum_at(position, root, piece)
            self._add_in_switch(first, self._place(rank, Buffer.INPUT, position, root, piece), pair, stored)
            if root in (None, group):
                self._hand_over(rank)
            if not number and not self.shape.has_roots:
                there = [2 * self.groups[each][position] + 1 for each in others]
                self.blocks[first].wait([self._end(first, block) for block in there], relaxed=True)
            to = [each for each in others if root in (None, each)]
            landings = [self._slot(group, each, piece) for each in to]
            there = [2 * self.groups[each][position] + 1 for each in to]
            self._push(first, there, stored, landings, piece == self.shape.pieces - 1)

    def gather(self, group: int, position: int) -> None:
        """An AllGather: what one rank does."""
        shape, rank = self.shape, self.groups[group][position]
        first, second, others = 2 * rank, 2 * rank + 1, self._others(group)
        gives, copies = self.blocks[first], self.blocks[second]
        copies.tell_started([self._end(second, 2 * self.groups[each][position]) for each in others])
        self._meet(first)
        if others:
            self._hand_over(rank)
            ends = [self._end(first, 2 * self.groups[each][position] + 1) for each in others]
            gives.wait(ends, relaxed=True)
        # In place a copy writes what is given, which a port may read behind it only.
        copying = first if shape.in_place or not others else second
        if others:
            self._take_over(second)
        for piece in range(shape.pieces):
            given = self.names.place(rank, Buffer.INPUT, piece, 1)
            self._copy(copying, given, self._of_rank(rank, piece))
            there = [2 * self.groups[each][position] + 1 for each in others]
            landings = [self._slot(group, each, piece) for each in others]
            self._push(first, there, given, landings, piece == shape.pieces - 1)
        if not others:
            self._meet(first)
            return
        for piece in range(shape.pieces):
            for each in others:
                copies.wait([self._end(second, 2 * self.groups[each][position])])
                stored = self._of_rank(self.groups[each][position], piece)
                self._copy(second, self._slot(each, group, piece), stored)
        if copying == first:
            self._hand_over(rank)
            self._take_over(second)
        self._meet(second)

    def ranks(self) -> list[RankPlan]:
        """As a plan has them; the sizes of buffers are left open."""
        made = []
        for rank in range(self.shape.ranks):
            blocks: list[PlanBlock] = []
            for number in (2 * rank, 2 * rank + 1):
                self.blocks[number].finish()
                names, operations = self.resources.blocks[number], tuple(self.blocks[number].operations)
                if operations:
                    blocks.append(
                        PlanBlock(len(blocks), operations, names.block_channels(), names.block_remotes())
                    )
            made.append(
                RankPlan(
                    rank=rank,
                    input_chunks=0,
                    output_chunks=0,
                    scratch_chunks=0,
                    blocks=tuple(blocks),
                    channels=self.resources.rank_channels(rank),
                    remote_buffers=self.resources.remote_buffers(rank),
                    semaphores=(0,) * self.semaphores[rank],
                )
            )
        return made

    def _others(self, group: int) -> list[int]:
        """The other groups, the next one first."""
        many = len(self.groups)
        return [(group + step) % many for step in range(1, many)]

    def _items(self, group: int) -> list[tuple[int | None, int]]:
        """What a rank sums, in order: in which group the sum goes on (None: in all), and the piece."""
        roots = [*self._others(group), group] if self.shape.is_rooted else [None]
        return [(root, piece) for piece in range(self.shape.pieces) for root in roots]

    def _number(self, root: int | None, piece: int) -> int:
        return piece if root is None else root * self.shape.pieces + piece

    def _place(self, rank: int, buffer: Buffer, position: int, root: int | None, piece: int) -> Place:
        """Where an item is in input or output."""
        shape = self.shape
        if shape.collective == "allreduce":
            number = position * shape.sums + self._number(root, piece)
            return self.names.place(rank, buffer, number * shape.item, shape.item)
        owner = 0 if buffer is Buffer.OUTPUT or root is None else self.groups[root][position]
        return self.names.place(rank, buffer, owner * shape.pieces + piece, 1)

    def _of_rank(self, owner: int, piece: int) -> Place:
        """Where a piece of what a rank gives is at all ranks."""
        return Place(Buffer.OUTPUT, owner * self.shape.pieces + piece, 1)

    def _scratch(self, first: int, number: int) -> Place:
        return Place(Buffer.SCRATCH, first + number * self.shape.item, self.shape.item)

    def _sum_at(self, position: int, root: int | None, piece: int) -> Place:
        """Where a rank has a sum of its group; the others of its pair have theirs elsewhere."""
        pair = next(each for each in self.pairs if position in each)
        return self._scratch(0, pair.index(position) * self.shape.sums + self._number(root, piece))

    def _slot(self, source: int, target: int, piece: int) -> Place:
        """Where what comes from another group lands."""
        row = (source - target) % len(self.groups) - 1
        return self._scratch(self.slots, row * self.shape.pieces + piece)

    def _result(self, root: int | None, piece: int) -> Place:
        return self._scratch(self.results, self._number(root, piece))

    def _end(self, block: int, other: int) -> End:
        """A thread block's end of the channel to another one."""
        one, two = sorted((block, other))
        self.resources.connect(one // 2, two // 2, (one, two))
        return self.resources.kind(one // 2, two // 2), self.resources.channel(block, (one, two))

    def _meet(self, block: int) -> None:
        """Go on when all of the group have come here, and know what each of them has done."""
        group = next(each for each in self.groups if block // 2 in each)
        for round_ in self.meeting:
            sent, heard = (
                [self._end(block, 2 * group[peer] + block % 2) for peer in side]
                for side in round_[group.index(block // 2)]
            )
            self.blocks[block].signal(sent)
            self.blocks[block].wait(heard)

    def _hand_over(self, rank: int) -> None:
        """Let the second thread block of a rank know what the first has done."""
        self.blocks[2 * rank].release([self.semaphores[rank]])
        self.semaphores[rank] += 1

    def _take_over(self, second: int) -> None:
        self.blocks[second].acquire(self.acquired[second // 2])
        self.acquired[second // 2] += 1

    def _on_switch(self, block: int, members: tuple[int, ...], place: Place) -> Range:
        number = self.resources.switch(block // 2, block, members, place.buffer)
        return Range(place.index, place.size, switch=number)

    def _add_in_switch(self, block: int, taken: Place, members: tuple[int, ...], stored: Place) -> None:
        """Sum what all of the group have at one place, for these members."""
        group = next(each for each in self.groups if block // 2 in each)
        source, target = self._on_switch(block, group, taken), self._on_switch(block, members, stored)
        self.blocks[block].switch(OpName.SWITCH_REDUCE_STORE, taken, source, stored, target)

    def _copy(self, block: int, taken: Place, stored: Place) -> None:
        """Store a place of a rank at one place of all of its group."""
        group = next(each for each in self.groups if block // 2 in each)
        target = self._on_switch(block, group, stored)
        self.blocks[block].switch(OpName.SWITCH_STORE, taken, own(taken), stored, target)

    def _push(
        self, block: int, others: Sequence[int], taken: Place, landings: Sequence[Place], is_last: bool
    ) -> None:
        """Put through ports and signal; the last of a channel waits until what it reads may be written."""
        name = OpName.PUT_SIGNAL_FLUSH if is_last else OpName.PUT_SIGNAL
        for first in range(0, len(others), MAX_OPERATION_CHANNELS):
            part = slice(first, first + MAX_OPERATION_CHANNELS)
            channels, targets = [], []
            for other, landing in zip(others[part], landings[part], strict=True):
                channels.append(self._end(block, other)[1])
                number = self.resources.remote(block // 2, block, other // 2, landing.buffer)
                targets.append(Range(landing.index, landing.size, remote=number))
            self.blocks[block].push(name, channels, [taken] * len(targets), targets)

    def _sum_alone(self, rank: int, position: int) -> None:
        """What one rank does in the only group, by its first thread block."""
        members, block = self.groups[0], 2 * rank
        for root, piece in self._items(0):
            taken = self._place(rank, Buffer.INPUT, position, root, piece)
            wanted = self._place(rank, Buffer.OUTPUT, position, root, piece)
            if self.shape.collective == "allreduce":
                self._add_in_switch(block, taken, members, wanted)
                continue
            stored = self._sum_at(position, root, piece)
            self._add_in_switch(block, taken, self._pair(0, position), stored)
            self.blocks[block].work(OpName.COPY, [stored], [wanted])

    def _pair(self, group: int, position: int) -> tuple[int, ...]:
        pair = next(each for each in self.pairs if position in each)
        return tuple(self.groups[group][each] for each in pair)

    def _finish_sum(self, group: int, position: int, root: int | None, piece: int) -> None:
        """Add what came from other groups to the sum of the own, and give the result to whoever wants it."""
        rank = self.groups[group][position]
        block, others = 2 * rank + 1, self._others(group)
        wanted = self._place(rank, Buffer.OUTPUT, position, root, piece)
        is_copied = self.shape.collective == "allreduce"
        result = self._result(root, piece) if is_copied else wanted
        added, rest = self._sum_at(position, root, piece), [self._slot(each, group, piece) for each in others]
        while rest:
            part, rest = rest[: MAX_OPERANDS - 1], rest[MAX_OPERANDS - 1 :]
            self.blocks[block].work(OpName.REDUCE, [added, *part], [result])
            added = result
        if not is_copied:
            return
        there = [2 * self.groups[each][position] + 1 for each in others if root is not None]
        if piece < self.shape.pieces - 1:
            self._push(block, there, result, [result] * len(there), is_last=False)
            self._copy(block, result, wanted)
        else:  # nothing is to wait until it has arrived
            self._copy(block, result, wanted)
            self._push(block, there, result, [result] * len(there), is_last=True)
