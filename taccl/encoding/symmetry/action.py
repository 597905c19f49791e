"""What an automorphism of a problem does to its ranks, links, ports and chunks, and compositions of such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.model.automorphism import Broken, network_map
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Action:
    """Where an automorphism takes everything.

    Parameters
    ----------
    ranks, links, ports, pairs, chunks : the image of each; pairs (link, port) as in `topology.incidence`.
    is_exact : whether every link costs to the last bit what its image costs.
    """

    ranks: IntArray
    links: IntArray
    ports: IntArray
    pairs: IntArray
    chunks: IntArray
    is_exact: bool = True


@dataclass(frozen=True, eq=False)
class Compositions:
    """All compositions of some permutations of the ranks, the identity first.

    Each element but the first is one of the permutations after an earlier element, so that maps of links or
    chunks are made of the permutations' own with one look-up a cell (`images`).

    Parameters
    ----------
    ranks : shape (num_elements, num_ranks).
    last : of each element, which permutation comes last; -1 for the identity.
    before : of each element, the element that comes before it.
    """

    ranks: IntArray
    last: tuple[int, ...]
    before: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ranks)

    def images(self, maps: Sequence[IntArray], things: IntArray | int, narrow: bool = False) -> IntArray:
        """Where each element takes each of some things, or of this many, shape (num_elements, things).

        Parameters
        ----------
        maps : where the permutations take all of them, in their order.
        narrow : in numbers of 32 bits, which is half the memory.
        """
        first = np.arange(things) if isinstance(things, int) else things
        if narrow:
            first = first.astype(np.int32)
        images: IntArray = np.empty((len(self), len(first)), dtype=first.dtype)
        images[0] = first
        for element in range(1, len(self)):
            images[element] = maps[self.last[element]][images[self.before[element]]]
        return images


def compositions(
    permutations: Sequence[IntArray], num_ranks: int, most: int | None = None, moving: int = 0
) -> Compositions | None:
    """What some permutations of the ranks generate, in order of the number of factors.

    Parameters
    ----------
    most : stop at this many elements; all if None.
    moving : None instead, if an element other than the identity leaves one of the first this many ranks in
    its
        place. So it is with more elements than that: two of them take a rank to the same, and what leads from
        one to the other leaves it there.
    """
    identity = np.arange(num_ranks)
    elements, last, before = [identity], [-1], [0]
    seen = {identity.tobytes()}
    for number, element in enumerate(elements):
        for which, permutation in enumerate(permutations):
            image = permutation[element]
            name = image.tobytes()
            if name in seen:
                continue
            if moving and (len(elements) == moving or (image[:moving] == identity[:moving]).any()):
                return None
            if most is not None and len(elements) >= most:
                break
            seen.add(name)
            elements.append(image)
            last.append(which)
            before.append(number)
    return Compositions(np.array(elements), tuple(last), tuple(before))


def action_of(problem: Problem, ranks: IntArray) -> Action | Broken:
    """What the automorphism that moves every rank r to `ranks[r]` does; or why there is none.

    The network and its rules are checked by `taccl.model.automorphism`, as they are for sketches.
    """
    ranks = np.asarray(ranks, dtype=np.int64)
    found = network_map(ranks, problem.topology, problem.limits)
    if isinstance(found, Broken):
        return found
    chunks = problem.chunk_map(ranks)
    if chunks is None:
        return Broken(f"it changes the {problem.collective.name}")
    return Action(ranks, found.links, found.ports, found.pairs, chunks, found.is_exact)


def is_automorphism(problem: Problem, ranks: IntArray) -> bool:
    """Whether moving every rank r to `ranks[r]` leaves topology, limits and collective as they were."""
    return isinstance(action_of(problem, ranks), Action)
