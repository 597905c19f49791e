"""Paths of a cluster of equal nodes: found for the GPUs of node 0, and moved on from node to node.

Where a path from each GPU to each other one is too many, only equal GPUs of nodes are linked (rails), and
where even that is too many, only nodes whose numbers differ by a power of two: from any node to any other in
as many steps as its number has bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from taccl.model.collective import IntArray
from taccl.sketch.layout import SketchLayout
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies.devices import NO_NODE, Device
from taccl.topologies.model import Path, PhysicalTopology


def paths_of_equal_nodes(topology: PhysicalTopology, layout: SketchLayout) -> list[Path] | None:
    """Paths inside all nodes and between equal GPUs of nodes, at most MAX_LINKS; None: not equivalent.

    Helpers of a node count as inside it; helpers of no node are linked to all GPUs that reach them.
    """
    gpus, num_nodes = layout.gpus_per_node, topology.num_nodes
    if gpus is None or num_nodes < 2 or gpus * num_nodes != layout.num_members:
        return None
    moved = moved_on(topology, layout)
    if moved is None:
        return None
    helpers = topology.gpus[layout.num_members :]
    inside = [
        *range(gpus),
        *(layout.num_members + i for i, each in enumerate(helpers) if each.node in (0, NO_NODE)),
    ]
    many = num_nodes * len(inside) * (len(inside) - 1)
    for distances in (range(1, num_nodes), _powers_of_two(num_nodes)):
        if many + num_nodes * gpus * len(distances) <= MAX_LINKS:
            break
    else:
        return None
    of_node_0 = list(paths_from_node_0(topology, gpus, inside, distances))
    joined = {path.dst_rank // gpus for path in of_node_0 if path.dst_rank < layout.num_members} - {0}
    if joined != set(distances):
        return None
    return list(_everywhere(of_node_0, *moved, num_nodes))


def all_paths_of_equal_nodes(topology: PhysicalTopology, layout: SketchLayout) -> list[Path] | None:
    """All paths that there are, found from one node and moved to the others; None: not equivalent.

    A search from each rank of 64 nodes takes seconds.
    """
    gpus, num_nodes = layout.gpus_per_node, topology.num_nodes
    helpers = topology.gpus[layout.num_members :]
    if (
        gpus is None
        or gpus * num_nodes != layout.num_members
        or any(each.node == NO_NODE for each in helpers)
    ):
        return None
    moved = moved_on(topology, layout)
    if moved is None:
        return None
    sources = [rank for rank in range(layout.num_ranks) if layout.node_of[rank] == layout.node_of[0]]
    of_node = [path for src in sources for path in topology.paths_from(src).values()]
    return list(_everywhere(of_node, *moved, num_nodes))


def nodes_are_equivalent(topology: PhysicalTopology, layout: SketchLayout) -> bool:
    """Whether going on from each node to the next, and from the last to the first, changes nothing."""
    gpus, nodes = layout.gpus_per_node, topology.num_nodes
    return gpus is not None and gpus * nodes == layout.num_members and moved_on(topology, layout) is not None


def _powers_of_two(num_nodes: int) -> Sequence[int]:
    steps = [1 << bit for bit in range(num_nodes.bit_length()) if 1 << bit < num_nodes]
    return sorted({*steps, *(num_nodes - step for step in steps)})


def paths_from_node_0(
    topology: PhysicalTopology, gpus: int, inside: Sequence[int], distances: Sequence[int]
) -> Iterator[Path]:
    """Paths between those `inside` node 0, and from its GPUs to the equal ones of nodes at `distances`."""
    for src in inside:
        paths = topology.paths_from(src)
        between = (distance * gpus + src for distance in distances if src < gpus)
        ends = (*(rank for rank in inside if rank != src), *between)
        yield from (paths[end] for end in ends if end in paths)


def _everywhere(
    of_node_0: list[Path], moved: IntArray, rank_moved: IntArray, num_nodes: int
) -> Iterator[Path]:
    """The paths of all nodes, none twice: one between helpers of no node goes to itself."""
    length = np.array([len(path.links) for path in of_node_0], dtype=np.int64)
    links = np.fromiter(chain.from_iterable(path.links for path in of_node_0), np.int64, int(length.sum()))
    ends = list(pairwise(accumulate(length.tolist(), initial=0)))
    costs = [(path.alpha_us, path.beta_us_per_mb, path.betas) for path in of_node_0]
    src = np.array([path.src_rank for path in of_node_0], dtype=np.int64)
    dst = np.array([path.dst_rank for path in of_node_0], dtype=np.int64)
    for node in range(num_nodes):
        links_here = links.tolist()
        used = [tuple(links_here[first:last]) for first, last in ends]
        for path, one, other, some, cost in zip(
            of_node_0, src.tolist(), dst.tolist(), used, costs, strict=True
        ):
            if node == 0 or (one, other) != (path.src_rank, path.dst_rank):
                yield Path(one, other, some, *cost)
        src, dst, links = rank_moved[src], rank_moved[dst], moved[links]


def moved_on(topology: PhysicalTopology, layout: SketchLayout) -> tuple[IntArray, IntArray] | None:
    """The link of the next node, and of the first after the last, for each link, and so for each rank; None:
    one is missing or costs something else.
    """
    nodes = list(dict.fromkeys(gpu.node for gpu in topology.gpus[: layout.num_members]))
    following = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True)) | {NO_NODE: NO_NODE}
    by_place = {(device.node, device.kind, device.local): device.name for device in topology.devices}
    if len(by_place) < len(topology.devices) or not {node for node, _, _ in by_place} <= set(following):
        return None
    image = {
        device.name: by_place.get((following[device.node], device.kind, device.local), "")
        for device in topology.devices
    }
    number = {(link.src, link.dst): each for each, link in enumerate(topology.links)}
    numbers = (number.get((image[link.src], image[link.dst]), -1) for link in topology.links)
    moved = np.array(list(numbers), dtype=np.int64)
    if (moved < 0).any():
        return None
    costs = np.array([(link.alpha_us, link.beta_us_per_mb) for link in topology.links])
    ranks = np.array([topology.rank_of.get(image[rank.name], -1) for rank in topology.gpus])
    if (ranks < 0).any() or not (costs[moved] == costs).all():
        return None
    equal = (
        _ability(rank, image) == _ability(topology.gpus[other], {})
        for rank, other in zip(topology.gpus, ranks.tolist(), strict=True)
    )
    return (moved, ranks) if all(equal) else None


def _ability(rank: Device, image: Mapping[str, str]) -> tuple[object, ...]:
    """What a helper can do and costs, with the image of its switch."""
    at = None if rank.at is None else image.get(rank.at, rank.at)
    behind = rank.behind and tuple(image.get(end, end) for end in rank.behind)
    can = (rank.may_sum, rank.may_copy, rank.loops_back)
    return *can, at, rank.alpha_us, rank.beta_us_per_mb, rank.memory_mb, behind
