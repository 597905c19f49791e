"""The small language between a schedule and thread blocks: what each rank does, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from taccl.backend.program import Buffer, Op

_Value = TypeVar("_Value")


class Place(NamedTuple):
    """A cell of a rank's memory, or the first of several."""

    buffer: Buffer
    offset: int

    def shifted(self, cells: int) -> Place:
        """The place so many cells further on."""
        return Place(self.buffer, self.offset + cells)


class Endpoint(NamedTuple):
    """One end of a connection: a rank's sends to a peer on a channel, or its receives."""

    channel: int
    peer: int
    sends: bool


@dataclass(slots=True)
class Action:
    """One step to be, at one rank.

    Parameters
    ----------
    op, src, dst, count : as in `program.Step`.
    position : number of its event in the order of the whole program; -1 for what comes first.
    send : whose step it is, or whose arrival it handles; -1 for neither.
    endpoint : where it must run; None where any thread block of the rank will do.
    ready_us : until when its thread block must be free for it. For the receive of one chunk that is its
        end, since the message can wait in its slot; for what no one waits for, infinite.
    done_us : until when it keeps its thread block.
    known : actions of this rank, by number, that have surely been done when this one starts.
    held_back : actions of this rank that it must wait for, whatever they touch.
    unit : which sum of its rank it helps to make in a thread block of its own; -1 for none.
    """

    op: Op
    src: Place
    dst: Place
    count: int
    position: int
    send: int
    endpoint: Endpoint | None
    ready_us: float
    done_us: float
    known: tuple[int, ...] = ()
    held_back: tuple[int, ...] = ()
    unit: int = -1

    def reads(self) -> tuple[Place, ...]:
        """The cells that it reads."""
        if self.op in _READS_NOTHING:
            return ()
        cells = _cells(self.src, self.count)
        return cells + _cells(self.dst, self.count) if self.op is Op.REDUCE else cells

    def writes(self) -> tuple[Place, ...]:
        """The cells that it writes."""
        return () if self.op in _WRITES_NOTHING else _cells(self.dst, self.count)


_READS_NOTHING = (Op.RECV, Op.RECV_COPY_SEND, Op.NOP)
_WRITES_NOTHING = (Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP)


def _cells(place: Place, count: int) -> tuple[Place, ...]:
    if count == 1:
        return (place,)
    return tuple(Place(place.buffer, place.offset + i) for i in range(count))


def split(values: Sequence[_Value], parts: int) -> list[Sequence[_Value]]:
    """The values in so many stretches of nearly one length."""
    return [values[len(values) * part // parts : len(values) * (part + 1) // parts] for part in range(parts)]


def merge_runs(pairs: Iterable[tuple[Place, Place]], most: int) -> list[tuple[Place, Place, int]]:
    """(source, destination) cells as the fewest (source, destination, count), in the given order.

    `most` : chunks that one step takes.
    """
    runs: list[tuple[Place, Place, int]] = []
    for src, dst in pairs:
        if runs:
            last_src, last_dst, count = runs[-1]
            if count < most and (src, dst) == (last_src.shifted(count), last_dst.shifted(count)):
                runs[-1] = (last_src, last_dst, count + 1)
                continue
        runs.append((src, dst, 1))
    return runs
