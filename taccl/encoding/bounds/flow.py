r"""The flow bound: how long the ports are busy if chunks could be divided and split over all paths.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather): the
optimum T of the program in `core/flow.py`, alphas left out (COST_MODEL, lower bound c: the
multicommodity flow of AlltoAll, aggregated by source).

A solver's objective is right up to its tolerance, which is no proof. Its prices y of the ports are: with
y >= 0 and sum 1, some port is busy for at least the average load, and every MB from u to v adds at least
its shortest way under the lengths sum of beta_lp * y_p over the ports p of l. Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).

Where the program is too large, y is even over all ports, or over those of one speed: the way that all chunks
have to go at least, divided by all that there is to carry it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.tuning import FLOW_MAX_FLOWS
from taccl.encoding.bounds.views import View
from taccl.encoding.core.distance import distances_from, distances_us
from taccl.encoding.core.flow import least_busy_flow
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: Sums of millions of numbers are rounded by less than this part.
_ROUNDING = 1e-9
#: Ports of this many speeds are looked at, where the program is too large, and speeds agree in this many
#: digits.
_MOST_SPEEDS, _DIGITS = 3, 6


def flow_bound(instance: Instance, budget: Budget) -> Proof:
    """The multicommodity flow bound; 0 where chunks have several sources or destinations."""
    problem = instance.problem
    price = port_prices(instance, problem.topology.pair_betas, budget)
    if price is None:
        return FLOW.proof(0.0, "no flow bound")
    length = lengths(instance, price, problem.topology.pair_betas * problem.chunk_mb)
    value_us = sum(
        float(distances_from(problem.topology, length, rank, usable)[target].sum())
        for rank, target, usable in commodities(instance)
    )
    return FLOW.proof(value_us, "flow of all chunks over all links")


def even_flow_bound(instance: Instance, budget: Budget) -> Proof:
    """The same bound at even prices, of all ports and of those of each speed, the slowest first.

    Any links count as usable by all: a way can only be shorter for that. 0 where chunks have several sources
    or destinations.
    """
    problem, topology = instance.problem, instance.problem.topology
    collective, best = problem.collective, FLOW.proof(0.0, "no flow bound")
    if not problem.num_chunks or not topology.num_links or not instance.demand.moves_pairwise:
        return best
    slowest = np.zeros(topology.num_ports)
    np.maximum.at(slowest, topology.incidence[1], topology.pair_betas)
    speed = np.array([float(f"{beta:.{_DIGITS}g}") for beta in slowest.tolist()])
    classes = [speed == beta for beta in np.unique(speed[speed > 0])[::-1][:_MOST_SPEEDS]]
    for ports in ([speed > 0] if len(classes) > 1 else []) + classes:
        if not budget.remaining_s():
            break
        length = lengths(instance, ports / ports.sum(), topology.pair_betas * problem.chunk_mb)
        far = distances_us(topology, length)[collective.source, collective.destination]
        value_us = float(far[np.isfinite(far)].sum()) * (1 - _ROUNDING)
        if value_us > best.value_us:
            best = FLOW.proof(value_us, f"the routes of all chunks through {int(ports.sum())} ports")
    return best


def has_flow(instance: Instance) -> bool:
    """Whether the program is requested: each chunk goes from one rank to one, on a machine not too large."""
    topology = instance.problem.topology
    return bool(
        instance.problem.num_chunks
        and instance.demand.moves_pairwise
        and 0 < topology.num_ranks * topology.num_links <= FLOW_MAX_FLOWS
    )


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


def lengths(instance: Instance, price: FloatArray, cost: FloatArray) -> FloatArray:
    """How dear it is to pass each link once, shape (num_links,): what that costs each port at its price.

    `cost` has an entry for each pair (link, port) of the topology's `incidence`.
    """
    topology = instance.problem.topology
    link, port = topology.incidence
    length = np.bincount(link, cost * price[port], topology.num_links)
    # Prices moved by a symmetry are prices too, and so is the average of all of them.
    return np.asarray(length[instance.group.link_map].mean(axis=0))


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


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield (flow_bound if has_flow(view.instance) else even_flow_bound)(view.instance, budget)


FLOW = Bound(
    name="flow",
    about="the ports are busy that long even if chunks could be split over all paths (a multicommodity flow; "
    "AlltoAll)",
    remedy="more or faster links on the busiest routes; a number of chunks does not",
    prove=_prove,
    features=RELAXED,
    holds_for_any_chunks=True,
)
