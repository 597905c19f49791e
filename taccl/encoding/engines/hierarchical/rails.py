"""Rails: which GPUs send to other nodes, to whom, and by which nodes every node is reached.

A rail is a pair of GPUs: the one sends from any node, the other receives in the next. All rails of a cluster
are used equivalent, so there are as many as divide the GPUs of a node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from taccl.encoding.engines.hierarchical.cluster import Cluster
from taccl.model.network import LogicalTopology

#: Links whose betas differ by less than this part are equally fast.
_SAME_BETA = 1e-6


@dataclass(frozen=True)
class Rails:
    """How data leaves node 0.

    Parameters
    ----------
    pairs : sending and receiving GPU of each rail.
    order : all nodes but 0, those that can pass something on before those that need it.
    parent : from which node each node in `order` gets everything.
    """

    pairs: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    parent: tuple[int, ...]


def rails_of(cluster: Cluster, topology: LogicalTopology, both_directions: bool) -> list[Rails]:
    """The rails of a cluster, in the routes that promise something, the most rails first.

    `both_ways` : sums take the way back, so the link back must be there, too.
    """
    between = _betas_from_node_0(cluster, topology, both_directions)
    reach = Counter(pair for pairs in between.values() for pair in pairs)
    if not reach:
        return []
    most = max(reach.values())
    common = [pair for pair in reach if reach[pair] == most]
    beta = {pair: max(pairs[pair] for pairs in between.values() if pair in pairs) for pair in common}
    fastest = [pair for pair in common if beta[pair] <= min(beta.values()) * (1 + _SAME_BETA)]
    found: dict[tuple[tuple[int, int], ...], Rails] = {}
    for pairs in (common, fastest, _one_of_each_door(cluster, topology, fastest)):
        if not pairs:
            continue
        chosen = _divides(_matched(pairs, beta), cluster.gpus)
        neighbours = [node for node, routes in between.items() if all(pair in routes for pair in chosen)]
        tree = _by_breadth(cluster, neighbours)
        if chosen not in found and tree is not None:
            found[chosen] = Rails(chosen, *tree)
    return list(found.values())


def _one_of_each_door(
    cluster: Cluster, topology: LogicalTopology, pairs: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Pairs of equal GPUs, one of those whose paths out share a port: the port pays one alpha a round."""
    chosen: dict[frozenset[int], tuple[int, int]] = {}
    for src, dst in sorted(pairs):
        links = topology.links_from[src]
        out = [set(topology.ports[link]) for link in links if topology.dst[link] >= cluster.gpus]
        if src == dst:
            chosen.setdefault(frozenset(set.intersection(*out)) or frozenset([-1 - src]), (src, dst))
    return list(chosen.values())


def _betas_from_node_0(
    cluster: Cluster, topology: LogicalTopology, both_directions: bool
) -> dict[int, dict[tuple[int, int], float]]:
    """Node -> (GPU of node 0, GPU of that node) -> the beta of the link between them."""
    gpus = cluster.gpus
    found: dict[int, dict[tuple[int, int], float]] = {}
    for link in np.flatnonzero((topology.src < gpus) & (topology.dst >= gpus)).tolist():
        src, dst = int(topology.src[link]), int(topology.dst[link])
        if both_directions and (dst, src) not in topology.link_index:
            continue
        found.setdefault(dst // gpus, {})[src, dst % gpus] = float(topology.beta_us_per_mb[link])
    return found


def _matched(pairs: list[tuple[int, int]], beta: dict[tuple[int, int], float]) -> tuple[tuple[int, int], ...]:
    """Pairs with no GPU twice at an end: equal GPUs before others, fast before slow."""
    chosen: list[tuple[int, int]] = []
    senders, receivers = set(), set()
    for src, dst in sorted(pairs, key=lambda pair: (pair[0] != pair[1], beta[pair], pair)):
        if src not in senders and dst not in receivers:
            chosen.append((src, dst))
            senders.add(src)
            receivers.add(dst)
    return tuple(sorted(chosen))


def _divides(pairs: tuple[tuple[int, int], ...], gpus: int) -> tuple[tuple[int, int], ...]:
    """As many of the rails as divide the GPUs of a node, spread over them."""
    many = max(number for number in range(1, len(pairs) + 1) if gpus % number == 0)
    return tuple(pairs[number * len(pairs) // many] for number in range(many))


def _by_breadth(cluster: Cluster, neighbours: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """All nodes in the order of their distance from node 0, and the one before each; None: not all."""
    parent = {0: 0}
    front = [0]
    while front and len(parent) < cluster.num_nodes:
        after: list[int] = []
        # Nodes that the first of a front can reach are shared among all: none has to pass on to many.
        for neighbour in neighbours:
            for node in front:
                reached = int(cluster.neighbours[node, neighbour])
                if reached not in parent:
                    parent[reached] = node
                    after.append(reached)
        front = after
    if len(parent) < cluster.num_nodes:
        return None
    order = [node for node in parent if node]
    return tuple(order), tuple(parent[node] for node in order)
