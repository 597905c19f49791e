"""The engine for clusters of equal nodes: one node's part is composed of two levels, and all nodes do it.

It serves AllGather, ReduceScatter and AllReduce at sizes that count bandwidth. What it decides grows with the
sends of one node's chunks, not with the cluster's; only the rows of the schedule do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.demand import Demand
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.hierarchical.cluster import Cluster, cluster_of, node_zero
from taccl.encoding.engines.hierarchical.composed import Timed, lifted, timed
from taccl.encoding.engines.hierarchical.mixed import mixed
from taccl.encoding.engines.hierarchical.rails import Rails, rails_of
from taccl.encoding.engines.hierarchical.rounds import Round, RoundCosts, divided, falling, rounds, widths
from taccl.encoding.engines.hierarchical.sends import Sends, costs_of, sends_of, spans_node
from taccl.encoding.engines.hierarchical.tuning import UNITS
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether all ranks' chunks go to all, are summed by each or both, on a cluster of equal nodes."""
    problem, demand = instance.problem, instance.demand
    collective = problem.collective
    if problem.limits.may_use is not None or problem.limits.own_first is not None or problem.symmetry:
        return no("a sketch says who sends for whom, in which order or with which symmetry")
    if not (demand.broadcasts or (demand.sums and demand.from_all and (demand.to_all or demand.to_one))):
        return no("it composes AllGather, ReduceScatter and AllReduce")
    each, rest = divmod(problem.num_chunks, problem.num_ranks)
    if rest or not each or not np.array_equal(collective.owner, np.arange(problem.num_chunks) // each):
        return no("ranks have unequal parts")
    roots = collective.source if demand.broadcasts else collective.destination
    if not (demand.sums and demand.to_all) and not np.array_equal(roots, collective.owner):
        return no("parts do not start, or end, at their owners")
    cluster = instance.once(_cluster)
    return no(f"it composes clusters of equal nodes, and {cluster}") if isinstance(cluster, str) else YES


def _cluster(instance: Instance) -> Cluster | str:
    return cluster_of(instance.problem)


def hierarchical(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield better and better schedules: of all rails and widths of rounds, the best is made whole."""
    cluster = instance.once(_cluster)
    assert isinstance(cluster, Cluster)  # or it is not served
    best_us = np.inf if incumbent is None else incumbent.makespan_us
    found = None
    for way in _better(cluster, instance.demand, budget, best_us):
        found = way
    if found is not None:
        yield Update("hierarchical", lifted(cluster, *found))


def of_node_0(problem: Problem, nodes: int, budget: Budget) -> Iterator[Update]:
    """Yield better and better schedules of a problem that has node 0's chunks alone (`NodeZero`)."""
    cluster = node_zero(problem, nodes)
    for way in _better(cluster, Demand(problem.collective), budget, np.inf):
        yield Update("hierarchical", lifted(cluster, *way))


def _better(
    cluster: Cluster, demand: Demand, budget: Budget, best_us: float
) -> Iterator[tuple[Sends, Timed]]:
    """Of all rails and widths of rounds each that is faster than those before."""
    for sends in _routes(cluster, demand.sums, demand.to_all, budget):
        way = timed(cluster, sends, demand.sums, demand.to_all)
        budget.spend(UNITS * len(sends))
        if way.makespan_us < best_us - TOLERANCE_US:
            best_us = way.makespan_us
            yield sends, way


def _routes(cluster: Cluster, sums: bool, copies: bool, budget: Budget) -> Iterator[Sends]:
    """Sends over all rails, in rounds of all kinds, what promises most first; some even without time."""
    problem = cluster.problem
    topology = problem.topology if copies else problem.topology.reversed()
    if not spans_node(topology, cluster.gpus):
        return
    each = cluster.each
    all_rails = rails_of(cluster, topology, both_directions=sums and copies)
    # What other nodes pass on has to have come: where they do, rounds of falling widths wait for it.
    passed_on = any(any(rails.parent) for rails in all_rails)
    plans = [_mixed_plans, _falling_plans, _divided_plans]
    tried: set[tuple[object, ...]] = set()
    # Where trees inside nodes take long, what rounds cost takes long to know: divided ones are there without.
    in_haste = cluster.takes_long and not budget.remaining_s()
    for plans_of in reversed(plans) if passed_on or in_haste else plans:
        for rails in all_rails:
            for plan, most in plans_of(cluster, topology, rails, budget):
                if (rails, plan, most) in tried:
                    continue
                if len(tried) >= cluster.at_least and not budget.remaining_s():
                    return
                tried.add((rails, plan, most))
                yield sends_of(cluster, topology, rails, plan, each, most)


def _falling_plans(
    cluster: Cluster, topology: LogicalTopology, rails: Rails, budget: Budget
) -> Iterator[tuple[tuple[Round, ...], int]]:
    """Rounds of falling widths, and how many chunks may travel together."""
    each = cluster.each
    most = min(cluster.gpus * each, cluster.problem.max_group)
    costs = costs_of(cluster, topology, rails, each, most)
    budget.spend(_of_costs(cluster, rails))
    for plan in falling(cluster.num_nodes - 1, cluster.gpus, len(rails.pairs), each, most, costs):
        yield plan, most


def _mixed_plans(
    cluster: Cluster, topology: LogicalTopology, rails: Rails, budget: Budget
) -> Iterator[tuple[tuple[Round, ...], int]]:
    """Rounds over teams of all sizes, and how many chunks may travel together."""
    each, many, costs = cluster.each, len(rails.pairs), dict[int, RoundCosts]()
    most = min(cluster.gpus * each, cluster.problem.max_group)
    teams = [team for team in range(1, many + 1) if many % team == 0]
    # All begins with a team of all rails, and teams of one are the measure.
    for team in dict.fromkeys((many, *teams)):
        if {1, many} <= set(costs) and cluster.takes_long and not budget.remaining_s():
            break
        costs[team] = costs_of(cluster, topology, rails, each, most, team)
        budget.spend(_of_costs(cluster, rails))
    for plan in mixed(cluster.num_nodes - 1, cluster.gpus, many, each, most, costs):
        yield plan, most


def _divided_plans(
    cluster: Cluster, topology: LogicalTopology, rails: Rails, budget: Budget
) -> Iterator[tuple[tuple[Round, ...], int]]:
    """Divided rounds, and how many chunks may travel together."""
    gpus, each, many = cluster.gpus, cluster.each, len(rails.pairs)
    for widest in reversed(widths(gpus, many)):
        for tapered in (True, False):
            plan = tuple(
                divided(rounds(cluster.num_nodes - 1, gpus, many, widest, tapered), gpus, many, each)
            )
            for most in _pieces(each * widest, cluster.problem.max_group):
                yield plan, most


def _of_costs(cluster: Cluster, rails: Rails) -> float:
    """Units of work for what rounds cost: a tree inside a node for each rail, twice."""
    return UNITS * 2 * len(rails.pairs) * (cluster.gpus - 1)


def _pieces(chunks: int, most: int) -> list[int]:
    """How many of this many chunks may travel together: all, half of them, and so on."""
    return sorted({min(chunks >> power, most) for power in range(chunks.bit_length())}, reverse=True)
