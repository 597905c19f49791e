"""The tree of least price from a root to some ranks, which may pass others: helpers, for one.

Of trees that span given ranks the one of least price is a branching (Chu and Liu 1965, Edmonds 1967): every
rank but the root takes its cheapest link in, and each circle of such links is made one rank. Which other
ranks it should pass is Steiner's problem, so a few sets of them are tried: all, none, and all that were of
use but one. A rank that may not copy has no links out here, so it is an end of trees only.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.engines.routes.tuning import BRANCHING_MOST_LEFT_OUT
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray


def least_tree(price: FloatArray, root: int, wanted: BoolArray, passed: BoolArray) -> list[tuple[int, int]]:
    """The pairs of ranks (from, to) of a tree that is cheap; empty where the root does not reach all.

    Parameters
    ----------
    price : shape (num_ranks, num_ranks), of a way from one rank to another; inf: there is none.
    wanted : shape (num_ranks,); the ranks that it must reach.
    passed : shape (num_ranks,); other ranks that it may pass.
    """
    optional = np.flatnonzero(passed & ~wanted)
    best, best_price = _spanning(price, root, wanted, optional)
    useful = np.unique(best)
    useful = useful[np.isin(useful, optional)] if len(best) else optional
    trials = [useful[:0], *(np.delete(useful, at) for at in range(min(len(useful), BRANCHING_MOST_LEFT_OUT)))]
    for others in trials if len(useful) else ():
        tree, least = _spanning(price, root, wanted, others)
        if len(tree) and least < best_price:
            best, best_price = tree, least
    return [(int(one), int(other)) for one, other in best]


def _spanning(price: FloatArray, root: int, wanted: BoolArray, others: IntArray) -> tuple[IntArray, float]:
    """The tree of least price over the wanted ranks and some others, without what leads to nobody."""
    spans = wanted.copy()
    spans[root] = True
    spans[others] = True
    ranks = np.flatnonzero(spans)
    # Those that the root does not reach are no part of it, if nobody wants them.
    parent = _branching(price[np.ix_(ranks, ranks)], int(np.searchsorted(ranks, root)))
    if parent is None:
        return np.zeros((0, 2), np.int64), np.inf
    pairs = [(int(ranks[parent[at]]), int(ranks[at])) for at in range(len(ranks)) if ranks[at] != root]
    while True:
        passes = {one for one, _ in pairs}
        kept = [(one, other) for one, other in pairs if wanted[other] or other in passes]
        if len(kept) == len(pairs):
            break
        pairs = kept
    tree = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return tree, float(price[tree[:, 0], tree[:, 1]].sum())


def _branching(price: FloatArray, root: int) -> IntArray | None:
    """The parent of each node in the branching of least price; None: the root does not reach some."""
    price = price.copy()
    np.fill_diagonal(price, np.inf)
    price[:, root] = np.inf
    parent = price.argmin(axis=0)
    parent[root] = root
    every = np.arange(len(price))
    if not np.isfinite(np.delete(price[parent, every], root)).all():
        return None
    circle = _circle(parent, root)
    if circle is None:
        return np.asarray(parent)
    inside = np.zeros(len(price), dtype=np.bool_)
    inside[circle] = True
    rest = np.flatnonzero(~inside)
    # What a way into the circle costs more than the one that it replaces, and where it leads in and out best.
    into = price[np.ix_(rest, circle)] - price[parent[circle], circle]
    out = price[np.ix_(circle, rest)]
    smaller = np.full((len(rest) + 1, len(rest) + 1), np.inf)
    smaller[:-1, :-1] = price[np.ix_(rest, rest)]
    smaller[:-1, -1], smaller[-1, :-1] = into.min(axis=1), out.min(axis=0)
    found = _branching(smaller, int(np.searchsorted(rest, root)))
    if found is None:
        return None
    for at, node in enumerate(rest.tolist()):
        if node != root:
            parent[node] = rest[found[at]] if found[at] < len(rest) else circle[out[:, at].argmin()]
    entry = int(found[-1])
    parent[circle[into[entry].argmin()]] = rest[entry]
    return np.asarray(parent)


def _circle(parent: IntArray, root: int) -> IntArray | None:
    """The nodes of a circle of parents; None: all lead to the root."""
    state = np.zeros(len(parent), dtype=np.int64)
    state[root] = -1
    for start in range(len(parent)):
        node, path = start, []
        while state[node] == 0:
            state[node] = start + 1
            path.append(node)
            node = int(parent[node])
        if state[node] == start + 1:
            return np.array(path[path.index(node) :])
        state[path] = -1
    return None
