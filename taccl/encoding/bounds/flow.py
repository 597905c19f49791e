r"""The flow bound: how long ports are busy if chunks could be split over all paths.

For collectives in which every chunk has one source and one destination (AlltoAll, Scatter, Gather):
COST_MODEL, lower bound c, the multicommodity flow of AlltoAll, aggregated by source.

The optimum T of the program in `core/flow.py` leaves alphas out, and a solver's objective is right up to its
tolerance, which is no proof. Its prices y of the ports are: with y >= 0 and sum 1, some port is busy for at
least the average load, and every MB from u to v adds at least its shortest way under the lengths sum of
beta_lp * y_p over the ports p of l. Hence, for any such y,

    T  >=  sum over u, v of d[u, v] * dist_y(u, v).

What is sent in large groups comes late, and small ones pay alphas: with prices of waiting next to those of
the ports the same says more (`waits`).

Prices are also even over all ports, or over those of one speed: where ports are alike the program may put the
price on any of them, and where it is too large, these are all that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.waits import NO_FLOW, flows
from taccl.encoding.bounds.whole_flow import whole_flow
from taccl.support.budget import Budget

#: Why no schedule is faster.
_FLOW = "flow of all chunks over all links"


def _prove_flow(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if not view.repeats:
        found = flows(view.instance, budget)
        alone_us = found[0].alone_us if found else 0.0
        known_us = max(known_us, alone_us)
        yield FLOW.proof(alone_us, _FLOW if found else NO_FLOW, any_chunks=True)
    for value_us, witness in whole_flow(view.instance, known_us, budget):
        yield FLOW.proof(value_us, witness)


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
