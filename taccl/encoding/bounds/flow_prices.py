"""Prices of ports, and of links at them, where every chunk goes from one rank to one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.tuning import FLOW_MAX_FLOWS
from taccl.encoding.core.distance import distances_from, distances_us
from taccl.encoding.core.flow import least_busy_flow
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: Ports of this many speeds are looked at, and speeds agree in this many digits.
_MOST_SPEEDS, _DIGITS = 3, 6


def has_flow(instance: Instance) -> bool:
    """Whether the program is requested: each chunk goes from one rank to one, on a machine not too large."""
    return bool(
        instance.problem.num_chunks
        and instance.demand.moves_pairwise
        and instance.problem.topology.num_links
        and not has_many_flows(instance.problem)
    )


def has_many_flows(problem: Problem) -> bool:
    """Whether a program, or routes between all ranks, take long on such a machine."""
    return problem.topology.num_ranks * problem.topology.num_links > FLOW_MAX_FLOWS


def port_prices(instance: Instance, busy_us_per_mb: FloatArray, budget: Budget) -> FloatArray | None:
    """Prices of the ports, shape (num_ports,), of sum 1; None without a program, or if it takes too long.

    `busy_us_per_mb` has an entry for each pair (link, port) of the topology's `incidence`.
    Where ranks are in one orbit, the program of the quotient has the prices: equal ones for the ports of an
    orbit.
    """
    problem, topology = instance.problem, instance.problem.topology
    if not has_flow(instance) or not budget.remaining_s():
        return None
    quotient = None if problem.symmetry else instance.quotient_instance
    part = instance if quotient is None else quotient
    flow = least_busy_flow(part.problem, part.group, busy_us_per_mb, budget)
    if flow is None:
        return None
    price = np.zeros(topology.num_ports)
    for ports, orbits in zip(topology.ports, part.problem.topology.ports, strict=True):
        price[list(ports)] = flow.price[list(orbits)]
    return price / price.sum() if price.sum() else None


def even_prices(topology: LogicalTopology) -> Iterator[FloatArray]:
    """The same price for all ports, and for those of each speed, the slowest first; of sum 1."""
    slowest = np.zeros(topology.num_ports)
    np.maximum.at(slowest, topology.incidence[1], topology.pair_betas)
    speed = np.array([float(f"{beta:.{_DIGITS}g}") for beta in slowest.tolist()])
    classes = [speed == beta for beta in np.unique(speed[speed > 0])[::-1][:_MOST_SPEEDS]]
    for ports in ([speed > 0] if len(classes) > 1 else []) + classes:
        yield ports / ports.sum()


def lengths(instance: Instance, price: FloatArray, cost: FloatArray) -> FloatArray:
    """How dear it is to pass each link once, shape (num_links,): what that costs each port at its price.

    `cost` has an entry for each pair (link, port) of the topology's `incidence`.
    """
    topology = instance.problem.topology
    link, port = topology.incidence
    length = np.bincount(link, cost * price[port], topology.num_links)
    # Prices moved by a symmetry are prices too, and so is the average of all of them.
    return np.asarray(length[instance.group.link_map].mean(axis=0))


def routes_us(instance: Instance, length: FloatArray) -> FloatArray:
    """The shortest route of each chunk, over links that it may use; chunks in some order, always the same.

    `length` is that of each link, shape (num_links,). Chunks without a route are left out. On large machines
    any links count as usable: a route can only be shorter for that.
    """
    topology, demand = instance.problem.topology, instance.demand
    all_usable = instance.problem.limits.may_use is None or has_many_flows(instance.problem)
    if all_usable and len(np.unique(demand.starts.rank)) > 1:
        route = distances_us(topology, length)[demand.starts.rank, demand.wants.rank]
    else:
        rows = commodities(instance)
        each = (distances_from(topology, length, rank, usable)[target] for rank, target, usable in rows)
        route = np.concatenate([np.zeros(0), *each])
    return route[np.isfinite(route)]


def commodities(instance: Instance) -> Iterator[tuple[int, IntArray, BoolArray | None]]:
    """A rank, the ranks that want its chunks, one for each, and the links that these may use (None: all).

    Chunks of different owners, which may use different links, come one after the other.
    """
    demand, problem = instance.demand, instance.problem
    collective, may_use = problem.collective, problem.limits.may_use
    source, target = demand.starts.rank, demand.wants.rank  # one of each for a chunk, in order of chunks
    pairs, of_chunk = np.unique(source * problem.num_ranks + collective.owner, return_inverse=True)
    for number, pair in enumerate(pairs.tolist()):
        rank, owner = divmod(pair, problem.num_ranks)
        yield rank, target[of_chunk == number], None if may_use is None else may_use[owner]
