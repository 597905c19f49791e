"""What the passes need to know of a schedule: its sends, and who holds what because of which.

At a rank, a chunk has up to two values. The *first* is what the rank starts with or adds up: its own
data, or its contribution together with all that were added to it. The *second* is a finished copy
that is received. Only a reduced chunk can have both. Where the schedule names the contributions of each
partial sum, a chunk may have more values: see `made_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.backend.lower.made_sums import NO_SUMS, Cell, MadeSums, Message, make_sums
from taccl.collective import Collective, IntArray
from taccl.network import FloatArray
from taccl.schedule import Schedule
from taccl.schedule.derivation import sets_of_rows
from taccl.schedule.partial_sums import contributors


@dataclass(frozen=True, slots=True)
class Send:
    """One contiguous send of the schedule.

    Parameters
    ----------
    chunks : in the order in which they lie in memory at both ends.
    src, dst : ranks.
    connection : (link, instance): what it carries takes one channel, or several in turn.
    start_us, end_us : when it starts, and when the receiver holds the chunks.
    sent_us : when the sender is done with it: at the end, or earlier where latency is not occupancy.
    reduce : whether the receiver adds them to what it has, as it does in a compact schedule.
    contributions : of each chunk the set that it carries, where the schedule names them.
    """

    index: int
    chunks: tuple[int, ...]
    src: int
    dst: int
    connection: tuple[int, int]
    start_us: float
    end_us: float
    sent_us: float
    reduce: bool
    contributions: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Flow:
    """The sends of a schedule, and the values at each rank.

    Parameters
    ----------
    sends : by start.
    own, wanted : offset in the input (output) buffer of a chunk that a rank starts with (must get).
    added : the sends that add to a chunk at a rank, by end.
    copied : the send that brings a finished chunk to a rank.
    sums : the values of chunks whose partial sums are named; these are in neither of the two above.
    """

    schedule: Schedule
    sends: tuple[Send, ...]
    own: dict[Cell, int]
    wanted: dict[Cell, int]
    added: dict[Cell, list[int]]
    copied: dict[Cell, int]
    sums: MadeSums

    def sources(self, send: Send) -> set[int]:
        """The sends that must have arrived before this one can leave."""
        needed: set[int] = set(self.sums.sources.get(send.index, ()))
        for chunk in send.chunks:
            cell = (send.src, chunk)
            if not send.reduce and cell in self.copied:
                needed.add(self.copied[cell])
            else:
                needed.update(self.added.get(cell, ()))
        return needed

    def sent_value(self, send: Send, chunk: int) -> int:
        """Which value of its rank a send carries."""
        if (send.index, chunk) in self.sums.sent:
            return self.sums.sent[send.index, chunk]
        if send.reduce or (send.src, chunk) not in self.copied:
            return first(chunk)
        return second(chunk)

    def landed_value(self, send: Send, chunk: int) -> int:
        """In which value's cells a send that adds nothing lands."""
        if (send.index, chunk) in self.sums.landed:
            return self.sums.lands_as(send.index, send.dst, chunk)
        return second(chunk)

    def chunk_of(self, value: int) -> int:
        """The chunk of a value."""
        return value % self._plain_values // 2

    def summed_at_once(self, cell: Cell) -> Sequence[int]:
        """The messages that make the sum of a (rank, chunk) together with the rank's own data, by end.

        Empty where there is no such sum: nothing is added, or named sums are made of other sums.
        """
        if cell in self.added:
            return self.added[cell] if cell in self.own else ()
        rank = cell[0]
        made = self.sums.made.get((rank, self.sums.final.get(cell, -1)))
        own = self.sums.own.get(cell)
        if made is None or own not in made.parts:
            return ()
        brought = [self._brings.get((rank, part)) for part in made.parts if part != own]
        messages = [index for index in brought if index is not None]
        if len(messages) < len(brought):
            return ()
        return sorted(messages, key=lambda index: (self.sends[index].end_us, index))

    @cached_property
    def _plain_values(self) -> int:
        """How many numbers the first and second values of all chunks have."""
        return 2 * self.schedule.problem.num_chunks

    @cached_property
    def _brings(self) -> dict[Cell, int]:
        """By (rank, value) of what lands and has a name, the message."""
        return {(self.sends[send].dst, value): send for (send, _), value in self.sums.landed.items()}

    def sum_value(self, cell: Cell) -> int:
        """The value that `summed_at_once` is about."""
        return first(cell[1]) if cell in self.added else self.sums.final[cell]

    def final_value(self, rank: int, chunk: int) -> int:
        """The value of a rank that is the finished chunk."""
        if (rank, chunk) in self.sums.final:
            return self.sums.final[rank, chunk]
        return second(chunk) if (rank, chunk) in self.copied else first(chunk)


