"""What the passes need to know of a schedule: its sends, and who holds what because of which.

At a rank, a chunk has up to two values. The *first* is what the rank starts with or adds up: its own
data, or its contribution together with all that were added to it. The *second* is a finished copy
that is received. Only a reduced chunk can have both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.collectives import IntArray
from taccl.problem import FloatArray
from taccl.schedule import Schedule

#: (rank, chunk)
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One contiguous send of the schedule.

    Parameters
    ----------
    chunks : in the order in which they lie in memory at both ends.
    src, dst : ranks.
    line : (link, instance): transfers of one line share a connection, or several in turn.
    start_us, end_us : when it starts, and when the receiver holds the chunks.
    sent_us : when the sender is done with it: at the end, or earlier where latency is not occupancy.
    reduce : whether the receiver adds them to what it has.
    """

    index: int
    chunks: tuple[int, ...]
    src: int
    dst: int
    line: tuple[int, int]
    start_us: float
    end_us: float
    sent_us: float
    reduce: bool


@dataclass(frozen=True, eq=False)
class Flow:
    """The sends of a schedule, and the values at each rank.

    Parameters
    ----------
    transfers : by start.
    own, wanted : offset in the input (output) buffer of a chunk that a rank starts with (must get).
    added : the transfers that add to a chunk at a rank, by end.
    copied : the transfer that brings a finished chunk to a rank.
    """

    schedule: Schedule
    transfers: tuple[Transfer, ...]
    own: dict[Cell, int]
    wanted: dict[Cell, int]
    added: dict[Cell, list[int]]
    copied: dict[Cell, int]

    def sources(self, transfer: Transfer) -> set[int]:
        """The transfers that must have arrived before this one can leave."""
        needed: set[int] = set()
        for chunk in transfer.chunks:
            cell = (transfer.src, chunk)
            if not transfer.reduce and cell in self.copied:
                needed.add(self.copied[cell])
            else:
                needed.update(self.added.get(cell, ()))
        return needed

    def sent_value(self, transfer: Transfer, chunk: int) -> int:
        """Which value of the sender a transfer carries: `first(chunk)` or `second(chunk)`."""
        if transfer.reduce or (transfer.src, chunk) not in self.copied:
            return first(chunk)
        return second(chunk)

    def final_value(self, rank: int, chunk: int) -> int:
        """The value of a rank that is the finished chunk."""
        return second(chunk) if (rank, chunk) in self.copied else first(chunk)


def first(chunk: int) -> int:
    """The number of a chunk's first value at a rank."""
    return 2 * chunk


def second(chunk: int) -> int:
    """The number of a chunk's second value at a rank."""
    return 2 * chunk + 1


def chunk_of(value: int) -> int:
    """The chunk of a value."""
    return value // 2


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
    transfers = tuple(_transfers(schedule, instance, position))
    added: dict[Cell, list[int]] = {}
    copied: dict[Cell, int] = {}
    for transfer in transfers:
        for chunk in transfer.chunks:
            cell = (transfer.dst, chunk)
            if transfer.reduce:
                added.setdefault(cell, []).append(transfer.index)
            else:
                copied[cell] = transfer.index
    for indices in added.values():
        indices.sort(key=lambda index: (transfers[index].end_us, index))
    own = _offsets(collective.inputs.rank, collective.inputs.chunk, collective.inputs.offset)
    wanted = _offsets(collective.outputs.rank, collective.outputs.chunk, collective.outputs.offset)
    return Flow(schedule, transfers, own, wanted, added, copied)


def _offsets(rank: IntArray, chunk: IntArray, offset: IntArray) -> dict[Cell, int]:
    return dict(zip(zip(rank.tolist(), chunk.tolist(), strict=True), offset.tolist(), strict=True))


def _transfers(schedule: Schedule, instance: IntArray, position: IntArray) -> Iterator[Transfer]:
    sends, topology = schedule.sends, schedule.problem.topology
    order = np.lexsort((position[schedule.chunk], sends.of_row))
    chunks = schedule.chunk[order].tolist()
    stop = np.cumsum(sends.count)
    sent = _sent_us(schedule)
    by_start = np.lexsort((sends.link, instance[sends.first_row], sends.start_us))
    for index, send in enumerate(by_start.tolist()):
        link = int(sends.link[send])
        yield Transfer(
            index=index,
            chunks=tuple(chunks[int(stop[send] - sends.count[send]) : int(stop[send])]),
            src=int(topology.src[link]),
            dst=int(topology.dst[link]),
            line=(link, int(instance[sends.first_row[send]])),
            start_us=float(sends.start_us[send]),
            end_us=float(sends.end_us[send]),
            sent_us=float(sent[send]),
            reduce=bool(sends.reduce[send]),
        )


def _sent_us(schedule: Schedule) -> FloatArray:
    """When each send leaves its ports. Instances share the time of the whole chunk."""
    topology, sends = schedule.problem.topology, schedule.sends
    latency = topology.alpha_us[sends.link] if topology.occupancy == "pipelined" else 0.0
    return np.asarray(np.maximum(sends.end_us - latency, sends.start_us))
