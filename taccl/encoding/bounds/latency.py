r"""The latency bound: no chunk travels faster than over the cheapest path.

    T >= max over chunks c and ranks r in D(c) of dist(U(c), r),

with the nearest source for a copy and the farthest contribution for a sum (COST_MODEL, lower
bound a). However finely a size is cut, the alphas of that path remain: they are the distance of a chunk of no
size.

Where chunks are unequal, come late, or have something after them, the same of the problem as it is requested,
and not of a relaxed one (`views`):

    T >= max over outputs (c, r) of   arrival(c, r) + tail(c, r),
         arrival(c, r) = min (of a sum: max) over inputs (c, s) of   ready(c, s) + dist_c(s, r),

dist_c being the time of chunk c alone over its cheapest path (`core.earliest`). It asks nothing about who may
sum or copy, so it holds with helpers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.direct import direct_us, sizeless
from taccl.encoding.bounds.tuning import LATENCY_MOST_CELLS, LATENCY_MOST_LINKS_OF_ALPHAS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget


def latency_bound(instance: Instance) -> Proof:
    """The longest of the shortest paths that chunks have to take over the links that they may use.

    It is infinite where there is no such path, and so no schedule.
    """
    demand = instance.demand
    sets, set_of_chunk = demand.source_sets
    if not len(demand.wants):
        return LATENCY.proof(0.0, "nothing has to move")
    distances_us, kind_of_chunk = _distances(instance)
    pairs, of_chunk = np.unique(kind_of_chunk * len(sets) + set_of_chunk, return_inverse=True)
    has_source = np.array([len(sets[pair % len(sets)]) > 0 for pair in pairs.tolist()], dtype=np.bool_)
    nearest, farthest = np.full((2, len(pairs), instance.problem.num_ranks), np.inf)
    for row, pair in enumerate(pairs.tolist()):
        kind, ranks = pair // len(sets), sets[pair % len(sets)]
        if len(ranks):
            from_ranks = distances_us[kind][ranks]
            nearest[row], farthest[row] = from_ranks.min(axis=0), from_ranks.max(axis=0)
    if demand.all_wanted_by is not None:
        # One figure for each chunk: there may be millions of pairs of a chunk and a rank.
        chunks = np.flatnonzero(has_source[of_chunk])
        last_far, last_near = (far[:, demand.all_wanted_by].max(axis=1) for far in (farthest, nearest))
        last = np.where(demand.reduces[chunks], last_far[of_chunk[chunks]], last_near[of_chunk[chunks]])
        return _of_the_longest(instance, chunks, last)
    wants = demand.wants.some(has_source[of_chunk[demand.wants.chunk]])
    of_pair = of_chunk[wants.chunk]
    far = np.where(demand.reduces[wants.chunk], farthest[of_pair, wants.rank], nearest[of_pair, wants.rank])
    return _of_the_longest(instance, wants.chunk, far)


def arrival_bound(instance: Instance) -> Proof:
    """The output that is there last, at best, with its ready times and what follows it."""
    collective, earliest = instance.problem.collective, instance.earliest_us
    if not earliest.max(initial=0.0) > 0:
        return LATENCY.proof(0.0, "nothing has to move")
    last = int(earliest.argmax())
    what = collective.describe_chunk(int(collective.outputs.chunk[last]))
    rank = collective.outputs.rank[last]
    proof = LATENCY.proof(float(earliest[last]), f"{what} at rank {rank}")
    return replace(proof, remedy="an earlier input, a shorter tail, or a faster way for that chunk")


def alphas_bound(instance: Instance) -> Proof:
    """The alphas of the longest of those paths, which hold for any number of chunks."""
    proof = latency_bound(instance.once(sizeless))
    way = proof.witness.removeprefix("latency of ")
    return replace(proof, witness=f"the alphas on the way of {way}", holds_for_any_chunks=True)


def _distances(instance: Instance) -> tuple[FloatArray, IntArray]:
    """Distances by the links that chunks may use; of large machines over all links, which are no longer."""
    problem = instance.problem
    if problem.limits.may_use is None or problem.num_ranks**3 <= LATENCY_MOST_CELLS:
        return instance.distances_by_limits
    return instance.distances_us[None], np.zeros(problem.num_chunks, dtype=np.int64)


def _of_the_longest(instance: Instance, chunk: IntArray, far_us: FloatArray) -> Proof:
    """The bound of the chunk that has farthest to go; columns of equal length."""
    if not far_us.max(initial=0.0) > 0:
        return LATENCY.proof(0.0, "nothing has to move")
    longest = int(far_us.argmax())
    what = instance.problem.collective.describe_chunk(int(chunk[longest]))
    return LATENCY.proof(float(far_us[longest]), f"latency of {what}")


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.problem.topology.num_links <= LATENCY_MOST_LINKS_OF_ALPHAS:
        yield view.instance.once(alphas_bound)
    of_direct = view.requested is not None and view.problem.num_ranks**3 <= LATENCY_MOST_CELLS
    if of_direct:
        yield LATENCY.proof(*direct_us(view.instance, any_chunks=True), any_chunks=True)
    yield latency_bound(view.instance)
    if of_direct:
        yield LATENCY.proof(*direct_us(view.instance, any_chunks=False))
    if view.requested is not None and view.requested.features - {"reductions"}:
        yield arrival_bound(view.requested)


LATENCY = Bound(
    name="latency",
    about="some chunk has to travel its shortest path, from when it is ready until its tail is over; "
    "where a relay would take too long, every chunk is sent directly, and direct sends share ports",
    remedy="a more direct or a faster way for that chunk, or more --chunks, each of them smaller",
    prove=_prove,
    features=RELAXED,
    is_quick=True,
    has_any_chunks=True,
    is_of_alphas=True,
)
