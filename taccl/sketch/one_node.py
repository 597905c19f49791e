"""The network that the chunks of one node see in a cluster of equal nodes of any number.

It has the links inside all nodes, those from each GPU of node 0 to the equal GPU of every other node, and,
where sums take the way back, those from there to node 0. Its ports are *orbits*: a physical link with its
images in all nodes is one. `taccl.model.template` says why a schedule on it stands for one of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taccl.errors import TopologyError
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.sketch.equal_nodes import moved_on, paths_from_node_0
from taccl.sketch.layout import SketchLayout, layout_of
from taccl.sketch.network import network_of_paths
from taccl.topologies.model import Path, PhysicalTopology


@dataclass(frozen=True, eq=False)
class EqualNodes:
    """A cluster of equal nodes, whose networks are those of the chunks of one or more nodes.

    Parameters
    ----------
    topology, layout : the machine, without helpers.
    nodes, gpus : nodes, and GPUs of each.
    onward : where going on from each node to the next takes each physical link.
    paths : those inside node 0, and from its GPUs to the equal ones of all other nodes.
    links_all : whether the latter are from all of its GPUs.
    """

    topology: PhysicalTopology
    layout: SketchLayout
    nodes: int
    gpus: int
    onward: IntArray
    paths: tuple[Path, ...]
    links_all: bool

    def network(self, together: int = 1) -> LogicalTopology:
        """The network of the chunks of the first nodes, with ranks and nodes of the whole cluster.

        Parameters
        ----------
        together : how many nodes that follow one another are planned as one; a divisor of their number.

        Raises
        ------
        TopologyError : going on by this many nodes leaves a link that is used in its place.
        """
        moved = [np.arange(len(self.onward))]  # by 0, 1, .. nodes
        for _ in range(together):
            moved.append(self.onward[moved[-1]])
        orbit = _least_of_orbits(moved.pop())
        ports = [orbit[each] for each in moved]
        size = np.bincount(orbit, minlength=len(orbit))
        for path in self.paths:
            used = ports[0][list(path.links)]
            if (size[used] != self.nodes // together).any() or len(np.unique(used)) < len(used):
                link = self.topology.links[path.links[int(size[used].argmin())]]
                raise _unfit(self.topology, f"several nodes share {link.src} -> {link.dst}")
        return network_of_paths(list(self._links(ports)), self.topology, self.layout)

    def _links(self, ports: Sequence[IntArray]) -> Iterator[Path]:
        """The images of paths that the chunks of the first nodes use, with orbits in place of links.

        `ports` : for a node among those that are planned together, the orbit of where each link goes there.
        """
        gpus, many = self.gpus, len(ports)
        for path in self.paths:
            goes_on = path.dst_rank // gpus
            images = [tuple(each[list(path.links)].tolist()) for each in ports]
            for node in range(self.nodes):
                to = (node + goes_on) % self.nodes
                # Inside nodes, among those that are planned together, and between these and equal others.
                if node // many == to // many or (goes_on % many == 0 and min(node, to) < many):
                    yield replace(
                        path,
                        src_rank=node * gpus + path.src_rank,
                        dst_rank=to * gpus + path.dst_rank % gpus,
                        links=images[node % many],
                    )


def equal_nodes(topology: PhysicalTopology) -> EqualNodes:
    """The cluster that a machine is.

    Raises
    ------
    TopologyError : going on from each node to the next, and from the last to the first, changes it, or nodes
        are not linked directly.
    """
    layout = layout_of(topology)
    nodes, gpus = topology.num_nodes, layout.gpus_per_node
    if topology.num_helpers or gpus is None or nodes < 2 or gpus * nodes != layout.num_members:
        raise _unfit(topology, "it is not made of two or more equal nodes of GPUs alone")
    moved = moved_on(topology, layout)
    ranks = np.arange(layout.num_ranks)
    if moved is None or not np.array_equal(moved[1], (ranks + gpus) % layout.num_ranks):
        raise _unfit(topology, "its nodes differ, or what joins them")
    paths = list(paths_from_node_0(topology, gpus, range(gpus), range(1, nodes)))
    reached = np.bincount([path.src_rank for path in paths if path.dst_rank >= gpus], minlength=gpus)
    if (reached < nodes - 1).all():
        raise _unfit(topology, "no GPU is linked to the equal one of every other node, past other GPUs")
    paths = [path for path in paths if path.dst_rank < gpus or reached[path.src_rank] == nodes - 1]
    return EqualNodes(
        topology, layout, nodes, gpus, moved[0], tuple(paths), bool((reached == nodes - 1).all())
    )


def _unfit(topology: PhysicalTopology, why: str) -> TopologyError:
    return TopologyError(
        f"one node of {topology.name} cannot stand for all: {why}",
        hint="without --template and --ranks, and with ranks so few that they are planned whole",
    )


def _least_of_orbits(moved: IntArray) -> IntArray:
    """Of each physical link, the least of those that it is moved to again and again."""
    many = len(moved)
    moves = coo_array((np.ones(many, dtype=np.bool_), (np.arange(many), moved)), shape=(many, many))
    _, part = connected_components(moves, directed=False)
    first = np.unique(part, return_index=True)[1]
    return np.asarray(first[part], dtype=np.int64)
