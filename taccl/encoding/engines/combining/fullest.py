"""Sequences for sums, built send by send: of those that can start first, the one that brings most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.collective import BoolArray
from taccl.encoding.core.budget import Budget
from taccl.encoding.engines.combining.begin import some_slow
from taccl.encoding.engines.combining.board import Board, Move
from taccl.encoding.engines.combining.exchange import Cell, Exchange, State
from taccl.encoding.engines.combining.play import Played

#: A link whose chunk takes so many times as long as the fastest one's is slow.
_SLOW = 2.0
_HAIR_US = 1e-9


@dataclass(frozen=True, eq=False)
class _Rule:
    """What sequences of fullest sends leave out.

    Parameters
    ----------
    usable : kinds of links that may be used.
    least_here, least_there : per kind, how many contributions its sender, and its receiver, must have.
    together : whether a link waits until its sender has so many to all of its sums.
    """

    usable: list[bool]
    least_here: list[int]
    least_there: list[int]
    together: bool = False


def fullest(
    player: Exchange,
    random: np.random.Generator,
    budget: Budget,
    before: Played | None = None,
    hold: int | None = None,
) -> list[Move] | None:
    """Moves that complete all sums, if they can: of those that can start first, the one that brings most.

    They go on after `before`. As long as anything else helps, no sum leaves or reaches a rank that has fewer
    than `hold` contributions to it (by default, some number on slow links, of which often only a few are
    used). Then none leaves such a rank, or goes over slow links. None if that takes longer than the budget.
    """
    moves, state = ([], player.start) if before is None else (list(before.moves), before.states[-1])
    for rule in _some_rules(player.board, random) if hold is None else _rules(player.board, hold):
        choosing = _Choosing(player, rule)
        while (move := choosing.best(state, random)) is not None:
            step = player.step(state, move)
            if not budget.remaining_s():
                return None
            if step is None:
                break
            moves.append(move)
            state = step.state
            choosing.forget(move.kind)
    return moves


def _rules(board: Board, hold: int) -> list[_Rule]:
    """One after another, each for when nothing more helps by the one before."""
    kinds, slow = board.num_kinds, _slow(board)
    every, held, none = [True] * kinds, [hold] * kinds, [0] * kinds
    fast = every if slow.all() else (~slow).tolist()
    return [_Rule(every, held, held), _Rule(fast, held, none), _Rule(every, none, none)]


def _some_rules(board: Board, random: np.random.Generator) -> list[_Rule]:
    kinds, slow = board.num_kinds, _slow(board)
    largest = int(np.bincount(board.problem.topology.node_of).max())
    hold = largest if random.random() < 0.7 else int(random.integers(1, largest + 1))
    held, none = np.where(slow, hold, 0).tolist(), [0] * kinds
    usable = some_slow(slow, random).tolist()
    there = held if random.random() < 0.5 else none
    return [_Rule(usable, held, there, bool(random.random() < 0.7)), _Rule([True] * kinds, none, none)]


def _slow(board: Board) -> BoolArray:
    alone = np.array(board.alpha_us) + np.array(board.chunk_us)
    return np.asarray(alone > _SLOW * float(alone.min()))


class _Choosing:
    """Chooses fullest moves by one rule, and remembers what it saw of kinds that nothing has changed for."""

    def __init__(self, player: Exchange, rule: _Rule) -> None:
        board = player.board
        self._player, self._rule = player, rule
        self._kinds = [kind for kind, usable in enumerate(rule.usable) if usable and player.cells[kind]]
        self._ends = [{*src, *dst} for src, dst in zip(board.src.tolist(), board.dst.tolist(), strict=True)]
        self._into = [set(dst) for dst in board.dst.tolist()]
        self._open: dict[int, _Open] = {}
        self._gain: dict[int, _Gain] = {}

    def forget(self, moved: int) -> None:
        """Note that a move over a kind of links has changed what its receivers have."""
        for kind in self._kinds:
            if not self._into[moved].isdisjoint(self._ends[kind]):
                self._open.pop(kind, None)
                self._gain.pop(kind, None)

    def best(self, state: State, random: np.random.Generator) -> Move | None:
        """The move that brings most contributions for its time, among those that start first."""
        board = self._player.board
        best, best_start, best_value = -1, np.inf, 0.0
        for kind in self._kinds:
            if kind not in self._open:
                self._open[kind] = self._look(state, kind)
            start = max(self._open[kind].first_us, *[state.free[port] for port in board.ports[kind]])
            if start == np.inf or start > best_start + _HAIR_US:
                continue
            if kind not in self._gain or self._gain[kind].start_us != start:
                self._gain[kind] = self._count(state, kind, start)
            gain = self._gain[kind].contributions
            value = gain / (board.alpha_us[kind] + board.chunk_us[kind]) * (1 + 0.3 * random.random())
            if gain and (start < best_start - _HAIR_US or value > best_value):
                best, best_start, best_value = kind, start, value
        return None if best < 0 else self._move(best)

    def _look(self, state: State, kind: int) -> _Open:
        """Which cells of a kind the rule lets go."""
        player, rule = self._player, self._rule
        here, there, cells = rule.least_here[kind], rule.least_there[kind], player.cells[kind]
        if here or there:
            cells = [
                cell for cell in cells if _known(state, cell.src) >= here and _known(state, cell.dst) >= there
            ]
        moments = [player.ready_us(state, cell) for cell in cells]
        if rule.together and here:
            useful = [late for _, late in moments if late < np.inf]
            everything = useful and len(cells) == len(player.cells[kind])
            first = max(useful) if everything else np.inf
        else:
            # A kind that waits for company starts when all that is on its way to the sender is there.
            first = min((late if here else early for early, late in moments), default=np.inf)
        return _Open(first, [(cell, late) for cell, (_, late) in zip(cells, moments, strict=True)])

    def _count(self, state: State, kind: int, start_us: float) -> _Gain:
        """What a kind brings if it starts then."""
        cells = [
            cell
            for cell, late in self._open[kind].cells
            if not self._rule.least_here[kind] or late <= start_us
        ]
        going = self._player.early(state, cells, start_us)
        return _Gain(start_us, cells, sum([choice.gain for _, choice in going]))

    def _move(self, kind: int) -> Move:
        board, cells = self._player.board, self._gain[kind].cells
        waits = self._rule.least_here[kind] > 0
        if len(cells) == len(self._player.cells[kind]):
            return Move(kind, waits)
        stay = np.ones((len(board.group), len(board.chunks)), dtype=np.bool_)
        stay.flat[[cell.number for cell in cells]] = False
        return Move(kind, waits, stay)


class _Open(NamedTuple):
    """When something useful may go over a kind, and its cells, each with when all that it gives is there."""

    first_us: float
    cells: list[tuple[Cell, float]]


class _Gain(NamedTuple):
    """What a kind brings from some moment on: the cells that may go, and contributions."""

    start_us: float
    cells: list[Cell]
    contributions: int


def _known(state: State, place: int) -> int:
    """How many contributions there are."""
    return sum([part.bit_count() for part in state.parts[place]])