def first(chunk: int) -> int:
    """The number of a chunk's first value at a rank."""
    return 2 * chunk


def second(chunk: int) -> int:
    """The number of a chunk's second value at a rank."""
    return 2 * chunk + 1


def is_first(value: int) -> bool:
    """Whether it is the chunk's first value."""
    return value % 2 == 0


def read_flow(schedule: Schedule, instance: IntArray, position: IntArray) -> Flow:
    """Take a schedule apart.

    Parameters
    ----------
    instance : shape (len(schedule),); the instance of each row.
    position : shape (num_chunks,); chunks of one group lie in memory by rising position.
    """
    collective = schedule.problem.collective
    named = _named_sums(schedule)
    sends = tuple(_sends(schedule, instance, position, named))
    sums = NO_SUMS if named is None else _make_sums(schedule.problem.collective, sends)
    added: dict[Cell, list[int]] = {}
    copied: dict[Cell, int] = {}
    for send in sends:
        for chunk in send.chunks:
            if (send.index, chunk) in sums.sent:
                continue
            cell = (send.dst, chunk)
            if send.reduce:
                added.setdefault(cell, []).append(send.index)
            else:
                copied[cell] = send.index
    for indices in added.values():
        indices.sort(key=lambda index: (sends[index].end_us, index))
    own = _offsets(collective.inputs.rank, collective.inputs.chunk, collective.inputs.offset)
    wanted = _offsets(collective.outputs.rank, collective.outputs.chunk, collective.outputs.offset)
    return Flow(schedule, sends, own, wanted, added, copied, sums)


def _named_sums(schedule: Schedule) -> list[int] | None:
    """The set that each row carries, where rows name them or groups mix sums and copies; else None."""
    is_mixed = (schedule.reduce != schedule.sends.reduce[schedule.sends.of_row]).any()
    if schedule.sums is None and not is_mixed:
        return None
    return sets_of_rows(schedule, contributors(schedule.problem.collective))


def _make_sums(collective: Collective, sends: Sequence[Send]) -> MadeSums:
    messages = [
        Message(
            send=each.index,
            chunk=chunk,
            src=each.src,
            dst=each.dst,
            contributions=contributions,
            start_us=each.start_us,
            end_us=each.end_us,
        )
        for each in sends
        for chunk, contributions in zip(each.chunks, each.contributions, strict=True)
        if collective.reduces[chunk]
    ]
    chunks = collective.num_chunks
    return make_sums(
        collective, messages, lambda chunk, k: 2 * chunk + (1 + 2 * chunks * (k - 1) if k else 0)
    )


def _offsets(rank: IntArray, chunk: IntArray, offset: IntArray) -> dict[Cell, int]:
    return dict(zip(zip(rank.tolist(), chunk.tolist(), strict=True), offset.tolist(), strict=True))


def _sends(
    schedule: Schedule, instance: IntArray, position: IntArray, sets: Sequence[int] | None
) -> Iterator[Send]:
    sends, topology = schedule.sends, schedule.problem.topology
    order = np.lexsort((position[schedule.chunk], sends.of_row))
    stop = np.cumsum(sends.count)
    sent = _sent_us(schedule)
    by_start = np.lexsort((sends.link, instance[sends.first_row], sends.start_us))
    for index, send in enumerate(by_start.tolist()):
        link = int(sends.link[send])
        rows = order[stop[send] - sends.count[send] : stop[send]].tolist()
        yield Send(
            index=index,
            chunks=tuple(schedule.chunk[rows].tolist()),
            src=int(topology.src[link]),
            dst=int(topology.dst[link]),
            connection=(link, int(instance[sends.first_row[send]])),
            start_us=float(sends.start_us[send]),
            end_us=float(sends.end_us[send]),
            sent_us=float(sent[send]),
            reduce=sets is None and bool(sends.reduce[send]),
            contributions=() if sets is None else tuple(sets[row] for row in rows),
        )


def _sent_us(schedule: Schedule) -> FloatArray:
    """When each send leaves its ports. Instances share the time of the whole chunk."""
    topology, sends = schedule.problem.topology, schedule.sends
    latency = topology.alpha_us[sends.link] if topology.occupancy == "pipelined" else 0.0
    return np.asarray(np.maximum(sends.end_us - latency, sends.start_us))
