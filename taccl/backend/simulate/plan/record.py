"""What happened in a call, as columns: what blocks did when, who let whom go on, which bytes went where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True, eq=False)
class Acts:
    """One row for each time that a block does an operation; inside a pipeline, one for each turn.

    Parameters
    ----------
    rank, block, step, inner : positions in the plan; `inner` is -1 for what is in no pipeline.
    start_us, end_us : when its block came to it, and when it went on.
    before : the row before it in its block; -1 for the first.
    released_by : the row that let it go on, if it had to wait; else -1.
    """

    rank: IntArray
    block: IntArray
    step: IntArray
    inner: IntArray
    start_us: FloatArray
    end_us: FloatArray
    before: IntArray
    released_by: IntArray

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Moves:
    """One row for what went over a link in one go.

    Parameters
    ----------
    act : the row of `Acts` that requested it.
    link : of the topology.
    size_bytes : on the wire.
    start_us, left_us : from when to when the link carried it.
    port : the number of the end of the port channel that moved it; -1: the threads of the block did.
    """

    act: IntArray
    link: IntArray
    size_bytes: FloatArray
    start_us: FloatArray
    left_us: FloatArray
    port: IntArray

    def __len__(self) -> int:
        return len(self.act)


class Record:
    """Acts and moves while they happen."""

    def __init__(self) -> None:
        self._acts: list[tuple[int, int, int, int, float, int]] = []
        self._end_us: list[float] = []
        self._released_by: list[int] = []
        self._moves: list[tuple[int, int, float, float, float, int]] = []
        self.last_us = 0.0
        self.last = -1

    def begins(self, place: tuple[int, int, int, int], before: int, now_us: float) -> int:
        """The row of an act that begins; `place` is its rank, block, step and inner."""
        self._acts.append((*place, now_us, before))
        self._end_us.append(now_us)
        self._released_by.append(-1)
        return len(self._acts) - 1

    def ends(self, act: int, now_us: float) -> None:
        """Its block goes on."""
        self._end_us[act] = now_us

    def released(self, act: int, by: int) -> None:
        """An act that waited may go on; for what it did itself, it waits for nobody."""
        if by != act:
            self._released_by[act] = by

    def moved(self, act: int, link: int, size: float, start_us: float, left_us: float, port: int) -> None:
        """Bytes have left."""
        self._moves.append((act, link, size, start_us, left_us, port))

    def lands(self, act: int, when_us: float) -> None:
        """Something that an act did is over; the last of all is the end of the call."""
        if when_us > self.last_us or self.last < 0:
            self.last_us, self.last = max(when_us, self.last_us), act

    def acts(self, shift_us: float) -> Acts:
        """All acts, so much later."""
        rank, block, step, inner, start_us, before = _columns(self._acts, 6)
        return Acts(
            rank=_whole(rank),
            block=_whole(block),
            step=_whole(step),
            inner=_whole(inner),
            start_us=_real(start_us) + shift_us,
            end_us=_real(self._end_us) + shift_us,
            before=_whole(before),
            released_by=_whole(self._released_by),
        )

    def moves(self, shift_us: float) -> Moves:
        """All moves, so much later, in the order of their ends."""
        act, link, size, start_us, left_us, port = _columns(self._moves, 6)
        return Moves(
            act=_whole(act),
            link=_whole(link),
            size_bytes=_real(size),
            start_us=_real(start_us) + shift_us,
            left_us=_real(left_us) + shift_us,
            port=_whole(port),
        )


def _columns(rows: Sequence[Sequence[float]], count: int) -> list[Sequence[float]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _whole(column: Sequence[float]) -> IntArray:
    return np.array(column, dtype=np.int64)


def _real(column: Sequence[float]) -> FloatArray:
    return np.array(column, dtype=np.float64)
