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

from taccl.collective import BoolArray, IntArray
from taccl.encoding.engines.combining.board import Board, Move
from taccl.encoding.engines.combining.play import MEAN_WEIGHT, Played
from taccl.schedule.partial_sums import contributors

#: A rank keeps at most so many partial sums of a chunk; before it has more, it adds up two of them.
_MOST_PARTS = 10
#: The part of the penalty for an incomplete sum that the first missing contribution costs.
_FOR_THE_FIRST = 0.5
#: The cache of choices is emptied when it holds so many.
_MOST_KNOWN = 300_000


class State(NamedTuple):
    """What is where and when.

    Parameters
    ----------
    parts, at : for each rank and deciding chunk, at rank * C + chunk: the sets of contributions of its parts
        (`schedule.partial_sums`), and when each arrives.
    free : when each port is free.
    last : the last arrival.
    """

    parts: list[tuple[int, ...]]
    at: list[tuple[float, ...]]
    free: list[float]
    last: float


class Choice(NamedTuple):
    """What a sender gives: the numbers of its parts, their union, and the contributions that are gained.

    `stay` has the numbers of those of the receiver's parts that are not displaced.
    """

    take: tuple[int, ...]
    union: int
    gain: int
    stay: tuple[int, ...]


class Step(NamedTuple):
    """What one move does: the state after it, the cells that carry something, (G, C), and their sets."""

    state: State
    cells: BoolArray
    sets: list[int]


class Cell(NamedTuple):
    """A cell of a kind of links that may be used: its number, and where its ends are in a state."""

    number: int
    src: int
    dst: int


class Exchange:
    """Plays sequences for sums."""

    #: Each cell by itself: sets of contributions are no arrays.
    cells_per_unit = 500.0

    def __init__(self, board: Board) -> None:
        self.board = board
        whole = contributors(board.problem.collective)
        chunks = len(board.chunks)
        parts: list[tuple[int, ...]] = [
            (1 << rank,) if held else () for rank, row in enumerate(board.held.tolist()) for held in row
        ]
        at = [(0.0,) * len(own) for own in parts]
        self.start = State(parts, at, [0.0] * board.num_ports, 0.0)
        wanted = board.problem.collective.post[board.chunks].T.ravel()
        self._wanted = [(place, whole[board.chunks[place % chunks]]) for place in np.flatnonzero(wanted)]
        self._most = max(1, *(each.bit_count() for each in whole))
        self._price = max(board.alpha_us, default=0.0) + max(board.chunk_us, default=0.0)
        self.cells = [_cells(board, kind) for kind in range(board.num_kinds)]
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], Choice | None] = {}

    def traits(self, kind: int) -> tuple[IntArray, ...]:
        """What cells may have in common, each of shape (G, C).

        That is where their chunks' owners are, as the first image of the link sees them.
        """
        group, problem = self.board.group, self.board.problem
        owner = group.rank_map.argsort(axis=1)[:, problem.collective.owner[self.board.chunks]]
        bits = [owner >> bit & 1 for bit in range(int(problem.num_ranks - 1).bit_length())]
        return (owner, problem.topology.node_of[owner], *bits)

    def play(self, moves: Sequence[Move], before: Played | None = None, same: int = 0) -> Played:
        kept: list[Move] = []
        cells: list[BoolArray] = []
        sets: list[list[int]] = []
        states: list[State] = []
        state = self.start
        if before is not None and same:
            state, states = before.states[same], before.states[:same]
            kept, cells, sets = before.moves[:same], before.cells[:same], before.sets[:same]
        for move in moves[same:]:
            step = self.step(state, move)
            if step is None:
                continue
            states.append(state)
            kept.append(move)
            cells.append(step.cells)
            sets.append(step.sets)
            state = step.state
        states.append(state)
        last, lacking, incomplete, times = state.last, 0, 0, 0.0
        for place, whole in self._wanted:
            lack = whole.bit_count() - sum([part.bit_count() for part in state.parts[place]])
            lacking += lack
            incomplete += lack > 0
            times += last if lack else max(state.at[place], default=0.0)
        price = self._price * (_FOR_THE_FIRST * incomplete + lacking / self._most)
        score = last + price + MEAN_WEIGHT * times / max(1, len(self._wanted))
        return Played(score, last, lacking, kept, cells, states, sets)

    def step(self, state: State, move: Move) -> Step | None:
        """Make one move; None if it carries nothing."""
        board, kind, parts, at = self.board, move.kind, state.parts, state.at
        cells = self.cells[kind]
        if move.without is not None:
            stays = move.without.ravel().tolist()
            cells = [cell for cell in cells if not stays[cell.number]]
        going = self._going(parts, cells)
        if not going:
            return None
        start = max([state.free[port] for port in board.ports[kind]])
        newest = max([at[cell.src][number] for cell, choice in going for number in choice.take])
        if newest > start and not move.waits:
            first = min([at[cell.src][number] for cell, choice in going for number in choice.take])
            if early := self.early(state, cells, max(start, first)):
                going, newest = early, max(start, first)
        start = max(start, newest)
        free = state.free.copy()
        end = board.place(kind, len(going), start, free)
        carried = np.zeros(len(board.group) * len(board.chunks), dtype=np.bool_)
        carried[[cell.number for cell, _ in going]] = True
        new_parts, new_at = parts.copy(), at.copy()
        for cell, choice in going:
            theirs, since = parts[cell.dst], at[cell.dst]
            stay = choice.stay
            new_parts[cell.dst] = (*[theirs[number] for number in stay], choice.union)
            new_at[cell.dst] = (*[since[number] for number in stay], end)
            if len(stay) == _MOST_PARTS:
                _add_two(new_parts, new_at, cell.dst)
        after = State(new_parts, new_at, free, max(state.last, end))
        shape = len(board.group), len(board.chunks)
        return Step(after, carried.reshape(shape), [choice.union for _, choice in going])

    def _going(self, parts: list[tuple[int, ...]], cells: Sequence[Cell]) -> list[tuple[Cell, Choice]]:
        """The cells whose receivers gain something."""
        pairs = [(cell, self.choice(parts[cell.src], parts[cell.dst])) for cell in cells]
        return [(cell, choice) for cell, choice in pairs if choice is not None]

    def early(self, state: State, cells: Sequence[Cell], by_us: float) -> list[tuple[Cell, Choice]]:
        """The same with the parts alone that are at the senders by some moment."""
        going = []
        for cell in cells:
            ours, since, theirs = state.parts[cell.src], state.at[cell.src], state.parts[cell.dst]
            if since and max(since) <= by_us:
                if (choice := self.choice(ours, theirs)) is not None:
                    going.append((cell, choice))
                continue
            there = [number for number, at_us in enumerate(since) if at_us <= by_us]
            if (
                there
                and (choice := self.choice(tuple([ours[number] for number in there]), theirs)) is not None
            ):
                take = tuple([there[number] for number in choice.take])
                going.append((cell, Choice(take, choice.union, choice.gain, choice.stay)))
        return going

    def ready_us(self, state: State, cell: Cell) -> tuple[float, float]:
        """When a sender has the first and the last of what its receiver gains; infinity: never."""
        choice = self.choice(state.parts[cell.src], state.parts[cell.dst])
        if choice is None:
            return np.inf, np.inf
        since = state.at[cell.src]
        moments = [since[number] for number in choice.take]
        return min(moments), max(moments)

    def choice(self, ours: tuple[int, ...], theirs: tuple[int, ...]) -> Choice | None:
        """What a rank with some parts gives to one with others; None if the other gains nothing."""
        key = ours, theirs
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = chosen(ours, theirs)
        return self._known[key]


