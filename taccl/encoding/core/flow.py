r"""The multicommodity flow that keeps the busiest port busy for the least time.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather).
With f[u, l] the MB of rank u's chunks that pass link l, d[u, v] the MB from u that v wants, and busy_lp how
long one MB over l keeps port p busy:

    minimise    T
    subject to  sum of f[u, l] over l into v  -  sum over l out of v  =  d[u, v]     for all u, v != u
                sum of busy_lp * f[u, l] over u and l of port p               <=  T      for all p
                f >= 0

One commodity for each source is enough: what leaves a source is divided up afterwards. An average
over the symmetry of the problem is as good as any solution, so one f stands for each orbit of (u, l).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.linear import LinearModel, solve
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class Flow:
    """A solution of the program.

    Parameters
    ----------
    mb : shape (num_ranks, num_links); what flows of each rank's chunks over each link.
    busiest_us : how long the busiest port is busy, as the solver says.
    price : shape (num_ports,), not negative; what a solution would gain if a port were faster. All 0
        if the solver gives none.
    """

    mb: FloatArray
    busiest_us: float
    price: FloatArray


def least_busy_flow(
    problem: Problem,
    group: SymmetryGroup,
    busy_us_per_mb: FloatArray,
    time_limit_s: Budget | float,
    shortness: float = 0.0,
) -> Flow | None:
    """The flow of a problem whose demand `moves_pairwise`; None if there is none in time.

    `group` is of symmetries that the flow is to keep: the problem's own.

    `busy_us_per_mb` has an entry for each pair (link, port) of the topology's `incidence`.
    `shortness` weighs the sum of all busy times against T: a little of it keeps flow off detours and out
    of circles.
    """
    topology, model = problem.topology, LinearModel()
    slowest = np.zeros(topology.num_links)
    np.maximum.at(slowest, topology.incidence[0], busy_us_per_mb)
    pairs = _Pairs.of(problem, group, model, shortness * slowest)
    finish = int(model.add_variables(1, cost=1.0)[0])
    _what_enters_stays_or_leaves(model, problem, pairs)
    _ports_finish_in_time(model, problem, pairs, busy_us_per_mb, finish)
    solution = solve(model, budget=time_limit_s)
    if solution.values is None:
        return None
    mb = np.zeros((topology.num_ranks, topology.num_links))
    mb[pairs.source, pairs.link] = solution.values[pairs.variable]
    price = np.zeros(topology.num_ports)
    if solution.duals is not None:
        price = np.maximum(-solution.duals[-topology.num_ports :], 0.0)
    return Flow(mb, float(solution.values[finish]), price)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs (rank whose chunks they are, link), and the variable that stands for each."""

    source: IntArray
    link: IntArray
    variable: IntArray
    deciding_ranks: IntArray  # one source of each orbit: the others' balances are the same rows

    @staticmethod
    def of(problem: Problem, group: SymmetryGroup, model: LinearModel, cost: FloatArray) -> _Pairs:
        num_links = problem.topology.num_links
        sources = np.unique(problem.collective.inputs.rank)
        source = np.repeat(sources, num_links)
        link = np.tile(np.arange(num_links), len(sources))
        least = source * num_links + link
        for ranks, links in zip(group.rank_map, group.link_map, strict=True):
            least = np.minimum(least, ranks[source] * num_links + links[link])
        of_orbit, orbit = np.unique(least, return_inverse=True)
        limits = problem.limits.may_use
        usable = True if limits is None else limits[of_orbit // num_links, of_orbit % num_links]
        size = np.bincount(orbit)
        variable = model.add_variables(
            len(of_orbit), upper=np.where(usable, np.inf, 0.0), cost=size * cost[of_orbit % num_links]
        )[orbit]
        deciding = np.intersect1d(np.unique(group.rank_map.min(axis=0)), sources)
        return _Pairs(source, link, variable, deciding)


def _what_enters_stays_or_leaves(model: LinearModel, problem: Problem, pairs: _Pairs) -> None:
    """Flow in - flow out = demand, for each deciding source u and every other rank v."""
    collective, topology, ranks = problem.collective, problem.topology, problem.num_ranks
    demand = np.zeros((ranks, ranks))
    np.add.at(demand, (collective.source, collective.destination), problem.chunk_mb)
    source, target = np.nonzero(~np.eye(ranks, dtype=np.bool_)[pairs.deciding_ranks])
    source = pairs.deciding_ranks[source]
    row_of = np.full((ranks, ranks), -1, dtype=np.int64)
    row_of[source, target] = np.arange(len(source))
    into = row_of[pairs.source, topology.dst[pairs.link]]
    out_of = row_of[pairs.source, topology.src[pairs.link]]
    row = np.concatenate([into, out_of])
    column = np.concatenate([pairs.variable, pairs.variable])
    sign = np.repeat([1.0, -1.0], len(into))
    requested = row >= 0
    wanted = demand[source, target]
    model.add_rows(len(source), row[requested], column[requested], sign[requested], wanted, wanted)


def _ports_finish_in_time(
    model: LinearModel, problem: Problem, pairs: _Pairs, busy_us_per_mb: FloatArray, finish: int
) -> None:
    """Sum of busy * flow over the links of a port <= T."""
    topology = problem.topology
    port, first = topology.incidence[1], topology.first_pair
    ports_per_link = np.diff(first)
    rows, columns, values = [], [], []
    for nth in range(int(ports_per_link.max(initial=0))):
        has = ports_per_link[pairs.link] > nth
        pair = first[pairs.link[has]] + nth
        rows.append(port[pair])
        columns.append(pairs.variable[has])
        values.append(busy_us_per_mb[pair])
    every_port = np.arange(topology.num_ports)
    model.add_rows(
        topology.num_ports,
        np.concatenate([*rows, every_port]),
        np.concatenate([*columns, np.full(topology.num_ports, finish)]),
        np.concatenate([*values, np.full(topology.num_ports, -1.0)]),
        upper=0.0,
    )
