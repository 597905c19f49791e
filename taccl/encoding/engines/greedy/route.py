"""Fixed paths for chunks that have one source and one destination, spread over the ports.

Each chunk takes a shortest path, where the length of a link grows with the load that other chunks
already put on its ports. Chunks are routed again and again until the sweeps are over: a simple form
of the marginal-cost routing that flow deviation (Fratta, Gerla, Kleinrock 1973) is built on. Images of a
chunk under the symmetry take the images of its path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.encoding.core.distance import SinglePaths
from taccl.encoding.engines.greedy.tuning import ROUTE_LINKS_PER_UNIT, ROUTE_SHORTEST_US
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def spread_routes(
    problem: Problem,
    symmetry: SymmetryGroup,
    chunks: Sequence[int],
    congestion: float,
    sharing: bool,
    random: np.random.Generator,
    budget: Budget | None = None,
    sweeps: int = 3,
) -> dict[int, list[int]] | None:
    """The links that each of `chunks` takes from its source to its destination, in order.

    `congestion` weighs load against length: 0 gives shortest paths. With `sharing`, chunks on one link
    are taken to travel as one send and to pay one alpha, so paths are drawn together. `chunks` must be
    closed under the symmetry, and each must have one source, one destination and a path between them.
    None if the time is up before each has a path; without a budget, it takes the time that it needs.
    """
    loads = _Loads(problem, sharing)
    representatives = [c for c in chunks if symmetry.chunk_representative[c] == c]
    routes, shortest = dict[int, list[int]](), SinglePaths(problem.topology)
    for _ in range(sweeps if congestion > 0 or sharing else 1):
        for representative in random.permutation(representatives).tolist():
            if budget is not None:
                budget.spend(problem.topology.num_links / ROUTE_LINKS_PER_UNIT)
                if not budget.remaining_s():
                    return routes if len(routes) == len(chunks) else None
            orbit = _orbit(symmetry, representative)
            for chunk, _ in orbit:
                loads.add(routes.get(chunk, []), -1.0)
            path = _best_path(problem, representative, loads.lengths(congestion), shortest)
            for chunk, link_map in orbit:
                routes[chunk] = link_map[path].tolist()
                loads.add(routes[chunk], 1.0)
    return routes


def _orbit(symmetry: SymmetryGroup, chunk: int) -> list[tuple[int, IntArray]]:
    """Each image of a chunk, with the first element that makes it, acting on links."""
    images = symmetry.chunk_map[:, chunk]
    _, first = np.unique(images, return_index=True)
    return [(int(images[i]), symmetry.link_map[i]) for i in first]


def _best_path(problem: Problem, chunk: int, lengths: FloatArray, shortest: SinglePaths) -> list[int]:
    source = int(problem.collective.pre[chunk].argmax())
    target = int(problem.collective.post[chunk].argmax())
    path = shortest.path(lengths, source, target, problem.usable(chunk))
    assert path is not None, "reachability is checked before any engine runs"
    return path


class _Loads:
    """How long each port is kept busy by the paths chosen so far."""

    def __init__(self, problem: Problem, sharing: bool) -> None:
        topology = problem.topology
        self._link_of, self._port_of = topology.incidence
        self._duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
        self._cost = topology.beta_us_per_mb * problem.chunk_mb
        self._alpha = topology.slowest_busy_us(np.arange(topology.num_links), 0.0)
        self._pair_cost = topology.pair_betas * problem.chunk_mb
        self._sharing = sharing
        self._chunks = np.zeros(topology.num_links)

    def add(self, path: Sequence[int], times: float) -> None:
        """Count a path this many times more."""
        np.add.at(self._chunks, list(path), times)

    def lengths(self, congestion: float) -> FloatArray:
        """Duration of each link, plus what one more chunk adds to the loads of its ports, microseconds.

        If chunks are taken to share their sends, only the first on a link pays its alpha.
        """
        used = self._chunks > 0
        alphas = used if self._sharing else self._chunks
        busy = (alphas * self._alpha)[self._link_of] + self._chunks[self._link_of] * self._pair_cost
        load = np.bincount(self._port_of, busy)
        alpha = np.where(used & self._sharing, 0.0, self._alpha)
        more = self._cost + alpha
        per_pair = self._pair_cost + alpha[self._link_of]
        added = np.bincount(self._link_of, load[self._port_of] * per_pair, len(more))
        scale = load.max(initial=0.0)
        length = np.maximum(more, ROUTE_SHORTEST_US) if self._sharing else self._duration
        return length + (congestion * added / scale if scale > 0 else 0.0)
