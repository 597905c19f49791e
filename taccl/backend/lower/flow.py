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

from taccl.backend.lower.made_sums import NO_SUMS, Cell, MadeSums, SumMessage, make_sums
from taccl.model.collective import BoolArray, Collective, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import contributors


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
class SendColumns:
    """All sends of a schedule, by start.

    Parameters
    ----------
    src, dst, link, instance, start_us, end_us, sent_us, reduce : of each send, as in `Send`.
    count : how many chunks it has.
    chunk, of_chunk : all chunks of all sends, one send after the other, and the send of each.
    """

    src: IntArray
    dst: IntArray
    link: IntArray
    instance: IntArray
    start_us: FloatArray
    end_us: FloatArray
    sent_us: FloatArray
    reduce: BoolArray
    count: IntArray
    chunk: IntArray
    of_chunk: IntArray

    def __len__(self) -> int:
        return len(self.src)

    def one_by_one(self, contributions: Sequence[int] | None) -> Iterator[Send]:
        """Each send; `contributions` : the set that each of all chunks carries, where that is named."""
        chunks = self.chunk.tolist()
        stop = np.cumsum(self.count)
        rows = zip(
            *(self.src.tolist(), self.dst.tolist(), self.link.tolist(), self.instance.tolist()),
            *(self.start_us.tolist(), self.end_us.tolist(), self.sent_us.tolist(), self.reduce.tolist()),
            *((stop - self.count).tolist(), stop.tolist()),
            strict=True,
        )
        for index, (src, dst, link, instance, start_us, end_us, sent_us, reduce, begin, end) in enumerate(
            rows
        ):
            yield Send(
                index=index,
                chunks=tuple(chunks[begin:end]),
                src=src,
                dst=dst,
                connection=(link, instance),
                start_us=start_us,
                end_us=end_us,
                sent_us=sent_us,
                reduce=reduce,
                contributions=() if contributions is None else tuple(contributions[begin:end]),
            )


@dataclass(frozen=True, eq=False)
class Flow:
    """The sends of a schedule, and the values at each rank.

    Parameters
    ----------
    columns : the sends, by start.
    contributions : of each of all their chunks the set that is carried, where the schedule names them.
    own, wanted : offset in the input (output) buffer of a chunk that a rank starts with (must get).
    added : the sends that add to a chunk at a rank, by end.
    copied : the send that brings a finished chunk to a rank.
    sums : the values of chunks whose partial sums are named; these are in neither of the two above.
    fused : whether what is received is added and sent on by one step.
    gathered : the (rank, chunk) whose sums begin as copies of the rank's own data, and are made in thread
        blocks of their own.
    """

    schedule: Schedule
    columns: SendColumns
    contributions: Sequence[int] | None
    own: dict[Cell, int]
    wanted: dict[Cell, int]
    added: dict[Cell, list[int]]
    copied: dict[Cell, int]
    sums: MadeSums
    fused: bool = False
    gathered: frozenset[Cell] = frozenset()

    @cached_property
    def sends(self) -> tuple[Send, ...]:
        """The sends one by one, by start."""
        return tuple(self.columns.one_by_one(self.contributions))

    def sources(self, send: Send) -> set[int]:
        """The sends that must have arrived before this one can leave."""
        first, sources = self.all_sources
        return set(sources[first[send.index] : first[send.index + 1]].tolist())

    @cached_property
    def all_sources(self) -> tuple[IntArray, IntArray]:
        """`sources` of all sends as columns: those of send k are [first[k]] up to [first[k + 1]]."""
        columns, chunks = self.columns, self.schedule.problem.num_chunks
        send, number = columns.of_chunk, len(columns)
        needed = columns.src[send] * chunks + columns.chunk
        brought = columns.dst[send] * chunks + columns.chunk
        adds = columns.reduce[send]
        copies = np.flatnonzero(~adds & ~self._is_named)[::-1]
        copies = copies[np.unique(brought[copies], return_index=True)[1]]  # the last one to each rank counts
        copied, bringers = _matches(np.where(adds, -1, needed), brought[copies])
        has_copy = np.zeros(len(send), dtype=np.bool_)
        has_copy[copied] = True
        sums = np.flatnonzero(adds)
        summed, adders = _matches(np.where(has_copy, -1, needed), brought[sums])
        named = [after * number + each for after, some in self.sums.sources.items() for each in some]
        both = np.unique(
            np.concatenate(
                [
                    send[copied] * number + send[copies[bringers]],
                    send[summed] * number + send[sums[adders]],
                    np.array(named, dtype=np.int64),
                ]
            )
        )
        return np.searchsorted(both, np.arange(number + 1) * number), both % max(number, 1)

    @cached_property
    def _is_named(self) -> BoolArray:
        """Of each of the sends' chunks whether what it carries has a name."""
        columns = self.columns
        if not self.sums.sent:
            return np.zeros(len(columns.chunk), dtype=np.bool_)
        keys = zip(columns.of_chunk.tolist(), columns.chunk.tolist(), strict=True)
        return np.array([key in self.sums.sent for key in keys], dtype=np.bool_)

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


