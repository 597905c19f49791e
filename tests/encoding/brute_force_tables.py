"""What the exhaustive search looks up: a tiny problem in ticks, distances, routes, chunks of a kind.

It knows the problem, and nothing of what was tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from brute_force_program import contributors, may_copy, may_sum, port_betas

from taccl.model.problem import Problem

#: Times are whole numbers of this many microseconds, so that equal ones are equal.
TICK_US = 2.0**-36
NEVER = 2**62


class Tables:
    """A problem in ticks, with what is looked up again and again."""

    def __init__(self, problem: Problem) -> None:
        topology, collective = problem.topology, problem.collective
        self.problem = problem
        self.num_ranks, self.num_chunks = topology.num_ranks, collective.num_chunks
        self.ranks, self.links = range(topology.num_ranks), range(topology.num_links)
        self.chunks = range(collective.num_chunks)
        self.src, self.dst, self.ports = topology.src.tolist(), topology.dst.tolist(), topology.ports
        self.alpha = [ticks(alpha) for alpha in topology.alpha_us.tolist()]
        self.cost = [ticks(beta * problem.chunk_mb) for beta in topology.beta_us_per_mb.tolist()]
        self.port_cost = [
            [ticks(beta * problem.chunk_mb) for beta in betas] for betas in port_betas(topology)
        ]
        self.serial = topology.occupancy == "serial"
        self.may_copy = may_copy(topology)
        self.may_sum = may_sum(topology)
        self.size = [1.0] * self.num_chunks if problem.sizes is None else problem.sizes.tolist()
        self.ready, self.tail = (
            [[ticks(known.get((chunk, rank), 0.0)) for rank in self.ranks] for chunk in self.chunks]
            for known in (problem.ready_at, problem.tail_at)
        )
        self.contributors = [contributors(problem, chunk) for chunk in self.chunks]
        #: A chunk that is copied has one contribution, with many sources.
        self.whole = [(1 << max(1, len(ranks))) - 1 for ranks in self.contributors]
        #: Cells of sums at ranks that may not copy.
        self.used_once = frozenset(
            chunk * self.num_ranks + rank
            for chunk, rank in itertools.product(self.chunks, self.ranks)
            if self.whole[chunk] > 1 and not self.may_copy[rank]
        )
        self.pre = collective.pre.tolist()
        self.wanting = [[r for r in self.ranks if collective.post[chunk][r]] for chunk in self.chunks]
        self.usable = [problem.usable(chunk).tolist() for chunk in self.chunks]
        self.away = [self._distances(chunk) for chunk in self.chunks]
        self.door_in = [self._doors(chunk, self.dst, self.src) for chunk in self.chunks]
        self.door_out = [self._doors(chunk, self.src, self.dst) for chunk in self.chunks]
        self.into = [self._routes([l for l in self.links if self.dst[l] == rank]) for rank in self.ranks]
        self.out_of = [self._routes([l for l in self.links if self.src[l] == rank]) for rank in self.ranks]
        self.everywhere = self._routes(self.links)
        self.apart = {whole: _disjoint(whole) for whole in set(self.whole)}
        self.interchangeable = self._interchangeable()

    def busy(self, link: int, port: int, size: float) -> int:
        """How long a send of that size keeps one of its link's ports busy, from its start on."""
        each = self.port_cost[link][self.ports[link].index(port)]
        return round(size * each) + (self.alpha[link] if self.serial else 0)

    def takes(self, link: int, size: float) -> int:
        """How long a send of that size takes; sizes are in units of the problem's chunks."""
        return self.alpha[link] + round(size * self.cost[link])

    def _distances(self, chunk: int) -> list[list[int]]:
        """Least times between ranks for one chunk (Floyd, Warshall)."""
        far = [[0 if a == b else NEVER for b in self.ranks] for a in self.ranks]
        for link in self.links:
            if self.usable[chunk][link]:
                a, b = self.src[link], self.dst[link]
                far[a][b] = min(far[a][b], self.takes(link, self.size[chunk]))
        for via, a, b in itertools.product(self.ranks, repeat=3):
            far[a][b] = min(far[a][b], far[a][via] + far[via][b])
        return far

    def _doors(self, chunk: int, end: Sequence[int], other: Sequence[int]) -> list[list[int]]:
        """For each rank the ranks at the other ends of the links that end there, and that a chunk may use."""
        links = [link for link in self.links if self.usable[chunk][link]]
        return [[other[link] for link in links if end[link] == rank] for rank in self.ranks]

    def _routes(self, links: Sequence[int]) -> list[list[tuple[int, int, int, int]]]:
        """Choices of a port for each link: (port, time before or after, for each send, for each chunk)."""
        choices, least = [], min(self.size, default=1.0)
        for which in (0, -1):
            ports: dict[int, tuple[int, int, int]] = {}
            for link in links:
                port = self.ports[link][which]
                once, twice = self.busy(link, port, least), self.busy(link, port, 2 * least)
                each = twice - once
                lag = min(self.takes(link, n * least) - self.busy(link, port, n * least) for n in (1, 2))
                old = ports.get(port, (NEVER, NEVER, NEVER))
                ports[port] = min(old[0], lag), min(old[1], once - each), min(old[2], each)
            rows = [(port, *costs) for port, costs in ports.items()]
            if rows and rows not in choices:
                choices.append(rows)
        return choices

    def _interchangeable(self) -> list[list[int]]:
        """Classes of chunks that start, are wanted and may go at the same places."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for chunk in self.chunks:
            kind = (
                *(self.contributors[chunk], self.pre[chunk], self.wanting[chunk], self.usable[chunk]),
                *(self.ready[chunk], self.tail[chunk], [self.size[chunk]]),
            )
            kinds.setdefault(tuple(map(tuple, kind)), []).append(chunk)
        return list(kinds.values())


def _disjoint(whole: int) -> list[list[int]]:
    """For each set, all sets that are disjoint from it."""
    return [[other for other in range(whole + 1) if not other & part] for part in range(whole + 1)]


def ticks(time_us: float) -> int:
    return round(time_us / TICK_US)
