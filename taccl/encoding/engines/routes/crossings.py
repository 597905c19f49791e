"""Unequal parts between equal nodes: balanced in a node, across from equal to equal, spread in the node.

Every chunk for another node is dealt to a rail (`core.dealing`), and goes to it, over it, and from it to its
target. Matchings are tried, and pipelines in the order in which rails would pass what could be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.dealing import dealt
from taccl.encoding.engines.routes.choice import Choice, powers_of_two
from taccl.encoding.engines.routes.columns import Routes
from taccl.encoding.engines.routes.tuning import CROSSINGS_WAVES, MOST_TOGETHER
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.schedule.numbering import by_value
from taccl.support.budget import Budget


def serves_crossings(instance: Instance) -> bool:
    """Whether chunks of unequal sizes go from rank to rank between equal nodes with links for all places."""
    problem = instance.problem
    if problem.sizes is None or not instance.demand.moves_pairwise or problem.limits.may_use is not None:
        return False
    return _links(problem.topology) is not None


def crossings(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
    """The rails of all chunks, in the order of their matchings."""
    problem = instance.problem
    topology, collective = problem.topology, problem.collective
    link = _links(topology)
    if link is None:
        return
    places = topology.num_ranks // topology.num_nodes
    chunk = instance.demand.from_one_to_another
    source, target = collective.source[chunk], collective.destination[chunk]
    size = problem.size_mb[chunk]
    crosses = source // places != target // places
    turn = np.zeros(len(chunk))
    by_way = np.stack([source, source, target, target])
    if crosses.any():
        of = dealt(source[crosses], target[crosses], size[crosses], topology.num_nodes, places)
        turn[crosses] = of.start / of.whole
        by_way[1, crosses] = source[crosses] // places * places + of.rail
        by_way[2, crosses] = target[crosses] // places * places + of.rail
    turn[~crosses] = _spread(source[~crosses], size[~crosses])
    by_way[1, ~crosses] = target[~crosses]
    begins, ends = by_way[:-1].T.ravel(), by_way[1:].T.ravel()
    moves = np.flatnonzero(begins != ends)
    of_chunk = moves // (len(by_way) - 1)
    routes = Routes(
        chunk[of_chunk],
        link[begins[moves], ends[moves]],
        np.zeros(len(moves), dtype=np.bool_),
        target[of_chunk],
        turn[of_chunk],
        mixes=True,
    )
    most = powers_of_two(min(problem.max_group, MOST_TOGETHER, len(chunk)))
    yield Choice(routes, most, matches=True, waves=CROSSINGS_WAVES)


def _links(topology: LogicalTopology) -> IntArray | None:
    """The link between each two ranks, -1 for none; None: nodes are unequal, or paths of rails lack links."""
    nodes, ranks = topology.num_nodes, topology.num_ranks
    places = ranks // nodes
    if not 1 < nodes < ranks or not np.array_equal(topology.node_of, np.arange(ranks) // places):
        return None
    link = np.full((ranks, ranks), -1, dtype=np.int64)
    link[topology.src, topology.dst] = np.arange(topology.num_links)
    node, place = np.divmod(np.arange(ranks), places)
    needed = (node[:, None] == node) | (place[:, None] == place)
    np.fill_diagonal(needed, False)
    return link if (link[needed] >= 0).all() else None


def _spread(source: IntArray, size: FloatArray) -> FloatArray:
    """Turns of what stays in a node, spread over the whole time: ports inside have time to spare."""
    order = by_value(source)
    sums = np.concatenate([[0.0], np.cumsum(size[order])])
    begins, ends = (np.searchsorted(source[order], source[order], side) for side in ("left", "right"))
    turn = np.empty(len(size))
    turn[order] = (sums[:-1] - sums[begins]) / (sums[ends] - sums[begins])
    return turn
