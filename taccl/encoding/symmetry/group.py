"""Orbits: what a symmetry makes equal is decided once.

The symmetries of a problem generate a group of rank permutations. Each acts on chunks and on links.
A schedule that no element of the group changes is decided by one representative of each orbit, so
engines have one variable per orbit instead of one per (chunk, link), and no symmetry constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taccl.encoding.symmetry.action import Action, Compositions, action_of, compositions
from taccl.errors import SketchError
from taccl.model.automorphism import Broken, network_map, same_costs
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule


@dataclass(frozen=True, eq=False)
class SymmetryGroup:
    """All compositions of a problem's symmetries; element 0 is the identity.

    Parameters
    ----------
    rank_map : shape (num_elements, num_ranks).
    chunk_map : shape (num_elements, num_chunks).
    link_map : shape (num_elements, num_links).
    """

    rank_map: IntArray
    chunk_map: IntArray
    link_map: IntArray

    def __len__(self) -> int:
        return len(self.rank_map)

    @cached_property
    def chunk_representative(self) -> IntArray:
        """The least chunk of each chunk's orbit, shape (num_chunks,)."""
        return np.asarray(self.chunk_map.min(axis=0))

    @cached_property
    def link_representative(self) -> IntArray:
        """The least link of each link's orbit, shape (num_links,)."""
        return np.asarray(self.link_map.min(axis=0))

    def pair_representative(self, chunk: IntArray, other: IntArray, other_map: IntArray) -> IntArray:
        """The least image of each pair (chunk, rank) or (chunk, link), as chunk * size + other.

        `other_map` is `rank_map` or `link_map`; `chunk` and `other` have equal length.
        """
        size = other_map.shape[1]
        least = chunk * size + other
        for chunks, others in zip(self.chunk_map, other_map, strict=True):
            least = np.minimum(least, chunks[chunk] * size + others[other])
        return np.asarray(least)

    def only(self, elements: list[int]) -> SymmetryGroup:
        """Some of the elements, which must be closed under composition."""
        return SymmetryGroup(self.rank_map[elements], self.chunk_map[elements], self.link_map[elements])


@dataclass
class Growing:
    """A group of automorphisms in which only the identity leaves a member in its place, as it grows.

    A symmetry that moves some ranks and not others can take a transfer to another one of the same
    chunk into the same rank, and a schedule with both is not valid. In a group without such symmetries,
    which has at most as many elements as there are members, the images of a transfer are all different.
    Helpers may stay, since no chunk does: each begins at members.

    Parameters
    ----------
    problem : whose automorphisms they are.
    fits : what more a larger group must be, if anything; requested with its generators and its elements.
    refused : permutations under which the network is known not to look the same, as bytes. It grows, and may
        be shared by groups on one network, or on that and the reversed one.
    """

    problem: Problem
    fits: Callable[[list[Action], Compositions], bool] | None = None
    refused: set[bytes] = field(default_factory=set)
    generators: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.elements = _identity(self.problem.num_ranks)

    @property
    def is_largest(self) -> bool:
        """Whether there are as many elements as members, and so no room for another."""
        return len(self.elements) == self.problem.topology.num_members

    def has(self, ranks: IntArray) -> bool:
        """Whether a permutation is an element."""
        return bool((self.elements.ranks == ranks).all(axis=1).any())

    def add(self, ranks: IntArray) -> None:
        """Let the group grow by a permutation, if that is an automorphism and fits to those before."""
        if self.is_largest or self.has(ranks) or ranks.tobytes() in self.refused:
            return
        permutations = [*(generator.ranks for generator in self.generators), ranks]
        topology = self.problem.topology
        larger = compositions(permutations, topology.num_ranks, moving=topology.num_members)
        if larger is None:
            return
        # A root stays, say: mostly that is sooner seen than whether the network is the same.
        if self.problem.num_chunks <= topology.num_links:
            if self.problem.chunk_map(ranks) is None:
                return
        elif isinstance(network_map(ranks, topology, self.problem.limits), Broken):
            self.refused.add(ranks.tobytes())
            return
        elif self.problem.chunk_map(ranks) is None:
            return
        action = action_of(self.problem, ranks)
        if isinstance(action, Broken):  # by the network, as the collective stays the same
            self.refused.add(ranks.tobytes())
            return
        generators = [*self.generators, action]
        if not _keep_costs(topology, generators, larger):
            return
        if topology.num_helpers and _keeps_a_chunk(self.problem, generators, larger):
            return
        if self.fits is None or self.fits(generators, larger):
            self.generators, self.elements = generators, larger

    def add_all(self, permutations: Iterable[IntArray]) -> None:
        """Let the group grow by those permutations that are automorphisms, first come first counts."""
        for ranks in permutations:
            if self.is_largest:
                return
            self.add(ranks)

    @property
    def is_exact(self) -> bool:
        """Whether all costs are to the last bit those of their images."""
        return all(generator.is_exact for generator in self.generators)

    @property
    def links(self) -> IntArray:
        """Where each element takes each link, shape (num_elements, num_links)."""
        return self.elements.images(
            [generator.links for generator in self.generators], self.problem.topology.num_links
        )

    @property
    def ports(self) -> IntArray:
        """Where each element takes each port, shape (num_elements, num_ports)."""
        return self.elements.images(
            [generator.ports for generator in self.generators], self.problem.topology.num_ports
        )

    @property
    def chunks(self) -> IntArray:
        """Where each element takes each chunk, shape (num_elements, num_chunks)."""
        return self.elements.images(
            [generator.chunks for generator in self.generators], self.problem.num_chunks
        )

    def images_of_chunks(self, chunks: IntArray) -> IntArray:
        """Where each element takes some of the chunks, shape (num_elements, len(chunks)), of 32 bits."""
        return self.elements.images([generator.chunks for generator in self.generators], chunks, narrow=True)

    @property
    def images_of_links(self) -> IntArray:
        """The same of all links."""
        links = self.problem.topology.num_links
        return self.elements.images([generator.links for generator in self.generators], links, narrow=True)

    @property
    def is_least_chunk(self) -> BoolArray:
        """Whether each chunk is the least of its orbit, shape (num_chunks,)."""
        many = self.problem.num_chunks
        chunk = np.tile(np.arange(many), len(self.generators))
        image = np.concatenate([generator.chunks for generator in self.generators] or [chunk])
        moves = coo_array((np.ones(len(chunk), dtype=np.bool_), (chunk, image)), shape=(many, many))
        _, orbit = connected_components(moves, directed=False)
        least = np.zeros(many, dtype=np.bool_)
        least[np.unique(orbit, return_index=True)[1]] = True
        return least

    def group(self) -> SymmetryGroup:
        """The group as it is now."""
        return SymmetryGroup(self.elements.ranks, self.chunks, self.links)


