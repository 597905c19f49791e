"""Bisection bandwidth: what a machine can move between its halves, at worst.

Of a split of the ranks, the bandwidth is the maximum flow from the GPUs of one part to those of the
other over all links, in the direction that has less. The bisection bandwidth is the least over
all splits into halves. Inside one node nothing flows through NICs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from taccl.errors import TopologyError
from taccl.model.units import MB, bandwidth_gbps
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.without import without_helpers

if TYPE_CHECKING:
    import networkx as nx

#: With no more splits than this, all are tried.
MAX_SPLITS = 300

#: Bandwidths are flows of whole KB/s, so that measured ones with many decimals cannot upset max-flow.
_UNITS_PER_GBPS = 10**6


@dataclass(frozen=True)
class Bisection:
    """A split of the ranks, and what the machine can move across it.

    Parameters
    ----------
    gbps : GB/s in the slower direction; infinite where links of beta 0 join the parts.
    part : the ranks of the one part (the smaller, if they differ).
    exact : whether every split was tried. If not, the true bisection bandwidth is `gbps` or less.
    """

    gbps: float
    part: tuple[int, ...]
    exact: bool


def bisection(topology: PhysicalTopology) -> Bisection:
    """The bisection bandwidth, and a split that shows it.

    A machine of several nodes is split between nodes, never inside one. When there are more than
    MAX_SPLITS routes to halve it, only some are tried: the first half in order, every other one, and
    the halves by the second eigenvector of the graph's Laplacian, which finds the narrow place of
    most regular machines.

    Raises
    ------
    TopologyError : there is only one rank.
    """
    topology = without_helpers(topology)
    if topology.num_ranks < 2:
        raise TopologyError(f"{topology.name!r} has one rank, which has no halves")
    groups = _groups(topology)
    half = len(groups) // 2
    tries = math.comb(len(groups), half) // (2 if len(groups) % 2 == 0 else 1)
    exact = tries <= MAX_SPLITS
    splits = _all_splits(len(groups), half) if exact else _likely_splits(topology, groups)
    parts = [tuple(sorted(rank for group in split for rank in groups[group])) for split in splits]
    network = _flow_network(topology)
    gbps, part = min((_bandwidth(topology, network, part), part) for part in parts)
    return Bisection(gbps, part, exact)


def _groups(topology: PhysicalTopology) -> list[list[int]]:
    """What stays together: the ranks of each node, or each rank when there is one node."""
    if topology.num_nodes == 1:
        return [[rank] for rank in range(topology.num_ranks)]
    nodes: dict[int, list[int]] = {}
    for rank, gpu in enumerate(topology.gpus):
        nodes.setdefault(gpu.node, []).append(rank)
    return list(nodes.values())


def _all_splits(count: int, half: int) -> Iterator[tuple[int, ...]]:
    """Every split once: the parts with element 0, where both parts are equally large."""
    if count % 2 == 0:
        return ((0, *rest) for rest in combinations(range(1, count), half - 1))
    return combinations(range(count), half)


def _likely_splits(topology: PhysicalTopology, groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    half = len(groups) // 2
    order = np.argsort(_second_eigenvector(topology, groups), kind="stable")
    splits = (range(half), range(0, 2 * half, 2), map(int, order[:half]), map(int, order[::-1][:half]))
    return list(dict.fromkeys(tuple(sorted(split)) for split in splits))


def _second_eigenvector(topology: PhysicalTopology, groups: Sequence[Sequence[int]]) -> np.ndarray:
    group_of = {rank: group for group, ranks in enumerate(groups) for rank in ranks}
    weights = np.zeros((len(groups), len(groups)))
    for src in range(topology.num_ranks):
        for dst in range(topology.num_ranks):
            path = None if src == dst else topology.host_path(src, dst)
            if path is not None and group_of[src] != group_of[dst]:
                weights[group_of[src], group_of[dst]] += 1.0 / max(path.beta_us_per_mb, 1e-9)
    weights += weights.T
    laplacian = np.diag(weights.sum(axis=1)) - weights
    return np.asarray(np.linalg.eigh(laplacian)[1][:, 1].round(9))


def _flow_network(topology: PhysicalTopology) -> nx.DiGraph[str]:
    import networkx as nx  # takes long, and few calls need it

    network: nx.DiGraph[str] = nx.DiGraph()
    network.add_nodes_from(device.name for device in topology.devices)
    idle = {device.name for device in topology.devices if device.kind == "nic" and topology.num_nodes == 1}
    for link in topology.links:
        if link.src in idle or link.dst in idle:
            continue
        gbps = bandwidth_gbps(MB, link.beta_us_per_mb)
        if math.isinf(gbps):
            network.add_edge(link.src, link.dst)
        else:
            network.add_edge(link.src, link.dst, capacity=round(gbps * _UNITS_PER_GBPS))
    return network


def _bandwidth(topology: PhysicalTopology, network: nx.DiGraph[str], part: Collection[int]) -> float:
    inside = {topology.gpus[rank].name for rank in part}
    outside = {gpu.name for gpu in topology.gpus} - inside
    return min(_flow(network, inside, outside), _flow(network, outside, inside))


def _flow(network: nx.DiGraph[str], sources: set[str], sinks: set[str]) -> float:
    """Maximum flow from all sources to all sinks, GB/s."""
    import networkx as nx

    ends: nx.DiGraph[str] = nx.DiGraph(network)
    ends.add_edges_from(("", source) for source in sources)
    ends.add_edges_from((sink, " ") for sink in sinks)
    try:
        flow, _ = nx.maximum_flow(ends, "", " ")
    except nx.NetworkXUnbounded:
        return math.inf
    return float(flow) / _UNITS_PER_GBPS
