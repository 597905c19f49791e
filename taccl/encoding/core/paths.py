"""Which links are worth a thought: the shortest-path sets that engines search in."""

from __future__ import annotations

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.core.earliest import ChunkKinds
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


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
        through = arrival[:, None] + distance[topology.dst][:, wanting]
        short = (through <= slack * reach[wanting] * (1 + 1e-9)).any(axis=1)
        allowed[chunk] = short & usable & ~sources[topology.dst]
    return allowed
