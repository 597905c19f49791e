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
from taccl.encoding.bounds.flow_prices import even_prices, has_flow, has_many_flows, port_prices
from taccl.encoding.bounds.flow_waits import Toll, Waits
from taccl.encoding.bounds.tuning import FLOW_ANY, FLOW_NEAR, FLOW_PROGRAM
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.whole_flow import whole_flow
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget

#: Why no schedule is faster.
_FLOW = "flow of all chunks over all links"
_WAITS = "flow of chunks that wait for what is sent with them"
_NO_FLOW = "no flow bound"


def flows(instance: Instance, budget: Budget) -> list[Waits]:
    """The flow at even prices and at those of the program, the best first; those that are nearly as good.

    Empty where chunks have several sources or destinations. What was tried stays, and what there was no time
    for is tried when it is asked again.
    """
    if not (instance.problem.num_chunks and instance.demand.moves_pairwise):
        return []
    known = instance.once(_Known)
    for price in known.even:
        known.found.append(Waits(instance, Toll.of(instance, price), budget))
        if not budget.remaining_s():
            break
    if has_flow(instance) and not known.is_solved:
        solved = port_prices(instance, instance.problem.topology.pair_betas, budget)
        if solved is not None:
            known.is_solved = True
            known.found.append(Waits(instance, Toll.of(instance, solved), budget))
    best_us = max((flow.alone_us for flow in known.found), default=0.0)
    near = (flow for flow in known.found if flow.alone_us >= FLOW_NEAR * best_us)
    return sorted(near, key=lambda flow: -flow.alone_us)


class _Known:
    """What an instance keeps: flows that were found, even prices not tried yet, whether it is solved."""

    def __init__(self, instance: Instance) -> None:
        self.found, self.even, self.is_solved = list[Waits](), even_prices(instance.problem.topology), False


def _is_known(view: View) -> bool:
    """Whether the first view had it: loads and times on the way are the same read backwards."""
    return view.is_turned and view.requested is None


def _prove_flow(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if not _is_known(view):
        found = flows(view.instance, budget)
        alone_us = found[0].alone_us if found else 0.0
        known_us = max(known_us, alone_us)
        yield FLOW.proof(alone_us, _FLOW if found else _NO_FLOW, any_chunks=True)
    for value_us, witness in whole_flow(view.instance, known_us, budget):
        yield FLOW.proof(value_us, witness)


def _prove_waits(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if _is_known(view):
        return
    found, share = flows(view.instance, budget.share(FLOW_PROGRAM)), budget.share(FLOW_ANY)
    if not found:
        yield WAITS.proof(0.0, _NO_FLOW, any_chunks=True)
    for flow in found:
        flow.try_prices(share)
        yield WAITS.proof(flow.value_us, _WAITS, any_chunks=True)
    best = max(found, key=lambda flow: flow.value_us, default=None)
    if best is not None and best.value_us >= FLOW_NEAR * known_us and budget.remaining_s():
        whole = best.of_whole_chunks(budget)
        whole.try_prices(budget)
        yield WAITS.proof(whole.value_us, _WAITS)


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
