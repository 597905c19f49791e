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
from taccl.encoding.bounds.flow_prices import commodities, even_prices, has_flow, lengths, port_prices
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.whole_flow import whole_flow
from taccl.encoding.core.distance import distances_from, distances_us
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget

#: Sums of millions of numbers are rounded by less than this part.
_ROUNDING = 1e-9


def flow_bound(instance: Instance, budget: Budget) -> Proof:
    """The multicommodity flow bound; 0 where chunks have several sources or destinations."""
    problem = instance.problem
    price = port_prices(instance, problem.topology.pair_betas, budget)
    if price is None:
        return FLOW.proof(0.0, "no flow bound", any_chunks=True)
    length = lengths(instance, price, problem.topology.pair_betas * problem.chunk_mb)
    value_us = sum(
        float(distances_from(problem.topology, length, rank, usable)[target].sum())
        for rank, target, usable in commodities(instance)
    )
    return FLOW.proof(value_us, "flow of all chunks over all links", any_chunks=True)


def even_flow_bound(instance: Instance, budget: Budget) -> Proof:
    """The same bound at even prices, of all ports and of those of each speed, the slowest first.

    Any links count as usable by all: a way can only be shorter for that. 0 where chunks have several sources
    or destinations.
    """
    problem, topology = instance.problem, instance.problem.topology
    collective, best = problem.collective, FLOW.proof(0.0, "no flow bound", any_chunks=True)
    if not problem.num_chunks or not topology.num_links or not instance.demand.moves_pairwise:
        return best
    for price in even_prices(topology):
        if not budget.remaining_s():
            break
        length = lengths(instance, price, topology.pair_betas * problem.chunk_mb)
        far = distances_us(topology, length)[collective.source, collective.destination]
        value_us = float(far[np.isfinite(far)].sum()) * (1 - _ROUNDING)
        if value_us > best.value_us:
            best = FLOW.proof(
                value_us, f"the routes of all chunks through {np.count_nonzero(price)} ports", any_chunks=True
            )
    return best


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    fluid = (flow_bound if has_flow(view.instance) else even_flow_bound)(view.instance, budget)
    yield fluid
    for value_us, witness in whole_flow(view.instance, max(known_us, fluid.value_us), budget):
        yield FLOW.proof(value_us, witness)


FLOW = Bound(
    name="flow",
    about="the ports are busy that long even if chunks could be split over all paths (a multicommodity flow; "
    "AlltoAll). For whole chunks: by some moment a port lets only this many through (integer capacity), "
    "each pair of ranks takes a way round or pays an alpha of its own (fixed charge), and who sends seldom "
    "reaches few ranks soon",
    remedy="more or faster links on the busiest routes, shorter alphas, or more --chunks",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
)
