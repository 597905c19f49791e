r"""How many chunks each link carries, so that trees fit and the busiest port ends as soon as possible.

Let w(u) chunks start at rank u, all wanted by every rank, and let k(l) be how many pass link l. Trees
that bring every chunk everywhere exist if and only if enough enters every set of ranks (Edmonds 1973):

    sum of k(l) over links l into W  >=  sum of w(u) over u outside W      for every set W of ranks.

The best k spreads the work over the ports, however they share links:

    minimise    T
    subject to  sum of busy(l, p) * k(l) over the links l of p  <=  T       for every port p
                the sets of ranks above;  k(l) >= 0 whole

busy(l, p) being how long one chunk over l keeps p busy. The sets are too many to write down; those
that a solution breaks are found by minimum cuts and added, first with divisible chunks, then with
whole ones. As the answer is whole, measured costs with any number of decimals are no difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow

from taccl.encoding.core.linear import LinearModel, Solution, solve
from taccl.encoding.engines.routes.tuning import CAPACITY_EVEN, CAPACITY_GAP
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: While cuts are sought, capacities are integers: in parts of a chunk, this many of which are one.
_FINE = 2**20


def link_capacities(instance: Instance, usable: BoolArray, budget: Budget) -> IntArray | None:
    """Chunks over each link, shape (num_links,), among which trees for all chunks fit.

    None if some rank cannot be reached over `usable` links, shape (num_links,), or the time is up.
    """
    problem, weight = instance.problem, instance.demand.chunks_from
    sets = _first_sets(problem)
    divisible = _settled(problem, weight, usable, sets, None, budget)
    if divisible is None:
        return None
    whole = _settled(problem, weight, usable, sets, divisible, budget)
    return None if whole is None else np.rint(whole).astype(np.int64)


def _first_sets(problem: Problem) -> list[BoolArray]:
    """Each rank alone and all but it; each node alone."""
    alone = np.eye(problem.num_ranks, dtype=np.bool_)
    node_of = problem.topology.node_of
    nodes = [node_of == node for node in np.unique(node_of)]
    return [*alone, *~alone, *(inside for inside in nodes if not inside.all())]


def _settled(
    problem: Problem,
    weight: IntArray,
    usable: BoolArray,
    sets: list[BoolArray],
    near: FloatArray | None,
    budget: Budget,
) -> FloatArray | None:
    """The best loads that break no set; `sets` grows by those that a solution of the program broke."""
    while budget.remaining_s():
        solution = _solved(problem, weight, usable, sets, near, budget)
        if solution.values is None:
            return None
        loads = solution.values[: problem.topology.num_links]
        broken = _broken_sets(problem, weight, loads, near is not None)
        if not broken:
            return loads
        sets += broken
    return None


def _solved(
    problem: Problem,
    weight: IntArray,
    usable: BoolArray,
    sets: list[BoolArray],
    near: FloatArray | None,
    budget: Budget,
) -> Solution:
    topology = problem.topology
    busy = topology.port_busy_us(np.arange(topology.num_pairs), problem.chunk_mb)
    busy = busy / (busy.max() or 1.0)
    model = LinearModel()
    lowest, highest = np.zeros(topology.num_links), np.where(usable, np.inf, 0.0)
    if near is not None:
        lowest, highest = np.floor(near + 1e-6), np.minimum(highest, np.ceil(near - 1e-6))
    load = model.add_variables(topology.num_links, lowest, highest, integer=near is not None)
    finish = int(model.add_variables(1, cost=1.0)[0])
    uneven = int(model.add_variables(1, cost=CAPACITY_EVEN)[0])
    _ports_finish_in_time(model, problem, busy, finish)
    _links_share_evenly(model, problem, busy, uneven)
    entering = [np.flatnonzero(~inside[topology.src] & inside[topology.dst]) for inside in sets]
    row = np.repeat(np.arange(len(sets)), [len(links) for links in entering])
    outside = np.array([weight[~inside].sum() for inside in sets], dtype=np.float64)
    model.add_rows(len(sets), row, load[np.concatenate(entering)], 1.0, lower=outside)
    return solve(model, budget=budget, gap=0.0 if near is None else CAPACITY_GAP)


def _ports_finish_in_time(model: LinearModel, problem: Problem, busy: FloatArray, finish: int) -> None:
    link, port = problem.topology.incidence
    every = np.arange(problem.topology.num_ports)
    model.add_rows(
        len(every),
        np.concatenate([port, every]),
        np.concatenate([link, np.full(len(every), finish)]),
        np.concatenate([busy, np.full(len(every), -1.0)]),
        upper=0.0,
    )


def _links_share_evenly(model: LinearModel, problem: Problem, busy: FloatArray, uneven: int) -> None:
    """No link of a shared port much busier than its part of it: loads on many links make low trees."""
    link, port = problem.topology.incidence
    sharers = np.bincount(port)[port]
    part = np.zeros(problem.topology.num_links)
    np.maximum.at(part, link, np.where(sharers > 1, busy * sharers, 0.0))
    shared = np.flatnonzero(part)
    row = np.arange(len(shared))
    model.add_rows(
        len(shared),
        np.concatenate([row, row]),
        np.concatenate([shared, np.full(len(shared), uneven)]),
        np.concatenate([part[shared], np.full(len(shared), -1.0)]),
        upper=0.0,
    )


@dataclass(frozen=True, eq=False)
class _Flows:
    """Arcs from a source to where chunks start, and over the links; capacities in parts of a chunk."""

    tail: IntArray
    head: IntArray
    capacity: IntArray


def _broken_sets(problem: Problem, weight: IntArray, loads: FloatArray, whole: bool) -> list[BoolArray]:
    """For each rank, the set around it that too little enters, if there is one."""
    topology, ranks = problem.topology, problem.num_ranks
    unit = 1 if whole else _FINE
    starts = np.flatnonzero(weight)
    flows = _Flows(
        np.concatenate([np.full(len(starts), ranks), topology.src]),
        np.concatenate([starts, topology.dst]),
        np.concatenate([weight[starts] * unit, np.rint(loads * unit).astype(np.int64)]),
    )
    needed = int(weight.sum()) * unit
    tolerance = 0 if whole else needed * 1e-5
    broken: dict[bytes, BoolArray] = {}
    for target in range(ranks):
        value, inside = _narrowest(flows, ranks, target)
        if value < needed - tolerance:
            broken[inside.tobytes()] = inside
    return list(broken.values())


def _narrowest(flows: _Flows, ranks: int, target: int) -> tuple[int, BoolArray]:
    """The most that can flow to a rank, and the ranks on its side of the minimum cut."""
    flow = max_flow.SimpleMaxFlow()
    flow.add_arcs_with_capacity(flows.tail, flows.head, flows.capacity)
    flow.solve(ranks, target)
    inside = np.zeros(ranks, dtype=np.bool_)
    inside[[node for node in flow.get_sink_side_min_cut() if node < ranks]] = True
    return int(flow.optimal_flow()), inside
