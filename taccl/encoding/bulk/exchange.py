"""What a sequence of moves does where sums are wanted in many places: who ends up with whose contributions.

Of each chunk a rank keeps *parts*: sums of disjoint sets of contributions, at first its own alone. A move
sends the sum of some of the sender's parts, to a receiver who has it as one part more. Which parts follows
from what both have: those that nothing at the receiver overlaps, and also one that does if it brings more
than it displaces (so a whole sum displaces everything, and is a copy). Recursive doubling, dissemination
on any number of ranks (Bruck et al. 1997), one-shot, and sums that are made at one rank and copied from
there are all sequences of such moves; a sum may leave a rank often and be made at many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bulk.board import Board, Move
from taccl.encoding.bulk.play import MEAN_WEIGHT, Played
from taccl.problem import FloatArray

Sets = NDArray[np.uint64]

#: Sets of contributions are the bits of one number.
MOST_RANKS = 64
#: So many parts a rank keeps apart; of more, it adds up two.
_PARTS = 10
#: Of the price of a sum that is not complete, what falls due for the first contribution that it lacks.
_FOR_THE_FIRST = 0.5
#: Arrays with more entries than this are not kept for every move.
_MOST_KEPT = 4_000


class Parts(NamedTuple):
    """What is held, each of shape (..., C, parts): the sets, how many each has, and when they arrive.

    An empty place has no contributions and is there from the beginning.
    """

    sets: Sets
    sizes: FloatArray
    at: FloatArray

    def of(self, ranks: IntArray) -> Parts:
        """Those of some ranks."""
        return Parts(self.sets[ranks], self.sizes[ranks], self.at[ranks])


class State(NamedTuple):
    """What every rank holds, when each port is free, and the last arrival."""

    parts: Parts
    free: list[float]
    last: float


class Step(NamedTuple):
    """What one move does: the state after it, the cells that carry something, and their sets, (G, C) both."""

    state: State
    cells: BoolArray
    sets: Sets


class Exchange:
    """Plays sequences for sums, on a board of no more than `MOST_RANKS` ranks."""

    def __init__(self, board: Board) -> None:
        self.board = board
        collective = board.problem.collective
        ranks, chunks = board.held.shape
        own = np.uint64(1) << np.arange(ranks, dtype=np.uint64)
        sets = np.zeros((ranks, chunks, _PARTS), dtype=np.uint64)
        sets[:, :, 0] = np.where(board.held, own[:, None], np.uint64(0))
        parts = Parts(sets, (sets > 0).astype(np.float64), np.zeros(sets.shape))
        self.start = State(parts, [0.0] * board.num_ports, 0.0)
        self._whole = board.held.sum(axis=0)
        self._wanted = collective.post[board.chunks].T
        self._price = max(board.alpha_us, default=0.0) + max(board.chunk_us, default=0.0)
        self._stride = -(-sets.size // _MOST_KEPT)

    def traits(self, kind: int) -> tuple[IntArray, ...]:
        """What cells may have in common, each of shape (G, C).

        That is where their chunks' homes are, as the first image of the link sees them.
        """
        group, problem = self.board.group, self.board.problem
        home = group.rank_map.argsort(axis=1)[:, problem.collective.home[self.board.chunks]]
        bits = [home >> bit & 1 for bit in range(int(problem.num_ranks - 1).bit_length())]
        return (home, problem.topology.node_of[home], *bits)

    def play(self, moves: Sequence[Move], before: Played | None = None, same: int = 0) -> Played:
        kept: list[Move] = []
        cells: list[BoolArray] = []
        sets: list[Sets] = []
        states: list[State | None] = []
        state = self.start
        if before is not None:
            same -= same % self._stride
            known = before.states[same] if same else state
            assert isinstance(known, State)
            state = known
            kept, cells, sets = before.moves[:same], before.cells[:same], before.sets[:same]
            states = before.states[:same]
        for move in moves[len(kept) :]:
            step = self.step(state, move)
            if step is None:
                continue
            states.append(None if len(kept) % self._stride else state)
            kept.append(move)
            cells.append(step.cells)
            sets.append(step.sets)
            state = step.state
        states.append(state)
        return self._played(state, kept, cells, sets, states)

    def _played(
        self,
        state: State,
        moves: list[Move],
        cells: list[BoolArray],
        sets: list[Sets],
        states: list[State | None],
    ) -> Played:
        parts, last = state.parts, state.last
        lacking = (self._whole - parts.sizes.sum(axis=-1))[self._wanted]
        share = float(lacking.sum()) / max(1.0, float(self._whole.max(initial=0)))
        price = self._price * (_FOR_THE_FIRST * np.count_nonzero(lacking) + share)
        times = np.where(lacking > 0, last, parts.at.max(axis=-1)[self._wanted])
        score = last + price + MEAN_WEIGHT * float(times.sum()) / max(1, times.size)
        return Played(score, last, round(float(lacking.sum())), moves, cells, states, sets)

    def step(self, state: State, move: Move) -> Step | None:
        """Make one move; None if it carries nothing."""
        board, kind = self.board, move.kind
        src, dst = board.src[kind], board.dst[kind]
        here, there = state.parts.of(src), state.parts.of(dst)
        open_cells = board.usable[kind]
        if move.without is not None:
            open_cells = open_cells & ~move.without
        choice = chosen(here, there, here.sizes > 0)
        cells = open_cells & (choice.gain > 0)
        if not cells.any():
            return None
        start = max([state.free[port] for port in board.ports[kind]])
        times = here.at[choice.take & cells[..., None]]
        newest = float(times.max())
        if newest > start and not move.waits:
            start = max(start, float(times.min()))
            early = chosen(here, there, (here.sizes > 0) & (here.at <= start))
            going = open_cells & (early.gain > 0)
            if going.any():
                choice, cells, newest = early, going, start
        start = max(start, newest)
        lasts, busy = board.busy_us(kind, int(np.count_nonzero(cells)))
        free = state.free.copy()
        for port in board.ports[kind]:
            free[port] = start + busy
        going_parts = choice.take & cells[..., None]
        sent = np.bitwise_or.reduce(np.where(going_parts, here.sets, np.uint64(0)), axis=-1)
        size = np.where(going_parts, here.sizes, 0.0).sum(axis=-1)
        displaced = choice.displaced & cells[..., None]
        received = _received(there, displaced, cells, sent, size, start + lasts)
        parts = Parts(*(part.copy() for part in state.parts))
        for column, rows in zip(parts, received, strict=True):
            column[dst] = rows
        return Step(State(parts, free, max(state.last, start + lasts)), cells, sent)


class Choice(NamedTuple):
    """Parts to send and parts that they displace, shape (..., parts), and contributions gained, (...)."""

    take: BoolArray
    displaced: BoolArray
    gain: FloatArray


def chosen(here: Parts, there: Parts, ready: BoolArray) -> Choice:
    """Which of the sender's parts that are ready to send.

    Those that each bring more than they displace, or all, whichever brings more together.
    """
    overlap = (here.sets[..., :, None] & there.sets[..., None, :]) != 0
    cost = (overlap @ there.sizes[..., None])[..., 0]
    each = _worth(here, there, overlap, ready & (here.sizes > cost))
    if (each.take == ready).all():
        return each
    every = _worth(here, there, overlap, ready)
    more = (every.gain > each.gain)[..., None]
    return Choice(
        np.asarray(np.where(more, every.take, each.take)),
        np.asarray(np.where(more, every.displaced, each.displaced)),
        np.maximum(every.gain, each.gain),
    )


def _worth(here: Parts, there: Parts, overlap: BoolArray, take: BoolArray) -> Choice:
    displaced = np.asarray((take[..., :, None] & overlap).any(axis=-2))
    gain = (take * here.sizes).sum(axis=-1) - (displaced * there.sizes).sum(axis=-1)
    return Choice(take, displaced, gain)


def _received(
    there: Parts, displaced: BoolArray, cells: BoolArray, sent: Sets, size: FloatArray, at_us: float
) -> Parts:
    """What the receivers hold with one part more."""
    sets = np.where(displaced, np.uint64(0), there.sets)
    sizes, at = np.where(displaced, 0.0, there.sizes), np.where(displaced, 0.0, there.at)
    full = cells & (sets != 0).all(axis=-1)
    if full.any():
        # The sender's own contribution stays apart, because others may need all but that.
        for column, together in ((sets, np.bitwise_or), (sizes, np.add), (at, np.maximum)):
            column[full, 1] = together(column[full, 1], column[full, 2])
            column[full, 2] = 0
    image, chunk = np.nonzero(cells)
    place = (sets[image, chunk] == 0).argmax(axis=-1)
    sets[image, chunk, place] = sent[image, chunk]
    sizes[image, chunk, place] = size[image, chunk]
    at[image, chunk, place] = at_us
    return Parts(sets, sizes, at)
