"""Trees grown from many sources, each by the link that is cheapest to use next (`along_trees`).

The loop runs source by source in machine code, over the links of each rank alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.jit import compiled, is_at_hand


class Routes(NamedTuple):
    """Links by their senders, one for each receiver: those of rank r stand at first[r] .. first[r + 1] - 1.

    `duration_us` and `busy_us` are how long a chunk is on its way, and how long it keeps the sender; `shares`
    has for each rank the number of a port that its links share, -1 for none.
    """

    first: IntArray
    link: IntArray
    dst: IntArray
    duration_us: FloatArray
    busy_us: FloatArray
    shares: IntArray


def routes_of(
    topology: LogicalTopology, duration_us: FloatArray, busy_us: FloatArray, shares: IntArray
) -> Routes:
    """The routes over a machine's links, with times of each link."""
    link = np.lexsort((topology.dst, topology.src))
    count = np.bincount(topology.src, minlength=topology.num_ranks)
    first = np.concatenate([[0], np.cumsum(count)])
    return Routes(first, link, topology.dst[link], duration_us[link], busy_us[link], shares)


def is_compiled() -> bool:
    """Whether the loop is machine code already, here or on disk."""
    return is_at_hand(_grow)


def grown(
    routes: Routes,
    usable: BoolArray,
    kinds: IntArray,
    holds: BoolArray,
    tie: FloatArray,
    lateness: float,
    anew: bool = False,
) -> IntArray:
    """For each source the link by which each rank is reached, -1 at the source or for none, shape (S, R).

    Parameters
    ----------
    usable : shape (K, num_links); `kinds`, shape (S,), says which row a source keeps to.
    holds : shape (S, R); where each source has its chunks.
    tie : shape (S, R); what tells links of equal cost apart, by the ranks at both ends.
    lateness : what it counts that a sender has a chunk later.
    anew : whether all that have a chunk make their offers anew in every step, and not only the one whose
        offer was taken up and the one that it reached.
    """
    via = np.full(holds.shape, -1, dtype=np.int64)
    _grow(routes, usable, kinds, holds, tie, lateness, anew, int(routes.shares.max(initial=-1)) + 1, via)
    return via


@compiled
def _offer(
    routes: Any,
    usable: Any,
    tie: Any,
    rank: int,
    late: float,
    outside: Any,
    price: Any,
    sender: Any,
    inward: Any,
) -> None:
    """Note the offers of a rank that are the best, or take the place of an earlier one of its own."""
    for way in range(routes.first[rank], routes.first[rank + 1]):
        to = routes.dst[way]
        if not outside[to]:
            continue
        new = np.inf
        if usable[routes.link[way]]:
            new = routes.duration_us[way] + late + tie[to]
        if new < price[to] or sender[to] == rank:
            price[to], sender[to], inward[to] = new, rank, way


@compiled
def _grow(
    routes: Any,
    usable: Any,
    kinds: Any,
    holds: Any,
    tie: Any,
    lateness: float,
    anew: bool,
    num_shared: int,
    via: Any,
) -> None:
    many, num_ranks = holds.shape
    price, at = np.empty(num_ranks), np.empty(num_ranks)
    sender, inward = np.empty(num_ranks, np.int64), np.empty(num_ranks, np.int64)
    outside = np.empty(num_ranks, np.bool_)
    offering, free = np.empty(num_ranks, np.int64), np.empty(num_shared)
    for s in range(many):
        price[:], at[:], sender[:], free[:] = np.inf, np.inf, -1, 0.0
        num_offering = 0
        for rank in range(num_ranks):
            outside[rank] = not holds[s, rank]
            if holds[s, rank]:
                at[rank] = 0.0
                offering[num_offering] = rank
                num_offering += 1
        while True:
            for number in range(num_offering):
                rank = offering[number]
                ready, shared = at[rank], routes.shares[rank]
                if shared >= 0 and free[shared] > ready:
                    ready = free[shared]
                late = lateness * ready + tie[s, rank]
                _offer(routes, usable[kinds[s]], tie[s], rank, late, outside, price, sender, inward)
            nearest, least = -1, np.inf
            for rank in range(num_ranks):
                if outside[rank] and price[rank] < least:
                    nearest, least = rank, price[rank]
            if nearest < 0:
                break
            came, way = sender[nearest], inward[nearest]
            start, shared = at[came], routes.shares[came]
            if shared >= 0 and free[shared] > start:
                start = free[shared]
            via[s, nearest], outside[nearest] = routes.link[way], False
            at[nearest] = start + routes.duration_us[way]
            if shared >= 0:
                free[shared] = start + routes.busy_us[way]
            if anew:
                offering[num_offering], num_offering = nearest, num_offering + 1
                price[:] = np.inf
            else:
                offering[0], offering[1], num_offering = came, nearest, 2
