"""Orbits: what a symmetry makes equal is decided once.

The symmetries of a problem generate a group of rank permutations. Each acts on chunks and on links.
A schedule that no element of the group changes is decided by one representative of each orbit, so
engines have one variable per orbit instead of one per (chunk, link), and no symmetry constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.collectives import IntArray
from taccl.errors import SketchError
from taccl.problem import LogicalTopology, Problem
from taccl.schedule import TOLERANCE_US


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


def link_map(problem: Problem, rank_map: IntArray) -> IntArray | None:
    """Where a permutation of ranks takes each link, shape (num_links,); None if it breaks a link."""
    topology = problem.topology
    images = zip(rank_map[topology.src].tolist(), rank_map[topology.dst].tolist(), strict=True)
    mapped = [topology.link_index.get(pair, -1) for pair in images]
    return None if -1 in mapped else np.array(mapped, dtype=np.int64)


def symmetry_group(problem: Problem) -> SymmetryGroup:
    """The group that `problem.symmetry` generates, without generators by which a rank would stay in place.

    A symmetry that moves some ranks and not others can take a transfer to another one of the same
    chunk into the same rank, and a schedule with both is not valid. In a group without such symmetries,
    which has at most `num_ranks` elements, the images of a transfer are all different.

    Raises
    ------
    SketchError : a generator is no automorphism (the sketch room checks this first, and says why).
    """
    generators: list[IntArray] = []
    elements = [np.arange(problem.num_ranks)]
    for permutation in problem.symmetry:
        generator = np.asarray(permutation, dtype=np.int64)
        if link_map(problem, generator) is None or problem.collective.chunk_map(generator) is None:
            raise SketchError("a symmetry of the problem does not map its links or chunks to each other")
        larger = _generated([*generators, generator])
        if larger is not None:
            generators.append(generator)
            elements = larger
    return SymmetryGroup(
        rank_map=np.array(elements),
        chunk_map=np.array([problem.collective.chunk_map(element) for element in elements]),
        link_map=np.array([link_map(problem, element) for element in elements]),
    )


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
        larger = _generated([*generators, group.rank_map[element]])
        numbers = [] if larger is None else [number[each.tobytes()] for each in larger]
        if numbers and all(apart[i] for i in numbers if i):
            generators.append(group.rank_map[element])
            kept = numbers
    return SymmetryGroup(group.rank_map[kept], group.chunk_map[kept], group.link_map[kept])


def _is_apart(topology: LogicalTopology, links: IntArray) -> bool:
    """Whether no link goes to another one with a port in common that either keeps busy."""
    busy = topology.alpha_us + topology.beta_us_per_mb > TOLERANCE_US
    return not any(
        busy[link] and image != link and set(topology.ports[link]) & set(topology.ports[image])
        for link, image in enumerate(links.tolist())
    )


def extended(generators: Sequence[IntArray], more: IntArray) -> list[IntArray] | None:
    """The group that `more` makes of the one of `generators`; None if an element leaves a rank in place.

    As in `symmetry_group`, a generator that would do so is left out of the first.
    """
    kept: list[IntArray] = []
    for generator in generators:
        if _generated([*kept, generator]) is not None:
            kept.append(generator)
    return _generated([*kept, more])


def _generated(generators: list[IntArray]) -> list[IntArray] | None:
    """All compositions of permutations, the identity first; None if one leaves some ranks in place."""
    identity = np.arange(len(generators[0]))
    elements, seen = [identity], {identity.tobytes()}
    for element in elements:
        for generator in generators:
            image = generator[element]
            if image.tobytes() in seen:
                continue
            if (image == identity).any():
                return None
            seen.add(image.tobytes())
            elements.append(image)
    return elements
