r"""Where each sum is made, and by which routes it comes and goes: one program for the loads of all ports.

A *route* of a chunk is a root, a tree by which contributions come to it, and a tree by which copies leave it.
The root of a sum is a member or a helper; a tree may pass helpers that sum, or copy. With x(k, w) chunks of
kind k (the same ranks have them, and want them) on route w,

    minimise    T
    subject to  sum of x(k, w) over routes w               =  how many chunks kind k has     for every kind k
                sum of busy(w, p) * x(k, w) over k, w   <=  T                              for every port p

There are more routes than can be written down, so they are generated (Gilmore and Gomory 1961): the dual
values of the ports' rows are their prices, and a route is worth having if it costs less at these prices than
those of its kind that are there. The cheapest are two trees of least price, for each root (`branching`). Sums
and copies share all ports, so both halves are in one program: 64% of an AllReduce at four servers next to
eight GPUs, and 36% at the GPUs, as BytePS found for its own routes.

A little of the time that a route takes counts, too, on all its links and on its longest path, so that of
equally busy routes the straight ones are taken. Shares become whole chunks by largest remainder, and the
chunks of all routes take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.linear import LinearModel, solve
from taccl.encoding.engines.routes.branching import least_tree
from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.engines.routes.kinds import kinds_of
from taccl.encoding.engines.routes.tuning import (
    LOAD_PROGRAM_AT_ONCE,
    LOAD_PROGRAM_CELLS_PER_UNIT,
    LOAD_PROGRAM_DEPTH,
    LOAD_PROGRAM_GAIN,
    LOAD_PROGRAM_MOST_CELLS,
    LOAD_PROGRAM_SHARPNESS,
    LOAD_PROGRAM_VAIN,
    LOAD_PROGRAM_WORTH,
)
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class _Kind:
    """Chunks that the same ranks have, and want, over the same links.

    Parameters
    ----------
    begins, wanted : shape (num_ranks,).
    usable : shape (num_links,).
    """

    chunks: IntArray
    begins: BoolArray
    wanted: BoolArray
    is_sum: bool
    usable: BoolArray


@dataclass(frozen=True, eq=False)
class _Route:
    """A route of chunks of one kind.

    Parameters
    ----------
    links : those that carry sums, the first `sums`, and those that carry copies.
    busy_us : shape (num_ports,); how long a chunk keeps each port busy.
    straight_us : what its own time counts.
    """

    kind: int
    links: tuple[int, ...]
    sums: int
    busy_us: FloatArray
    straight_us: float


def serves_load_program(problem: Problem) -> bool:
    """Whether each chunk is a sum, or starts at one rank, and the program is not too large."""
    collective = problem.collective
    if problem.num_chunks * problem.num_ranks > LOAD_PROGRAM_MOST_CELLS:
        return False
    if not (collective.reduces | (collective.num_sources == 1)).all():
        return False
    kinds = len(_kinds(problem))
    roots = problem.num_ranks if collective.is_reduction else 1
    return kinds * roots * problem.num_ranks**2 <= LOAD_PROGRAM_MOST_CELLS


def by_load_program(problem: Problem, straight: float, budget: Budget, passes: int = 0) -> Routes | None:
    """Which chunks pass which links; None: some chunk has no route, or large programs have no time.

    `straight` : how much the time that a route takes counts next to the load of its ports. `passes` : how
    often each root has a route at rising prices before the first program; 0: once, at equal prices.
    """
    kinds = _kinds(problem)
    program = _Program(problem, kinds, straight)
    if not program.begins(passes, budget):
        return None
    best, least_us, vain = None, np.inf, 0
    while vain < LOAD_PROGRAM_VAIN:
        # Without time, too, there is one answer.
        solved = program.solved(budget.without_end() if best is None else budget)
        if solved is None:
            break
        shares, price, worth = solved
        counts = program.whole_chunks(shares)
        busy_us = program.busiest_us(counts)  # the more routes have a share, the more is lost to whole chunks
        vain += 1
        if busy_us < least_us * (1 - LOAD_PROGRAM_GAIN):
            best, least_us, vain = counts, busy_us, 0
        if not budget.remaining_s() or not program.add_ways(price, worth, budget):
            break
        budget.spend(program.cells / LOAD_PROGRAM_CELLS_PER_UNIT)
    return None if best is None else _dealt(problem, kinds, program.routes, best)


class _Program:
    """The routes so far, and prices at which more are looked for."""

    def __init__(self, problem: Problem, kinds: list[_Kind], straight: float) -> None:
        topology = problem.topology
        every = np.arange(topology.num_links)
        self._problem, self._kinds, self._topology = problem, kinds, topology
        mean_mb = float(problem.size_mb.mean())
        self._took_us = topology.duration_us(every, mean_mb)
        self._busy_us = topology.port_busy_us(np.arange(topology.num_pairs), mean_mb)
        self._scale_us = float(self._busy_us.max()) or 1.0
        self._straight = straight / problem.num_chunks
        self._straight_us = self._straight * self._took_us
        self.routes: list[_Route] = []
        self._has: set[tuple[int, tuple[int, ...]]] = set()
        self.cells = sum(len(self._roots(kind)) for kind in kinds) * topology.num_ranks**3

    def add_ways(self, price: FloatArray, worth: FloatArray, budget: Budget) -> bool:
        """Add the cheapest route of each root whose price is less than what its kind is worth; whether any.
        In large programs only some kinds have one, where the time ends.

        `price` has shape (num_ports,), `worth` (num_kinds,).
        """
        before = len(self.routes)
        for number, kind in enumerate(self._kinds):
            if not budget.remaining_s():
                break
            for route in self._routes_of(number, kind, price):
                costs_us = route.straight_us + float(route.busy_us @ price)
                if (
                    costs_us < worth[number] * (1 - LOAD_PROGRAM_WORTH)
                    and (number, route.links) not in self._has
                ):
                    self._has.add((number, route.links))
                    self.routes.append(route)
        return len(self.routes) > before

    def begins(self, passes: int, budget: Budget) -> bool:
        """Add routes of each root in turn, at prices that rise with what routes before carry; whether every
        kind has some. Without time there is one pass, and of large programs none.
        """
        least = int(self.cells <= LOAD_PROGRAM_AT_ONCE)
        load_us, sharpness = np.zeros(self._topology.num_ports), LOAD_PROGRAM_SHARPNESS if passes else 0.0
        for turn in range(max(1, passes)):
            for number, kind in enumerate(self._kinds):
                if turn >= least and not budget.remaining_s():
                    break
                for at in range(len(self._roots(kind))):
                    if at and turn >= least and not budget.remaining_s():
                        break
                    price = np.exp(sharpness * (load_us / max(float(load_us.max()), 1e-300) - 1.0))
                    for route in self._routes_of(number, kind, price / price.sum(), at):
                        load_us += route.busy_us * len(kind.chunks)
                        if (number, route.links) not in self._has:
                            self._has.add((number, route.links))
                            self.routes.append(route)
        return len({route.kind for route in self.routes}) == len(self._kinds)

    def _routes_of(
        self, number: int, kind: _Kind, price: FloatArray, at: int | None = None
    ) -> Iterator[_Route]:
        """The cheapest route of each root, or of one of them."""
        topology, link_index = self._topology, self._topology.link_index
        link, port = topology.incidence
        of_link = np.bincount(link, price[port] * self._busy_us, topology.num_links) + self._straight_us
        forth = np.full((topology.num_ranks, topology.num_ranks), np.inf)
        forth[topology.src[kind.usable], topology.dst[kind.usable]] = of_link[kind.usable]
        able = np.ones(topology.num_ranks, dtype=np.bool_)
        may_sum = able if topology.may_sum is None else topology.may_sum
        may_copy = able if topology.may_copy is None else topology.may_copy
        back = forth.T.copy()
        back[~may_sum] = np.inf
        forth[~may_copy] = np.inf
        roots = self._roots(kind)
        for root in roots if at is None else [roots[at]]:
            into: list[int] = []
            if kind.is_sum:
                tree = least_tree(_shallow(back, root), root, kind.begins, may_sum)
                if not tree and kind.begins.sum() > kind.begins[root]:
                    continue
                into = [link_index[child, parent] for parent, child in tree]
            tree = least_tree(_shallow(forth, root), root, kind.wanted, may_copy)
            if not tree and kind.wanted.sum() > kind.wanted[root]:
                continue
            yield self._route(number, [*into, *(link_index[pair] for pair in tree)], len(into))

    def _height_us(self, links: list[int], backwards: bool) -> float:
        """How long the longest path of a tree takes."""
        topology, far_us = self._topology, dict[int, float]()
        ends = (topology.dst, topology.src) if backwards else (topology.src, topology.dst)
        into = {int(ends[1][link]): link for link in links}

        def reached_us(rank: int) -> float:
            if rank not in far_us:
                link = into.get(rank)
                far_us[rank] = 0.0 if link is None else reached_us(int(ends[0][link])) + self._took_us[link]
            return far_us[rank]

        return max(map(reached_us, into), default=0.0)

    def _roots(self, kind: _Kind) -> list[int]:
        """Where a sum can be whole, and be copied from; where a copy starts."""
        if not kind.is_sum:
            return [int(np.flatnonzero(kind.begins)[0])]
        if kind.wanted.sum() == 1:
            return [int(np.flatnonzero(kind.wanted)[0])]
        able = np.ones(self._topology.num_ranks, dtype=np.bool_)
        for may in (self._topology.may_sum, self._topology.may_copy):
            able &= True if may is None else may
        return [int(rank) for rank in np.flatnonzero(able)]

    def _route(self, kind: int, links: list[int], sums: int) -> _Route:
        topology = self._topology
        _, pair = topology.pairs_of(np.array(links, dtype=np.int64))
        port, busy = topology.incidence[1][pair], self._busy_us[pair]
        busy_us = np.bincount(port, busy, topology.num_ports).astype(np.float64)
        height_us = self._height_us(links[:sums], True) + self._height_us(links[sums:], False)
        straight_us = float(self._straight_us[links].sum()) + self._straight * height_us
        return _Route(kind, tuple(links), sums, busy_us, straight_us)

    def whole_chunks(self, shares: FloatArray) -> IntArray:
        """How many chunks take each of the first routes, whose shares these are."""
        counts = np.zeros(len(shares), dtype=np.int64)
        of_kind = np.array([route.kind for route in self.routes[: len(shares)]])
        for number, kind in enumerate(self._kinds):
            own = np.flatnonzero(of_kind == number)
            counts[own] = _whole(shares[own], len(kind.chunks))
        return counts

    def busiest_us(self, counts: IntArray) -> float:
        """How long the busiest port is busy."""
        busy = np.array([route.busy_us for route in self.routes[: len(counts)]])
        return float((counts @ busy).max())

    def solved(self, budget: Budget) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """The share of each route, the price of each port, and what a chunk of each kind is worth."""
        topology, model, many = self._topology, LinearModel(), len(self.routes)
        busy = np.array([route.busy_us for route in self.routes])
        straight = np.array([route.straight_us for route in self.routes])
        share = model.add_variables(many, cost=straight / self._scale_us)
        finish = int(model.add_variables(1, cost=1.0)[0])
        route, port = np.nonzero(busy)
        every = np.arange(topology.num_ports)
        model.add_rows(
            len(every),
            np.concatenate([port, every]),
            np.concatenate([share[route], np.full(len(every), finish)]),
            np.concatenate([busy[route, port] / self._scale_us, np.full(len(every), -1.0)]),
            upper=0.0,
        )
        counts = np.array([len(kind.chunks) for kind in self._kinds], dtype=np.float64)
        of_kind = np.array([each.kind for each in self.routes])
        model.add_rows(len(counts), of_kind, share, 1.0, counts, counts)
        solution = solve(model, budget=budget)
        if solution.values is None or solution.duals is None:
            return None
        price = np.maximum(0.0, -solution.duals[: len(every)])
        return solution.values[share], price, solution.duals[len(every) :] * self._scale_us


def _shallow(price: FloatArray, root: int) -> FloatArray:
    """Prices at which, of equally cheap routes into a rank, the one from nearer to the root is cheaper."""
    near = price[root].copy()
    near[root] = 0.0
    far = float(near[np.isfinite(near)].max(initial=0.0))
    near[~np.isfinite(near)] = 2.0 * far
    return np.asarray(price + LOAD_PROGRAM_DEPTH * near[:, None])


def _kinds(problem: Problem) -> list[_Kind]:
    """The kinds of chunks."""
    collective, ranks = problem.collective, problem.num_ranks
    usable, of_limits = kinds_of(problem)
    table = np.zeros((problem.num_chunks, 2 * ranks + 2), dtype=np.int64)
    table[collective.inputs.chunk, collective.inputs.rank] = 1
    table[collective.outputs.chunk, ranks + collective.outputs.rank] = 1
    table[:, -2], table[:, -1] = collective.reduces, of_limits
    rows, number = np.unique(table, axis=0, return_inverse=True)
    return [
        _Kind(
            np.flatnonzero(number.ravel() == each),
            row[:ranks].astype(np.bool_),
            row[ranks:-2].astype(np.bool_),
            bool(row[-2]),
            usable[row[-1]],
        )
        for each, row in enumerate(rows)
    ]


def _dealt(problem: Problem, kinds: list[_Kind], routes: list[_Route], counts: IntArray) -> Routes:
    """`counts` chunks on each of the first routes; those of all routes take turns."""
    chunk, link, is_sum, turn = [], [], [], np.zeros(problem.num_chunks)
    for number, kind in enumerate(kinds):
        own = [at for at in np.flatnonzero(counts).tolist() if routes[at].kind == number]
        place = np.concatenate([(np.arange(count) + 0.5) / count for count in counts[own].tolist()])
        order = np.argsort(place, kind="stable")
        turn[kind.chunks] = place[order]
        for each, at in zip(kind.chunks.tolist(), np.repeat(own, counts[own])[order].tolist(), strict=True):
            route = routes[at]
            chunk.append(np.full(len(route.links), each))
            link.append(np.array(route.links, dtype=np.int64))
            is_sum.append(np.arange(len(route.links)) < route.sums)
    chunks = np.concatenate(chunk)
    return Routes(chunks, np.concatenate(link), np.concatenate(is_sum), chunks, turn[chunks], mixes=True)


def one_by_one(problem: Problem, routes: Routes) -> Iterator[Routes]:
    """The same routes where chunks that have the same turn take turns, too; nothing if none have.

    A chunk's turn is when the busiest of its ports is through with all chunks before it.
    """
    chunk, first = np.unique(routes.chunk, return_index=True)
    if len(np.unique(routes.turn[first])) == len(chunk):
        return
    topology = problem.topology
    row, pair = topology.pairs_of(routes.link)
    busy_us = np.zeros((problem.num_chunks, topology.num_ports))
    mb = problem.size_mb[routes.chunk[row]]
    np.add.at(busy_us, (routes.chunk[row], topology.incidence[1][pair]), topology.port_busy_us(pair, mb))
    load_us, turn = np.zeros(topology.num_ports), np.zeros(problem.num_chunks)
    for each in chunk[np.argsort(routes.turn[first], kind="stable")].tolist():
        turn[each] = load_us[busy_us[each] > 0].max(initial=0.0)
        load_us += busy_us[each]
    turn /= max(float(load_us.max()), 1e-300)
    yield replace(routes, turn=turn[routes.chunk])


def _whole(shares: FloatArray, total: int) -> IntArray:
    """Whole numbers with this sum: shares rounded down, and up where the largest remainders are."""
    exact = shares * total / shares.sum()
    counts = np.floor(exact + EQUAL * total).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")
    counts[largest[: total - int(counts.sum())]] += 1
    return np.asarray(counts)
