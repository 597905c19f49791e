r"""The gather time of one rank: how long it takes to come to hold all that it wants, in growing groups.

With K from `steps` for the chunks S(r) that rank r wants,

    T  >=  max over r of  min{t : K(r, t) >= |S(r)|},

and the same for any number of chunks, with K for data that may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.broadcast_time import a_few, soonest_us
from taccl.encoding.bounds.by_node import come_us, in_pieces
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.layer import Layer, held_at_start, nearest_us
from taccl.encoding.bounds.steps import gathered, is_too_large
from taccl.encoding.bounds.tuning import (
    GATHER_TIME_MOST_PAIRS,
    GATHER_TIME_MOST_PIECES,
    GATHER_TIME_PIECES_OF_AN_ALPHA,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.units import format_count
from taccl.support.budget import Budget


def _better(view: View, known_us: float, budget: Budget, any_chunks: bool) -> Iterator[Proof]:
    """Each rank by itself; then the one that is last, with chunks counted apart, which takes longer."""
    best_us, last = 0.0, None
    for chunks, ranks in _classes(view.instance):
        value_us = _gathered_us(view, chunks, ranks, known_us, budget, False, any_chunks)
        if value_us > best_us:
            best_us, last = value_us, (chunks, ranks)
            yield _proof(view, value_us, chunks, ranks, any_chunks)
    if last is not None and view.problem.topology.num_nodes > 1:
        value_us = _gathered_us(view, *last, best_us, budget, True, any_chunks)
        yield _proof(view, value_us, *last, any_chunks)


def _proof(view: View, value_us: float, chunks: IntArray, ranks: IntArray, any_chunks: bool) -> Proof:
    received = len(chunks) - held_at_start(view.instance, Layer.of(view.instance, chunks))[ranks]
    ranks, received = ranks[received > 0], received[received > 0]
    rank = f"rank {ranks[0]}" if len(ranks) == 1 else "some rank"
    most, least = int(received.max()), int(received.min())
    what = f"{most * view.problem.chunk_mb:g} MB" if any_chunks else format_count(most, "chunk")
    witness = f"{rank} receives {what if least == most else f'up to {what}'}, in growing groups"
    return GATHER_TIME.proof(value_us, witness, any_chunks=any_chunks)


def _gathered_us(
    view: View,
    chunks: IntArray,
    ranks: IntArray,
    known_us: float,
    budget: Budget,
    apart: bool,
    divisible: bool,
) -> float:
    """When all of some ranks can hold all of some chunks.

    Parameters
    ----------
    apart : chunks are counted by where they start.
    divisible : their data may be cut anywhere.
    """
    instance, ends, layer = view.instance, view.backwards, Layer.of(view.instance, chunks)
    pieces = pieces_of(view, layer) if divisible else 0
    problem, layer = in_pieces(view.problem, layer, pieces)
    near, need = nearest_us(instance.once(sizeless) if divisible else instance, layer), len(layer.chunks)
    held = held_at_start(instance, layer)
    enough = np.zeros_like(held)
    enough[ranks] = need

    def first_us(horizon_us: float) -> float | None:
        soonest = come_us(instance, layer, horizon_us, budget, ends, pieces) if apart else near
        k = gathered(
            *(problem, layer, held, horizon_us, budget, soonest, enough), at_ends=ends, divisible=divisible
        )
        moments = [k[rank].first(need) for rank in ranks.tolist()]
        return None if None in moments else max(moment for moment in moments if moment is not None)

    return soonest_us(first_us, known_us)


def pieces_of(view: View, layer: Layer) -> int:
    """As many pieces of a chunk as are short next to an alpha, but no more than there is time for."""
    topology, chunk_mb = view.problem.topology, view.problem.chunk_mb
    alpha_us, beta = float(np.median(topology.alpha_us)), float(np.median(topology.beta_us_per_mb))
    short = beta * chunk_mb / alpha_us * GATHER_TIME_PIECES_OF_AN_ALPHA if alpha_us else np.inf
    most = GATHER_TIME_MOST_PAIRS // max(1, len(layer.chunks) * topology.num_links)
    return max(1, int(min(short, most, GATHER_TIME_MOST_PIECES)))


def _classes(instance: Instance) -> Iterator[tuple[IntArray, IntArray]]:
    """Chunks, and the ranks that want just these; one of an orbit, and not many."""
    demand, ranks = instance.demand, instance.problem.num_ranks
    order = np.lexsort((demand.wants.chunk, demand.wants.rank))
    first = np.searchsorted(demand.wants.rank[order], np.arange(ranks + 1))
    wanted = [demand.wants.chunk[order[begin:end]] for begin, end in pairwise(first.tolist())]
    number: dict[bytes, int] = {}
    class_of = np.array([number.setdefault(chunks.tobytes(), len(number)) for chunks in wanted])
    least = class_of[instance.group.rank_map].min(axis=0)
    for each in a_few(np.unique(least)).tolist():
        members = np.flatnonzero(class_of == each)
        if len(wanted[members[0]]):
            yield wanted[members[0]], members


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield GATHER_TIME.proof(0.0, "nothing has to move", any_chunks=True)
    if known_us and not view.problem.collective.is_reduction and not is_too_large(view.problem):
        if view.problem.topology.is_serial:  # else small groups keep no port busy
            yield from _better(view, known_us, budget, any_chunks=True)
        yield from _better(view, known_us, budget, any_chunks=False)


GATHER_TIME = Bound(
    name="gather-time",
    about="one rank: a group is no larger than what its sender holds, so what a rank holds at best doubles, "
    "an alpha each time (its gather time in a postal model)",
    remedy="shorter alphas, or more ports into that rank; larger groups do not come sooner",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
    is_of_alphas=True,
)
