"""Nodes of a cluster that are the same inside: what is decided for one of them holds for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology


@dataclass(frozen=True, eq=False)
class EquivalentNodes:
    """Nodes with the same links between the same places.

    Parameters
    ----------
    ranks : shape (num_nodes, size); the rank at each place.
    links : shape (num_nodes, links inside); which links of the topology these are, in one order.
    """

    ranks: IntArray
    links: IntArray


def equivalent_nodes(topology: LogicalTopology) -> EquivalentNodes | None:
    """The nodes, if there are several of one size with the same links and ports inside; else None."""
    ranks = topology.equal_nodes
    if ranks is None or ranks.shape[1] < 2:
        return None
    place = np.empty(topology.num_ranks, dtype=np.int64)
    place[ranks] = np.arange(ranks.shape[1])
    inside, first = [], None
    for node in topology.node_of[ranks[:, 0]].tolist():
        links = np.flatnonzero(
            (topology.node_of[topology.src] == node) & (topology.node_of[topology.dst] == node)
        )
        order = links[np.lexsort((place[topology.dst[links]], place[topology.src[links]]))]
        costs = topology.alpha_us[order], topology.beta_us_per_mb[order], _shared(topology, order)
        looks = (place[topology.src[order]], place[topology.dst[order]], *costs)
        first = first or looks
        if not all(np.array_equal(one, other) for one, other in zip(first, looks, strict=True)):
            return None
        inside.append(order)
    return EquivalentNodes(ranks, np.array(inside))


def _shared(topology: LogicalTopology, links: IntArray) -> IntArray:
    """The ports of some links, numbered as they come, with how many each link has between them."""
    number: dict[int, int] = {}
    reported = []
    for link in links.tolist():
        reported += [-1, *(number.setdefault(port, len(number)) for port in topology.ports[link])]
    return np.array(reported, dtype=np.int64)
