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
from itertools import pairwise

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.layouts import by_nodes
from taccl.encoding.engines.textbook.line import hops
from taccl.encoding.engines.textbook.parts import Cut, Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.model.collective import IntArray
from taccl.model.problem import Problem

#: The rank from which each rank has what comes down; the root is not in it.
Parents = dict[int, int]


def on_trees(problem: Problem, parts: Parts, order: Sequence[int] | None = None) -> Iterator[Algorithm]:
    """Double binary trees for one source, and for sums for all; nothing for other demands."""
    ranks = list(range(problem.num_ranks) if order is None else order)
    first = np.arange(problem.num_ranks)
    if parts.kind == "spread" and parts.is_from_one:
        root = int(parts.begin[0])
        at = ranks.index(root)
        others = ranks[at + 1 :] + ranks[:at]
        trees = [{**_renamed(parents, others), others[top]: root} for parents, top in double(len(others))]
        yield _on(trees, parts, "double binary tree", first)
    if parts.kind != "summed":
        return
    trees = [_renamed(parents, ranks) for parents, _ in double(len(ranks))]
    yield _on(trees, parts, "double binary tree", first)
    nodes = by_nodes(problem.topology)
    if nodes is not None:
        trees = []
        for place in range(nodes.shape[1]):
            chain = np.roll(nodes, -place, axis=1).tolist()
            inside = {after: before for node in chain for before, after in pairwise(node)}
            leaders = [node[0] for node in chain]
            trees += [inside | _renamed(parents, leaders) for parents, _ in double(len(leaders))]
        yield _on(trees, parts, "double binary tree of nodes, chains inside", first)


def _on(trees: list[Parents], parts: Parts, name: str, first: IntArray) -> Algorithm:
    routes = tuple(partial(_along, parents, parts.kind == "summed") for parents in trees)
    both = 2 if parts.kind == "summed" else 1
    rows, moves = both * parts.num_parts * len(first), both * len(routes) * len(first)
    return Algorithm(name, rows, routes, first, min(rows, moves))


def double(n: int) -> list[tuple[Parents, int]]:
    """Two binary trees over 0 .. n - 1, each with its root; what is inside one is a leaf of the other.

    For fewer than three positions there is one tree only.
    """
    parents: Parents = {}
    top = _in_order(1, n, parents)
    if top is None:
        return [({}, 0)]
    parents[top] = 0
    turned = {place: n - 1 - place if n % 2 == 0 else (place + 1) % n for place in range(n)}
    return [(parents, 0), ({turned[a]: turned[b] for a, b in parents.items()}, turned[0])]


def _in_order(begin: int, end: int, parents: Parents) -> int | None:
    """The root of the tree over begin .. end - 1, whose parents are noted."""
    if begin >= end:
        return None
    middle = max(range(begin, end), key=lambda place: place & -place)
    for child in (_in_order(begin, middle, parents), _in_order(middle + 1, end, parents)):
        if child is not None:
            parents[child] = middle
    return middle


def _renamed(parents: Parents, names: list[int]) -> Parents:
    return {names[child]: names[parent] for child, parent in parents.items()}


def _along(parents: Parents, summed: bool, cut: Cut, units: IntArray) -> Sends:
    """Units up the tree as sums, if they are summed, and then down as copies."""
    rank = np.array(sorted(parents), dtype=np.int64)
    parent = np.array([parents[child] for child in rank.tolist()], dtype=np.int64)
    depth = np.array([_depth(parents, child) for child in rank.tolist()], dtype=np.int64)
    down = Sends.of(hops(depth - 1, parent, rank, 0), Ragged(units, np.array([len(units)])), len(rank) + 1)
    return in_turn([down.backwards(), down]) if summed else down


def _depth(parents: Parents, rank: int) -> int:
    depth = 0
    while rank in parents:
        rank, depth = parents[rank], depth + 1
    return depth
