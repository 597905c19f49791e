"""Least times between ranks when nothing is in the way, and least transfers: the yardstick of searches."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from taccl.encoding.core.tuning import DISTANCE_SPARSE
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem


def distances_us(
    topology: LogicalTopology, weight_us: FloatArray, usable: BoolArray | None = None
) -> FloatArray:
    """Shortest-path lengths between all ranks, shape (num_ranks, num_ranks); inf where cut off.

    `weight_us` is the length of each link, shape (num_links,); links not `usable` are left out (Dijkstra
    1959).
    """
    return np.asarray(dijkstra(_as_matrix(topology, weight_us, usable)))


def distances_from(
    topology: LogicalTopology, weight_us: FloatArray, source: int, usable: BoolArray | None = None
) -> FloatArray:
    """The same from one rank, shape (num_ranks,)."""
    return np.asarray(dijkstra(_as_matrix(topology, weight_us, usable), indices=source))


def _as_matrix(topology: LogicalTopology, weight_us: FloatArray, usable: BoolArray | None) -> csr_array:
    links = np.arange(topology.num_links) if usable is None else np.flatnonzero(usable)
    ends, ranks = (topology.src[links], topology.dst[links]), topology.num_ranks
    return csr_array((weight_us[links], ends), shape=(ranks, ranks))


class ShortestPaths:
    """Shortest paths over links of the same lengths; `weight_us` and `usable` as of `distances_us`."""

    def __init__(
        self, topology: LogicalTopology, weight_us: FloatArray, usable: BoolArray | None = None
    ) -> None:
        self.topology = topology
        self._network, self._before = _as_matrix(topology, weight_us, usable), dict[int, IntArray]()

    def path(self, source: int, target: int) -> list[int] | None:
        """The links of a shortest path, first to last; None if there is none."""
        if source not in self._before:
            self._before[source] = dijkstra(self._network, indices=source, return_predecessors=True)[1]
        return _path(self.topology, self._before[source], source, target)


class SinglePaths:
    """Shortest paths over links whose lengths differ from one path to the next."""

    def __init__(self, topology: LogicalTopology) -> None:
        self._topology, ranks = topology, topology.num_ranks
        self._order = np.lexsort((topology.dst, topology.src))
        first = np.searchsorted(topology.src[self._order], np.arange(ranks + 1))
        columns = np.zeros(topology.num_links), topology.dst[self._order], first
        self._network = csr_array(columns, shape=(ranks, ranks))

    def path(
        self, weight_us: FloatArray, source: int, target: int, usable: BoolArray | None = None
    ) -> list[int] | None:
        """The links of a shortest path, first to last; None if there is none."""
        weight_us = weight_us if usable is None else np.where(usable, weight_us, np.inf)
        self._network.data[:] = weight_us[self._order]
        before = dijkstra(self._network, indices=source, return_predecessors=True)[1]
        return _path(self._topology, before, source, target)


def _path(topology: LogicalTopology, before: IntArray, source: int, target: int) -> list[int] | None:
    """The links from the source, where each rank on the way has another before it."""
    path = list[int]()
    while target != source:
        rank = int(before[target])
        if rank < 0:
            return None
        path.append(topology.link_index[rank, target])
        target = rank
    return path[::-1]


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
    if topology.num_links * DISTANCE_SPARSE < ranks**2:
        far = dijkstra(_as_matrix(topology, np.ones(topology.num_links), None), unweighted=True)
        there = np.isfinite(far)
        return min(enough, int(missing[there] @ far[there].astype(np.int64)))
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
