r"""The flow bound: how long ports are busy if chunks could be split over all paths, and what waits meanwhile.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather):
COST_MODEL, lower bound c, the multicommodity flow of AlltoAll, aggregated by source.

The optimum T of the program in `core/flow.py` leaves alphas out, and a solver's objective is right up to its
tolerance, which is no proof. Its prices y of the ports are: with y >= 0 and sum 1, some port is busy for at
least the average load, and every MB from u to v adds at least its shortest way under the lengths sum of
beta_lp * y_p over the ports p of l. Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).

What is sent in large groups comes late, and small ones pay alphas: with prices of waiting next to those of
the ports the same says more (`flow_waits`).

Prices are also even over all ports, or over those of one speed: where ports are alike the program may put the
price on any of them, and where it is too large, these are all that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.flow_prices import even_prices, has_many_flows, port_prices
from taccl.encoding.bounds.flow_waits import Toll, Waits
from taccl.encoding.bounds.tuning import FLOW_NEAR
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.whole_flow import whole_flow
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget

#: The part of the time for what holds for any number of chunks.
_ANY = 0.5
#: Why no schedule is faster than what waits prove.
_WAITS = "flow of chunks that wait for what is sent with them"


def flows(instance: Instance, budget: Budget) -> list[Waits]:
    """The flow at prices of the program and at even ones, the best first; those that are nearly as good.

    None where chunks have several sources or destinations. What was tried with them stays.
    """
    problem, known = instance.problem, instance.once(_known)
    if known or not (problem.num_chunks and problem.topology.num_links and instance.demand.moves_pairwise):
        return known
    found = list[Waits]()
    for price in (port_prices(instance, problem.topology.pair_betas, budget), *even_prices(problem.topology)):
        if price is not None and (not found or budget.remaining_s()):
            found.append(Waits(instance, Toll.of(instance, price)))
    found.sort(key=lambda flow: -flow.alone_us)
    known += [flow for flow in found if flow.alone_us >= FLOW_NEAR * found[0].alone_us]
    return known


def _known(instance: Instance) -> list[Waits]:
    """Where an instance keeps its flows; `instance.once(_known)`."""
    return []


def _prove_flow(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    found = flows(view.instance, budget)
    alone_us = found[0].alone_us if found else 0.0
    yield FLOW.proof(alone_us, "flow of all chunks over all links", any_chunks=True)
    for value_us, witness in whole_flow(view.instance, max(known_us, alone_us), budget):
        yield FLOW.proof(value_us, witness)


def _prove_waits(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    found = flows(view.instance, budget)
    if not found:
        yield WAITS.proof(0.0, "no chunk that goes from one rank to one", any_chunks=True)
    share = budget.share(_ANY)
    for flow in found:
        flow.try_prices(share)
        yield WAITS.proof(flow.value_us, _WAITS, any_chunks=True)
    best = max(found, key=lambda flow: flow.value_us, default=None)
    if best is not None and best.value_us >= FLOW_NEAR * known_us and budget.remaining_s():
        best.of_whole_chunks.try_prices(budget)
        yield WAITS.proof(best.of_whole_chunks.value_us, _WAITS)


FLOW = Bound(
    name="flow",
    about="the ports are busy that long even if chunks could be split over all paths (a multicommodity flow; "
    "AlltoAll). For whole chunks: by some moment a port lets only this many through (integer capacity), "
    "each pair of ranks takes a way round or pays an alpha of its own (fixed charge), and who sends seldom "
    "reaches few ranks soon",
    remedy="more or faster links on the busiest routes, shorter alphas, or more --chunks",
    prove=_prove_flow,
    features=RELAXED,
    has_any_chunks=True,
)

WAITS = Bound(
    name="waits",
    about="chunks that go from one rank to one wait at each link for all that is sent with them: large "
    "groups take a chunk longer than there is time, and small ones keep ports busy with alphas",
    remedy="shorter alphas, fewer links on the way, or more or faster ones on the busiest routes",
    prove=_prove_waits,
    features=RELAXED,
    has_any_chunks=True,
    is_of_alphas=True,
    is_late=has_many_flows,
    goes_on=True,
)
