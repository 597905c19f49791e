"""Least times between ranks when nothing is in the way: the yardstick of routing and of bounds."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.problem import FloatArray, LogicalTopology


def distances_us(
    topology: LogicalTopology, weight_us: FloatArray, usable: BoolArray | None = None
) -> FloatArray:
    """Shortest-path lengths between all ranks, shape (num_ranks, num_ranks); inf where cut off.

    `weight_us` is the length of each link, shape (num_links,); links not `usable` are left out. From all
    ranks at once, over each rank's first link in, then over each one's second, until nothing gets nearer
    (Bellman 1958).
    """
    from_all = np.full((topology.num_ranks, topology.num_ranks), np.inf)  # [rank reached, source]
    np.fill_diagonal(from_all, 0.0)
    batches = list(_by_turn_into_each_rank(topology, usable))
    nearer = bool(batches)
    while nearer:
        nearer = False
        for links in batches:
            arrival = from_all[topology.src[links]]
            arrival += weight_us[links, None]
            so_far = from_all[topology.dst[links]]
            if (arrival < so_far).any():
                nearer = True
                from_all[topology.dst[links]] = np.minimum(arrival, so_far)
    return np.ascontiguousarray(from_all.T)


def _by_turn_into_each_rank(topology: LogicalTopology, usable: BoolArray | None) -> Iterator[IntArray]:
    """Batches of links, no two of a batch into the same rank."""
    links = np.arange(topology.num_links) if usable is None else np.flatnonzero(usable)
    links = links[np.argsort(topology.dst[links], kind="stable")]
    into = topology.dst[links]
    turn = np.arange(len(links)) - np.searchsorted(into, into)
    for each in range(int(turn.max(initial=-1)) + 1):
        yield links[turn == each]


def distances_from(
    topology: LogicalTopology, weight_us: FloatArray, source: int, usable: BoolArray | None = None
) -> FloatArray:
    """Shortest-path lengths from one rank, shape (num_ranks,) (Dijkstra 1959)."""
    return _dijkstra(topology, weight_us, source, usable)[0]


def shortest_path(
    topology: LogicalTopology,
    weight_us: FloatArray,
    source: int,
    target: int,
    usable: BoolArray | None = None,
) -> list[int] | None:
    """The links of a shortest path, first to last; None if there is none."""
    distance, via = _dijkstra(topology, weight_us, source, usable)
    if not np.isfinite(distance[target]):
        return None
    path: list[int] = []
    while target != source:
        path.append(via[target])
        target = int(topology.src[via[target]])
    return path[::-1]


def _dijkstra(
    topology: LogicalTopology, weight_us: FloatArray, source: int, usable: BoolArray | None
) -> tuple[FloatArray, list[int]]:
    weight, dst = weight_us.tolist(), topology.dst.tolist()
    allowed = None if usable is None else usable.tolist()
    distance = [float("inf")] * topology.num_ranks
    via = [-1] * topology.num_ranks
    distance[source] = 0.0
    heap = [(0.0, source)]
    while heap:
        reached, rank = heapq.heappop(heap)
        if reached > distance[rank]:
            continue
        for link in topology.links_from[rank]:
            if allowed is not None and not allowed[link]:
                continue
            longer = reached + weight[link]
            if longer < distance[dst[link]]:
                distance[dst[link]] = longer
                via[dst[link]] = link
                heapq.heappush(heap, (longer, dst[link]))
    return np.array(distance), via
