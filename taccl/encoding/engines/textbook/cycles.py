"""Rings and chains that a machine has the links for: Hamiltonian cycles and paths, found by bounded search.

Whether a graph has one is hard to say in general, and easy on machines: rank order is a cycle, or nodes are
strung together, each passed from the rank that lets in to the rank that lets out, or the rows of a grid are,
or a walk that prefers fast links and ranks with few routes left (Warnsdorff's rule, as for knights' tours)
finds one after few wrong turns.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from taccl.encoding.engines.textbook.grid import sides
from taccl.encoding.engines.textbook.tuning import (
    CYCLES_MOST_LINKS,
    CYCLES_MOST_RANKS,
    CYCLES_MOST_RINGS,
    CYCLES_MOST_WALKS,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem

#: Steps of one walk, wrong turns included, for each rank.
_STEPS_PER_RANK = 40

Cycle = tuple[int, ...]


def cycles(problem: Problem, among: Sequence[int] | None = None) -> list[Cycle]:
    """Rings over all ranks, or some, the promising first; each is the ranks in their order. No ring twice."""
    ranks = tuple(range(problem.num_ranks) if among is None else among)
    found: dict[Cycle, None] = {}
    if len(ranks) > 2:
        for cycle in _tried(problem, ranks):
            found.setdefault(_turned(cycle))
    return list(found)


def disjoint(rings: list[Cycle], both_directions: bool) -> list[Cycle]:
    """Rings that share no link with one taken before; with `both_directions`, also their reverses."""
    taken: list[Cycle] = []
    used: set[tuple[int, int]] = set()
    for ring in rings:
        for cycle in (ring, ring[::-1]) if both_directions else (ring,):
            links = _links(cycle)
            if not links & used:
                taken.append(cycle)
                used |= links
    return taken[:CYCLES_MOST_RINGS]


def chains(problem: Problem, root: int) -> list[Cycle]:
    """Routes from one rank past all others, each once."""
    if not _is_searchable(problem):
        return []
    routes = _Routes(problem)
    found: dict[Cycle, None] = {}
    for limit in routes.speeds():
        chain = routes.walk(root, None, range(problem.num_ranks), limit)
        if chain is not None:
            found.setdefault(chain)
    return list(found)


def _is_searchable(problem: Problem) -> bool:
    return problem.num_ranks <= CYCLES_MOST_RANKS and problem.topology.num_links <= CYCLES_MOST_LINKS


def is_ring(ranks: Sequence[int], index: Container[tuple[int, int]]) -> bool:
    """Whether each rank has a link to the next one, and the last to the first."""
    return all(pair in index for pair in _links(ranks))


def _links(ranks: Sequence[int]) -> set[tuple[int, int]]:
    """The ends of the links round a ring."""
    return set(pairwise((*ranks, ranks[0])))


def _turned(cycle: Cycle) -> Cycle:
    """The same cycle, begun at its least rank."""
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def _tried(problem: Problem, ranks: Cycle) -> Iterator[Cycle]:
    index = problem.topology.link_index
    yield from [order for order in (ranks, ranks[::-1]) if is_ring(order, index)][:1]
    if len(ranks) == problem.num_ranks:
        yield from (snake for snake in snakes(problem.num_ranks) if is_ring(snake, index))
    if not _is_searchable(problem):
        return
    if len(ranks) == problem.num_ranks:
        yield from through_doors(problem)[:1]
    routes, used = _Routes(problem), set[tuple[int, int]]()
    for limit in routes.speeds():
        # What a ring has used is left out for the next, so that together they use more of the machine.
        for _ in range(CYCLES_MOST_WALKS):
            cycle = routes.walk(ranks[0], ranks[0], ranks, limit, used)
            if cycle is None:
                break
            yield cycle
            used |= _links(cycle)


def snakes(num_ranks: int) -> Iterator[Cycle]:
    """Rings on the grids that ranks may be numbered along: row after row, and back along the first column.

    They need an even number of rows, and no links round the edges. In more than two dimensions a row is the
    way past all that has one position on the first axis.
    """
    for grid in sides(num_ranks):
        for axis in range(grid.ndim):
            rows = _way_past_all(np.moveaxis(grid, axis, 0))
            if len(rows) % 2 == 0 and rows.shape[1] > 1:
                turns = [row[1:][:: 1 - 2 * (number % 2)] for number, row in enumerate(rows)]
                yield tuple(np.concatenate([*turns, rows[::-1, 0]]).tolist())


def _way_past_all(grid: IntArray) -> IntArray:
    """The rows of a grid of any number of axes, each as a way from neighbour to neighbour."""
    if grid.ndim <= 2:
        return grid
    routes = [_way_past_all(part) for part in np.moveaxis(grid, 1, 0)]
    return np.concatenate([way[:, :: 1 - 2 * (number % 2)] for number, way in enumerate(routes)], axis=1)


def through_doors(problem: Problem) -> list[Cycle]:
    """Rings node after node: in by one rank, past all others of the node, out by another.

    Each rank is the way in of one ring at most, and the way out of one, so that the rings share the NICs
    among themselves.
    """
    if not _is_searchable(problem):
        return []
    node_of = problem.topology.node_of
    nodes: list[list[int]] = [np.flatnonzero(node_of == node).tolist() for node in np.unique(node_of)]
    size, index = len(nodes[0]), problem.topology.link_index
    if len(nodes) < 2 or size == 1 or len({len(node) for node in nodes}) > 1:
        return []
    following = list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))
    routes, rings = _Routes(problem), list[Cycle]()
    used_out, used_into = set[int](), set[int]()
    for shift in range(1, size):
        for out in range(size):
            into = (out + shift) % size
            if out in used_out or into in used_into:
                continue
            if not all((here[out], there[into]) in index for here, there in following):
                continue
            ring = _along(nodes, out, into, routes)
            if ring is not None:
                used_out.add(out)
                used_into.add(into)
                rings.append(ring)
    return rings[:: -(-len(rings) // CYCLES_MOST_RINGS)] if rings else []


def _along(nodes: list[list[int]], out: int, into: int, routes: _Routes) -> Cycle | None:
    """The ring over all nodes that enters each at one place and leaves it at another."""
    for limit in routes.speeds(inside=True):
        paths = [routes.walk(node[into], node[out], node, limit) for node in nodes]
        if all(path is not None for path in paths):
            return tuple(rank for path in paths if path is not None for rank in path)
    return None


class _Routes:
    """Who can go where, and how fast: the walks over a machine."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        cost = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
        may_use = problem.limits.may_use
        usable = np.ones(topology.num_links, np.bool_) if may_use is None else may_use.all(axis=0)
        self._speeds = {
            inside: _few(cost[usable & (~topology.internode if inside else True)]) for inside in (False, True)
        }
        self._next: list[dict[int, float]] = [{} for _ in range(topology.num_ranks)]
        for link in np.flatnonzero(usable).tolist():
            self._next[int(topology.src[link])][int(topology.dst[link])] = float(cost[link])

    def speeds(self, inside: bool = False) -> list[float]:
        """Costs of links, ascending, that walks may be limited to: few of them."""
        return self._speeds[inside]

    def walk(
        self,
        first: int,
        last: int | None,
        among: Iterable[int],
        limit: float,
        used: Container[tuple[int, int]] = (),
    ) -> Cycle | None:
        """A way past all of some ranks, over links that cost at most `limit`; None if none is found soon.

        It begins at `first` and ends at `last`, or anywhere; if both are one, at a rank with a link to it.
        """
        inside = {int(rank) for rank in among}
        routes = {
            rank: [
                other
                for other, cost in sorted(self._next[rank].items(), key=lambda each: each[1])
                if other in inside and cost <= limit + 1e-9 and (rank, other) not in used
            ]
            for rank in inside
        }
        if len(inside) == 1:
            return (first,)
        end = None if last == first else last
        left = _Left(routes)
        left.remove(first)
        path, trials = [first], [iter(self._by_few_routes(first, left, end))]
        for _ in range(_STEPS_PER_RANK * len(inside)):
            rank = next(trials[-1], None)
            if rank is None:
                trials.pop()
                left.add(path.pop())
                if not path:
                    return None
                continue
            path.append(rank)
            left.remove(rank)
            if not left.ranks and (last is None or rank == end or (last == first and first in routes[rank])):
                return tuple(path)
            trials.append(iter(self._by_few_routes(rank, left, end)))
        return None

    def _by_few_routes(self, rank: int, left: _Left, kept: int | None) -> list[int]:
        """The next ranks of a walk, those with the fewest routes on, or to them, first.

        The end of the walk comes only as its last rank.
        """
        ranks, cost = left.ranks, self._next[rank]
        candidates = [
            other for other in left.routes[rank] if other in ranks and (other != kept or len(ranks) == 1)
        ]
        return sorted(candidates, key=lambda other: (round(cost[other], 9), left.fewest(other)))


