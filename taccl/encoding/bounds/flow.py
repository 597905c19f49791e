r"""The flow bounds: how long the ports are busy if chunks could be divided and split over all paths.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather).
With f[u, l] the MB of rank u's chunks that pass link l, and d[u, v] the MB from u that v wants:

    minimise    T
    subject to  sum of f[u, l] over l into v  -  sum over l out of v  =  d[u, v]     for all u, v != u
                sum of beta_l * f[u, l] over u and l of port p                <=  T      for all p
                f >= 0

(COST_MODEL, lower bound c: the multicommodity flow of AlltoAll, aggregated by source.) An average
over the symmetry of the problem is as good as any solution, so one f stands for each orbit of (u, l).

A solver's objective is right up to its tolerance, which is no proof. Its prices y of the ports are: with
y >= 0 and sum 1, some port is busy for at least the average load, and every MB from u to v adds at least
its shortest way under the lengths beta_l * (sum of y over the ports of l). Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).

The right side is also no more than the sum of y_p times what port p can have carried by T. Chunks are whole,
and each port pays an alpha at least, so that grows in steps: the least T at which it is enough is a
larger bound, for this number of chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.distance import distances_from
from taccl.encoding.linear import LinearModel, solve
from taccl.encoding.symmetry import symmetry_group
from taccl.problem import FloatArray, Problem

_MAX_FLOWS = 200_000


def flow_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The multicommodity flow bound; 0 where chunks have several sources or destinations."""
    return flow_bounds(problem, time_limit_s)[0]


def flow_bounds(problem: Problem, time_limit_s: float = 10.0) -> tuple[Bound, ...]:
    """The multicommodity flow bound, and where it says something, that of whole chunks."""
    collective, topology = problem.collective, problem.topology
    nothing = (Bound(0.0, "no flow bound", "flow"),)
    if (collective.pre.sum(axis=1) != 1).any() or (collective.post.sum(axis=1) != 1).any():
        return nothing
    if not 0 < topology.num_ranks * topology.num_links <= _MAX_FLOWS:
        return nothing
    model = LinearModel()
    flows = _Flows.of(problem, model)
    _what_enters_stays_or_leaves(model, problem, flows)
    _ports_finish_in_time(model, problem, flows)
    solution = solve(model, time_limit_s=time_limit_s)
    if solution.duals is None:
        return nothing
    prices = np.maximum(-solution.duals[-topology.num_ports :], 0.0)
    if not prices.sum():
        return nothing
    price = prices / prices.sum()
    value = _least_average_load_us(problem, price)
    return (
        Bound(value, "flow of all chunks over all links", "flow"),
        Bound(
            _least_whole_time_us(problem, price, value), "flow of whole chunks over all links", "whole flow"
        ),
    )


def _least_whole_time_us(problem: Problem, price: FloatArray, load_us: float) -> float:
    """The least T by which ports weighed by `price` have room for an average load of `load_us`.

    By T a port has carried at most floor((T - alpha) / (s * beta)) chunks, if its links are alike, and has
    been busy for no more than T - alpha in any case.
    """
    topology = problem.topology
    alpha, body, whole = np.zeros(len(price)), np.zeros(len(price)), np.zeros(len(price), dtype=np.bool_)
    for port in np.flatnonzero(price):
        links = list(topology.port_links[port])
        costs = topology.beta_us_per_mb[links] * problem.chunk_mb
        alpha[port], body[port] = topology.alpha_us[links].min(), costs.min()
        whole[port] = 0 < body[port] == costs.max()

    def is_enough(moment: float) -> bool:
        left = np.maximum(moment - alpha, 0.0)
        carried = np.where(whole, np.floor(left / np.where(whole, body, 1.0) + 1e-9) * body, left)
        return float(price @ carried) >= load_us * (1 - 1e-9)

    low, high = load_us, 2 * load_us + 2 * float((alpha + body).max())
    if is_enough(low) or not is_enough(high):
        return load_us
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return low


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


@dataclass(frozen=True, eq=False)
class _Flows:
    """All pairs (source rank, link), and the variable that stands for each."""

    source: IntArray
    link: IntArray
    variable: IntArray
    finish: IntArray
    deciding_ranks: IntArray  # one source of each orbit: the others' balances are the same rows

    @staticmethod
    def of(problem: Problem, model: LinearModel) -> _Flows:
        num_ranks, num_links = problem.num_ranks, problem.topology.num_links
        source, link = np.divmod(np.arange(num_ranks * num_links), num_links)
        group = symmetry_group(problem)
        least = source * num_links + link
        for ranks, links in zip(group.rank_map, group.link_map, strict=True):
            least = np.minimum(least, ranks[source] * num_links + links[link])
        representative, orbit = np.unique(least, return_inverse=True)
        limits = problem.limits.may_use
        usable = np.ones(len(source), dtype=np.bool_) if limits is None else limits[source, link]
        upper = np.where(usable[representative], np.inf, 0.0)
        variable = model.add_variables(len(representative), upper=upper)[orbit]
        finish = model.add_variables(1, cost=1.0)
        return _Flows(source, link, variable, finish, np.unique(group.rank_map.min(axis=0)))


def _what_enters_stays_or_leaves(model: LinearModel, problem: Problem, flows: _Flows) -> None:
    """Flow in - flow out = demand, for each deciding source u and every other rank v."""
    collective, topology, ranks = problem.collective, problem.topology, problem.num_ranks
    demand = np.zeros((ranks, ranks))
    np.add.at(demand, (collective.pre.argmax(axis=1), collective.post.argmax(axis=1)), problem.chunk_mb)
    pairs = np.array([(u, v) for u in flows.deciding_ranks for v in range(ranks) if u != v])
    row_of = np.full((ranks, ranks), -1, dtype=np.int64)
    row_of[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
    into, out_of = (
        row_of[flows.source, topology.dst[flows.link]],
        row_of[flows.source, topology.src[flows.link]],
    )
    row = np.concatenate([into, out_of])
    column = np.concatenate([flows.variable, flows.variable])
    sign = np.repeat([1.0, -1.0], len(into))
    asked = row >= 0
    wanted = demand[pairs[:, 0], pairs[:, 1]]
    model.add_rows(len(pairs), row[asked], column[asked], sign[asked], wanted, wanted)


def _ports_finish_in_time(model: LinearModel, problem: Problem, flows: _Flows) -> None:
    """Sum of beta * flow over the links of a port <= T."""
    topology = problem.topology
    link, port = topology.incidence
    ports_per_link = np.bincount(link, minlength=topology.num_links)
    first = np.cumsum(ports_per_link) - ports_per_link
    rows, columns, values = [], [], []
    for nth in range(int(ports_per_link.max(initial=0))):
        has = ports_per_link[flows.link] > nth
        over = flows.link[has]
        rows.append(port[first[over] + nth])
        columns.append(flows.variable[has])
        values.append(topology.beta_us_per_mb[over])
    every_port = np.arange(topology.num_ports)
    model.add_rows(
        topology.num_ports,
        np.concatenate([*rows, every_port]),
        np.concatenate([*columns, np.repeat(flows.finish, topology.num_ports)]),
        np.concatenate([*values, np.full(topology.num_ports, -1.0)]),
        upper=0.0,
    )
