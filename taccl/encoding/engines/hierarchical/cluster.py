"""A cluster of equal nodes: the rotations that take one to another, and what is left to decide.

Where every node can be taken to every other by symmetries of which only the identity leaves a node or a port
in its place, all nodes do the same at the same time: what is decided is where the chunks of node 0 go. Its
transfers, wherever they take place, and their images are in each other's way only at ports of one orbit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.engines.hierarchical.tuning import AT_LEAST, SOON_PLANNED
from taccl.encoding.quotient import moves_ports
from taccl.encoding.symmetry.action import Action, Compositions
from taccl.encoding.symmetry.candidates import exchanges, rotations
from taccl.encoding.symmetry.group import Growing
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Cluster:
    """Equal nodes of equal GPUs, one node's ranks after another's.

    Parameters
    ----------
    problem : what is requested.
    num_nodes, gpus : nodes, and GPUs of each.
    elements : one symmetry for each node, which takes node 0 there.
    generators : what those are composed of.
    together : how many nodes of the machine each of these is.
    """

    problem: Problem
    num_nodes: int
    gpus: int
    elements: Compositions
    generators: tuple[Action, ...]
    together: int = 1

    @property
    def each(self) -> int:
        """Chunks of each GPU."""
        return self.problem.num_chunks // self.problem.num_ranks

    @property
    def at_least(self) -> int:
        """Plans that are tried even without time: each takes a moment, or they take long."""
        return 1 if self.takes_long else AT_LEAST

    @property
    def takes_long(self) -> bool:
        """Whether it takes long to plan node 0's chunks: a tree for each in each node, over its links."""
        links = self.gpus * (self.gpus - 1)
        return self.gpus * self.each * self.num_nodes * links > SOON_PLANNED

    @cached_property
    def node_of_element(self) -> IntArray:
        """Where each element takes node 0, shape (num_nodes,)."""
        return np.asarray(self.elements.ranks[:, 0] // self.gpus)

    @cached_property
    def neighbours(self) -> IntArray:
        """Where nodes go, shape (num_nodes, num_nodes); row i: by the element that takes node 0 to i."""
        images = self.elements.ranks[:, :: self.gpus] // self.gpus
        by_node = np.empty_like(images)
        by_node[self.node_of_element] = images
        return by_node

    @cached_property
    def orbit_of_port(self) -> IntArray:
        """The orbit of each port, shape (num_ports,)."""
        topology = self.problem.topology
        images = self.elements.images([generator.ports for generator in self.generators], topology.num_ports)
        return np.unique(images.min(axis=0), return_inverse=True)[1].ravel()

    def images_of_links(self, links: IntArray) -> IntArray:
        """Where each element takes each of some links, shape (num_nodes, len(links))."""
        return self._images([generator.links for generator in self.generators], links)

    def images_of_chunks(self, chunks: IntArray) -> IntArray:
        """Where each element takes each of some chunks, shape (num_nodes, len(chunks))."""
        return self._images([generator.chunks for generator in self.generators], chunks)

    def _images(self, maps: list[IntArray], some: IntArray) -> IntArray:
        # The whole table of images has nodes times links cells: only some columns of it are needed.
        elements = self.elements
        images = np.empty((len(elements), len(some)), dtype=np.int64)
        images[0] = some
        for number in range(1, len(elements)):
            np.take(maps[elements.last[number]], images[elements.before[number]], out=images[number])
        return images


class NodeZero(Cluster):
    """The same of a problem that has node 0's chunks alone, with orbits for ports: nothing has other images.

    `taccl.model.template` says what it stands for; nodes follow one another by rotation.
    """

    @property
    def each(self) -> int:
        return self.problem.num_chunks // self.gpus

    @property
    def at_least(self) -> int:
        return 1

    @cached_property
    def neighbours(self) -> IntArray:
        nodes = np.arange(self.num_nodes)
        return np.add.outer(nodes, nodes) % self.num_nodes

    @cached_property
    def orbit_of_port(self) -> IntArray:
        return np.arange(self.problem.topology.num_ports)

    def images_of_links(self, links: IntArray) -> IntArray:
        return links[None]

    def images_of_chunks(self, chunks: IntArray) -> IntArray:
        return chunks[None]


def node_zero(problem: Problem, nodes: int) -> NodeZero:
    """The cluster of such a problem; each of its `nodes` may be several of the machine."""
    identity = Compositions(np.arange(problem.num_ranks)[None], (-1,), (0,))
    together = problem.topology.num_nodes // nodes
    return NodeZero(problem, nodes, problem.num_ranks // nodes, identity, (), together)


def cluster_of(problem: Problem) -> Cluster | str:
    """The cluster that a machine is, or why it is none, as the end of a sentence."""
    topology = problem.topology
    num_nodes = topology.num_nodes
    gpus = topology.num_ranks // max(1, num_nodes)
    if num_nodes < 2 or gpus < 2:
        return "a node is all there is, or has one rank"
    if not np.array_equal(topology.node_of, np.arange(topology.num_ranks) // gpus):
        return "nodes differ in size, or their ranks do not follow one another"

    def fits(generators: list[Action], elements: Compositions) -> bool:
        moved = elements.ranks[1:, ::gpus] // gpus != np.arange(num_nodes)
        exact = all(generator.is_exact for generator in generators)
        return bool(exact and moved.all()) and moves_ports(topology, generators, elements)

    growing = Growing(problem, fits)
    ranks = np.arange(topology.num_ranks)
    for nodes in (*rotations(num_nodes), *exchanges(num_nodes)):
        if len(growing.elements) == num_nodes:
            break
        growing.add(nodes[ranks // gpus] * gpus + ranks % gpus)
    if len(growing.elements) < num_nodes:
        return "no symmetries take every node to every other and every port of a node to another"
    return Cluster(problem, num_nodes, gpus, growing.elements, tuple(growing.generators))
