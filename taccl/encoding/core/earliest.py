"""How early each output can be there, at best, and the links of paths that are nearly as early.

A copy is there no sooner than it can come from the nearest of its sources, each from its ready time on; a
sum no sooner than every contribution can come, each by itself. What travels in a group, or waits for a port
or for what it is added to, is no earlier for it; nor is it where a rank may not sum or not copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.core.tuning import EARLIEST_MOST_SIZES
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


class ChunkKinds(NamedTuple):
    """Chunks of about one size that may use the same links.

    Parameters
    ----------
    distance_us : least times between ranks, shape (num_kinds, num_ranks, num_ranks).
    of_chunk : the kind of each chunk, shape (num_chunks,); a chunk is as large as that, or a little larger.
    duration_us : how long one takes alone on each link, shape (num_kinds, num_links).
    """

    distance_us: FloatArray
    of_chunk: IntArray
    duration_us: FloatArray


def earliest_us(problem: Problem, kinds: ChunkKinds) -> FloatArray:
    """For each row of the collective's outputs: no schedule is done with it, and its tail, sooner.

    Returns microseconds, shape (len(outputs),); inf where no way leads there.
    """
    collective = problem.collective
    inputs, outputs = collective.inputs, collective.outputs
    ready = np.zeros(len(inputs)) if problem.ready_us is None else problem.ready_us
    tail = np.zeros(len(outputs)) if problem.tail_us is None else problem.tail_us
    if problem.sum_work_us is not None:  # each contribution passes the rank where its sum is worked on
        tail = tail + problem.sum_work_us[outputs.chunk]
    distances, kind, _ = kinds
    starts, wanted = (np.argsort(placement.chunk, kind="stable") for placement in (inputs, outputs))
    first, first_wanted = (
        np.searchsorted(placement.chunk[order], np.arange(collective.num_chunks + 1))
        for placement, order in ((inputs, starts), (outputs, wanted))
    )
    earliest = np.array(tail)
    arrivals: dict[tuple[object, ...], FloatArray] = {}  # the chunks of an AllReduce all have one
    for chunk in range(collective.num_chunks):
        here = starts[first[chunk] : first[chunk + 1]]
        there = wanted[first_wanted[chunk] : first_wanted[chunk + 1]]
        if not (len(here) and len(there)):
            continue
        columns = inputs.rank[here], outputs.rank[there], ready[here]
        key = (bool(collective.reduces[chunk]), int(kind[chunk]), *(column.tobytes() for column in columns))
        if key not in arrivals:
            arrival = distances[kind[chunk]][np.ix_(*columns[:2])] + columns[2][:, None]
            arrivals[key] = arrival.max(axis=0) if key[0] else arrival.min(axis=0)
        earliest[there] += arrivals[key]
    return earliest


def chunk_kinds(problem: Problem) -> ChunkKinds:
    """The kinds of chunks by their sizes and by the links that they may use; no time is too long."""
    topology, collective = problem.topology, problem.collective
    sizes, size_of = np.unique(problem.size_mb, return_inverse=True)
    if len(sizes) > EARLIEST_MOST_SIZES:
        kept = np.unique(np.quantile(sizes, np.linspace(0.0, 1.0, EARLIEST_MOST_SIZES), method="lower"))
        size_of = np.searchsorted(kept, problem.size_mb, side="right") - 1
        sizes = kept
    may_use = problem.limits.may_use
    everything = np.ones((1, topology.num_links), dtype=np.bool_)
    limits, limit_of_owner = (
        (everything, np.zeros(problem.num_ranks, dtype=np.int64))
        if may_use is None
        else np.unique(may_use, axis=0, return_inverse=True)
    )
    pairs = size_of.ravel() * len(limits) + limit_of_owner.ravel()[collective.owner]
    used, kind = np.unique(pairs, return_inverse=True)
    every = np.arange(topology.num_links)
    durations = [topology.duration_us(every, float(sizes[pair // len(limits)])) for pair in used.tolist()]
    distances = [
        distances_us(topology, duration, limits[pair % len(limits)])
        for pair, duration in zip(used.tolist(), durations, strict=True)
    ]
    shape = (len(used), problem.num_ranks, problem.num_ranks)
    return ChunkKinds(np.array(distances).reshape(shape), kind.ravel(), np.array(durations))


def distances_by_limits(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Least times between ranks over the links that a chunk may use, and who may use the same.

    For a problem with limits; `Instance.distances_by_limits` asks, and knows what to say without.
    Returns the times, shape (num_kinds, num_ranks, num_ranks), and the kind of each chunk, shape
    (num_chunks,): chunks of a kind may use the same links.
    """
    topology = problem.topology
    duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    assert problem.limits.may_use is not None, "without limits there is one kind of chunks"
    usable, kind_of_owner = np.unique(problem.limits.may_use, axis=0, return_inverse=True)
    distance = np.array([distances_us(topology, duration, links) for links in usable])
    return distance, kind_of_owner.ravel()[problem.collective.owner]


def shortest_path_sets(problem: Problem, kinds: ChunkKinds, slack: float) -> BoolArray:
    """The links on routes that are short enough for each chunk, shape (num_chunks, num_links)."""
    topology, collective = problem.topology, problem.collective
    allowed = np.zeros((collective.num_chunks, topology.num_links), dtype=np.bool_)
    for chunk, kind in enumerate(kinds.of_chunk.tolist()):
        usable, distance = problem.usable(chunk), kinds.distance_us[kind]
        sources, wanting = collective.pre[chunk], collective.post[chunk] & ~collective.pre[chunk]
        if not wanting.any():
            continue
        reach = distance[sources].min(axis=0)
        arrival = reach[topology.src] + kinds.duration_us[kind]
        # The latest that a rank may have it so that one who wants it does not have it too late.
        onwards = distance[:, wanting]
        may_be = slack * reach[wanting] * (1 + 1e-9) - np.where(np.isfinite(onwards), onwards, 0.0)
        latest = np.where(np.isfinite(onwards), may_be, -np.inf).max(axis=1)
        allowed[chunk] = (arrival <= latest[topology.dst]) & usable & ~sources[topology.dst]
    return allowed
