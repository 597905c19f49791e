"""Paths of a cluster of equal nodes that is too large for a path from each GPU to each other one.

Between nodes only equal GPUs are linked then (rails), and where even that is too many, only nodes whose
numbers differ by a power of two: from any node to any other in as many steps as its number has bits.
Paths are found for the GPUs of node 0 and moved on from node to node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taccl.model.collective import IntArray
from taccl.sketch.layout import Layout
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies.devices import NO_NODE
from taccl.topologies.model import Path, PhysicalTopology


def paths_of_equal_nodes(topology: PhysicalTopology, layout: Layout) -> list[Path] | None:
    """Paths inside all nodes and between equal GPUs of nodes, at most MAX_LINKS; None: not equivalent."""
    gpus, num_nodes = layout.gpus_per_node, len(layout.ranks)
    if gpus is None or num_nodes < 2 or gpus * num_nodes != layout.num_ranks:
        return None
    inside = num_nodes * gpus * (gpus - 1)
    for distances in (range(1, num_nodes), _powers_of_two(num_nodes)):
        if inside + num_nodes * gpus * len(distances) <= MAX_LINKS:
            break
    else:
        return None
    moved = _moved_on(topology, layout)
    of_node_0 = list(_paths_from_node_0(topology, gpus, distances))
    joined = {path.dst_rank // gpus for path in of_node_0} - {0}
    if moved is None or joined != set(distances):
        return None
    return list(_everywhere(of_node_0, moved, num_nodes, gpus))


def nodes_are_equivalent(topology: PhysicalTopology, layout: Layout) -> bool:
    """Whether going on from each node to the next, and from the last to the first, changes nothing."""
    gpus, nodes = layout.gpus_per_node, len(layout.ranks)
    return gpus is not None and gpus * nodes == layout.num_ranks and _moved_on(topology, layout) is not None


def _powers_of_two(num_nodes: int) -> Sequence[int]:
    steps = [1 << bit for bit in range(num_nodes.bit_length()) if 1 << bit < num_nodes]
    return sorted({*steps, *(num_nodes - step for step in steps)})


def _paths_from_node_0(topology: PhysicalTopology, gpus: int, distances: Sequence[int]) -> Iterator[Path]:
    for src in range(gpus):
        paths = topology.paths_from(src)
        ends = (
            *(gpu for gpu in range(gpus) if gpu != src),
            *(distance * gpus + src for distance in distances),
        )
        yield from (paths[end] for end in ends if end in paths)


def _everywhere(of_node_0: list[Path], moved: IntArray, num_nodes: int, gpus: int) -> Iterator[Path]:
    links = [np.array(path.links) for path in of_node_0]
    num_ranks = num_nodes * gpus
    for node in range(num_nodes):
        for number, path in enumerate(of_node_0):
            yield Path(
                path.src_rank + node * gpus,
                (path.dst_rank + node * gpus) % num_ranks,
                tuple(links[number].tolist()),
                path.alpha_us,
                path.beta_us_per_mb,
            )
            links[number] = moved[links[number]]


def _moved_on(topology: PhysicalTopology, layout: Layout) -> IntArray | None:
    """The link of the next node, and of the first after the last, for each link; None: one is missing or
    costs something else.
    """
    nodes = [topology.gpus[ranks[0]].node for ranks in layout.ranks]
    following = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True)) | {NO_NODE: NO_NODE}
    by_place = {(device.node, device.kind, device.local): device.name for device in topology.devices}
    if len(by_place) < len(topology.devices) or not {node for node, _, _ in by_place} <= set(following):
        return None
    image = {
        device.name: by_place.get((following[device.node], device.kind, device.local), "")
        for device in topology.devices
    }
    number = {(link.src, link.dst): each for each, link in enumerate(topology.links)}
    moved = np.array([number.get((image[link.src], image[link.dst]), -1) for link in topology.links])
    if (moved < 0).any():
        return None
    costs = np.array([(link.alpha_us, link.beta_us_per_mb) for link in topology.links])
    return moved if bool((costs[moved] == costs).all()) else None
