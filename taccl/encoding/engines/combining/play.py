"""What a sequence of moves does: who ends up with what, and when.

Two players with the same face. `Spread` is for chunks that every rank wants: a move carries all that
its sender has, or will have, and its receiver lacks. `Route` is for chunks that one rank wants: the
sequence, read from its end, says the cheapest way that each chunk can still take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.combining.board import Board, Move
from taccl.network import FloatArray

#: So many cells of a move are played at once, as arrays, in a unit of work.
_CELLS_PER_UNIT = 100_000.0
#: The weight of the mean arrival beside the last one: it tells apart sequences that end at the same time.
MEAN_WEIGHT = 1e-2
#: The weight of an alpha beside a chunk's own time when paths are compared: of equal ones, that with fewer
#: hops.
_HOP_WEIGHT = 1e-3
_HAIR_US = 1e-9


@dataclass(frozen=True, eq=False)
class Played:
    """A sequence without the moves that carry nothing, and what it comes to.

    Parameters
    ----------
    score : what the search makes small: the time, a little of the mean arrival, and a price for
        each demand that is not met.
    makespan_us : the last arrival.
    unmet : demands of the deciding chunks that are not met.
    moves, cells : the moves that carry something, and what they carry, each of shape (G, C).
    states : for players that can go on from the middle: what held before each move, and at the end.
    sets : for sums, the contributions that each of the cells carries, in their order.
    """

    score: float
    makespan_us: float
    unmet: int
    moves: list[Move]
    cells: list[BoolArray]
    states: list[Any]
    sets: list[list[int]] = field(default_factory=list)

    def decisions(self, board: Board) -> list[Decision]:
        """The sends of a sequence of copies, in its order."""
        return [
            decision
            for move, cells in zip(self.moves, self.cells, strict=True)
            for decision in board.decisions(move.kind, cells)
        ]


_State = tuple[FloatArray, list[float], float]


class Player(Protocol):
    """Plays sequences on one board; about so many cells of moves are played in a unit of work."""

    board: Board
    cells_per_unit: float

    def play(self, moves: Sequence[Move], before: Played | None = None, same: int = 0) -> Played:
        """Play the moves, of which the first `same` are those of `before`."""
        ...

    def traits(self, kind: int) -> tuple[IntArray, ...]:
        """What cells of a move may have in common, each of shape (G, C)."""
        ...


class Spread:
    """For chunks that every rank wants.

    Where a link carries its sender's own chunks first, the first move over it carries them alone.
    """

    cells_per_unit = _CELLS_PER_UNIT

    def __init__(self, board: Board) -> None:
        self.board = board
        self._start = np.where(board.held, 0.0, np.inf)
        self._price = max(board.alpha_us, default=0.0) + max(board.chunk_us, default=0.0)

    def traits(self, kind: int) -> tuple[IntArray, ...]:
        return self.board.traits

    def play(self, moves: Sequence[Move], before: Played | None = None, same: int = 0) -> Played:
        board = self.board
        kept: list[Move] = []
        carried: list[BoolArray] = []
        states: list[_State] = []
        arrive, free, last = self._start, [0.0] * board.num_ports, 0.0
        if before is not None and same:
            kept, carried, states = before.moves[:same], before.cells[:same], before.states[:same]
            arrive, free, last = before.states[same]
        for move in moves[same:]:
            kind = move.kind
            at, to = arrive.take(board.src[kind], axis=0), arrive.take(board.dst[kind], axis=0)
            # A move carries what arrives at the sender before it arrives at the receiver.
            cells = (at < to) & (to == np.inf) & board.usable[kind]
            own = board.own[kind]
            if own is not None and (cells & own).any():
                cells &= own
            elif move.without is not None:
                cells &= ~move.without
            times = at[cells]
            if not times.size:
                continue
            states.append((arrive, free, last))
            start = max([free[port] for port in board.ports[kind]])
            newest = float(times.max())
            if newest > start and not move.waits:
                start = max(start, float(times.min()))
                if newest > start:
                    cells &= at <= start
                    times = at[cells]
            else:
                start = max(start, newest)
            free = free.copy()
            end = board.place(kind, times.size, start, free)
            to[cells] = end
            arrive = arrive.copy()
            arrive[board.dst[kind]] = to
            last = max(last, end)
            kept.append(move)
            carried.append(cells)
        states.append((arrive, free, last))
        times = arrive[board.wanted]
        missing = times == np.inf
        unmet = int(np.count_nonzero(missing))
        mean = float(np.where(missing, last, times).sum()) / max(1, times.size)
        score = last + unmet * self._price + MEAN_WEIGHT * mean
        return Played(score, last, unmet, kept, carried, states)


class Route:
    """For chunks that one rank wants: each takes the cheapest way that the sequence leaves open.

    With equal costs it moves as early as it can. Where a link carries its sender's own chunks first, the
    first move over it carries them alone, and the others carry none of them.
    """

    cells_per_unit = _CELLS_PER_UNIT

    def __init__(self, board: Board) -> None:
        self.board = board
        self._source = board.held.argmax(axis=0)
        self._target = np.where(board.wanted.any(axis=0), board.wanted.argmax(axis=0), self._source)
        self._each = np.arange(len(board.chunks))
        self._price = max(board.alpha_us, default=0.0) + max(board.chunk_us, default=0.0)
        self._cost = np.full(board.held.shape, np.inf)
        self._cost[self._target, self._each] = 0.0
        hop = np.array(board.chunk_us) + _HOP_WEIGHT * np.array(board.alpha_us)
        self._hop = np.where(board.usable, hop[:, None, None], np.inf)
        self._from = board.src[:, :, None]

    def traits(self, kind: int) -> tuple[IntArray, ...]:
        return self.board.traits

    def play(self, moves: Sequence[Move], before: Played | None = None, same: int = 0) -> Played:
        board = self.board
        taken, cost = self._ways(moves)
        unmet = int(np.count_nonzero(cost[self._source, self._each] == np.inf))
        rank, at, free, last = self._source.copy(), np.zeros(len(self._each)), [0.0] * board.num_ports, 0.0
        kept, carried = [], []
        for move, takes in zip(moves, taken, strict=True):
            kind = move.kind
            cells = takes & (self._from[kind] == rank)
            image, going = cells.nonzero()
            if not going.size:
                continue
            start = max([float(at[going].max()), *[free[port] for port in board.ports[kind]]])
            end = board.place(kind, going.size, start, free)
            at[going] = end
            last = max(last, end)
            rank[going] = board.dst[kind][image]
            kept.append(move)
            carried.append(cells)
        score = last + unmet * self._price + MEAN_WEIGHT * float(at.sum()) / max(1, at.size)
        return Played(score, last, unmet, kept, carried, [])

    def _ways(self, moves: Sequence[Move]) -> tuple[list[BoolArray], FloatArray]:
        """For each move, the cells of chunks for which it is on a cheapest way from the cell's sender."""
        board, cost = self.board, self._cost.copy()
        first = {move.kind: place for place, move in reversed(list(enumerate(moves)))}
        taken: list[BoolArray] = []
        for place, move in reversed(list(enumerate(moves))):
            src = board.src[move.kind]
            stay, go = cost.take(src, axis=0), cost.take(board.dst[move.kind], axis=0)
            go += self._hop[move.kind]
            if move.without is not None:
                go[move.without] = np.inf
            own = board.own[move.kind]
            if own is not None:
                go[own != (place == first[move.kind])] = np.inf
            # The small margin takes a move now rather than an equally cheap one later; inf < inf stays false.
            taken.append(go < stay + _HAIR_US)
            cost[src] = np.minimum(stay, go)
        return taken[::-1], cost
