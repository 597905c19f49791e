"""How many links from rank to rank a sketch will make of a machine, without looking for any path.

A machine whose GPUs all reach each other has about as many as ranks squared, and for each a path has to be
found; so they are counted first. Counted are the pairs of GPUs with a way past switches, bridges, NICs and
the fabric, whichever way the links between those lead: where some lead one way only, there may be fewer.
"""

from __future__ import annotations

import numpy as np

from taccl.collectives import BoolArray
from taccl.sketch.layout import Layout
from taccl.sketch.model import Internode, Sketch
from taccl.topologies.model import DeviceKind, PhysicalTopology

_INSIDE_NODE: frozenset[DeviceKind] = frozenset(("switch", "pcie"))
_BETWEEN_NODES: frozenset[DeviceKind] = frozenset(("switch", "pcie", "nic", "fabric"))


def count_links(sketch: Sketch, topology: PhysicalTopology, layout: Layout) -> int:
    """The number of links from rank to rank, or somewhat more."""
    same_node = layout.node_of[:, None] == layout.node_of
    inside = int((_reached(topology, _INSIDE_NODE) & same_node).sum())
    if sketch.internode.strategy == "none":
        return inside + int((_reached(topology, _BETWEEN_NODES) & ~same_node).sum())
    return inside + _named_between_nodes(sketch.internode, layout)


def _named_between_nodes(internode: Internode, layout: Layout) -> int:
    sizes = np.array([len(ranks) for ranks in layout.ranks])
    if internode.strategy == "fully-connected":
        return int(sizes.sum() ** 2 - (sizes**2).sum())
    if internode.strategy == "direct-map":
        return int(np.minimum(sizes[:, None], sizes).sum() - sizes.sum())
    relayed = {(relay.sender, receiver) for relay in internode.relays for receiver in relay.receivers}
    return len(relayed) * len(sizes) * (len(sizes) - 1)


def _reached(topology: PhysicalTopology, passed: frozenset[DeviceKind]) -> BoolArray:
    """Which GPU (row) may reach which other (column) past devices of these kinds, shape (ranks, ranks)."""
    rank_of, part_of = topology.rank_of, _parts(topology, passed)
    number = {part: i for i, part in enumerate(sorted(set(part_of.values())))}
    leaves = np.zeros((topology.num_ranks, len(number)), dtype=np.float32)
    enters = np.zeros_like(leaves)
    reached = np.zeros((topology.num_ranks, topology.num_ranks), dtype=np.bool_)
    for link in topology.links:
        if link.src in rank_of and link.dst in rank_of:
            reached[rank_of[link.src], rank_of[link.dst]] = True
        elif link.src in rank_of and link.dst in part_of:
            leaves[rank_of[link.src], number[part_of[link.dst]]] = 1
        elif link.dst in rank_of and link.src in part_of:
            enters[rank_of[link.dst], number[part_of[link.src]]] = 1
    reached |= leaves @ enters.T > 0
    np.fill_diagonal(reached, False)
    return reached


def _parts(topology: PhysicalTopology, passed: frozenset[DeviceKind]) -> dict[str, str]:
    """Each device of these kinds with one that stands for all that it is joined to past no GPU."""
    parent = {device.name: device.name for device in topology.devices if device.kind in passed}

    def top(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for link in topology.links:
        if link.src in parent and link.dst in parent:
            parent[top(link.src)] = top(link.dst)
    return {name: top(name) for name in parent}
