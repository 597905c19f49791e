"""Simulated annealing over sequences of moves (Kirkpatrick et al. 1983).

A changed sequence is played anew; what carries nothing any more drops out. A sequence that leaves a
demand unmet pays for it and may mend later.
"""

from __future__ import annotations

import math

import numpy as np

from taccl.encoding.core.budget import Budget
from taccl.encoding.engines.combining.board import Move
from taccl.encoding.engines.combining.play import Played, Player

#: The temperature of the annealing at its beginning and its end, as a fraction of the time of the first
#: sequence.
_WARM, _COLD = 0.005, 0.0002
#: What playing a sequence takes, in units of work for each move, beside what its cells take.
_UNITS_PER_MOVE = 0.008
#: The budget is looked at after about so many units. A look costs one, and a short sequence far less.
_UNITS_BETWEEN_LOOKS = 4.0


def anneal(player: Player, begin: Played, budget: Budget, random: np.random.Generator) -> Played:
    """The best sequence found from `begin` on, which may be `begin`.

    It cools by the part of the budget that is used, be that time or work.
    """
    best = now = begin
    cells = math.prod(player.board.usable.shape[1:])
    whole = budget.remaining_s()
    while left := budget.remaining_s():
        units = max(1, len(now.moves)) * (_UNITS_PER_MOVE + cells / player.cells_per_unit)
        trials = max(1, int(_UNITS_BETWEEN_LOOKS / units))
        budget.spend(max(0.0, trials * units - 1))
        warmth = begin.score * _WARM * (_COLD / _WARM) ** (1 - left / whole)
        for _ in range(trials):
            moves, same = _changed(player, now, random)
            trial = player.play(moves, now, same)
            if trial.score <= now.score or random.random() < math.exp((now.score - trial.score) / warmth):
                now = trial
                if (now.unmet, now.score) < (best.unmet, best.score):
                    best = now
    return best


def _changed(player: Player, now: Played, random: np.random.Generator) -> tuple[list[Move], int]:
    """Another sequence, with one or two changes, and how many of its first moves are the same."""
    moves, same = list(now.moves), len(now.moves)
    for _ in range(1 if random.random() < 0.7 else 2):
        same = min(same, _change(player, now, moves, random))
    return moves, same


def _change(player: Player, now: Played, moves: list[Move], random: np.random.Generator) -> int:
    """Change one thing about the moves; returns the first position that is not as it was."""
    choice, length = random.random(), len(moves)
    if choice < 0.2 or not length:
        place = int(random.integers(length + 1))
        moves.insert(place, Move(_some_kind(player, random), bool(random.random() < 0.5)))
        return place
    place = int(random.integers(length))
    if choice < 0.35:
        del moves[place]
    elif choice < 0.6:
        move = moves.pop(place)
        other = int(random.integers(length))
        moves.insert(other, move)
        place = min(place, other)
    elif choice < 0.75:
        moves[place] = moves[place]._replace(kind=_some_kind(player, random), without=None)
    elif choice < 0.85:
        moves[place] = moves[place]._replace(waits=not moves[place].waits)
    elif choice < 0.9:
        moves[place] = moves[place]._replace(without=None)
    elif place < len(now.cells) and moves[place] is now.moves[place]:
        moves[place] = _without_some(player, now, place, random)
    return place


def _some_kind(player: Player, random: np.random.Generator) -> int:
    return int(player.board.odds.searchsorted(random.random()))


def _without_some(player: Player, now: Played, place: int, random: np.random.Generator) -> Move:
    """The move at a place without one, half, or all alike, of the cells that it carries."""
    move, cells = now.moves[place], now.cells[place]
    traits = player.traits(move.kind)
    carried = np.flatnonzero(cells)
    choice = random.random()
    if choice < 0.5:
        alike = traits[random.integers(len(traits))].flat[carried]
        leaving = carried[(alike == alike[random.integers(len(carried))]) == (choice < 0.35)]
    else:
        leaving = random.choice(carried, 1 if choice < 0.75 else max(1, len(carried) // 2), replace=False)
    stay = np.zeros_like(cells)
    stay.flat[leaving] = True
    return move._replace(without=stay if move.without is None else stay | move.without)
