r"""The flow bound: how long the ports are busy if chunks could be divided and split over all paths.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather): the
optimum T of the program in `flows/program.py`, alphas left out (COST_MODEL, lower bound c: the
multicommodity flow of AlltoAll, aggregated by source).

A solver's objective is right up to its tolerance, which is no proof. Its prices y of the ports are: with
y >= 0 and sum 1, some port is busy for at least the average load, and every MB from u to v adds at least
its shortest way under the lengths beta_l * (sum of y over the ports of l). Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.distance import distances_from
from taccl.encoding.flows.program import least_busy_flow
from taccl.encoding.quotient import quotient
from taccl.encoding.symmetry import symmetry_group
from taccl.problem import FloatArray, Problem

_MAX_FLOWS = 200_000


def flow_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The multicommodity flow bound; 0 where chunks have several sources or destinations."""
    collective, topology = problem.collective, problem.topology
    nothing = Bound(0.0, "no flow bound", "flow")
    if (collective.pre.sum(axis=1) != 1).any() or (collective.post.sum(axis=1) != 1).any():
        return nothing
    if not 0 < topology.num_ranks * topology.num_links <= _MAX_FLOWS:
        return nothing
    prices = _prices(problem, time_limit_s)
    if not prices.sum():
        return nothing
    value = _least_average_load_us(problem, prices / prices.sum())
    return Bound(value, "flow of all chunks over all links", "flow")


def _prices(problem: Problem, time_limit_s: float) -> FloatArray:
    """Prices of the ports, shape (num_ports,), from the program; all 0 if it is not solved in time.

    Where ranks are alike, the program of the quotient has the prices: equal ones for the ports of an orbit.
    """
    topology = problem.topology
    alike = None if problem.symmetry else quotient(problem)
    part = problem if alike is None else alike.problem
    flow = least_busy_flow(part, topology.beta_us_per_mb, time_limit_s)
    if flow is None:
        return np.zeros(topology.num_ports)
    price = np.zeros(topology.num_ports)
    for ports, orbits in zip(topology.ports, part.topology.ports, strict=True):
        price[list(ports)] = flow.price[list(orbits)]
    return price


def _least_average_load_us(problem: Problem, price: FloatArray) -> float:
    """Sum of d[u, v] * dist_y(u, v) for ports weighed by `price`, shape (num_ports,), of sum 1."""
    collective, topology = problem.collective, problem.topology
    link, port = topology.incidence
    length = topology.beta_us_per_mb * np.bincount(link, price[port], topology.num_links)
    # Prices moved by a symmetry are prices too, and so is the average of all of them.
    length = length[symmetry_group(problem).link_map].mean(axis=0)
    source, target = collective.pre.argmax(axis=1), collective.post.argmax(axis=1)
    may_use = problem.limits.may_use
    total = 0.0
    for rank, home in {(int(u), int(h)) for u, h in zip(source, collective.home, strict=True)}:
        usable = None if may_use is None else may_use[home]
        chunks = (source == rank) & (collective.home == home)
        total += float(distances_from(topology, length, rank, usable)[target[chunks]].sum())
    return total * problem.chunk_mb