def _identity(num_ranks: int) -> Compositions:
    return Compositions(np.arange(num_ranks)[None], (-1,), (0,))


def _keep_costs(topology: LogicalTopology, generators: list[Action], elements: Compositions) -> bool:
    """Whether costs count as equal to those of their images under all elements, not only the generators."""
    if all(generator.is_exact for generator in generators):
        return True
    links = elements.images([each.links for each in generators], topology.num_links)
    pairs = links[:, :0]
    if topology.port_betas is not None:
        pairs = elements.images([each.pairs for each in generators], topology.num_pairs)
    return all(same_costs(topology, *images) for images in zip(links, pairs, strict=True))


def _keeps_a_chunk(problem: Problem, generators: list[Action], elements: Compositions) -> bool:
    """Whether an element other than the identity takes a chunk to itself: a sum that a helper owns, say."""
    chunks = elements.images([generator.chunks for generator in generators], problem.num_chunks)
    return bool((chunks[1:] == chunks[0]).any())


def symmetry_group(problem: Problem) -> SymmetryGroup:
    """The group that `problem.symmetry` generates, without generators by which a rank would stay in place.

    Raises
    ------
    SketchError : a generator is no automorphism (the sketch room checks this first, and says where).
    """
    return growing_from(problem).group()


def growing_from(
    problem: Problem, fits: Callable[[list[Action], Compositions], bool] | None = None
) -> Growing:
    """The group of `problem.symmetry`, which may grow.

    Raises
    ------
    SketchError : a generator is no automorphism.
    """
    growing = Growing(problem, fits)
    for permutation in problem.symmetry:
        ranks = np.asarray(permutation, dtype=np.int64)
        if not growing.has(ranks) and isinstance(broken := action_of(problem, ranks), Broken):
            raise SketchError(f"a symmetry of the problem is none: {broken.reason}")
        growing.add(ranks)
    return growing


def without_shared_ports(topology: LogicalTopology, group: SymmetryGroup) -> SymmetryGroup:
    """A part of the group, closed, that moves no link to one that shares a port with it.

    A send and its image could not start together there. The elements are taken greedily.
    """
    apart = np.array([_is_apart(topology, links) for links in group.link_map])
    number = {element.tobytes(): i for i, element in enumerate(group.rank_map)}
    generators: list[IntArray] = []
    kept = [0]
    for element in np.flatnonzero(apart).tolist():
        if element in kept:
            continue
        larger = compositions([*generators, group.rank_map[element]], topology.num_ranks)
        assert larger is not None, "without a condition all compositions are given"
        numbers = [number[rank.tobytes()] for rank in larger.ranks]
        if all(apart[i] for i in numbers if i):
            generators.append(group.rank_map[element])
            kept = numbers
    return group.only(kept)


def _is_apart(topology: LogicalTopology, links: IntArray) -> bool:
    """Whether no link goes to another one with a port in common that either keeps busy."""
    busy = topology.alpha_us + topology.beta_us_per_mb > TOLERANCE_US
    return not any(
        busy[link] and image != link and set(topology.ports[link]) & set(topology.ports[image])
        for link, image in enumerate(links.tolist())
    )


def kept_by(schedule: Schedule, group: SymmetryGroup) -> SymmetryGroup:
    """The symmetries of the group that a schedule has: they take each of its rows to one of its rows."""
    start = np.round(schedule.start_us / TOLERANCE_US).astype(np.int64)
    rows = _in_order(schedule.chunk, schedule.link, start)
    return group.only(
        [
            i
            for i, (chunks, links) in enumerate(zip(group.chunk_map, group.link_map, strict=True))
            if np.array_equal(_in_order(chunks[schedule.chunk], links[schedule.link], start), rows)
        ]
    )


def _in_order(*columns: IntArray) -> IntArray:
    return np.array(columns)[:, np.lexsort(columns)]
