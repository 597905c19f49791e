"""Each chunk along its shortest paths: no search, and every feature.

A copy goes along a tree of shortest paths. A sum is made at one rank: contributions go to it along a tree of
shortest paths, and copies of the finished sum leave it along another. The rank is one for which the way in
and the way out together are the shortest, with ready times and tails; of several, the chunk's owner.

It asks nothing about load, so where chunks crowd on a link it is slow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.engines.routes.kinds import leads_to_room
from taccl.encoding.engines.routes.steiner import SteinerNetwork
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget


def along_shortest_paths(problem: Problem, budget: Budget | None = None) -> Routes | None:
    """A row for each transfer of each chunk; None if some chunk does not get where it is wanted, or in time.

    `budget` : None: it takes the time that it needs.
    """
    trees = Trees(problem)
    rows: list[tuple[int, int, bool]] = []
    for chunk in range(problem.num_chunks):
        if budget is not None and not budget.remaining_s():
            return None
        links = trees.summed(chunk) if problem.collective.reduces[chunk] else trees.copied(chunk)
        if links is None:
            return None
        rows += [(chunk, link, adds) for link, adds in links]
    chunk, link, adds = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    # Chunks of one kind have one tree; they may share sends where they meet.
    return Routes(chunk, link, adds.astype(np.bool_), chunk, chunk / max(1, problem.num_chunks), mixes=True)


class Trees:
    """The trees of one problem, each found once."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._reversed = problem, problem.topology.reversed()
        collective, moments = problem.collective, (problem.ready_us, problem.tail_us)
        self._starts, self._wanted = (
            _by_chunk(placement.chunk, placement.rank, times_us, problem.num_chunks)
            for placement, times_us in zip((collective.inputs, collective.outputs), moments, strict=True)
        )
        self._networks: dict[tuple[float, bytes], tuple[SteinerNetwork, SteinerNetwork]] = {}
        self._trees: dict[object, list[int] | None] = {}
        self._distances: dict[object, FloatArray] = {}

    def copied(self, chunk: int) -> list[tuple[int, bool]] | None:
        """The links of a chunk that is not summed, and that none of them carries a sum."""
        links = self._tree(chunk, False, self._starts[chunk], self.wanted(chunk))
        return None if links is None else [(link, False) for link in links]

    def summed(self, chunk: int) -> list[tuple[int, bool]] | None:
        """Links and whether they carry sums: at the first rank, the nearest first, with links in and out."""
        contributors, wanted = self.contributors(chunk), self.wanted(chunk)
        for root in self.roots(chunk):
            into = self._tree(chunk, True, ((root, 0.0),), contributors)
            out = self.copies_from(chunk, root, wanted)
            if into is not None and out is not None:
                return [(link, True) for link in reversed(into)] + [(link, False) for link in out]
        return None

    def contributors(self, chunk: int) -> tuple[int, ...]:
        """Where a chunk starts, ascending."""
        return tuple(rank for rank, _ in self._starts[chunk])

    def wanted(self, chunk: int) -> tuple[int, ...]:
        """Who wants a chunk, ascending."""
        return tuple(rank for rank, _ in self._wanted[chunk])

    def copies_from(self, chunk: int, rank: int, wanted: tuple[int, ...]) -> list[int] | None:
        """The links that bring a chunk from one rank to others, in order; None: none found."""
        return self._tree(chunk, False, ((rank, 0.0),), wanted)

    def apart_to(self, chunk: int, root: int) -> list[int] | None:
        """Links of all contributions to a rank, farthest first; who may not sum passes several parts on."""
        network = self._network(chunk, True)
        free = replace(network.topology, may_sum=None, may_copy=None)
        links = replace(network, topology=free).tree({root: 0.0}, self.contributors(chunk))
        return None if links is None else links[::-1]

    def roots(self, chunk: int) -> list[int]:
        """Ranks where the sum could be made, those with the shortest way in and out first."""
        into, out = (
            np.max(
                [self._distance_us(chunk, backwards, rank) + us for rank, us in rows],
                axis=0,
            )
            for backwards, rows in ((False, self._starts[chunk]), (True, self._wanted[chunk]))
        )
        total = into + out
        owner = int(self._problem.collective.owner[chunk])
        # What differs by rounding only is equal, so that equal chunks are summed at their owners.
        least = total[total > 0].min(initial=np.inf)  # of one contribution that stays, the total is 0
        steps = np.round(total / least / (2 * EQUAL)) if np.isfinite(least) else np.zeros(len(total))
        order = np.lexsort((np.arange(len(total)) != owner, steps))
        return [int(rank) for rank in order if np.isfinite(total[rank])]

    def _distance_us(self, chunk: int, backwards: bool, rank: int) -> FloatArray:
        """From a rank to all ranks, or (backwards) from all ranks to it."""
        key = (self._kind(chunk), backwards)
        if key not in self._distances:
            network = self._network(chunk, backwards)
            weight_us = np.array(network.duration_us)
            self._distances[key] = distances_us(network.topology, weight_us, network.usable)
        return np.asarray(self._distances[key][rank])

    def _tree(
        self, chunk: int, backwards: bool, there: tuple[tuple[int, float], ...], wanted: tuple[int, ...]
    ) -> list[int] | None:
        key = (self._kind(chunk), backwards, there, wanted)
        if key not in self._trees:
            self._trees[key] = self._network(chunk, backwards).tree(dict(there), wanted)
        return self._trees[key]

    def _network(self, chunk: int, backwards: bool) -> SteinerNetwork:
        kind = self._kind(chunk)
        if kind not in self._networks:
            topology, usable = self._problem.topology, self._usable(chunk)
            every = np.arange(topology.num_links)
            duration_us: list[float] = self._problem.duration_us(every, np.full_like(every, chunk)).tolist()
            both = (
                SteinerNetwork(topology, duration_us, usable),
                SteinerNetwork(self._reversed, duration_us, usable),
            )
            self._networks[kind] = both
        return self._networks[kind][backwards]

    def _kind(self, chunk: int) -> tuple[float, bytes]:
        """Chunks of one kind are equally large and may use the same links."""
        usable = self._usable(chunk)
        return float(self._problem.size_mb[chunk]), b"" if usable is None else usable.tobytes()

    def _usable(self, chunk: int) -> BoolArray | None:
        problem = self._problem
        if problem.limits.may_use is None and problem.topology.memory_mb is None:
            return None
        return problem.usable(chunk) & leads_to_room(problem)


def _by_chunk(
    chunk: IntArray, rank: IntArray, times_us: FloatArray | None, num_chunks: int
) -> list[tuple[tuple[int, float], ...]]:
    """For each chunk, the (rank, moment) of its rows."""
    moments = np.zeros(len(chunk)) if times_us is None else times_us
    rows: list[list[tuple[int, float]]] = [[] for _ in range(num_chunks)]
    for each, where, when in zip(chunk.tolist(), rank.tolist(), moments.tolist(), strict=True):
        rows[each].append((where, when))
    return [tuple(sorted(row)) for row in rows]