def _cells(board: Board, kind: int) -> list[Cell]:
    chunks = len(board.chunks)
    image, chunk = np.nonzero(board.usable[kind])
    columns = (
        image * chunks + chunk,
        board.src[kind][image] * chunks + chunk,
        board.dst[kind][image] * chunks + chunk,
    )
    return [Cell(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _add_two(parts: list[tuple[int, ...]], at: list[tuple[float, ...]], place: int) -> None:
    """Add up the two oldest parts but the first, mostly a rank's own: others may need all but that."""
    first, one, other, *rest = parts[place]
    parts[place] = (first, one | other, *rest)
    since, one_at, other_at, *rest_at = at[place]
    at[place] = (since, max(one_at, other_at), *rest_at)


def chosen(ours: tuple[int, ...], theirs: tuple[int, ...]) -> Choice | None:
    """Those of our parts that each bring more than they displace, or all, whichever brings more together."""
    some = tuple(
        number
        for number, part in enumerate(ours)
        if part.bit_count() > sum([other.bit_count() for other in theirs if other & part])
    )
    best = _given(ours, theirs, some)
    if len(some) < len(ours):
        every = _given(ours, theirs, tuple(range(len(ours))))
        best = every if every.gain > best.gain else best
    return best if best.gain > 0 else None


def _given(ours: tuple[int, ...], theirs: tuple[int, ...], take: tuple[int, ...]) -> Choice:
    union = 0
    for number in take:
        union |= ours[number]
    stay = tuple(number for number, other in enumerate(theirs) if not other & union)
    kept = sum([theirs[number].bit_count() for number in stay])
    gain = union.bit_count() + kept - sum([other.bit_count() for other in theirs])
    return Choice(take, union, gain, stay)
