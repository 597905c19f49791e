"""Which links are worth a thought: the shortest-path sets that engines search in."""

from __future__ import annotations

import numpy as np

from taccl.collectives import BoolArray
from taccl.encoding.distance import distances_us
from taccl.problem import FloatArray, Problem


def shortest_path_sets(problem: Problem, slack: float) -> BoolArray:
    """The links on ways that are short enough for each chunk, shape (num_chunks, num_links)."""
    topology, collective = problem.topology, problem.collective
    duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    allowed = np.zeros((collective.num_chunks, topology.num_links), dtype=np.bool_)
    distance_by_limits: dict[bytes, FloatArray] = {}
    for chunk in range(collective.num_chunks):
        usable = problem.usable(chunk)
        key = usable.tobytes()
        if key not in distance_by_limits:
            distance_by_limits[key] = distances_us(topology, duration, usable)
        distance = distance_by_limits[key]
        sources, wanting = collective.pre[chunk], collective.post[chunk] & ~collective.pre[chunk]
        if not wanting.any():
            continue
        reach = distance[sources].min(axis=0)
        through = (reach[topology.src] + duration)[:, None] + distance[topology.dst][:, wanting]
        short = (through <= slack * reach[wanting] * (1 + 1e-9)).any(axis=1)
        allowed[chunk] = short & usable & ~sources[topology.dst]
    return allowed