def _few(costs: FloatArray) -> list[float]:
    """The least, the middle one and the largest of some costs."""
    every = np.unique(costs.round(9))
    return [float(every[at]) for at in sorted({0, len(every) // 2, len(every) - 1})] if len(every) else []


class _Left:
    """The ranks that a walk has not passed yet, and how many routes from and to each rank are left.

    Counts are kept as ranks leave and come back: a walk over n ranks, all joined, would count n ** 3 routes.
    """

    def __init__(self, routes: dict[int, list[int]]) -> None:
        self.routes, self.ranks = routes, set(routes)
        self._into: dict[int, list[int]] = {rank: [] for rank in routes}
        for sender, others in routes.items():
            for other in others:
                self._into[other].append(sender)
        self._on = {rank: len(others) for rank, others in routes.items()}
        self._to = {rank: len(senders) for rank, senders in self._into.items()}

    def fewest(self, rank: int) -> int:
        """Of the routes from the rank and those to it, the fewer."""
        return min(self._on[rank], self._to[rank])

    def remove(self, rank: int) -> None:
        """A walk passes it."""
        self.ranks.discard(rank)
        self._count(rank, -1)

    def add(self, rank: int) -> None:
        """A walk goes back before it."""
        self.ranks.add(rank)
        self._count(rank, 1)

    def _count(self, rank: int, change: int) -> None:
        for sender in self._into[rank]:
            self._on[sender] += change
        for other in self.routes[rank]:
            self._to[other] += change
