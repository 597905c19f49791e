"""Each chunk along its shortest paths, and all transfers list-scheduled: no search, and every feature.

A copy goes along a tree of shortest paths. A sum is made at one rank: contributions go to it along a tree of
shortest paths, and copies of the finished sum leave it along another. The rank is one for which the way in
and the way out together are the shortest, with ready times and tails; of several, the chunk's owner.

It asks nothing about load, so where chunks crowd on a link it is slow. It is there for problems that no other
engine knows: unequal chunks, inputs that come late, helpers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.distance import distances_from
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, list_schedule
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.shortest.tree import Network
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget

#: With more outputs and contributions than this, ordering their transfers takes longer than anybody waits.
_MOST_ROWS = 2**19
#: This many transfers are placed in a unit of work.
_PLACED_PER_UNIT = 50


def serves(instance: Instance) -> Verdict:
    """Whether there are few enough transfers to order one by one."""
    collective = instance.problem.collective
    rows = len(collective.inputs) + len(collective.outputs)
    return YES if rows <= _MOST_ROWS else no(f"it orders single transfers, at most about {_MOST_ROWS:,}")


def shortest(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the one schedule that this engine has, if it is better than the incumbent."""
    decisions = along_shortest_paths(instance.problem)
    if decisions is None:
        return
    budget.spend(len(decisions) / _PLACED_PER_UNIT)
    schedule = list_schedule(instance.problem, decisions)
    if incumbent is None or schedule.makespan_us < incumbent.makespan_us - TOLERANCE_US:
        yield Update("shortest", schedule)


def along_shortest_paths(problem: Problem) -> list[Decision] | None:
    """A send for each transfer of each chunk; None if some chunk does not get where it is wanted."""
    routes = _Routes(problem)
    decisions: list[Decision] = []
    for chunk in range(problem.num_chunks):
        sends = routes.summed(chunk) if problem.collective.reduces[chunk] else routes.copied(chunk)
        if sends is None:
            return None
        decisions += sends
    return decisions


class _Routes:
    """The trees of one problem, each found once."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._reversed = problem, problem.topology.reversed()
        collective, moments = problem.collective, (problem.ready_us, problem.tail_us)
        self._starts, self._wanted = (
            _by_chunk(placement.chunk, placement.rank, times_us, problem.num_chunks)
            for placement, times_us in zip((collective.inputs, collective.outputs), moments, strict=True)
        )
        self._networks: dict[tuple[float, bytes], tuple[Network, Network]] = {}
        self._trees: dict[object, list[int] | None] = {}
        self._distances: dict[object, FloatArray] = {}

    def copied(self, chunk: int) -> list[Decision] | None:
        """The sends of a chunk that is not summed."""
        links = self._tree(chunk, False, self._starts[chunk], tuple(rank for rank, _ in self._wanted[chunk]))
        return None if links is None else [Decision((chunk,), link) for link in links]

    def summed(self, chunk: int) -> list[Decision] | None:
        """The sends of a sum: at the first rank, the nearest first, with a way in and a way out."""
        contributors = tuple(rank for rank, _ in self._starts[chunk])
        wanted = tuple(rank for rank, _ in self._wanted[chunk])
        for root in self._roots(chunk):
            into = self._tree(chunk, True, ((root, 0.0),), contributors)
            out = self._tree(chunk, False, ((root, 0.0),), wanted)
            if into is not None and out is not None:
                adds = [Decision((chunk,), link, reduce=True) for link in reversed(into)]
                return adds + [Decision((chunk,), link) for link in out]
        return None

    def _roots(self, chunk: int) -> list[int]:
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
        steps = np.round(total / max(float(total.min()), np.finfo(float).tiny) / (2 * EQUAL))
        order = np.lexsort((np.arange(len(total)) != owner, steps))
        return [int(rank) for rank in order if np.isfinite(total[rank])]

    def _distance_us(self, chunk: int, backwards: bool, rank: int) -> FloatArray:
        """From a rank to all ranks, or (backwards) from all ranks to it."""
        key = (self._kind(chunk), backwards, rank)
        if key not in self._distances:
            network = self._network(chunk, backwards)
            weight_us = np.array(network.duration_us)
            self._distances[key] = distances_from(network.topology, weight_us, rank, network.usable)
        return self._distances[key]

    def _tree(
        self, chunk: int, backwards: bool, there: tuple[tuple[int, float], ...], wanted: tuple[int, ...]
    ) -> list[int] | None:
        key = (self._kind(chunk), backwards, there, wanted)
        if key not in self._trees:
            self._trees[key] = self._network(chunk, backwards).tree(dict(there), wanted)
        return self._trees[key]

    def _network(self, chunk: int, backwards: bool) -> Network:
        kind = self._kind(chunk)
        if kind not in self._networks:
            topology, usable = self._problem.topology, self._usable(chunk)
            every = np.arange(topology.num_links)
            duration_us: list[float] = self._problem.duration_us(every, np.full_like(every, chunk)).tolist()
            both = Network(topology, duration_us, usable), Network(self._reversed, duration_us, usable)
            self._networks[kind] = both
        return self._networks[kind][backwards]

    def _kind(self, chunk: int) -> tuple[float, bytes]:
        """Chunks of one kind are equally large and may use the same links."""
        usable = self._usable(chunk)
        return float(self._problem.size_mb[chunk]), b"" if usable is None else usable.tobytes()

    def _usable(self, chunk: int) -> BoolArray | None:
        return None if self._problem.limits.may_use is None else self._problem.usable(chunk)


def _by_chunk(
    chunk: IntArray, rank: IntArray, times_us: FloatArray | None, num_chunks: int
) -> list[tuple[tuple[int, float], ...]]:
    """For each chunk, the (rank, moment) of its rows."""
    moments = np.zeros(len(chunk)) if times_us is None else times_us
    rows: list[list[tuple[int, float]]] = [[] for _ in range(num_chunks)]
    for each, where, when in zip(chunk.tolist(), rank.tolist(), moments.tolist(), strict=True):
        rows[each].append((where, when))
    return [tuple(sorted(row)) for row in rows]