def _matches(keys: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs of a place in `keys` and a place in `others` where the two are equal, as columns."""
    order = np.argsort(others, kind="stable")
    begin, end = (np.searchsorted(others[order], keys, side=side) for side in ("left", "right"))
    number = end - begin
    place = np.arange(number.sum()) + np.repeat(begin - np.cumsum(number) + number, number)
    return np.repeat(np.arange(len(keys)), number), order[place]


def read_flow(schedule: Schedule, instance: IntArray, position: IntArray, fused: bool = False) -> Flow:
    """Take a schedule apart.

    Parameters
    ----------
    instance : shape (len(schedule),); the instance of each row.
    position : shape (num_chunks,); chunks of one group lie in memory by rising position.
    fused : as in `Flow`.
    """
    collective = schedule.problem.collective
    named = _named_sums(schedule)
    columns, rows = _columns(schedule, instance, position, named is not None)
    contributions = None if named is None else [named[row] for row in rows.tolist()]
    sums = NO_SUMS
    if contributions is not None:
        sums = _make_sums(collective, tuple(columns.one_by_one(contributions)))
    added: dict[Cell, list[int]] = {}
    end_us = columns.end_us.tolist()
    adds = columns.reduce[columns.of_chunk]
    of_chunk = columns.of_chunk
    copied = dict(
        zip(
            zip(columns.dst[of_chunk[~adds]].tolist(), columns.chunk[~adds].tolist(), strict=True),
            of_chunk[~adds].tolist(),
            strict=True,
        )
    )
    for send, chunk in sums.sent:
        copied.pop((int(columns.dst[send]), chunk), None)
    for send, rank, chunk in zip(
        of_chunk[adds].tolist(),
        columns.dst[of_chunk[adds]].tolist(),
        columns.chunk[adds].tolist(),
        strict=True,
    ):
        added.setdefault((rank, chunk), []).append(send)
    for indices in added.values():
        indices.sort(key=lambda index: (end_us[index], index))
    own = _offsets(collective.inputs.rank, collective.inputs.chunk, collective.inputs.offset)
    wanted = _offsets(collective.outputs.rank, collective.outputs.chunk, collective.outputs.offset)
    return Flow(schedule, columns, contributions, own, wanted, added, copied, sums, fused)


def _named_sums(schedule: Schedule) -> list[int] | None:
    """The set that each row carries, where rows name them or groups mix sums and copies; else None."""
    is_mixed = (schedule.reduce != schedule.sends.reduce[schedule.sends.of_row]).any()
    if schedule.sums is None and not is_mixed:
        return None
    return sets_of_rows(schedule, contributors(schedule.problem.collective))


def _make_sums(collective: Collective, sends: Sequence[Send]) -> MadeSums:
    messages = [
        SumMessage(
            send=send.index,
            chunk=chunk,
            src=send.src,
            dst=send.dst,
            contributions=contributions,
            start_us=send.start_us,
            end_us=send.end_us,
        )
        for send in sends
        for chunk, contributions in zip(send.chunks, send.contributions, strict=True)
        if collective.reduces[chunk]
    ]
    chunks = collective.num_chunks
    return make_sums(
        collective, messages, lambda chunk, k: 2 * chunk + (1 + 2 * chunks * (k - 1) if k else 0)
    )


def _offsets(rank: IntArray, chunk: IntArray, offset: IntArray) -> dict[Cell, int]:
    return dict(zip(zip(rank.tolist(), chunk.tolist(), strict=True), offset.tolist(), strict=True))


def _columns(
    schedule: Schedule, instance: IntArray, position: IntArray, named: bool
) -> tuple[SendColumns, IntArray]:
    """The sends, and the row of the schedule of each of all their chunks; `named` sums are distinguished."""
    sends, topology = schedule.sends, schedule.problem.topology
    order = np.lexsort((position[schedule.chunk], sends.of_row))
    stop = np.cumsum(sends.count)
    by_start = np.lexsort((sends.link, instance[sends.first_row], sends.start_us))
    count, link = sends.count[by_start], sends.link[by_start]
    first = np.cumsum(count) - count
    of_chunk = np.repeat(np.arange(len(count)), count)
    rows = order[(stop - sends.count)[by_start][of_chunk] + np.arange(len(of_chunk)) - first[of_chunk]]
    columns = SendColumns(
        src=topology.src[link],
        dst=topology.dst[link],
        link=link,
        instance=instance[sends.first_row[by_start]],
        start_us=sends.start_us[by_start],
        end_us=sends.end_us[by_start],
        sent_us=_sent_us(schedule)[by_start],
        reduce=np.zeros(len(count), dtype=np.bool_) if named else sends.reduce[by_start],
        count=count,
        chunk=schedule.chunk[rows],
        of_chunk=of_chunk,
    )
    return columns, rows


def _sent_us(schedule: Schedule) -> FloatArray:
    """When each send leaves its ports. Instances share the time of the whole chunk."""
    topology, sends = schedule.problem.topology, schedule.sends
    latency = topology.alpha_us[sends.link] if topology.occupancy == "pipelined" else 0.0
    return np.asarray(np.maximum(sends.end_us - latency, sends.start_us))
