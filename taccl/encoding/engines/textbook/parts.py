"""What a problem asks for, as textbooks see it: parts, each from somewhere to somewhere, in pieces.

Who wants what is `Instance.demand`; this deals its chunks to the parts that algorithms are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from taccl.encoding.engines.textbook.sends import Ragged
from taccl.encoding.engines.textbook.stages import Stages
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.schedule.numbering import different

#: What is requested: every part at every rank (AllGather, Broadcast); each part at one rank (AlltoAll,
#: Scatter, Gather); the sum over all ranks at every rank (AllReduce).
Kind = Literal["spread", "routed", "summed"]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a collective that textbooks have algorithms for.

    Parameters
    ----------
    kind : what is requested.
    begin : shape (num_chunks,); where each chunk starts; of one that is summed, its owner.
    end : shape (num_chunks,); where each chunk is wanted, if that is one rank; else `begin`.
    piece : shape (num_chunks,); the number of each chunk among those with the same ends.
    pieces : shape (num_chunks,); how many there are of those.
    stages : what was written down of stages so far.
    """

    kind: Kind
    begin: IntArray
    end: IntArray
    piece: IntArray
    pieces: IntArray
    stages: Stages = field(default_factory=Stages)

    @property
    def most_pieces(self) -> int:
        """The largest number of pieces that a part is cut into."""
        return int(self.pieces.max(initial=0))

    @property
    def num_parts(self) -> int:
        """How many parts there are."""
        return int((self.piece == 0).sum())

    @property
    def most_at_one_rank(self) -> int:
        """The most chunks that one rank has at first or at the end."""
        if self.kind != "routed":
            return len(self.begin)
        return int(max(np.bincount(self.begin).max(), np.bincount(self.end).max()))

    def is_between_all(self, num_ranks: int) -> bool:
        """Whether every rank has something for every other."""
        if self.kind == "routed":
            return self.num_parts >= num_ranks * (num_ranks - 1)
        return self.num_parts == num_ranks

    @property
    def is_from_one(self) -> bool:
        """Whether all chunks start at one rank."""
        return len(np.unique(self.begin)) == 1

    @property
    def is_for_one(self) -> bool:
        """Whether all chunks are wanted at one rank."""
        return self.kind == "routed" and len(np.unique(self.end)) == 1

    def cut(self, variants: IntArray, count: int, batches: int, by_end: bool = False) -> Cut:
        """The chunks of each part dealt to `count` variants of an algorithm, and then cut into batches.

        `variants` has for each rank the variant that the first piece of its part goes to, shape (num_ranks,);
        the next piece goes to the next one, and so on; `by_end` : and so does its part for the next rank.
        """
        ranks = len(variants)
        first = variants[self.begin] + (variants[self.end] if by_end else 0)
        variant = (first + self.piece) % count
        share = different((self.begin * ranks + self.end) * count + variant)[1]
        size = np.bincount(share)
        batch = _among_equals(share, self.piece) * np.minimum(batches, size[share]) // size[share]
        unit = different(batch * len(size) + share)[1]
        chunks = Ragged.by_key(unit)
        first = chunks.values[chunks.first]
        return Cut(chunks, self.begin[first], self.end[first], batch[first], variant[first])


@dataclass(frozen=True, eq=False)
class Cut:
    """Units that stay together all the way: chunks of one part, of one batch, by one variant of an algorithm.

    Each column has an entry for each unit: its chunks, its ends, its batch and its variant.
    """

    chunks: Ragged
    begin: IntArray
    end: IntArray
    batch: IntArray
    variant: IntArray

    def merged(self, label: IntArray) -> Cut:
        """Units of one label, batch and variant as one unit, with the ends of the first of them."""
        variants, labels = int(self.variant.max()) + 1, int(label.max()) + 1
        units = Ragged.by_key(different((self.batch * variants + self.variant) * labels + label)[1])
        first, chunks = units.values[units.first], self.chunks.take(units.values)
        count = np.add.reduceat(chunks.count, units.first)
        columns = (each[first] for each in (self.begin, self.end, self.batch, self.variant))
        return Cut(Ragged(chunks.values, count), *columns)

    def streams(self, shares: int = 1) -> Iterator[tuple[int, int, IntArray]]:
        """(batch, variant, units) of what goes the same way together; `shares` batches count as one."""
        variants = int(self.variant.max()) + 1
        together = Ragged.by_key(different(key := self.batch // shares * variants + self.variant)[1])
        for units in together.rows():
            yield (*divmod(int(key[units[0]]), variants), units)


def _among_equals(key: IntArray, rank: IntArray) -> IntArray:
    """The number of each row among those with its key, by `rank`."""
    order = np.lexsort((rank, key))
    number = np.empty_like(key)
    number[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order])
    return number


def parts_of(instance: Instance) -> Parts | None:
    """The parts that a problem asks for; `instance.once(parts_of)`.

    None if textbooks have no algorithm for it, or nothing has to move.
    """
    demand, collective = instance.demand, instance.problem.collective
    chunks, ranks = demand.num_chunks, demand.num_ranks
    if ranks < 2 or not chunks:
        return None
    kind: Kind
    if demand.reduces.all() and demand.from_all and demand.to_all:
        kind, begin = "summed", collective.owner.astype(np.int64)
    elif demand.broadcasts:
        kind, begin = "spread", collective.source
    elif demand.moves_pairwise:
        kind, begin = "routed", collective.source
    else:
        return None
    end = collective.destination if kind == "routed" else begin
    part = different(begin * ranks + end)[1]
    piece = _among_equals(part, np.arange(chunks))
    return Parts(kind, begin, end, piece, np.bincount(part)[part])
