r"""The latency bound: no chunk travels faster than over the cheapest path.

    T >= max over chunks c and ranks r in D(c) of dist(U(c), r),

with the nearest source for a copy and the farthest contribution for a sum (COST_MODEL, lower
bound a). What ready times, tails and sizes add to that is in `arrival`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget


def latency_bound(instance: Instance) -> Proof:
    """The longest of the shortest paths that chunks have to take."""
    demand, distance_us = instance.demand, instance.distances_us
    sets, of_chunk = demand.source_sets
    if not len(demand.wants):
        return LATENCY.proof(0.0, "nothing has to move")
    has_source = np.array([len(ranks) > 0 for ranks in sets], dtype=np.bool_)
    nearest, farthest = np.full((2, len(sets), instance.problem.num_ranks), np.inf)
    for number, ranks in enumerate(sets):
        if len(ranks):
            from_each = distance_us[ranks]
            nearest[number], farthest[number] = from_each.min(axis=0), from_each.max(axis=0)
    if demand.to_all:
        # One figure for each chunk: there may be millions of pairs of a chunk and a rank.
        chunks = np.flatnonzero(has_source[of_chunk])
        last = np.where(
            demand.reduces[chunks],
            farthest.max(axis=1)[of_chunk[chunks]],
            nearest.max(axis=1)[of_chunk[chunks]],
        )
        return _of_the_longest(instance, chunks, last)
    wants = demand.wants.some(has_source[of_chunk[demand.wants.chunk]])
    of_pair = of_chunk[wants.chunk]
    far = np.where(demand.reduces[wants.chunk], farthest[of_pair, wants.rank], nearest[of_pair, wants.rank])
    return _of_the_longest(instance, wants.chunk, far)


def _of_the_longest(instance: Instance, chunk: IntArray, far_us: FloatArray) -> Proof:
    """The bound of the chunk that has farthest to go; columns of equal length."""
    if not far_us.max(initial=0.0) > 0:
        return LATENCY.proof(0.0, "nothing has to move")
    longest = int(far_us.argmax())
    what = instance.problem.collective.describe_chunk(int(chunk[longest]))
    return LATENCY.proof(float(far_us[longest]), f"latency of {what}")


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield latency_bound(view.instance)


LATENCY = Bound(
    name="latency",
    about="some chunk has to travel its shortest path",
    remedy="a more direct or a faster way for that chunk, or more --chunks, each of them smaller",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
)
