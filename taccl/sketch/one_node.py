"""The network that the chunks of one node see in a cluster of equal nodes of any number.

It has the links inside all nodes, those from each GPU of node 0 to the equal GPU of every other node, and,
where sums take the way back, those from there to node 0. Its ports are *orbits*: a physical link with its
images in all nodes is one. `taccl.model.template` says why a schedule on it stands for one of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taccl.errors import TopologyError
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.sketch.equal_nodes import moved_on, paths_from_node_0
from taccl.sketch.layout import layout_of
from taccl.sketch.network import network_of_paths
from taccl.topologies.model import Path, PhysicalTopology


def network_of_node_0(topology: PhysicalTopology) -> LogicalTopology:
    """The network of node 0's chunks, with ranks and nodes of the whole cluster.

    Raises
    ------
    TopologyError : going on from each node to the next, and from the last to the first, changes the machine
        or leaves a link that is used in its place; or nodes are not linked directly.
    """
    layout = layout_of(topology)
    nodes, gpus = topology.num_nodes, layout.gpus_per_node
    if topology.num_helpers or gpus is None or nodes < 2 or gpus * nodes != layout.num_members:
        raise _unfit(topology, "it is not made of two or more equal nodes of GPUs alone")
    moved = moved_on(topology, layout)
    ranks = np.arange(layout.num_ranks)
    if moved is None or not np.array_equal(moved[1], (ranks + gpus) % layout.num_ranks):
        raise _unfit(topology, "its nodes differ, or what joins them")
    orbit = _least_of_orbits(moved[0])
    paths = list(paths_from_node_0(topology, gpus, range(gpus), range(1, nodes)))
    size = np.bincount(orbit, minlength=len(orbit))
    for path in paths:
        used = orbit[list(path.links)]
        if (size[used] != nodes).any() or len(np.unique(used)) < len(used):
            link = topology.links[path.links[int(size[used].argmin())]]
            raise _unfit(topology, f"several nodes share {link.src} -> {link.dst}")
    reached = np.bincount([path.src_rank for path in paths if path.dst_rank >= gpus], minlength=gpus)
    if (reached < nodes - 1).all():
        raise _unfit(topology, "no GPU is linked to the equal one of every other node, past other GPUs")
    used_paths = [path for path in paths if path.dst_rank < gpus or reached[path.src_rank] == nodes - 1]
    return network_of_paths(list(_for_node_0(used_paths, orbit, nodes, gpus)), topology, layout)


def _unfit(topology: PhysicalTopology, why: str) -> TopologyError:
    return TopologyError(
        f"one node of {topology.name} cannot stand for all: {why}",
        hint="fewer ranks, which are planned whole",
    )


def _least_of_orbits(moved: IntArray) -> IntArray:
    """Of each physical link, the least of those that it is moved to again and again."""
    many = len(moved)
    moves = coo_array((np.ones(many, dtype=np.bool_), (np.arange(many), moved)), shape=(many, many))
    _, part = connected_components(moves, directed=False)
    first = np.unique(part, return_index=True)[1]
    return np.asarray(first[part], dtype=np.int64)


def _for_node_0(paths: Sequence[Path], orbit: IntArray, nodes: int, gpus: int) -> Iterator[Path]:
    """Paths of node 0 with the images that its chunks use, and orbits in place of links."""
    for path in paths:
        ports = tuple(orbit[list(path.links)].tolist())
        if path.dst_rank < gpus:
            for first in range(0, nodes * gpus, gpus):
                yield replace(
                    path, src_rank=first + path.src_rank, dst_rank=first + path.dst_rank, links=ports
                )
            continue
        node, gpu = divmod(path.dst_rank, gpus)
        back = (nodes - node) * gpus + path.src_rank
        yield replace(path, links=ports)
        yield replace(path, src_rank=back, dst_rank=gpu, links=ports)
