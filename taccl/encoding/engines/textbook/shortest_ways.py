"""Along shortest ways: over each link goes at once, as one send, all that its sender passes on there.

Where few ranks are linked to all others, algorithms for a line or a grid lack links. Here ranks in the middle
relay: each chunk takes a shortest way of links, and in step k all chunks that take a link as the k-th of
their way travel together. So on a hub and its spokes an AlltoAll is one send up and one down for each spoke.

Source: Johnsson and Ho, "Optimum broadcasting and personalized communication in hypercubes", IEEE
Transactions on Computers 38 (1989), combine so what goes along the same link of a hypercube.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.line import Hops, hops, joined
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends
from taccl.encoding.engines.textbook.tuning import SHORTEST_WAYS_MOST_LINKS
from taccl.model.collective import IntArray
from taccl.model.problem import Problem

NAME = "along shortest ways"


def by_shortest_ways(problem: Problem, parts: Parts) -> Iterator[Algorithm]:
    """One algorithm, where some chunk needs more than one link and ways are short; none for sums."""
    ranks, topology = problem.num_ranks, problem.topology
    if parts.kind == "summed" or topology.num_links >= ranks * (ranks - 1):
        return
    ways, one = _Ways(problem), parts.piece == 0
    if not ways.are_short:
        return
    if parts.kind == "routed":
        route, length = ways.routed, ways.length[parts.begin, parts.end][one]
    else:
        route, length = ways.spread, ways.length[parts.begin][one]
    if length.max() < 2:  # all sends are direct
        return
    rows = int(length.sum() if parts.kind == "routed" else (length > 0).sum())
    moves = min(rows, topology.num_links * int(length.max()))
    first = np.zeros(ranks, dtype=np.int64)
    yield InVariants(NAME, rows, moves, routes=(route,), first=first, of_libraries=False)


class _Ways:
    """The shortest ways between all ranks, by the time of a part over each link."""

    def __init__(self, problem: Problem) -> None:
        topology, self._ranks = problem.topology, problem.num_ranks
        us = topology.alpha_us + problem.chunk_mb * topology.beta_us_per_mb
        # Of links that take no time those count that are fewest.
        us = us + (us.max(initial=0.0) or 1.0) * 1e-6
        self._links = csr_array((us, (topology.src, topology.dst)), shape=(self._ranks, self._ranks))

    @property
    def are_short(self) -> bool:
        """Whether none is of too many links; what is soon known of one rank comes first."""
        far = dijkstra(self._links, indices=0, unweighted=True).max()
        return bool(far <= SHORTEST_WAYS_MOST_LINKS) and 0 <= self.length.max() <= SHORTEST_WAYS_MOST_LINKS

    @cached_property
    def _before(self) -> IntArray:
        """Of each rank (rows) the one before each other rank on the way there; itself at its own place."""
        before = np.asarray(dijkstra(self._links, return_predecessors=True)[1], dtype=np.int64)
        return np.where(before < 0, np.arange(self._ranks)[:, None], before)

    @cached_property
    def length(self) -> IntArray:
        """Links of each way, shape (num_ranks, num_ranks)."""
        own = np.arange(self._ranks)[:, None]
        at, length = np.tile(np.arange(self._ranks), (self._ranks, 1)), np.zeros_like(self._before)
        for _ in range(SHORTEST_WAYS_MOST_LINKS + 1):
            length += at != own
            at = np.take_along_axis(self._before, at, axis=1)
        return length

    def routed(self, begin: IntArray, end: IntArray) -> Sends:
        """Units from where they are to where they are wanted."""
        unit = np.flatnonzero(begin != end)
        at, some = end[unit], [hops(unit[:0], unit[:0], unit[:0], unit[:0])]
        while len(unit):
            of = begin[unit]
            before = self._before[of, at]
            some.append(Hops(self.length[of, at] - 1, before, at, unit))
            left = before != of
            at, unit = before[left], unit[left]
        return self._sends(joined(*some), len(begin))

    def spread(self, begin: IntArray, end: IntArray) -> Sends:
        """Units from where they are to all ranks."""
        unit, dst = (each.ravel() for each in np.indices((len(begin), self._ranks)))
        left = dst != begin[unit]
        unit, dst = unit[left], dst[left]
        of = begin[unit]
        return self._sends(Hops(self.length[of, dst] - 1, self._before[of, dst], dst, unit), len(begin))

    def _sends(self, moves: Hops, units: int) -> Sends:
        return Sends.of(moves, Ragged.one_each(np.arange(units)), self._ranks)
