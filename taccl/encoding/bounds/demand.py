"""Where chunks start and where they are wanted, as pairs: what cuts, partitions and distances count.

There may be a chunk for each pair of a thousand ranks, so nothing here is a table of chunks and ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from taccl.collective import BoolArray, IntArray, Placement
from taccl.encoding.instance import Instance


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (chunk, rank), each once, by chunk and then by rank; two columns."""

    chunk: IntArray
    rank: IntArray

    @staticmethod
    def of(placement: Placement, num_ranks: int) -> Pairs:
        """The pairs of a placement, whatever the offsets."""
        key = np.unique(np.asarray(placement.chunk, dtype=np.int64) * num_ranks + placement.rank)
        chunk, rank = np.divmod(key, num_ranks)
        return Pairs(chunk, rank)

    def __len__(self) -> int:
        return len(self.chunk)

    def some(self, chosen: BoolArray) -> Pairs:
        """The chosen rows."""
        return Pairs(self.chunk[chosen], self.rank[chosen])


@dataclass(frozen=True, eq=False)
class Demand:
    """The pairs of a problem: where each chunk starts, and which ranks want it.

    `lacking` are the wanting ones that have not got it: all of a sum, and of a copy those without it.
    """

    num_chunks: int
    num_ranks: int
    reduces: BoolArray
    starts: Pairs
    wants: Pairs

    @cached_property
    def lacking(self) -> Pairs:
        start = self.starts.chunk * self.num_ranks + self.starts.rank
        want = self.wants.chunk * self.num_ranks + self.wants.rank
        has = np.isin(want, start, assume_unique=True)
        return self.wants.some(self.reduces[self.wants.chunk] | ~has)

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


def demand_of(instance: Instance) -> Demand:
    """The demand of an instance; `instance.once(demand_of)`."""
    collective = instance.problem.collective
    ranks = collective.num_ranks
    starts, wants = Pairs.of(collective.inputs, ranks), Pairs.of(collective.outputs, ranks)
    return Demand(collective.num_chunks, ranks, collective.reduces, starts, wants)
