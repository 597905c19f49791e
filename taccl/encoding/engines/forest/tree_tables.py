"""The trees that chunks go on, as loops read them: parents, children, and the time from there on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.engines.forest.arcs import NO_LINK, Arcs
from taccl.model.collective import IntArray
from taccl.support.jit import compiled

#: Kinds of transfers: what a rank sends to its parent, and what it gets from there.
UP, DOWN = 0, 1


class Trees(NamedTuple):
    """The trees of sums and copies as the loops see them.

    Parameters
    ----------
    sums, copies : whether chunks go up, and down.
    of : shape (num_chunks,); the number of each chunk's tree, by its place in the batches.
    root : shape (num_trees,).
    up, down : shape (num_trees, num_ranks); the arc between each rank and its parent, -1 for the root.
    first, children : in trees of copies; those of a rank are from `first[tree, rank]` on; shapes (num_trees,
        num_ranks + 1) and (num_trees, num_ranks).
    """

    sums: bool
    copies: bool
    of: IntArray
    root: IntArray
    up: IntArray
    down: IntArray
    first: IntArray
    children: IntArray


def trees_of(arcs: Arcs, of: IntArray, root: IntArray, up: IntArray, down: IntArray) -> Trees:
    """Trees from the arcs of each rank in them, and which tree each chunk has; columns as in `Trees`."""
    sums, copies = bool((arcs.up != NO_LINK).all()), bool((arcs.down != NO_LINK).all())
    first, children = _children(arcs, down)
    return Trees(sums, copies, of, root, up, down, first, children)


def arcs_taken(links: IntArray, via: IntArray) -> IntArray:
    """The arcs whose links were taken; -1 where none was."""
    arc_of = np.full(int(links.max()) + 2, -1)  # the last for no link
    arc_of[links] = np.arange(len(links))
    return arc_of[via]


@compiled
def _children(arcs: Any, arc: Any) -> Any:
    """The children of each rank in each tree: those of a rank are from `first[tree, rank]` on."""
    many, num_ranks = arc.shape
    first = np.zeros((many, num_ranks + 1), np.int32)
    children = np.zeros((many, num_ranks), np.int32)
    for b in range(many):
        for rank in range(num_ranks):
            if arc[b, rank] >= 0:
                first[b, arcs.parent[arc[b, rank]] + 1] += 1
        for rank in range(num_ranks):
            first[b, rank + 1] += first[b, rank]
        filled = first[b, :-1].copy()
        for rank in range(num_ranks):
            if arc[b, rank] >= 0:
                above = arcs.parent[arc[b, rank]]
                children[b, filled[above]] = rank
                filled[above] += 1
    return first, children


@compiled
def rest_of_routes(arcs: Any, costs: Any, mb: float, trees: Any) -> Any:
    """How long a chunk's way takes from a transfer on, with that one, shape (num_trees, 2, num_ranks).

    Of trees that are the same for sums and for copies.
    """
    sums, copies, root, arc, child_first, children = (
        trees.sums, trees.copies, trees.root, trees.down, trees.first, trees.children,
    )  # fmt: skip
    many, num_ranks = arc.shape
    after = np.zeros((many, 2, num_ranks))
    order = np.zeros(num_ranks, np.int64)
    for b in range(many):
        order[0] = root[b]
        known = 1
        for at in range(num_ranks):  # parents before children
            rank = order[at]
            for place in range(child_first[b, rank], child_first[b, rank + 1]):
                order[known] = children[b, place]
                known += 1
        longest = 0.0
        if copies:
            below = np.zeros(num_ranks)
            for at in range(num_ranks - 1, 0, -1):
                rank = order[at]
                a = arc[b, rank]
                after[b, DOWN, rank] = (
                    costs.alpha_us[arcs.down[a]] + mb * costs.beta_us[arcs.down[a]] + below[rank]
                )
                below[arcs.parent[a]] = max(below[arcs.parent[a]], after[b, DOWN, rank])
            longest = below[root[b]]
        if sums:
            for at in range(1, num_ranks):
                rank = order[at]
                a = arc[b, rank]
                above = longest if arcs.parent[a] == root[b] else after[b, UP, arcs.parent[a]]
                after[b, UP, rank] = costs.alpha_us[arcs.up[a]] + mb * costs.beta_us[arcs.up[a]] + above
    return after
