"""How fast rings or trees are by the links of a machine: the port that is busy longest tells."""

from __future__ import annotations

import numpy as np

from taccl.backend.graphs.document import ROOT, Shape
from taccl.model import units
from taccl.model.network import FloatArray, LogicalTopology


def pairs_of(shape: Shape, channel: tuple[int, ...]) -> list[tuple[int, int]]:
    """Who sends to whom in a channel, in a tree in both directions."""
    if shape == "ring":
        return list(zip(channel, channel[1:] + channel[:1], strict=True))
    up = [(rank, parent) for rank, parent in enumerate(channel) if parent != ROOT]
    return [*up, *((parent, rank) for rank, parent in up)]


def links_of(network: LogicalTopology, shape: Shape, channel: tuple[int, ...]) -> list[int] | None:
    """The links that a channel uses; None: the machine lacks one of them."""
    links = [network.link_index.get(pair) for pair in pairs_of(shape, channel)]
    return None if None in links else [link for link in links if link is not None]


def port_loads(network: LogicalTopology, links: list[int]) -> FloatArray:
    """How long each port is busy if 1 MB goes over each of these links, us, shape (num_ports,)."""
    _, pairs = network.pairs_of(np.array(links, dtype=np.int64))
    loads = np.bincount(network.incidence[1][pairs], network.pair_betas[pairs], network.num_ports)
    return np.asarray(loads, dtype=np.float64)


def allreduce_gbps(shape: Shape, num_ranks: int, most_us: float, channels: int) -> float:
    """What AllReduce moves, size over time, where 1 MB a channel keeps the busiest port busy for `most_us`.

    A ring sends each share 2 (n - 1) / n times over each of its links, a tree once.
    """
    often = 2 * (num_ranks - 1) / num_ranks if shape == "ring" else 1.0
    return units.bandwidth_gbps(units.MB, often * most_us / channels)


def gbps_of(network: LogicalTopology, shape: Shape, channels: tuple[tuple[int, ...], ...]) -> float:
    """What AllReduce moves through these channels together; 0 if the machine lacks one of their links."""
    links = [links_of(network, shape, channel) for channel in channels]
    used = [link for each in links if each is not None for link in each]
    if any(each is None for each in links) or not used:
        return 0.0
    most = float(port_loads(network, used).max())
    return allreduce_gbps(shape, network.num_ranks, most, len(channels)) if most else np.inf
