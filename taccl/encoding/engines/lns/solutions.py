"""Solutions of a window's model as sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.lns.apart import Cell
from taccl.encoding.engines.lns.model import WindowModel
from taccl.encoding.engines.lns.window import Neighbourhood


@dataclass(frozen=True)
class _Carried:
    """A bundle in a send: whether as a partial sum, and what that was made of (0: not known)."""

    bundle: int
    is_sum: bool
    made_of: int


@dataclass(frozen=True)
class _Taken:
    """A send of a solution."""

    link: int
    carries: list[_Carried]


def decisions(model: WindowModel, value: Callable[[Any], int]) -> list[Decision]:
    """The sends of a solution in the order of their starts; `value` gives the value of an expression."""
    taken: list[tuple[int, int, _Taken]] = []
    for number, known in enumerate(model.sends):
        carries = [_Carried(row.bundle, row.is_sum, row.carried) for row in known.kept]
        carries += [_Carried(*item, 0) for item, literal in known.send.members.items() if value(literal)]
        if carries:
            taken.append((value(known.send.start), number, _Taken(known.send.link, carries)))
    in_order = [each for _, _, each in sorted(taken, key=lambda timed: timed[:2])]
    around = model.around
    if not around.apart.explicit:
        return [Decision(_chunks(around, each), each.link, each.carries[0].is_sum) for each in in_order]
    sets = _sums_of_trees(around, in_order)
    return [_explicit(around, each, sets) for each in in_order]


def _chunks(around: Neighbourhood, taken: _Taken) -> tuple[int, ...]:
    return tuple(chunk for carry in taken.carries for chunk in around.apart.bundles[carry.bundle])


def _explicit(around: Neighbourhood, taken: _Taken, sets: dict[Cell, int]) -> Decision:
    """The send with the contributions that it carries."""
    sender = around.src[taken.link]
    sums = tuple(
        sets.get((carry.bundle, sender), carry.made_of) if carry.is_sum else 0
        for carry in taken.carries
        for _ in around.apart.bundles[carry.bundle]
    )
    return Decision(_chunks(around, taken), taken.link, any(sums), sums)


def _sums_of_trees(around: Neighbourhood, in_order: list[_Taken]) -> dict[Cell, int]:
    """What each rank of a tree passes on: its own and all that came, which may be others than before."""
    held: dict[Cell, int] = {}

    def is_in_tree(cell: Cell) -> bool:
        return cell[0] in around.window.opened or cell in around.apart.sink

    for taken in in_order:
        for carry in taken.carries:
            sender, receiver = (carry.bundle, around.src[taken.link]), (carry.bundle, around.dst[taken.link])
            if carry.is_sum and is_in_tree(sender):
                held.setdefault(sender, 1 << sender[1])
                held[receiver] = held.get(receiver, 1 << receiver[1]) | held[sender]
    return {cell: sets for cell, sets in held.items() if is_in_tree(cell)}
