r"""The broadcast time of one chunk that has the network to itself.

With w from `postal`, a chunk with sources U and wanting ranks D has, for every region N (each
node, and the whole machine),

    T  >=  min{t : sum over u in U of w_N(u, t) >= |D and N|},  w_N counting the ranks of D and N.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.postal import Layer, max_informed
from taccl.encoding.bounds.ticks import in_ticks
from taccl.encoding.bounds.tuning import (
    BROADCAST_TIME_MOST_CLASSES,
    BROADCAST_TIME_MOST_LINKS_OF_NODES,
    BROADCAST_TIME_MOST_NODES,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def _better(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    instance, problem = view.instance, view.problem
    best_us, links = 0.0, problem.topology.num_links
    cells = links * (1 + _nodes_looked_at(problem))
    for chunks in _classes(instance):
        if not budget.remaining_s():
            return

        def least(tick_us: float, rows: int, chunks: IntArray = chunks) -> int | None:
            layer = Layer.of(instance, chunks)
            first = _all_informed(view, layer, int(chunks[0]), tick_us, rows)
            return first if first < rows else None

        value_us = in_ticks(problem, known_us, links, least, budget, lambda rows: cells * rows)
        if value_us > best_us:
            best_us = value_us
            what = problem.collective.describe_chunk(int(chunks[0]))
            yield BROADCAST_TIME.proof(value_us, f"spread of {what}, alone on the network")


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


def _all_informed(view: View, layer: Layer, chunk: int, tick_us: float, rows: int) -> int:
    """The first tick at which the chunk can have informed all wanting ranks, in every region; or `rows`."""
    instance = view.instance
    layers = [layer.restricted(region) for region in _regions(instance, chunk)]
    layers = [each for each in layers if each.wanted.any()]
    if not layers:
        return 0
    w = max_informed(instance, layers, tick_us, rows, view.backwards)
    sets, set_of = instance.demand.source_sets
    together = w[:, :, sets[set_of[chunk]]].sum(axis=2)
    need = np.array([each.wanted.sum() for each in layers])
    return int(first_row(together >= need).max())


def _nodes_looked_at(problem: Problem) -> int:
    topology = problem.topology
    return min(
        topology.num_nodes,
        BROADCAST_TIME_MOST_NODES,
        BROADCAST_TIME_MOST_LINKS_OF_NODES // max(1, topology.num_links),
    )


def _regions(instance: Instance, chunk: int) -> Iterator[BoolArray]:
    """Each node, of many those that are farthest from a chunk, and the whole machine."""
    node_of = instance.problem.topology.node_of
    sets, set_of = instance.demand.source_sets
    away_us = instance.distances_us[sets[set_of[chunk]]].min(axis=0, initial=np.inf)
    farthest = sorted(np.unique(node_of).tolist(), key=lambda node: -away_us[node_of == node].max())
    for node in farthest[: _nodes_looked_at(instance.problem)]:
        yield node_of == node
    yield np.ones(len(node_of), dtype=np.bool_)


def first_row(reached: BoolArray) -> IntArray:
    """The first row that is true, along axis 0; the number of rows where none is."""
    return np.where(reached.any(axis=0), reached.argmax(axis=0), len(reached))


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield BROADCAST_TIME.proof(0.0, "nothing has to move")
    if known_us and not view.problem.collective.is_reduction:
        yield from _better(view, known_us, budget)


BROADCAST_TIME = Bound(
    name="broadcast-time",
    about="one chunk, alone on the network: each rank that has it serves one link of a port after the other, "
    "so ranks at best double (its broadcast time in a postal model)",
    remedy="shorter alphas, or more ports at each rank, so that it has more copies sooner",
    prove=_prove,
    features=RELAXED,
)
