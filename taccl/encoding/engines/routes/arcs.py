"""The network as a tree sees it: from which rank to which it may grow, and over which links. Its tuples of
columns go into compiled functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.routes.spread import Spread
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology

#: In place of a link that no chunk uses.
NO_LINK = -1


class Arcs(NamedTuple):
    """The routes from a rank to its children in a tree, by the parent.

    Parameters
    ----------
    first : shape (num_ranks + 1,); the arcs of a parent are those from `first[parent]` on.
    parent, child : shape (num_arcs,).
    up, down : shape (num_arcs,); the link from child to parent, for sums, and from parent to child, for
        copies; `NO_LINK` where nothing goes that way.
    """

    first: IntArray
    parent: IntArray
    child: IntArray
    up: IntArray
    down: IntArray


def arcs_of(topology: LogicalTopology, spread: Spread) -> Arcs:
    """The arcs over which sums can go up, or copies down, or both, as the demand needs it."""
    # A tree that sums grows against its links.
    parent, child = (topology.src, topology.dst) if spread.copies else (topology.dst, topology.src)
    down = np.arange(topology.num_links) if spread.copies else np.full(topology.num_links, NO_LINK)
    if not spread.sums:
        up = np.full(topology.num_links, NO_LINK)
    elif not spread.copies:
        up = np.arange(topology.num_links)
    else:
        back = [
            topology.link_index.get((b, a), NO_LINK)
            for a, b in zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
        ]
        up = np.array(back, dtype=np.int64)
        both = up != NO_LINK
        parent, child, up, down = parent[both], child[both], up[both], down[both]
    order = np.argsort(parent, kind="stable")
    first = np.searchsorted(parent[order], np.arange(topology.num_ranks + 1))
    return Arcs(first, parent[order], child[order], up[order], down[order])


def spans(arcs: Arcs, root: int) -> bool:
    """Whether a tree from this rank can reach all ranks."""
    num_ranks = len(arcs.first) - 1
    seen = np.zeros(num_ranks, dtype=np.bool_)
    seen[root] = True
    front = [root]
    while front:
        rank = front.pop()
        for child in arcs.child[arcs.first[rank] : arcs.first[rank + 1]].tolist():
            if not seen[child]:
                seen[child] = True
                front.append(child)
    return bool(seen.all())
