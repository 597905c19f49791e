"""Ways from a root to each of the others, so that together they keep no port busy much longer than others.

Each rank's part takes a shortest path at prices that rise with what ports carry already (after Plotkin,
Shmoys and Tardos 1995), the farthest rank first; then each is taken out and chosen again next to all others.
What rides along, over a link that is used already, may count less than one alpha: then parts share links, and
sends.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from taccl.encoding.core.costs import costs_of
from taccl.encoding.engines.streams.tuning import LEAST_PRICE, POWER, TURNS
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


def paths_of(
    problem: Problem, far_us: FloatArray, parts: int, rides: float
) -> dict[int, list[tuple[int, ...]]]:
    """The links from the root to each rank, in order, once for each of equal parts of what it wants.

    Parameters
    ----------
    problem : all chunks start at one rank, and each is wanted by one, as many by each.
    far_us : shape (num_ranks,); how far each rank is from the root.
    parts : how many paths each rank has.
    rides : how much less an alpha counts where a link is used already, from 0 to 1.
    """
    topology, root = problem.topology, int(problem.collective.source[0])
    part_mb = problem.chunk_mb * problem.collective.chunks_per_rank / parts
    ends = [
        rank for rank in np.argsort(-far_us, kind="stable").tolist() if rank != root for _ in range(parts)
    ]
    paths, network = [np.zeros(0, np.int64)] * len(ends), _Network(problem, part_mb, rides)
    for turn in range(TURNS * len(ends)):
        at = turn % len(ends)
        network.uses[paths[at]] -= 1
        above = network.cheapest(root)
        path, rank = list[int](), ends[at]
        while rank != root:
            path.append(topology.link_index[int(above[rank]), rank])
            rank = int(above[rank])
        paths[at] = np.array(path[::-1])
        network.uses[paths[at]] += 1
    found: dict[int, list[tuple[int, ...]]] = {}
    for rank, links in zip(ends, paths, strict=True):
        found.setdefault(rank, []).append(tuple(links.tolist()))
    return found


class _Network:
    """The links with their prices; `uses`, shape (num_links,), is how many paths use each."""

    def __init__(self, problem: Problem, part_mb: float, rides: float) -> None:
        topology, self._costs = problem.topology, costs_of(problem.topology)
        self.uses, self._rides = np.zeros(topology.num_links, np.int64), rides
        self._link = topology.incidence[0]
        self._beta_us = part_mb * self._costs.busy_beta_us
        self._order = np.lexsort((topology.dst, topology.src))
        self._dst = topology.dst[self._order]
        self._first = np.searchsorted(topology.src[self._order], np.arange(problem.num_ranks + 1))

    def cheapest(self, root: int) -> IntArray:
        """The rank before each on its cheapest path from the root, shape (num_ranks,)."""
        costs, uses = self._costs, self.uses[self._link]
        sends = (1.0 - self._rides) * uses + self._rides * np.minimum(uses, 1)
        load_us = np.bincount(costs.port, sends * costs.busy_alpha_us + uses * self._beta_us)
        price = (load_us / max(float(load_us.max()), np.finfo(float).tiny)) ** POWER + LEAST_PRICE
        alpha_us = np.where(uses > 0, 1.0 - self._rides, 1.0) * costs.busy_alpha_us
        weight = np.bincount(self._link, price[costs.port] * (alpha_us + self._beta_us), len(self.uses))
        shape = (len(self._first) - 1,) * 2
        network = csr_array((weight[self._order], self._dst, self._first), shape=shape)
        above: IntArray = dijkstra(network, indices=root, return_predecessors=True)[1]
        return above
