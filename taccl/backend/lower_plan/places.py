"""Where each message lands: in the receiver's final place if that is surely free, else in scratch of its own.
A place is free when everything else that touches it is surely done before the sender writes, or surely begins
after the receiver has heard of it. In place, input and output are one buffer, under one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from taccl.backend.lower_plan.steps import Message, Steps
from taccl.backend.program import Buffer, Op, Step

#: (rank, buffer, chunk)
Cell: TypeAlias = tuple[int, Buffer, int]

#: A step whose receiver stores what it adds up needs what came next to what it has.
ADDING = frozenset({Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND})
STORING = frozenset({Op.RECV, Op.RECV_COPY_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND})


@dataclass(frozen=True, slots=True)
class Place:
    """Chunks in the memory of a rank."""

    buffer: Buffer
    index: int
    size: int

    def cells(self) -> Iterator[tuple[Buffer, int]]:
        """Chunk by chunk."""
        return ((self.buffer, self.index + at) for at in range(self.size))

    def overlaps(self, other: Place) -> bool:
        """Whether they have a chunk in common."""
        return (
            self.buffer is other.buffer
            and self.index < other.index + other.size
            and other.index < self.index + self.size
        )


@dataclass(frozen=True, slots=True)
class Aliases:
    """The one name of each chunk of a user's buffers.

    Parameters
    ----------
    of : the buffer that has another name; None: none has.
    name : that of the buffer that it is part of, or the same as.
    first : by rank, where in that it begins.
    """

    of: Buffer | None
    name: Buffer
    first: tuple[int, ...]

    def place(self, rank: int, buffer: Buffer, index: int, size: int) -> Place:
        """A place by its one name."""
        if buffer is self.of:
            return Place(self.name, self.first[rank] + index, size)
        return Place(buffer, index, size)


def aliases(collective: str, ranks: int, part: int, in_place: bool) -> Aliases:
    """How a call's buffers lie in each other.

    The name that all use begins equivalent at all ranks: of an AllGather the output, of a ReduceScatter the
    input.

    Parameters
    ----------
    part : chunks that a rank gives (AllGather) or gets (ReduceScatter).
    """
    if not in_place:
        return Aliases(None, Buffer.INPUT, (0,) * ranks)
    if collective == "allgather":
        return Aliases(Buffer.INPUT, Buffer.OUTPUT, tuple(rank * part for rank in range(ranks)))
    if collective == "reducescatter":
        return Aliases(Buffer.OUTPUT, Buffer.INPUT, tuple(rank * part for rank in range(ranks)))
    return Aliases(Buffer.INPUT, Buffer.OUTPUT, (0,) * ranks)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums that are put off until others do what they did.

    Parameters
    ----------
    put_off : steps that do nothing, with the sum that does it.
    also : by sum, what it adds next to its own source.
    """

    put_off: Mapping[int, int]
    also: Mapping[int, tuple[Place, ...]]


NO_SUMS = Sums({}, {})


def reads(step: Step) -> bool:
    """Whether a step reads from its source."""
    return step.op in (Op.SEND, Op.COPY, Op.REDUCE) or step.op in ADDING


def writes(step: Step) -> bool:
    """Whether a step writes to its destination."""
    return step.op in (Op.COPY, Op.REDUCE) or step.op in STORING


def source(step: Step, rank: int, names: Aliases) -> Place:
    """What a step reads."""
    return names.place(rank, step.src, step.src_offset, step.count)


def target(step: Step, rank: int, names: Aliases) -> Place:
    """What a step writes, and a sum that is sent on only, if it had to be kept."""
    return names.place(rank, step.dst, step.dst_offset, step.count)


@dataclass(frozen=True, eq=False)
class Landings:
    """Where messages land.

    Parameters
    ----------
    direct : messages that land where the receiver wants them, by their send.
    at : by send, where its message lands, at the receiver.
    scratch : by rank, its chunks of scratch.
    touching : the steps that name a chunk.
    """

    direct: frozenset[int]
    at: dict[int, Place]
    scratch: tuple[int, ...]
    touching: dict[Cell, list[int]]

    def users(self, rank: int, place: Place) -> set[int]:
        """The steps of a rank that name some of a place: what lands there in scratch of its own does not."""
        return {node for cell in place.cells() for node in self.touching.get((rank, *cell), ())}


