"""Fixed ways for chunks that have one source and one destination, spread over the ports.

Each chunk takes a shortest path, where the length of a link grows with the load that other chunks
already put on its ports. Chunks are routed again and again until the sweeps are over: a simple form
of the marginal-cost routing that flow deviation (Fratta, Gerla, Kleinrock 1973) is built on. Images of a
chunk under the symmetry take the images of its way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.distance import shortest_path
from taccl.encoding.symmetry import SymmetryGroup
from taccl.problem import FloatArray, Problem


def spread_routes(
    problem: Problem,
    symmetry: SymmetryGroup,
    chunks: Sequence[int],
    congestion: float,
    random: np.random.Generator,
    sweeps: int = 3,
) -> dict[int, list[int]]:
    """The links that each of `chunks` takes from its source to its destination, in order.

    `congestion` weighs load against length: 0 gives shortest paths. `chunks` must be closed under
    the symmetry, and each must have one source, one destination and a way between them.
    """
    loads = _Loads(problem)
    representatives = [c for c in chunks if symmetry.chunk_representative[c] == c]
    routes: dict[int, list[int]] = {}
    for _ in range(sweeps if congestion > 0 else 1):
        for representative in random.permutation(representatives).tolist():
            orbit = _orbit(symmetry, representative)
            for chunk, _ in orbit:
                loads.add(routes.get(chunk, []), -1.0)
            way = _best_way(problem, representative, loads.lengths(congestion))
            for chunk, link_map in orbit:
                routes[chunk] = link_map[way].tolist()
                loads.add(routes[chunk], 1.0)
    return routes


def _orbit(symmetry: SymmetryGroup, chunk: int) -> list[tuple[int, IntArray]]:
    """Each image of a chunk, with the first element that makes it, acting on links."""
    images = symmetry.chunk_map[:, chunk]
    _, first = np.unique(images, return_index=True)
    return [(int(images[i]), symmetry.link_map[i]) for i in first]


def _best_way(problem: Problem, chunk: int, lengths: FloatArray) -> list[int]:
    source = int(problem.collective.pre[chunk].argmax())
    target = int(problem.collective.post[chunk].argmax())
    way = shortest_path(problem.topology, lengths, source, target, problem.usable(chunk))
    assert way is not None, "reachability is checked before any engine runs"
    return way


class _Loads:
    """How long each port is kept busy by the ways chosen so far."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        links = np.arange(topology.num_links)
        self._ports = topology.ports
        self._link_of, self._port_of = topology.incidence
        self._duration = topology.duration_us(links, problem.chunk_mb)
        self._busy = topology.busy_us(links, problem.chunk_mb)
        self._load = np.zeros(topology.num_ports)

    def add(self, way: Sequence[int], times: float) -> None:
        for link in way:
            for port in self._ports[link]:
                self._load[port] += times * self._busy[link]

    def lengths(self, congestion: float) -> FloatArray:
        """Duration of each link, plus what its ports' loads add, in microseconds."""
        load = np.bincount(
            self._link_of, self._load[self._port_of] * self._busy[self._link_of], len(self._duration)
        )
        scale = self._load.max(initial=0.0)
        return self._duration + (congestion * load / scale if scale > 0 else 0.0)
