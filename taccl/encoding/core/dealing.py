"""Which GPUs of two nodes pass a chunk on between them, and when, so that all NICs of a node do as much.

Parts of an AlltoAll are unequal, and so would be what the NICs of a node carry. So every chunk for another
node is dealt to a *rail*: it passes from the GPU at that place of its node to the one at the same place of
the other. The largest chunks come first, to a rail that has room for them and takes the fewest hops, its
source's or its target's; what is left goes to the rail with least to do (Graham 1969). Each rail then knows
when its chunks cross (`matchings`), so that no NIC has more to do than the busiest node's bytes over all its
NICs, which no schedule is faster than. That is FAST's two-level scheme (NSDI 2026) for whole chunks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.matchings import starts
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled, is_at_hand


class Dealt(NamedTuple):
    """How chunks between nodes cross.

    Parameters
    ----------
    rail : shape (chunks,); the place in both nodes where each crosses.
    start : shape (chunks,); when each may cross, in units of size over a rail's rate.
    whole : when all have crossed.
    turns : shape (turns, 4); of each, its rail, its pair of nodes, when it starts and when it ends. In all
        that time what goes between the two nodes on that rail crosses, in the order of `start`.
    """

    rail: IntArray
    start: FloatArray
    whole: float
    turns: FloatArray


def dealt(source: IntArray, target: IntArray, size: FloatArray, nodes: int, places: int) -> Dealt:
    """Deal chunks between different nodes to rails; rank r is at place r % places of node r // places.

    Parameters
    ----------
    source, target, size : shape (chunks,).
    """
    order = np.argsort(-size, kind="stable")
    rail = np.zeros(len(size), dtype=np.int64)
    _deal(source, target, size, order, nodes, places, rail)
    pair = (rail * nodes + source // places) * nodes + target // places
    # In a pair of nodes those first that need not change their places before, then the largest.
    key = pair[order] * 2 + (rail[order] != source[order] % places)
    queue = order[np.argsort(key, kind="stable")]
    first = np.searchsorted(pair[queue], np.arange(places * nodes * nodes + 1))
    amount = np.bincount(pair, size, places * nodes * nodes).reshape(places, nodes, nodes)
    start, sizes = np.zeros(len(size)), size[queue]
    whole, turns = 0.0, []
    for place in range(places):
        mine = first[place * nodes * nodes : (place + 1) * nodes * nodes + 1]
        part = slice(mine[0], mine[-1])
        ends, of_pairs = starts(amount[place], mine - mine[0], sizes[part], start[part])
        whole = max(whole, ends)
        turns.append(np.column_stack([np.full(len(of_pairs), place), of_pairs]))
    placed = np.empty_like(start)
    placed[queue] = start
    return Dealt(rail, placed, whole, np.concatenate(turns))


def warm_up_dealing() -> None:
    """Make machine code of the loops of dealing, where there is none."""
    dealt(np.array([0, 1]), np.array([1, 0]), np.ones(2), 2, 1)


def dealing_is_compiled() -> bool:
    """Whether the loops of dealing are machine code already."""
    return is_at_hand(_deal) and is_at_hand(starts)


@compiled
def _deal(source: Any, target: Any, size: Any, order: Any, nodes: int, places: int, rail: Any) -> None:
    """Set the rail of each chunk, in this order of chunks."""
    out, into = np.zeros((nodes, places)), np.zeros((nodes, places))
    for chunk in order:
        out[source[chunk] // places, 0] += size[chunk]
        into[target[chunk] // places, 0] += size[chunk]
    room = max(out.max(), into.max()) / places
    out[:], into[:] = 0.0, 0.0
    for chunk in order:
        here, at = divmod(source[chunk], places)
        there, to = divmod(target[chunk], places)
        least, best = np.inf, 0
        for place in range(places):
            most = max(out[here, place], into[there, place])
            lacks = most + size[chunk] > room
            hops = 0 if lacks else (place != at) + (place != to)
            key = most / room + (2.0 * hops if not lacks else 6.0)
            if key < least:
                least, best = key, place
        rail[chunk] = best
        out[here, best] += size[chunk]
        into[there, best] += size[chunk]
