"""Who has and who wants what: pairs of a chunk and a rank, and what they say of chunks and of the collective.

There may be a chunk for each pair of a thousand ranks, so nothing here is a table of chunks and ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from taccl.model.collective import BoolArray, Collective, IntArray, Placement
from taccl.model.schedule.numbering import rises


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (chunk, rank), each once, by chunk and then by rank; two columns."""

    chunk: IntArray
    rank: IntArray

    @staticmethod
    def of(placement: Placement, num_ranks: int) -> Pairs:
        """The pairs of a placement, whatever the offsets."""
        key = placement.chunk * num_ranks + placement.rank
        if not rises(key):  # a chunk is once on a rank, so there is nothing to drop
            key.sort()
        chunk, rank = np.divmod(key, num_ranks)
        return Pairs(chunk, rank)

    def __len__(self) -> int:
        return len(self.chunk)

    def some(self, chosen: BoolArray) -> Pairs:
        """The chosen rows."""
        return Pairs(self.chunk[chosen], self.rank[chosen])


@dataclass(frozen=True, eq=False)
class Demand:
    """Where each chunk of a collective starts, and which ranks want it."""

    collective: Collective

    @property
    def num_chunks(self) -> int:
        return self.collective.num_chunks

    @property
    def num_ranks(self) -> int:
        return self.collective.num_ranks

    @property
    def reduces(self) -> BoolArray:
        """Whether each chunk is a sum, shape (num_chunks,)."""
        return self.collective.reduces

    @cached_property
    def starts(self) -> Pairs:
        """Where chunks start."""
        return Pairs.of(self.collective.inputs, self.num_ranks)

    @cached_property
    def wants(self) -> Pairs:
        """Where chunks are wanted."""
        return Pairs.of(self.collective.outputs, self.num_ranks)

    @cached_property
    def lacking(self) -> Pairs:
        """Wanting ranks that have not got it: all of a sum, and of a copy those without it."""
        start = self.starts.chunk * self.num_ranks + self.starts.rank
        want = self.wants.chunk * self.num_ranks + self.wants.rank
        has = np.isin(want, start, assume_unique=True)
        return self.wants.some(self.reduces[self.wants.chunk] | ~has)

    @property
    def sums(self) -> bool:
        """Whether some chunk is a sum."""
        return self.collective.is_reduction

    @cached_property
    def copies_from_one(self) -> bool:
        """Whether every chunk is copied, and starts at one rank."""
        return not self.sums and bool((self.collective.num_sources == 1).all())

    @cached_property
    def from_all(self) -> bool:
        """Whether every chunk starts at all ranks."""
        return bool((self.collective.num_sources == self.num_ranks).all())

    @cached_property
    def to_all(self) -> bool:
        """Whether every chunk is wanted by all ranks."""
        return bool((self.collective.num_wanted == self.num_ranks).all())

    @cached_property
    def all_start_at(self) -> IntArray | None:
        """The ranks at which every chunk starts, ascending, if all start at the same; None: they do not."""
        return _same_for_all(self.starts, self.collective.num_sources)

    @cached_property
    def all_wanted_by(self) -> IntArray | None:
        """The ranks that want every chunk, ascending, if the same want all; None: it depends on the chunk."""
        return _same_for_all(self.wants, self.collective.num_wanted)

    @cached_property
    def to_one(self) -> bool:
        """Whether every chunk is wanted by one rank."""
        return bool((self.collective.num_wanted == 1).all())

    @property
    def broadcasts(self) -> bool:
        """Every chunk is copied from one rank to all, as in AllGather and Broadcast."""
        return self.copies_from_one and self.to_all

    @property
    def moves_pairwise(self) -> bool:
        """Every chunk is copied from one rank to one, as in AlltoAll, Scatter and Gather."""
        return self.copies_from_one and self.to_one

    @cached_property
    def delivers(self) -> bool:
        """Whether one rank has something for each of the others, as in Scatter."""
        return self.moves_pairwise and len(np.unique(self.collective.source)) == 1

    @cached_property
    def gathers(self) -> bool:
        """Whether each has something for one rank, as in Gather."""
        return self.moves_pairwise and len(np.unique(self.collective.destination)) == 1

    @cached_property
    def from_one_to_another(self) -> IntArray:
        """The chunks that start at one rank and are wanted by one, which is another, ascending."""
        collective = self.collective
        single = (collective.num_sources == 1) & (collective.num_wanted == 1)
        return np.flatnonzero(single & (collective.source != collective.destination))

    @cached_property
    def chunks_from(self) -> IntArray:
        """How many chunks start at each rank, shape (num_ranks,)."""
        return np.bincount(self.starts.rank, minlength=self.num_ranks)

    @cached_property
    def source_sets(self) -> tuple[list[IntArray], IntArray]:
        """The sets of ranks at which chunks start, and which is each chunk's, shape (num_chunks,)."""
        first = np.searchsorted(self.starts.chunk, np.arange(self.num_chunks + 1))
        if len(self.starts) == self.num_chunks and (np.diff(first) == 1).all():
            ranks, of_chunk = np.unique(self.starts.rank, return_inverse=True)
            return list(ranks[:, None]), of_chunk
        number: dict[bytes, int] = {}
        sets: list[IntArray] = []
        of_chunk = np.zeros(self.num_chunks, dtype=np.int64)
        for chunk, (begin, end) in enumerate(pairwise(first.tolist())):
            ranks = self.starts.rank[begin:end]
            of_chunk[chunk] = number.setdefault(ranks.tobytes(), len(sets))
            if len(number) > len(sets):
                sets.append(ranks)
        return sets, of_chunk

    def any_of(self, pairs: Pairs, ranks: BoolArray) -> BoolArray:
        """Whether each chunk has a pair with one of `ranks`, shape (num_chunks,); `ranks` (num_ranks,)."""
        found = np.zeros(self.num_chunks, dtype=np.bool_)
        found[pairs.chunk[ranks[pairs.rank]]] = True
        return found


def _same_for_all(pairs: Pairs, many_of: IntArray) -> IntArray | None:
    """The ranks of each chunk, if they are the same for all; `many_of` counts them, shape (num_chunks,)."""
    if not len(many_of) or not many_of[0] or (many_of != many_of[0]).any():
        return None
    rows = pairs.rank.reshape(len(many_of), -1)
    return rows[0] if (rows == rows[0]).all() else None
