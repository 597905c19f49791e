r"""The arrival bound: the latency bound where chunks are unequal, come late, or have something after them.

    T >= max over outputs (c, r) of   arrival(c, r) + tail(c, r),
         arrival(c, r) = min (of a sum: max) over inputs (c, s) of   ready(c, s) + dist_c(s, r),

dist_c being the time of chunk c alone over its cheapest path (`core.earliest`). It asks nothing about who may
sum or copy, so it holds with helpers. It is about the problem as it is requested, and not about a relaxed one
(`views`).
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.support.budget import Budget


def arrival_bound(instance: Instance) -> Proof:
    """The output that is there last, at best, with what follows it."""
    collective, earliest = instance.problem.collective, instance.earliest_us
    if not earliest.max(initial=0.0) > 0:
        return ARRIVAL.proof(0.0, "nothing has to move")
    last = int(earliest.argmax())
    chunk, rank = collective.outputs.chunk[last], collective.outputs.rank[last]
    what = collective.describe_chunk(int(chunk))
    return ARRIVAL.proof(float(earliest[last]), f"{what} at rank {rank}")


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.requested is not None and view.requested.features - {"reductions"}:  # else latency says the same
        yield arrival_bound(view.requested)


ARRIVAL = Bound(
    name="arrival",
    about="some chunk has to be ready, travel its shortest path, and be done with",
    remedy="an earlier input, a shorter tail, or a faster way for that chunk",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
)
