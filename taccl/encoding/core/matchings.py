"""When traffic between nodes goes, so that no port waits longer than the busiest is busy: by matchings.

What each node sends to each other is a matrix. With idle time added, so that all its rows and columns have
the sum of the largest, it is a sum of permutations (Birkhoff 1946): one after another, each for as long as it
counts, every node sends to one node and receives from one. A permutation is kept as far as it goes, and
mended along one augmenting path where an entry is used up (Kuhn 1955).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.encoding.core.tuning import MATCHINGS_COARSER
from taccl.support.jit import compiled

#: What is left of an entry is nothing below this part of the largest sum.
_NOTHING = 1e-9


@compiled
def starts(amount: Any, first: Any, sizes: Any, start: Any) -> tuple[float, Any]:
    """Set when each item may start, in units of size; return when all have ended, and the turns of pairs.

    A turn is a row of pair, start and end: all that time that pair's items go, in their order. An item is
    interrupted where the turn of its pair ends.

    Parameters
    ----------
    amount : shape (nodes, nodes); what goes from each to each, the sum of its items. It is used up.
    first : shape (nodes * nodes + 1,); items of the pair k are `first[k]` to `first[k + 1]`, in their order.
    sizes, start : shape (items,).
    """
    nodes = len(amount)
    idle, goes_to, comes_from = _filled(amount), np.full(nodes, -1), np.full(nodes, -1)
    whole = (amount + idle)[0].sum()
    nothing, now = _NOTHING * whole, 0.0
    at, begun = first[:-1].copy(), np.zeros(nodes * nodes)  # the next item of each pair, and where it begins
    gone, seen = np.zeros(nodes * nodes), np.zeros(nodes, np.bool_)
    start[:] = whole
    turns, many, last = np.empty((nodes * nodes, 3)), 0, np.full(nodes * nodes, -1)
    for _ in range(nodes * (nodes + 2)):
        for node in range(nodes):
            least = whole
            while goes_to[node] < 0 and least > nothing:  # entries that last come first
                least = max(least / MATCHINGS_COARSER, nothing)
                seen[:] = False
                _augment(node, amount, idle, least, goes_to, comes_from, seen)
        step = np.inf
        for node in range(nodes):
            there = goes_to[node]
            if there >= 0:  # what is real goes first
                left = amount[node, there]
                step = min(step, left if left > nothing else idle[node, there])
        if step == np.inf:
            break
        for node in range(nodes):
            there = goes_to[node]
            if there < 0:
                continue
            if amount[node, there] <= nothing:
                idle[node, there] -= step
            else:
                pair = node * nodes + there
                amount[node, there] -= step
                gone[pair] += step
                if last[pair] < 0 or turns[last[pair], 2] != now:
                    if many == len(turns):
                        turns = np.concatenate((turns, turns))
                    turns[many, 0], turns[many, 1], last[pair] = pair, now, many
                    many += 1
                turns[last[pair], 2] = now + step
                while at[pair] < first[pair + 1] and begun[pair] < gone[pair] - nothing:
                    start[at[pair]] = now + begun[pair] - (gone[pair] - step)
                    begun[pair] += sizes[at[pair]]
                    at[pair] += 1
            if amount[node, there] <= nothing and idle[node, there] <= nothing:
                comes_from[there], goes_to[node] = -1, -1
        now += step
    return float(whole), turns[:many]


@compiled
def _filled(amount: Any) -> Any:
    """The idle time that makes all rows and columns as large as the largest, from one corner to the other."""
    nodes = len(amount)
    rows, columns = amount.sum(1), amount.sum(0)
    whole = max(rows.max(), columns.max())
    rows, columns = whole - rows, whole - columns
    idle, row, column = np.zeros((nodes, nodes)), 0, 0
    while row < nodes and column < nodes:
        fits = min(rows[row], columns[column])
        idle[row, column] += fits
        rows[row] -= fits
        columns[column] -= fits
        if rows[row] <= columns[column]:
            row += 1
        else:
            column += 1
    return idle


@compiled
def _augment(
    start: int, amount: Any, idle: Any, nothing: float, goes_to: Any, comes_from: Any, seen: Any
) -> bool:
    """Match one more node, along a shortest path of others that change their partners."""
    nodes = len(amount)
    queue, via = np.zeros(nodes + 1, np.int64), np.full(nodes, -1)
    queue[0], begin, end = start, 0, 1
    while begin < end:
        node = queue[begin]
        begin += 1
        for there in range(nodes):
            if seen[there] or (amount[node, there] <= nothing and idle[node, there] <= nothing):
                continue
            seen[there], via[there] = True, node
            if comes_from[there] >= 0:
                queue[end] = comes_from[there]
                end += 1
                continue
            last = there
            while last >= 0:
                node = via[last]
                before = goes_to[node]
                goes_to[node], comes_from[last] = last, node
                last = before
            return True
    return False
