r"""The flow bound: how long the ports are busy if chunks could be divided and split over all paths.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather): the
optimum T of the program in `flows/program.py`, alphas left out (COST_MODEL, lower bound c: the
multicommodity flow of AlltoAll, aggregated by source).

A solver's objective is right up to its tolerance, which is no proof. Its prices y of the ports are: with
y >= 0 and sum 1, some port is busy for at least the average load, and every MB from u to v adds at least
its shortest way under the lengths sum of beta_lp * y_p over the ports p of l. Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.core.distance import distances_from
from taccl.encoding.core.flow import least_busy_flow, moves_pairwise
from taccl.encoding.symmetry.group import symmetry_group
from taccl.encoding.symmetry.quotient import quotient
from taccl.problem import FloatArray, Problem

_MAX_FLOWS = 200_000


def flow_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The multicommodity flow bound; 0 where chunks have several sources or destinations."""
    price = port_prices(problem, problem.topology.pair_betas, time_limit_s)
    if price is None:
        return Bound(0.0, "no flow bound", "flow")
    length = lengths(problem, price, problem.topology.pair_betas * problem.chunk_mb)
    value_us = sum(
        float(distances_from(problem.topology, length, rank, usable)[target].sum())
        for rank, target, usable in commodities(problem)
    )
    return Bound(value_us, "flow of all chunks over all links", "flow")


def port_prices(problem: Problem, busy_us_per_mb: FloatArray, time_limit_s: float) -> FloatArray | None:
    """Prices of the ports, shape (num_ports,), of sum 1; None without a program, or if it takes too long.

    `busy_us_per_mb` has an entry for each pair (link, port) of the topology's `incidence`.
    Where ranks are alike, the program of the quotient has the prices: equal ones for the ports of an orbit.
    """
    topology = problem.topology
    if not (moves_pairwise(problem) and 0 < topology.num_ranks * topology.num_links <= _MAX_FLOWS):
        return None
    alike = None if problem.symmetry else quotient(problem)
    part = problem if alike is None else alike.problem
    flow = least_busy_flow(part, busy_us_per_mb, time_limit_s)
    if flow is None:
        return None
    price = np.zeros(topology.num_ports)
    for ports, orbits in zip(topology.ports, part.topology.ports, strict=True):
        price[list(ports)] = flow.price[list(orbits)]
    return price / price.sum() if price.sum() else None


def lengths(problem: Problem, price: FloatArray, cost: FloatArray) -> FloatArray:
    """How dear it is to pass each link once, shape (num_links,): what that costs each port at its price.

    `cost` has an entry for each pair (link, port) of the topology's `incidence`.
    """
    topology = problem.topology
    link, port = topology.incidence
    length = np.bincount(link, cost * price[port], topology.num_links)
    # Prices moved by a symmetry are prices too, and so is the average of all of them.
    return np.asarray(length[symmetry_group(problem).link_map].mean(axis=0))


def commodities(problem: Problem) -> Iterator[tuple[int, IntArray, BoolArray]]:
    """A rank, the ranks that want its chunks (one for each chunk), and the links that these may use.

    Chunks of different homes, which may use different links, come one after the other.
    """
    collective, may_use = problem.collective, problem.limits.may_use
    source, target = collective.pre.argmax(axis=1), collective.post.argmax(axis=1)
    every = np.ones(problem.topology.num_links, dtype=np.bool_)
    for rank, home in sorted({(int(u), int(h)) for u, h in zip(source, collective.home, strict=True)}):
        chunks = (source == rank) & (collective.home == home)
        yield rank, target[chunks], every if may_use is None else may_use[home]
