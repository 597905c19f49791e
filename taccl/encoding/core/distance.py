"""Least times between ranks when nothing is in the way, and least transfers: the yardstick of searches."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from taccl.encoding.core.tuning import DISTANCE_MANY
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.support.jit import compiled, is_at_hand


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
    if topology.num_ranks * topology.num_links >= DISTANCE_MANY:
        links = np.arange(topology.num_links) if usable is None else np.flatnonzero(usable)
        while _nearer(topology.src[links], topology.dst[links], weight_us[links], from_all):
            pass
        return np.ascontiguousarray(from_all.T)
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


def compile_loop() -> bool:
    """Make machine code of the loop for large machines; whether it was there."""
    was_there = is_at_hand(_nearer)
    no_links = np.zeros(0, dtype=np.int64)
    _nearer(no_links, no_links, np.zeros(0), np.zeros((1, 1)))
    return was_there


@compiled
def _nearer(src: Any, dst: Any, weight_us: Any, from_all: Any) -> bool:
    """Take each link once, from all ranks; whether anything got nearer."""
    nearer = False
    for link in range(len(src)):
        before, after, weight = from_all[src[link]], from_all[dst[link]], weight_us[link]
        for source in range(len(after)):
            if before[source] + weight < after[source]:
                after[source] = before[source] + weight
                nearer = True
    return nearer


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
    return ShortestPaths(topology, weight_us, usable).lengths_from(source)


def shortest_path(
    topology: LogicalTopology,
    weight_us: FloatArray,
    source: int,
    target: int,
    usable: BoolArray | None = None,
) -> list[int] | None:
    """The links of a shortest path, first to last; None if there is none."""
    return ShortestPaths(topology, weight_us, usable).path(source, target)


class ShortestPaths:
    """Shortest paths from one rank after another over the same links (Dijkstra 1959).

    `weight_us` is the length of each link, shape (num_links,); links not `usable` are left out.
    """

    def __init__(
        self, topology: LogicalTopology, weight_us: FloatArray, usable: BoolArray | None = None
    ) -> None:
        self.topology = topology
        links = np.arange(topology.num_links) if usable is None else np.flatnonzero(usable)
        links = links[np.argsort(topology.src[links], kind="stable")]
        ends = np.searchsorted(topology.src[links], np.arange(topology.num_ranks + 1))
        steps = list(
            zip(links.tolist(), topology.dst[links].tolist(), weight_us[links].tolist(), strict=True)
        )
        #: For each rank, the links out of it, where they lead and how long they are.
        self._steps = [steps[first:last] for first, last in pairwise(ends.tolist())]

    def lengths_from(self, source: int) -> FloatArray:
        """How far each rank is from `source`, shape (num_ranks,); inf where there is no way."""
        return np.array(self._from(source, None)[0])

    def path(self, source: int, target: int) -> list[int] | None:
        """The links of a shortest path, first to last; None if there is none."""
        distance, via = self._from(source, target)
        if distance[target] == float("inf"):
            return None
        path: list[int] = []
        while target != source:
            path.append(via[target])
            target = int(self.topology.src[via[target]])
        return path[::-1]

    def _from(self, source: int, target: int | None) -> tuple[list[float], list[int]]:
        """The distance of each rank and the last link on the way there, as far as `target` needs it."""
        distance = [float("inf")] * len(self._steps)
        via = [-1] * len(self._steps)
        distance[source] = 0.0
        heap = [(0.0, source)]
        while heap:
            reached, rank = heapq.heappop(heap)
            if rank == target:
                break
            if reached > distance[rank]:
                continue
            for link, to, weight in self._steps[rank]:
                longer = reached + weight
                if longer < distance[to]:
                    distance[to] = longer
                    via[to] = link
                    heapq.heappush(heap, (longer, to))
        return distance, via


def least_transfers(problem: Problem, enough: int) -> int:
    """The links of shortest routes over all chunks that go from one rank to one; no count goes beyond
    `enough`.

    A chunk whose way has h links is counted once for each of 0 .. h - 1 links that do not bring it there; one
    without a way not at all.
    """
    collective, topology, ranks = problem.collective, problem.topology, problem.num_ranks
    moves = ~collective.reduces & (collective.num_sources == 1) & (collective.num_wanted == 1)
    missing = np.zeros((ranks, ranks), dtype=np.int64)
    np.add.at(missing, (collective.source[moves], collective.destination[moves]), 1)
    step = np.eye(ranks, dtype=np.float32)
    step[topology.src, topology.dst] = 1.0
    reached: BoolArray = np.eye(ranks, dtype=np.bool_)
    total, hops = 0, 0
    while total < enough:
        left = int(missing[~reached].sum())
        further = reached.astype(np.float32) @ step > 0
        if not left or (further == reached).all():
            return max(0, total - hops * left)
        reached = further
        total, hops = total + left, hops + 1
    return enough
