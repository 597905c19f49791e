"""Which contributions a row carries, and what a sum is made of.

A *set* is a set of ranks: those whose contributions to a chunk are in a partial sum. It is an integer whose
bit r stands for rank r, so that a union is `|` and "no contribution twice" is `a & b == 0`. What a rank
holds of a chunk are its own contribution and the sets that it received; it can make any union of some of them
that are disjoint, at no cost in time, and keeps what it made it from.

A schedule whose `sums` are None is in the *compact form*: each sum is made once, at one rank, and a partial
sum carries all that met at its sender. Then the sets follow from the rows, and a schedule of a thousand ranks
needs no table of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from taccl.model.collective import BoolArray, Collective, IntArray
from taccl.model.problem import Problem

#: How many routes of making one sum are looked at. Real programs need one or two; a crafted file could ask
#: for more than there is time.
_MOST_TRIALS = 100_000


@dataclass(frozen=True, eq=False)
class PartialSums:
    """The contributions that the rows of a schedule carry.

    Parameters
    ----------
    of_row : shape (num_rows,); a row of `members`, or -1 for a copy of the whole chunk.
    members : shape (num_sets, num_ranks); whose contributions are in each set.
    """

    of_row: IntArray
    members: BoolArray

    @staticmethod
    def of_sets(sets: Sequence[int], num_ranks: int) -> PartialSums:
        """One set for each row, 0 standing for a copy of the whole chunk."""
        number: dict[int, int] = {}
        for each in sets:
            if each:
                number.setdefault(each, len(number))
        of_row = np.array([number.get(each, -1) for each in sets], dtype=np.int64)
        return PartialSums(of_row, _members(list(number), num_ranks))

    def take(self, rows: IntArray) -> PartialSums:
        """The given rows, in the given order."""
        return PartialSums(self.of_row[rows], self.members)

    def numbers(self) -> IntArray:
        """A number for each row, shape (num_rows,), that is the same for the same set; -1: a copy."""
        packed = np.packbits(self.members, axis=1)
        number = np.unique(packed, axis=0, return_inverse=True)[1].ravel()
        return np.asarray(np.append(number, -1)[self.of_row])

    def sets(self) -> list[int]:
        """The set of each row; 0 for a copy of the whole chunk."""
        each = as_sets(self.members)
        return [each[number] if number >= 0 else 0 for number in self.of_row.tolist()]


def as_sets(members: BoolArray) -> list[int]:
    """Rows of booleans, shape (num_sets, num_ranks), as sets."""
    packed = np.packbits(members, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _members(sets: Sequence[int], num_ranks: int) -> BoolArray:
    width = (num_ranks + 7) // 8
    packed = np.frombuffer(b"".join(each.to_bytes(width, "little") for each in sets), dtype=np.uint8)
    return np.unpackbits(packed.reshape(-1, width), axis=1, count=num_ranks, bitorder="little").astype(
        np.bool_
    )


def set_of(ranks: Iterable[int]) -> int:
    """The set of some ranks."""
    made = 0
    for rank in ranks:
        made |= 1 << rank
    return made


def ranks_of(contributions: int) -> list[int]:
    """The ranks in a set, ascending."""
    ranks = []
    while contributions:
        lowest = contributions & -contributions
        ranks.append(lowest.bit_length() - 1)
        contributions ^= lowest
    return ranks


def contributors(collective: Collective) -> list[int]:
    """For each chunk, the set of its contributors; for one that is copied, of the ranks where it starts."""
    whole = [0] * collective.num_chunks
    for chunk, rank in zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True):
        whole[chunk] |= 1 << rank
    return whole


#: What a rank's own contribution is called among the sources of a sum.
OWN = -1


class Holdings:
    """What ranks hold of reduced chunks, as it arrives: sets, where each came from, and since when."""

    def __init__(self, problem: Problem, without: Set[int] = frozenset()) -> None:
        """`without` : chunks that nobody will look at."""
        collective = problem.collective
        self._held: dict[tuple[int, int], dict[int, tuple[float, int]]] = {}
        for chunk, rank in zip(
            collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True
        ):
            if chunk not in without and collective.reduces[chunk]:
                self._held[chunk, rank] = {1 << rank: (problem.ready_at.get((chunk, rank), -math.inf), OWN)}

    def receive(self, chunk: int, rank: int, contributions: int, source: int, at_us: float = 0.0) -> None:
        """Note that a set arrives from `source`, a number of the caller's. What is there earlier stays."""
        held = self._held.setdefault((chunk, rank), {})
        if contributions not in held or at_us < held[contributions][0]:
            held[contributions] = (at_us, source)

    def sources(
        self, chunk: int, rank: int, contributions: int, by_us: float = float("inf")
    ) -> tuple[int, ...] | None:
        """What a rank makes a set of by some time, as the callers' numbers and `OWN`; None if it cannot."""
        held = self._held.get((chunk, rank), {})
        at_once = held.get(contributions)
        if at_once is not None and at_once[0] <= by_us:
            return (at_once[1],)
        made_of = disjoint_union(contributions, [part for part, (ready, _) in held.items() if ready <= by_us])
        return None if made_of is None else tuple(held[part][1] for part in made_of)

    def known(self, chunk: int, rank: int) -> int:
        """All contributions that are in some set at a rank."""
        every = 0
        for each in self._held.get((chunk, rank), {}):
            every |= each
        return every


def disjoint_union(whole: int, parts: Iterable[int]) -> tuple[int, ...] | None:
    """Disjoint parts whose union is `whole`, the largest that fit first; None if there are none.

    This is an exact cover, so the search is cut off after many trials; it then says None too.
    """
    inside = sorted((part for part in parts if part & ~whole == 0), key=lambda part: -part.bit_count())
    if inside and inside[0] == whole:
        return (whole,)
    taken, left = [], whole
    for part in inside:  # where sums double, the largest that fit are all that is needed
        if part & ~left == 0:
            taken.append(part)
            left ^= part
    if whole and not left:
        return tuple(taken)
    by_rank: dict[int, list[int]] = {}
    for part in inside:
        for rank in ranks_of(part):
            by_rank.setdefault(rank, []).append(part)

    def candidates(left: int) -> Iterator[int]:
        # Branch on the rank that the fewest parts contain: most often only one part does.
        fewest = min((by_rank.get(rank, []) for rank in ranks_of(left)), key=len)
        return (part for part in fewest if part & ~left == 0)

    chosen: list[int] = []
    failed: set[int] = set()
    trials = [(whole, candidates(whole))] if whole else []
    for _ in range(_MOST_TRIALS):
        if not trials:
            break
        left, parts_left = trials[-1]
        part = next(parts_left, 0)
        if not part:
            failed.add(left)
            trials.pop()
            del chosen[len(trials) - 1 :]
            continue
        rest = left & ~part
        if not rest:
            return (*chosen, part)
        if rest not in failed:
            chosen.append(part)
            trials.append((rest, candidates(rest)))
    return None
