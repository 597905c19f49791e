"""One of each orbit: which variables of a model stand for those of their images under a symmetry.

Images of a send that share a port with it cannot start together. So what is used is decided for an orbit of
the whole group, and when, for an orbit of the part of the group that has no such images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.symmetry.group import SymmetryGroup, without_shared_ports
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem

#: An item and a link.
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Orbits:
    """Pairs of an item and a link, cells of an item and a rank, and what stands for each.

    Parameters
    ----------
    whole, timed : the groups, on items: what both agree on, and what also happens at the same time.
    pairs : all pairs that are decided about.
    used_as, timed_as : the pair that stands for each, for whether it is used, and for when.
    """

    whole: SymmetryGroup
    timed: SymmetryGroup
    pairs: Sequence[Pair]
    used_as: dict[Pair, Pair]
    timed_as: dict[Pair, Pair]

    @cached_property
    def items_on(self) -> list[list[int]]:
        """The items that may go over each link."""
        items: list[list[int]] = [[] for _ in range(self.whole.link_map.shape[1])]
        for item, link in self.pairs:
            items[link].append(item)
        return items

    @cached_property
    def used(self) -> list[Pair]:
        """The pairs that stand for others, or themselves, for whether they are used."""
        return sorted(set(self.used_as.values()))

    @cached_property
    def timed_pairs(self) -> list[Pair]:
        """The same for when."""
        return sorted(set(self.timed_as.values()))

    @cached_property
    def _elements(self) -> IntArray:
        return _to_representatives(self.timed)

    def image(self, item: int, link: int) -> int:
        """The item that an item is on the link that stands for its link, for when."""
        return int(self.timed.chunk_map[self._elements[link], item])

    def link_in_time(self, link: int) -> int:
        """The link that stands for a link, for when."""
        return int(self.timed.link_representative[link])

    def shared_as(self, link: int) -> tuple[int, IntArray]:
        """The link that stands for a link, for what is used, and what each item is there."""
        element = _to_representatives(self.whole)[link]
        return int(self.whole.link_representative[link]), self.whole.chunk_map[element]

    def cells_in_time(self, num_items: int) -> Iterator[tuple[int, int, int]]:
        """All (item, rank) of the first items, and the number of each one's orbit in time."""
        return _cells(self.timed, num_items)

    def cells(self, num_items: int) -> Iterator[tuple[int, int]]:
        """One (item, rank) of each orbit of the whole group."""
        ranks = self.whole.rank_map.shape[1]
        for item, rank, name in self.all_cells(num_items):
            if name == item * ranks + rank:
                yield item, rank

    def all_cells(self, num_items: int) -> Iterator[tuple[int, int, int]]:
        """All (item, rank) of the first items, and the number of each one's orbit."""
        return _cells(self.whole, num_items)


def orbits_of(problem: Problem, symmetry: SymmetryGroup, allowed: BoolArray) -> Orbits:
    """The orbits of what `allowed` has, shape (num_items, num_links), which must be symmetric.

    Items are the chunks of a problem, once, or twice: as copies, and as sums.
    """
    whole = _of_items(symmetry, len(allowed) // problem.num_chunks)
    timed = without_shared_ports(problem.topology, whole)
    item, link = np.nonzero(allowed)
    pairs = list(zip(item.tolist(), link.tolist(), strict=True))
    used, times = (
        [divmod(name, len(problem.topology.src)) for name in least.tolist()]
        for least in (group.pair_representative(item, link, group.link_map) for group in (whole, timed))
    )
    return Orbits(
        whole, timed, pairs, dict(zip(pairs, used, strict=True)), dict(zip(pairs, times, strict=True))
    )


def _cells(group: SymmetryGroup, num_items: int) -> Iterator[tuple[int, int, int]]:
    ranks = group.rank_map.shape[1]
    items, places = np.divmod(np.arange(num_items * ranks), ranks)
    least = group.pair_representative(items, places, group.rank_map)
    return zip(items.tolist(), places.tolist(), least.tolist(), strict=True)


def _to_representatives(group: SymmetryGroup) -> IntArray:
    """For each link, an element that takes it to the one that stands for its orbit, shape (num_links,)."""
    return np.asarray((group.link_map == group.link_representative).argmax(axis=0))


def _of_items(symmetry: SymmetryGroup, phases: int) -> SymmetryGroup:
    """The group that moves the chunks of each phase in the same way."""
    chunks = symmetry.chunk_map.shape[1]
    moved = np.hstack([symmetry.chunk_map + phase * chunks for phase in range(phases)])
    return SymmetryGroup(symmetry.rank_map, moved, symmetry.link_map)
