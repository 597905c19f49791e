"""Ranks that look the same are counted once: what the recurrences of `steps` say of one holds for all.

Let ranks and slots (the ports at one end of a rank's links) have numbers such that

- ranks of one number begin with the same counts, and have equally many slots of each number;
- slots of one number have equally many links of each kind to ranks of each number.

Then, moment by moment, ranks of one number have the same counts, as each is made of sums and maxima over
links of what is the same. So one rank of each number is worked through, with all of its links, whose other
ends are numbers. The coarsest such numbers are found by refining until none is split (one-dimensional
Weisfeiler-Leman). Of 64 GPUs in 8 equal nodes two are left where chunks go to one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from taccl.encoding.bounds.colours import numbered, sums
from taccl.encoding.bounds.step_loops import Links
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Alike:
    """Classes of ranks that look the same.

    Parameters
    ----------
    class_of : shape (num_ranks,), the class of each.
    rank : shape (num_classes,), one rank of each class, ascending.
    slot, link : the slots of these ranks, and the places of the links of these slots.
    """

    class_of: IntArray
    rank: IntArray
    slot: IntArray
    link: IntArray

    @staticmethod
    def of(
        links: Links,
        kinds: Sequence[np.ndarray],
        of_slots: Sequence[np.ndarray],
        of_ranks: Sequence[np.ndarray],
    ) -> Alike:
        """The classes, from columns that links, slots and ranks of a class have in common."""
        kind, slot, rank = numbered(*kinds), numbered(*of_slots), numbered(*of_ranks)
        while True:
            slot = numbered(slot, sums(len(slot), links.slot, numbered(kind, rank[links.far])))
            finer = numbered(rank, sums(len(rank), links.rank_of_slot, slot))
            if finer.max(initial=-1) == rank.max(initial=-1):
                break
            rank = finer
        values, first, class_of = np.unique(rank, return_index=True, return_inverse=True)
        place = np.empty(len(values), dtype=np.int64)
        place[np.argsort(first)] = np.arange(len(values))
        chosen = np.zeros(len(rank), dtype=np.bool_)
        chosen[first] = True
        slots = chosen[links.rank_of_slot]
        return Alike(
            place[class_of.ravel()], np.sort(first), np.flatnonzero(slots), np.flatnonzero(slots[links.slot])
        )

    def links(self, links: Links) -> Links:
        """Those of one rank of each class, between classes."""
        slot = np.searchsorted(self.slot, links.slot[self.link])
        near, far, rank_of_slot = (
            self.class_of[ranks]
            for ranks in (links.near[self.link], links.far[self.link], links.rank_of_slot[self.slot])
        )
        return linked(slot, near, far, rank_of_slot, links.lag_us[self.slot], len(self.rank))

    def for_all(self, each: Sequence[_T]) -> list[_T]:
        """What is there for each class, for each rank."""
        return [each[number] for number in self.class_of.tolist()]


def linked(
    slot: IntArray, near: IntArray, far: IntArray, rank_of_slot: IntArray, lag_us: FloatArray, num_ranks: int
) -> Links:
    """Links sorted by slot, with where those of each slot, and of each rank at the far end, begin."""
    every, of_far = np.arange(num_ranks + 1), np.argsort(far, kind="stable")
    return Links(
        *(slot, near, far, np.searchsorted(slot, np.arange(len(rank_of_slot) + 1))),
        *(rank_of_slot, lag_us, np.searchsorted(rank_of_slot, every)),
        *(np.searchsorted(far[of_far], every), of_far),
    )


def same_rows(rows: Sequence[FloatArray]) -> IntArray:
    """Equal rows get equal numbers, shape (len(rows),)."""
    number: dict[bytes, int] = {}
    return np.array([number.setdefault(row.tobytes(), len(number)) for row in rows], dtype=np.int64)
