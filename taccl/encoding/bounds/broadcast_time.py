r"""The broadcast time of one chunk that has the network to itself.

With w from `steps`, a chunk with sources U and wanting ranks D has, for every region N (each
node, and the whole machine),

    T  >=  min{t : sum over u in U of w_N(u, t) >= |D and N|},  w_N counting the ranks of D and N,

and the same for any number of chunks, with w for a chunk of no size. Chunks of the same sources that are
wanted by different ranks (Scatter, AlltoAll) are taken for one that all these ranks want: no send is longer.

*Before the last leaves.* In an AllReduce each rank u has a part of k chunks, and all others have to hear of
each. From when a chunk first leaves u that takes no less than the broadcast time b of one chunk of size s. Of
P ports that all links out of u share one passes on n = ceil(k / P) of these chunks, in m = ceil(n / G) groups
of G or fewer. So the last of them begins (m - 1) alpha + (n - g) s beta after the first at least, g being its
chunks:

    T  >=  (m - 1) alpha + (n - g) s beta + b,

and if P = 1, g - 1 of those in the last group keep the port busy before anything else leaves u: n - 1 in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.by_node import reach_us
from taccl.encoding.bounds.counts import sum_of
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.layer import Distances, Layer
from taccl.encoding.bounds.steps import OutOfBudget, informed, is_too_large
from taccl.encoding.bounds.tuning import (
    BROADCAST_TIME_HORIZON,
    BROADCAST_TIME_LOOKS,
    BROADCAST_TIME_MOST_CLASSES,
    BROADCAST_TIME_MOST_LINKS_OF_NODES,
    BROADCAST_TIME_MOST_NODES,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _better(view: View, known_us: float, budget: Budget, any_chunks: bool) -> Iterator[Proof]:
    """Each chunk in each region; then the last one with ranks counted apart, which takes longer.

    `any_chunks` : of a chunk however small, on the whole machine alone: that is most of it, and there soon.
    """
    best_us, last = 0.0, None
    for chunks in _classes(view.instance):
        layer, chunk = Layer.of(view.instance, chunks), int(chunks[0])
        for region in islice(_regions(view.instance, chunk), 1 if any_chunks else None):
            inside = layer.restricted(region)
            value_us = _informed_us(view, inside, chunk, known_us, budget, apart=False)
            before_us = 0.0 if any_chunks or not region.all() else _before_last_us(view, chunk)
            if value_us and value_us + before_us > best_us:
                best_us, last = value_us + before_us, (layer, chunk, before_us)
                yield _proof(view, best_us, inside, any_chunks, before_us > 0)
    if last is not None and view.problem.topology.num_nodes > 1:
        layer, chunk, before_us = last
        value_us = _informed_us(view, layer, chunk, best_us, budget, apart=True)
        if value_us:
            yield _proof(view, value_us + before_us, layer, any_chunks, before_us > 0)


def _proof(view: View, value_us: float, layer: Layer, any_chunks: bool, is_last: bool) -> Proof:
    how = "the last to leave its rank" if is_last else "alone on the network"
    witness = f"spread of {_described(view.instance, layer)}, {'however small' if any_chunks else how}"
    return BROADCAST_TIME.proof(value_us, witness, any_chunks=any_chunks)


def _described(instance: Instance, layer: Layer) -> str:
    """A chunk of a class that all its wanting ranks lack; where each lacks others, those, taken for one."""
    wants, (sets, set_of) = instance.demand.wants, instance.demand.source_sets
    sources = sets[set_of[layer.chunks[0]]]
    lacks, is_chosen = layer.wanted.copy(), np.zeros(len(set_of), dtype=np.bool_)
    lacks[sources], is_chosen[layer.chunks] = False, True
    lacking = wants.some(is_chosen[wants.chunk] & lacks[wants.rank])
    lacked_by = np.bincount(lacking.chunk, minlength=len(set_of))
    if lacked_by.max() == lacks.sum():
        return instance.problem.collective.describe_chunk(int(lacked_by.argmax()))
    where = f"rank {sources[0]}" if len(sources) == 1 else f"{len(sources)} ranks"
    return f"the {np.count_nonzero(lacked_by)} chunks at {where} as if they were one"


def _informed_us(view: View, layer: Layer, chunk: int, known_us: float, budget: Budget, apart: bool) -> float:
    """When a chunk can have informed all wanting ranks of a layer; `apart` : these are counted by node."""
    instance, need = view.instance, int(layer.wanted.sum())
    sets, set_of = instance.demand.source_sets
    distances = instance.once(Distances).over(layer.uses())

    def first_us(horizon_us: float) -> float | None:
        near = reach_us(instance, layer, horizon_us, budget, view.backwards) if apart else None
        w = informed(view.problem, layer, distances, horizon_us, budget, view.backwards, near)
        return sum_of([w[rank] for rank in sets[set_of[chunk]].tolist()], need).first(need)

    return soonest_us(first_us, known_us) if need else 0.0


def soonest_us(first_us: Callable[[float], float | None], known_us: float) -> float:
    """When something first is possible, or a moment up to which it is not.

    `first_us` looks for it up to a horizon, which moves further as long as it is not found.
    """
    horizon_us, proved_us = BROADCAST_TIME_HORIZON * known_us, 0.0
    try:
        for _ in range(BROADCAST_TIME_LOOKS):
            found_us = first_us(horizon_us)
            if found_us is not None:
                return found_us
            proved_us, horizon_us = horizon_us, 3 * horizon_us
    except OutOfBudget:
        pass
    return proved_us


def _before_last_us(view: View, chunk: int) -> float:
    """How long after the first chunk the last of them leaves the rank of this one, at the least."""
    instance, topology = view.instance, view.problem.topology
    sets, set_of = instance.demand.source_sets
    sources = sets[set_of[chunk]]
    if view.leaving is None or view.backwards or len(sources) != 1 or not topology.is_serial:
        return 0.0
    link, port = topology.incidence
    pairs = np.flatnonzero(topology.src[link] == sources[0])
    # Each link counts at the port that most of the links out of this rank share.
    shared = np.bincount(port[pairs], minlength=topology.num_ports)[port[pairs]]
    order = np.lexsort((port[pairs], -shared, link[pairs]))
    counted = pairs[order][np.flatnonzero(np.diff(link[pairs][order], prepend=-1))]
    ports = len(np.unique(port[counted]))
    if not ports:
        return 0.0
    chunks = -(-int(view.leaving[sources[0]]) // ports)
    largest = min(chunks, view.problem.max_group)
    alpha_us, beta = topology.alpha_us[link[counted]].min(), topology.pair_betas[counted].min()
    before = chunks - (1 if ports == 1 else largest)
    groups = -(-chunks // largest)
    return float((groups - 1) * alpha_us + max(0, before) * view.problem.chunk_mb * beta)


def _classes(instance: Instance) -> list[IntArray]:
    """Sets of chunks that start at the same ranks and may go the same routes; one of an orbit, and not
    many.
    """
    kind = may_go_equally(instance)
    representative = instance.group.chunk_representative
    chosen = np.unique(kind[representative == np.arange(instance.problem.num_chunks)])
    return [np.flatnonzero(kind == number) for number in a_few(chosen)]


def may_go_equally(instance: Instance) -> IntArray:
    """A number for each chunk, the same where chunks start at the same ranks and may use the same links."""
    sets, set_of = instance.demand.source_sets
    limits = instance.problem.limits.may_use
    if limits is None:
        return set_of
    usable = np.unique(limits, axis=0, return_inverse=True)[1].ravel()[instance.problem.collective.owner]
    return np.asarray(usable * len(sets) + set_of)


def a_few(classes: IntArray) -> IntArray:
    """At most `BROADCAST_TIME_MOST_CLASSES` of them, evenly spread: each alone gives a bound."""
    return classes[:: -(-len(classes) // BROADCAST_TIME_MOST_CLASSES)] if len(classes) else classes


def _nodes_looked_at(problem: Problem) -> int:
    topology = problem.topology
    return min(
        topology.num_nodes,
        BROADCAST_TIME_MOST_NODES,
        BROADCAST_TIME_MOST_LINKS_OF_NODES // max(1, topology.num_links),
    )


def _regions(instance: Instance, chunk: int) -> Iterator[BoolArray]:
    """The whole machine, and each node; of many nodes those that are farthest from a chunk."""
    node_of = instance.problem.topology.node_of
    sets, set_of = instance.demand.source_sets
    away_us = instance.distances_us[sets[set_of[chunk]]].min(axis=0, initial=np.inf)
    farthest = sorted(np.unique(node_of).tolist(), key=lambda node: -away_us[node_of == node].max())
    yield np.ones(len(node_of), dtype=np.bool_)
    for node in farthest[: _nodes_looked_at(instance.problem)] if len(farthest) > 1 else ():
        yield node_of == node


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield BROADCAST_TIME.proof(0.0, "nothing has to move", any_chunks=True)
    if known_us and not view.problem.collective.is_reduction and not is_too_large(view.problem):
        if view.problem.topology.is_serial:  # else a chunk of no size keeps no port busy: `latency` has that
            of_no_size = View(view.instance.once(sizeless), view.backwards)
            yield from _better(of_no_size, known_us, budget, any_chunks=True)
        yield from _better(view, known_us, budget, any_chunks=False)


BROADCAST_TIME = Bound(
    name="broadcast-time",
    about="one chunk, alone on the network, or the last to leave its rank: each rank that has it serves one "
    "link of a port after the other, so ranks at best double (its broadcast time in a postal model)",
    remedy="shorter alphas, or more ports at each rank, so that it has more copies sooner",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
    is_of_alphas=True,
)
