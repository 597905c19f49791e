"""Equal nodes of a cluster: the same links between the same places, and chunks reported by place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.equivalent_nodes import equivalent_nodes
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.gather_cross_scatter.tuning import NODES_MOST_PAIRS
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.node_parts import Inside
from taccl.model.collective import IntArray

#: With more ranks in a node, or more nodes, what happens in a node is too much for one model.
MOST_RANKS, MOST_NODES = 16, 8


@dataclass(frozen=True, eq=False)
class Nodes:
    """A cluster of equal nodes.

    Parameters
    ----------
    ranks : shape (num_nodes, size); the rank at each place.
    node, place : shape (num_ranks,); where in `ranks` each rank stands.
    inside : the links in a node, the same in each.
    links : shape (num_nodes, len(inside)); which links of the topology these are.
    routes : (place, place) -> shape (num_nodes, num_nodes), the link from the one place to the other between
        each two nodes, -1 on the diagonal; only where there is one between all nodes, at one cost.
    """

    ranks: IntArray
    node: IntArray
    place: IntArray
    inside: tuple[Inside, ...]
    links: IntArray
    routes: dict[tuple[int, int], IntArray]

    @property
    def num(self) -> int:
        return len(self.ranks)

    @property
    def size(self) -> int:
        """Ranks in a node."""
        return int(self.ranks.shape[1])


def serves(instance: Instance) -> Verdict:
    """Whether the problem only copies each chunk from one rank, on a cluster of few small equal nodes."""
    problem = instance.problem
    if not instance.demand.copies_from_one:
        return no("it is for chunks that are copied, each from one rank")
    if len(problem.collective.outputs) > NODES_MOST_PAIRS:
        return no(f"more than {NODES_MOST_PAIRS:,} outputs are too many for its models")
    if problem.limits.own_first is not None or problem.limits.may_use is not None:
        return no("a sketch says which chunks may use a link, or which go first")
    if problem.topology.port_betas is not None:
        return no("there are ports that are faster than their links")
    nodes = instance.once(equal_nodes)
    if nodes is None:
        return no(f"there are no 2 to {MOST_NODES} equal nodes of 2 to {MOST_RANKS} ranks")
    if not nodes.routes:
        return no("no two places of the nodes have a link between all nodes")
    if not _cross_one_by_one(instance):
        return no("links between nodes share no port of their node, so several chunks can cross at once")
    return YES


def _cross_one_by_one(instance: Instance) -> bool:
    """Whether all links out of each node share a port, and all links into it."""
    topology = instance.problem.topology
    between = np.flatnonzero(topology.internode).tolist()
    for ends in (topology.src, topology.dst):
        shared: dict[int, set[int]] = {}
        for link in between:
            node, ports = int(topology.node_of[ends[link]]), set(topology.ports[link])
            shared[node] = shared.get(node, ports) & ports
        if not all(shared.values()):
            return False
    return True


def equal_nodes(instance: Instance) -> Nodes | None:
    """The nodes, if they are few, small and equal; for `Instance.once`."""
    topology = instance.problem.topology
    ranks = topology.equal_nodes
    if ranks is None or len(ranks) > MOST_NODES or ranks.shape[1] > MOST_RANKS:
        return None
    equal = equivalent_nodes(topology)
    if equal is None:
        return None
    node, place = np.zeros(topology.num_ranks, np.int64), np.zeros(topology.num_ranks, np.int64)
    node[ranks], place[ranks] = np.indices(ranks.shape)
    inside = _inside(instance, equal.links[0].tolist(), place)
    return Nodes(ranks, node, place, inside, equal.links, _routes(instance, node, place, len(ranks)))


def _inside(instance: Instance, links: list[int], place: IntArray) -> tuple[Inside, ...]:
    topology = instance.problem.topology
    number: dict[int, int] = {}
    return tuple(
        Inside(
            int(place[topology.src[link]]),
            int(place[topology.dst[link]]),
            float(topology.alpha_us[link]),
            float(topology.beta_us_per_mb[link] * instance.problem.chunk_mb),
            tuple(number.setdefault(port, len(number)) for port in topology.ports[link]),
        )
        for link in links
    )


def _routes(instance: Instance, node: IntArray, place: IntArray, num: int) -> dict[tuple[int, int], IntArray]:
    """Between which places a link leads from every node to every other."""
    topology = instance.problem.topology
    found: dict[tuple[int, int], IntArray] = defaultdict(lambda: np.full((num, num), -1, dtype=np.int64))
    for link in np.flatnonzero(node[topology.src] != node[topology.dst]).tolist():
        src, dst = topology.src[link], topology.dst[link]
        found[int(place[src]), int(place[dst])][node[src], node[dst]] = link
    apart = ~np.eye(num, dtype=np.bool_)
    kept = {}
    for places, links in sorted(found.items()):
        between = links[apart]
        if (between >= 0).all() and all(
            len(np.unique(cost[between])) == 1 for cost in (topology.alpha_us, topology.beta_us_per_mb)
        ):
            kept[places] = links
    return kept
