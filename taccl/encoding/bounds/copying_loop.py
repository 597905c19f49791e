"""The cheapest tree along which a chunk is copied, at prices of port time: `copying` says what it is.

A *state* is a rank that has the chunk from a cell of time on, with so many ranks of its own node to see to,
and so many nodes that have nothing of it yet. `serve` says what that costs at least, and `follow` which sends
that is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from taccl.support.jit import Loop

#: Who has a chunk: the rank that it starts at, one of the same node, one of another node. Links inside a node
#: have the class of who sends; across `ACROSS` more; back into the node of the root is a class of its own.
ROOT, MATE, OTHER = 0, 1, 2
ACROSS, BACK = 3, 6
CLASSES = 7


class Sends(NamedTuple):
    """What a send takes, by the class of its link and by its size.

    Parameters
    ----------
    lasts : shape (CLASSES, sizes); cells from its start until it is there, 1 at least.
    busy : shape (CLASSES, sizes); cells until its sender may begin the next over links of that class.
    cost : shape (CLASSES, sizes, cells); of a chunk in it, by the cell of its start; inf: not in time.
    soonest : shape (CLASSES,); the first cell in which somebody can have a chunk to send so; see `entered`.
    """

    lasts: Any
    busy: Any
    cost: Any
    soonest: Any


class Tables(NamedTuple):
    """What states cost at least.

    Parameters
    ----------
    served : shape (3, cells + 1, ranks, nodes); by who has the chunk, from which cell on, and for whom.
    inside : the same where all that is left is handed on inside the node.
    across : shape (3, cells + 1, nodes); sends to other nodes alone.
    entered : shape (2, ranks + 1, nodes); a part of a node, the root's or another, that is entered once more.
    """

    served: Any
    inside: Any
    across: Any
    entered: Any


def _across(sends: Sends, tables: Tables, who: int, cell: int, nodes: int) -> tuple[float, int, int]:
    """The cheapest send in a cell to one of so many nodes.

    Returns what it costs with all that follows, its size, and how many nodes its sender keeps.
    """
    best, chosen, left, link = math.inf, 0, 0, ACROSS + who
    if cell == sends.cost.shape[2]:
        return best, chosen, left
    for size in range(sends.cost.shape[1]):
        price = sends.cost[link, size, cell]
        if price >= best:
            continue
        there, free = cell + sends.lasts[link, size], cell + sends.busy[link, size]
        for kept in range(nodes):
            value = price + tables.across[who, free, kept]
            if value < best:
                value += tables.served[OTHER, there, tables.served.shape[2] - 1, nodes - 1 - kept]
                if value < best:
                    best, chosen, left = value, size, kept
    return best, chosen, left


def _inside(
    sends: Sends, tables: Tables, who: int, cell: int, ranks: int, nodes: int
) -> tuple[float, int, int, int]:
    """The cheapest step in a cell inside a node: a send, or a part of the node that is entered once more.

    Returns what it costs with all that follows, the size of the send, -1 for an entry, and how many ranks and
    nodes remain.
    """
    best, chosen, left, near_left, child = math.inf, -1, 0, 0, max(who, MATE)
    for size in range(sends.cost.shape[1] if cell < sends.cost.shape[2] else 0):
        price = sends.cost[who, size, cell]
        if price >= best:
            continue
        there, free = cell + sends.lasts[who, size], cell + sends.busy[who, size]
        for kept in range(ranks):
            for near in range(nodes + 1):
                value = price + tables.inside[who, free, kept, near]
                if value < best:
                    value += tables.served[child, there, ranks - 1 - kept, nodes - near]
                    if value < best:
                        best, chosen, left, near_left = value, size, kept, near
    for part in range(1, ranks + 1):
        for near in range(nodes + 1):
            value = tables.entered[0 if who < OTHER else 1, part, nodes - near]
            if value < best:
                value += tables.inside[who, cell, ranks - part, near]
                if value < best:
                    best, chosen, left, near_left = value, -1, ranks - part, near
    return best, chosen, left, near_left


def _entered(
    sends: Sends, tables: Tables, first: int, place: int, part: int, nodes: int
) -> tuple[float, int, int, int]:
    """The cheapest way to enter a node once more, for a part of its ranks and so many nodes behind them.

    `place` : 0 for the node of the root, 1 for others. Returns what it costs with all that follows, its
    class, size and cell.
    """
    best, chosen, of_size, at, child = math.inf, 0, 0, 0, MATE if place == 0 else OTHER
    for link in range(BACK if place == 0 else ACROSS + first, BACK + 1 if place == 0 else BACK):
        for cell in range(sends.soonest[link], sends.cost.shape[2]):
            for size in range(sends.cost.shape[1]):
                price = sends.cost[link, size, cell]
                if price < best:
                    value = price + tables.served[child, cell + sends.lasts[link, size], part - 1, nodes]
                    if value < best:
                        best, chosen, of_size, at = value, link, size, cell
    return best, chosen, of_size, at


def _serve(sends: Sends, tables: Tables, first: int) -> None:
    """Fill the tables, which are all inf; of the roles `first` to OTHER."""
    last, ranks, nodes = tables.across.shape[1] - 1, tables.served.shape[2], tables.served.shape[3]
    roles = OTHER if nodes == 1 and first < OTHER else OTHER + 1
    for behind in range(nodes):
        for who in range(first, roles):
            for cell in range(last, -1, -1):
                if behind == 0:
                    tables.across[who, cell, 0] = 0.0
                    continue
                value = _across(sends, tables, who, cell, behind)[0]
                if cell < last:
                    value = min(value, tables.across[who, cell + 1, behind])
                tables.across[who, cell, behind] = value
        for near in range(ranks):
            if near > 0:
                for place in range(0 if first < OTHER else 1, 2):
                    tables.entered[place, near, behind] = _entered(sends, tables, first, place, near, behind)[
                        0
                    ]
            for who in range(roles - 1, first - 1, -1):
                for cell in range(last, -1, -1):
                    value = math.inf
                    if near == 0 and behind == 0:
                        value = 0.0
                    elif near > 0:
                        value = _inside(sends, tables, who, cell, near, behind)[0]
                        if cell < last:
                            value = min(value, tables.inside[who, cell + 1, near, behind])
                    tables.inside[who, cell, near, behind] = value
                    best = math.inf
                    for mine in range(behind + 1):
                        value = tables.inside[who, cell, near, behind - mine] + tables.across[who, cell, mine]
                        best = min(best, value)
                    tables.served[who, cell, near, behind] = best


def _follow(sends: Sends, tables: Tables, first: int, cell: int, stack: Any, rows: Any) -> int:
    """The sends of the cheapest tree of a chunk that is at its root from a cell on.

    Parameters
    ----------
    stack : shape (entries, 5), to work with: what is left to do, who, cell, ranks and nodes.
    rows : shape (sends, 3); class, size and cell of each send go there. Their number is returned.
    """
    many, left, last = 0, 1, tables.across.shape[1] - 1
    stack[0] = 0, first, cell, tables.served.shape[2] - 1, tables.served.shape[3] - 1
    while left:
        left -= 1
        what, who, at, ranks, nodes = stack[left]
        if what == 0:  # all of a state: who hands what on
            best, chosen = math.inf, 0
            for mine in range(nodes + 1):
                value = tables.inside[who, at, ranks, nodes - mine] + tables.across[who, at, mine]
                if value < best:
                    best, chosen = value, mine
            if chosen:
                stack[left] = 2, who, at, 0, chosen
                left += 1
            if ranks or nodes - chosen:
                stack[left] = 1, who, at, ranks, nodes - chosen
                left += 1
        elif what == 1:
            waits = tables.inside[who, :, ranks, nodes]
            while at < last and waits[at + 1] <= waits[at]:
                at += 1
            _, size, kept, near = _inside(sends, tables, who, at, ranks, nodes)
            if size == -1:
                place, part = 0 if who < OTHER else 1, ranks - kept
                _, link, size, begins = _entered(sends, tables, first, place, part, nodes - near)
                rows[many] = link, size, begins
                child, there = MATE if place == 0 else OTHER, begins + sends.lasts[link, size]
                stack[left] = 0, child, there, part - 1, nodes - near
                left += 1
            else:
                rows[many] = who, size, at
                stack[left] = 0, max(who, MATE), at + sends.lasts[who, size], ranks - 1 - kept, nodes - near
                left += 1
                at += sends.busy[who, size]
            many += 1
            if kept or near:
                stack[left] = 1, who, at, kept, near
                left += 1
        else:
            waits = tables.across[who, :, nodes]
            while at < last and waits[at + 1] <= waits[at]:
                at += 1
            _, size, kept = _across(sends, tables, who, at, nodes)
            rows[many] = ACROSS + who, size, at
            many += 1
            there = at + sends.lasts[ACROSS + who, size]
            stack[left] = 0, OTHER, there, tables.served.shape[2] - 1, nodes - 1 - kept
            left += 1
            if kept:
                stack[left] = 2, who, at + sends.busy[ACROSS + who, size], 0, kept
                left += 1
    return many


serve = Loop(_serve, (_across, _inside, _entered), eager=True)
follow = Loop(_follow, (_across, _inside, _entered), eager=True)
