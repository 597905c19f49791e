"""Trees: a Broadcast down, a Reduce up, an AllReduce up and then down, in pieces that follow each other.

In a binary tree inner ranks carry everything, leaves nothing on. The *double binary tree* is two of them such
that the inner ranks of one are leaves of the other, each for half of the data: bandwidth is used fully (but
for the two ends) and the height stays log2 n. Here the trees are in-order: a number with many factors of two
stands high up, so odd numbers are leaves; the other tree has all numbers turned round, or for an odd n moved
by one.

Over several nodes it is a double binary tree of nodes, with a chain inside each, for each rank that a node
has at the same place.

Sources: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35 (2009); Jeaugey, "Massively scale your deep learning training with NCCL 2.4", NVIDIA
developer blog (2019) (trees of nodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import by_nodes
from taccl.encoding.engines.textbook.line import hops
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


def on_trees(problem: Problem, parts: Parts, order: Sequence[int] | None = None) -> Iterator[Algorithm]:
    """Double binary trees for one source, and for sums for all; nothing for other demands."""
    count = problem.num_ranks
    ranks = np.arange(count) if order is None else np.array(order)
    if parts.kind == "spread" and parts.is_from_one:
        root = int(parts.begin[0])
        others = np.roll(ranks, -int(np.flatnonzero(ranks == root)[0]))[1:]
        trees = [_placed(above, others, count, root) for above in double(len(others))]
        yield _on(trees, parts, "double binary tree")
    if parts.kind != "summed":
        return
    yield _on([_placed(above, ranks, count) for above in double(count)], parts, "double binary tree")
    nodes = by_nodes(problem.topology)
    if nodes is not None:
        trees = []
        for place in range(nodes.shape[1]):
            chain = np.roll(nodes, -place, axis=1)
            for above in double(len(chain)):
                trees.append(_placed(above, chain[:, 0], count))
                trees[-1][chain[:, 1:]] = chain[:, :-1]
        yield _on(trees, parts, "double binary tree of nodes, chains inside")


def _on(trees: list[IntArray], parts: Parts, name: str) -> Algorithm:
    ranks, both = len(trees[0]), 2 if parts.kind == "summed" else 1
    routes = tuple(partial(_along, above, parts.kind == "summed") for above in trees)
    rows, moves = both * parts.num_parts * ranks, both * len(routes) * ranks
    unit_labels = (np.zeros_like,) * len(routes)
    return InVariants(
        *(name, rows, min(rows, moves)),
        routes=routes,
        first=np.arange(ranks),
        labels=1,
        unit_labels=unit_labels,
    )


def double(n: int) -> list[IntArray]:
    """Two binary trees over 0 .. n - 1, as the one above each, -1 at the root; an inner one is a leaf in the
    other tree.

    For one position there is one tree only.
    """
    above = np.full(n, -1)
    top = _in_order(1, n, above)
    if top < 0:
        return [above]
    above[top] = 0
    turned = np.arange(n)[::-1] if n % 2 == 0 else np.roll(np.arange(n), -1)
    return [above, _placed(above, turned, n)]


def _in_order(begin: int, end: int, above: IntArray) -> int:
    """The root of the tree over begin .. end - 1, which is noted in `above`; -1: it is empty."""
    if begin >= end:
        return -1
    middle = max(range(begin, end), key=lambda place: place & -place)
    for child in (_in_order(begin, middle, above), _in_order(middle + 1, end, above)):
        if child >= 0:
            above[child] = middle
    return middle


def _placed(above: IntArray, names: IntArray, count: int, root: int = -1) -> IntArray:
    """A tree over 0 .. n - 1 as one over `names` among `count` ranks; its top hangs from `root`."""
    tree = np.full(count, -1)
    tree[names] = np.append(names, root)[above]
    return tree


def _along(above: IntArray, summed: bool, begin: IntArray, end: IntArray) -> Sends:
    """Units up the tree as sums, if they are summed, and then down as copies."""
    down = down_tree(above, np.arange(len(begin)))
    return in_turn([down.backwards(), down]) if summed else down


def down_tree(above: IntArray, units: IntArray) -> Sends:
    """Copies of units from the top to all; `above` : the rank above each, -1 at the top and outside."""
    rank = np.flatnonzero(above >= 0)
    moves = hops(depths(above)[rank] - 1, above[rank], rank, 0)
    return Sends.of(moves, Ragged(units, np.array([len(units)])), len(above))


def depths(above: IntArray) -> IntArray:
    """How far each rank is from the top, shape (num_ranks,)."""
    depth, at = np.zeros_like(above), np.arange(len(above))
    while (at >= 0).any():
        at = np.where(at >= 0, above[at], -1)
        depth += at >= 0
    return depth
