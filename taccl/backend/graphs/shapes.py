"""The cheapest ring and a cheap tree through all GPUs, by the price of each link."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from taccl.backend.graphs.document import ROOT
from taccl.backend.graphs.tuning import MOST_CHILDREN
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

#: How much a level of depth counts: where prices are equal, trees are flat.
_DEPTH = 1e-6


def cheap_tree(prices: FloatArray) -> tuple[int, ...] | None:
    """The parents of a tree in which each edge is used in both directions; None: none was found.

    Grown by its cheapest edge each time (Prim), from each GPU in turn; the cheapest of these.

    Parameters
    ----------
    prices : shape (n, n), from GPU to GPU; infinite where there is no link.
    """
    both = prices + prices.T
    grown = [_grown(both, root) for root in range(len(prices))]
    price, tree = min(grown, key=lambda each: each[0])
    return tree if np.isfinite(price) else None


def _grown(both: FloatArray, root: int) -> tuple[float, tuple[int, ...]]:
    """Price and parents of the tree that grows from a root; infinite if it cannot grow on."""
    num = len(both)
    parents, depth, room = np.full(num, ROOT), np.zeros(num), np.full(num, MOST_CHILDREN)
    edges, price = np.full((num, num), np.inf), 0.0
    outside = np.ones(num, dtype=np.bool_)
    there = root
    for _ in range(num - 1):
        outside[there], edges[:, there] = False, np.inf
        edges[there, outside] = both[there, outside] * (1 + _DEPTH * depth[there])
        here, there = divmod(int(edges.argmin()), num)
        price += float(edges[here, there])
        if not np.isfinite(price):
            break
        parents[there], depth[there] = here, depth[here] + 1
        room[here] -= 1
        if not room[here]:
            edges[here] = np.inf
    return price, tuple(parents.tolist())


def cheapest_ring(prices: FloatArray) -> tuple[int, ...] | None:
    """The GPUs of the cheapest ring from GPU 0 on, in order; None: there is none.

    By the cheapest path from GPU 0 through each set of GPUs to each of them (Held and Karp, 1962).

    Parameters
    ----------
    prices : shape (n, n), from GPU to GPU; infinite where there is no link.
    """
    num = len(prices) - 1
    cost = np.full((1 << num, num), np.inf)
    before = np.zeros((1 << num, num), dtype=np.int64)
    cost[1 << np.arange(num), np.arange(num)] = prices[0, 1:]
    for sets in _by_size(num):
        for there in range(num):
            done = sets[sets >> there & 1 == 0]
            reached = cost[done] + prices[1:, 1 + there]
            last = reached.argmin(axis=1)
            cost[done | 1 << there, there] = reached[np.arange(len(done)), last]
            before[done | 1 << there, there] = last
    done = (1 << num) - 1
    closed = cost[done] + prices[1:, 0]
    rank = int(closed.argmin())
    if not np.isfinite(closed[rank]):
        return None
    ring = []
    for _ in range(num):
        ring.append(rank + 1)
        rank, done = int(before[done, rank]), done & ~(1 << rank)
    return (0, *reversed(ring))


@lru_cache(maxsize=4)
def _by_size(num: int) -> tuple[IntArray, ...]:
    """All sets of this many things with one or more but not all of them, as bits, smallest sets first."""
    sets = np.arange(1 << num)
    size = sum((sets >> bit & 1 for bit in range(num)), np.zeros_like(sets))
    return tuple(np.flatnonzero(size == many) for many in range(1, num))
