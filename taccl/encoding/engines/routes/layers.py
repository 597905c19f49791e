r"""Shallow trees, where they are enough: every rank takes a chunk from one nearer to the chunk's source.

Let the ranks be ordered by their distance from u. If every rank v other than u gets each of u's chunks over
some link from an earlier rank, those links are a tree, whatever the choice, and no condition on sets of
ranks is left. With w(u) chunks at u, and k(u, l) of them over link l,

    minimise    T  +  a little of  sum of k(u, l) * (distance from u to the far end of l, by way of l)
    subject to  sum of k(u, l) over links l into v from earlier ranks  =  w(u)      for all u, v != u
                sum of busy(l, p) * k(u, l) over u and the links l of port p  <=  T     for every port p

The second term keeps the trees low among those that are equally fast. On a torus or a switch this is the
optimum of all trees at no more than the height that distances ask for; elsewhere `capacity.py` may do
better, with higher trees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.distance import distances_from
from taccl.encoding.core.flow_paths import FlowPath, whole_chunks
from taccl.encoding.core.linear import LinearModel, solve
from taccl.encoding.engines.routes.columns import Routes, copies_of, turns
from taccl.encoding.engines.routes.tuning import LAYERS_LOWNESS
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class _Onward:
    """Pairs (source, link) such that the link leads on from the source, and how far its end is then."""

    source: IntArray
    link: IntArray
    end_us: FloatArray


def shallow_trees(problem: Problem, usable: BoolArray, budget: Budget) -> Routes | None:
    """Which chunks pass which links; None if some rank is cut off, or the time is up.

    `usable`, shape (num_ranks, num_links), says which links the chunks of a rank may take.
    """
    chunks = _chunks_at(problem)
    onward = _onward(problem, list(chunks), usable)
    loads = _loads(
        problem, np.array([len(chunks.get(r, ())) for r in range(problem.num_ranks)]), onward, budget
    )
    return None if loads is None else _dealt(problem, chunks, onward, loads, budget)


def _chunks_at(problem: Problem) -> dict[int, list[int]]:
    source = problem.collective.source
    return {int(rank): np.flatnonzero(source == rank).tolist() for rank in np.unique(source)}


def _onward(problem: Problem, sources: list[int], usable: BoolArray) -> _Onward:
    topology, ranks = problem.topology, np.arange(problem.num_ranks)
    duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    local = _local(topology.node_of)
    parts = []
    for source in sources:
        reach = distances_from(topology, duration, source, usable[source])
        place = np.empty(problem.num_ranks, dtype=np.int64)
        # Equally far ranks are numbered from the source's own place in the node on, so that different sources
        # do not all send through the same ranks.
        place[np.lexsort((ranks, (local - local[source]) % (local.max() + 1), reach))] = ranks
        leads_on = usable[source] & (place[topology.src] < place[topology.dst])
        links = np.flatnonzero(leads_on & np.isfinite(reach[topology.src]))
        parts.append((np.full(len(links), source), links, reach[topology.src[links]] + duration[links]))
    return _Onward(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _local(node_of: IntArray) -> IntArray:
    """Each rank's place in its node, shape (num_ranks,)."""
    order = np.argsort(node_of, kind="stable")
    place = np.empty(len(node_of), dtype=np.int64)
    place[order] = np.arange(len(node_of)) - np.searchsorted(node_of[order], node_of[order])
    return place


def _loads(problem: Problem, weight: IntArray, onward: _Onward, budget: Budget) -> FloatArray | None:
    """How many of each source's chunks pass each link of `onward`, divisible."""
    topology, ranks, model = problem.topology, problem.num_ranks, LinearModel()
    lowness = LAYERS_LOWNESS / max(float(onward.end_us.max() * weight.sum() * ranks), np.finfo(float).tiny)
    load = model.add_variables(len(onward.link), cost=lowness * onward.end_us)
    finish = int(model.add_variables(1, cost=1.0 / max(1, int(weight.sum())))[0])
    sources, row = np.unique(onward.source, return_inverse=True)
    wanted = np.repeat(weight[sources], ranks).astype(np.float64)
    wanted[np.arange(len(sources)) * ranks + sources] = 0.0
    model.add_rows(len(wanted), row * ranks + topology.dst[onward.link], load, 1.0, wanted, wanted)
    _ports_finish_in_time(model, problem, onward.link, load, finish)
    values = solve(model, budget=budget).values
    return None if values is None else values[load]


def _ports_finish_in_time(
    model: LinearModel, problem: Problem, link: IntArray, load: IntArray, finish: int
) -> None:
    """Sum of busy * load over the links of a port <= T, in parts of the longest busy time."""
    topology = problem.topology
    position, pair = topology.pairs_of(link)
    busy = topology.port_busy_us(pair, problem.chunk_mb)
    every = np.arange(topology.num_ports)
    model.add_rows(
        len(every),
        np.concatenate([topology.incidence[1][pair], every]),
        np.concatenate([load[position], np.full(len(every), finish)]),
        np.concatenate([busy / (busy.max(initial=0.0) or 1.0), np.full(len(every), -1.0)]),
        upper=0.0,
    )


def _dealt(
    problem: Problem, chunks: dict[int, list[int]], onward: _Onward, loads: FloatArray, budget: Budget
) -> Routes:
    """Whole chunks for the loads; the chunks that a rank takes over one link are neighbours."""
    dst = problem.topology.dst
    candidates: dict[tuple[int, int], list[FlowPath]] = {}
    for source, link, load in zip(onward.source.tolist(), onward.link.tolist(), loads.tolist(), strict=True):
        if load > 1e-6:
            candidates.setdefault((source, int(dst[link])), []).append(FlowPath((link,), load))
    wanted = {(source, rank): len(chunks[source]) for source, rank in candidates}
    carried: list[tuple[list[int], int, int]] = []
    for (source, rank), counts in whole_chunks(problem, candidates, wanted, budget).items():
        first = 0
        for way, count in zip(candidates[source, rank], counts, strict=True):
            carried.append((chunks[source][first : first + count], way.links[0], source))
            first += count
    return copies_of(carried, turns(problem.collective.source))