def find_landings(
    steps: Steps,
    names: Aliases,
    pulls: Mapping[int, int] = MappingProxyType({}),
    touching: dict[Cell, list[int]] | None = None,
    apart: Collection[int] = (),
) -> Landings:
    """A landing for each message. Scratch is used again where its last use surely is over.

    Parameters
    ----------
    pulls : by send, the step that reads what the sender has; such a message lands nowhere.
    touching : the steps that name a chunk, if not those that say so.
    apart : sends whose messages land in scratch of their own, which nothing else uses in a call.
    """
    return _Search(steps, names, pulls, touching).run(apart)


def steps_touching(steps: Steps, names: Aliases) -> dict[Cell, list[int]]:
    """By chunk, the steps that name it."""
    touching: dict[Cell, list[int]] = {}
    for node in steps.nodes:
        places = []
        if reads(node.step):
            places.append(source(node.step, node.rank, names))
        if writes(node.step) or node.step.op is Op.REDUCE:
            places.append(target(node.step, node.rank, names))
        for cell in {cell for place in places for cell in place.cells()}:
            touching.setdefault((node.rank, *cell), []).append(node.index)
    return touching


def find_packet_landings(
    steps: Steps, names: Aliases, touching: dict[Cell, list[int]] | None = None
) -> tuple[Landings, dict[int, Place]]:
    """A landing in scratch for each message, used once in a call, and at the sender a place to make packets.

    Packets of chunk k take the bytes of chunks 2k and 2k + 1, so they lie behind the program's own scratch.
    All ranks have as much scratch.

    Returns
    -------
    The landings, and by send where its packets are made, for those that need it.
    """
    search = _Search(steps, names, touching=touching)
    plain = list(search.scratch)
    taken = [-(-chunks // 2) for chunks in plain]
    made: dict[int, Place] = {}
    for message in steps.messages:
        size = steps.nodes[message.send].step.count
        for rank, places in ((message.dst, search.at), (message.src, made)):
            places[message.send] = Place(Buffer.SCRATCH, taken[rank], size)
            taken[rank] += size
    most = max(*plain, *taken)
    return Landings(frozenset(), search.at, (most,) * len(plain), search.touching), made


class _Search:
    def __init__(
        self,
        steps: Steps,
        names: Aliases,
        pulls: Mapping[int, int] = MappingProxyType({}),
        touching: dict[Cell, list[int]] | None = None,
    ) -> None:
        self.steps, self.names, self.pulls = steps, names, pulls
        self.touching = steps_touching(steps, names) if touching is None else touching
        self.direct: set[int] = set()
        self.at: dict[int, Place] = {}
        self.scratch = [rank.scratch_chunks for rank in steps.program.ranks]
        #: by rank and size, places that were used, and the receive that was the last to do so
        self.used: dict[tuple[int, int], list[tuple[Place, int]]] = {}

    def run(self, apart: Collection[int]) -> Landings:
        for index in self.steps.order:
            if index not in self.steps.sent or index in self.pulls:
                continue
            message = self.steps.sent[index]
            node = self.steps.nodes[message.receive]
            wanted = target(node.step, node.rank, self.names)
            if index in apart:
                self.at[message.send] = self._new_slot(node.rank, node.step.count)
            elif node.step.op not in ADDING and self._is_free(message, wanted):
                self.direct.add(message.send)
                self.at[message.send] = wanted
            else:
                self.at[message.send] = self._slot(message, node.rank, node.step.count)
        return Landings(frozenset(self.direct), self.at, tuple(self.scratch), self.touching)

    def _is_free(self, message: Message, wanted: Place) -> bool:
        rank = self.steps.nodes[message.receive].rank
        others = {
            node
            for buffer, index in wanted.cells()
            for node in self.touching[rank, buffer, index]
            if node != message.receive
        }
        return all(
            self.steps.is_before(self.pulls.get(other, other), message.send)
            or self.steps.is_before(message.receive, self._first_touch(other))
            for other in others
        )

    def _first_touch(self, node: int) -> int:
        """The step that begins to touch what a step touches: what lands directly is written by its sender."""
        message = self.steps.received.get(node)
        return message.send if message is not None and message.send in self.direct else node

    def _slot(self, message: Message, rank: int, size: int) -> Place:
        used = self.used.setdefault((rank, size), [])
        for number, (place, last) in enumerate(used):
            if self.steps.is_before(last, message.send):
                used[number] = (place, message.receive)
                return place
        place = self._new_slot(rank, size)
        used.append((place, message.receive))
        return place

    def _new_slot(self, rank: int, size: int) -> Place:
        self.scratch[rank] += size
        return Place(Buffer.SCRATCH, self.scratch[rank] - size, size)
