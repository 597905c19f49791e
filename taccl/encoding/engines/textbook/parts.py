"""What a problem asks for, as textbooks see it: parts, each from somewhere to somewhere, in pieces.

Who wants what is `Instance.demand`; this deals its chunks to the parts that algorithms are about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray

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
    """

    kind: Kind
    begin: IntArray
    end: IntArray
    piece: IntArray
    pieces: IntArray

    @property
    def most_pieces(self) -> int:
        """The largest number of pieces that a part is cut into."""
        return int(self.pieces.max(initial=0))

    @property
    def num_parts(self) -> int:
        """How many parts there are."""
        return int((self.piece == 0).sum())

    def is_between_all(self, num_ranks: int) -> bool:
        """Whether every rank has something for every other."""
        if self.kind == "routed":
            return self.num_parts >= num_ranks * (num_ranks - 1)
        return self.num_parts == num_ranks

    @property
    def is_from_one(self) -> bool:
        """Whether all chunks start at one rank."""
        return len(np.unique(self.begin)) == 1

    def cut(self, variants: IntArray, count: int, batches: int) -> Cut:
        """The chunks of each part dealt to `count` variants of an algorithm, and then cut into batches.

        `variants` has for each rank the variant that the first piece of its part goes to, shape (num_ranks,);
        the next piece goes to the next one, and so on.
        """
        variant = (variants[self.begin] + self.piece) % count
        _, share = np.unique(np.stack([self.begin, self.end, variant]), axis=1, return_inverse=True)
        share = share.ravel()
        order = np.lexsort((self.piece, share))
        size = np.bincount(share)
        place = np.empty_like(share)
        place[order] = np.arange(len(share)) - np.searchsorted(share[order], share[order])
        batch = place * np.minimum(batches, size[share]) // size[share]
        keys = zip(batch.tolist(), share.tolist(), strict=True)
        units: dict[tuple[int, int], list[int]] = defaultdict(list)
        for chunk, key in enumerate(keys):
            units[key].append(chunk)
        made = sorted(units)
        first = [units[key][0] for key in made]
        return Cut(
            chunks=tuple(tuple(units[key]) for key in made),
            begin=self.begin[first].tolist(),
            end=self.end[first].tolist(),
            batch=[batch for batch, _ in made],
            variant=variant[first].tolist(),
        )


@dataclass(frozen=True, eq=False)
class Cut:
    """Units that stay together all the way: chunks of one part, of one batch, by one variant of an algorithm.

    Each column has an entry for each unit: its chunks, its ends, its batch and its variant.
    """

    chunks: tuple[tuple[int, ...], ...]
    begin: list[int]
    end: list[int]
    batch: list[int]
    variant: list[int]

    def streams(self, shares: int = 1) -> Iterator[tuple[int, int, list[int]]]:
        """(batch, variant, units) of what goes the same way together; `shares` batches count as one."""
        together: dict[tuple[int, int], list[int]] = defaultdict(list)
        for unit, (batch, variant) in enumerate(zip(self.batch, self.variant, strict=True)):
            together[batch // shares, variant].append(unit)
        for batch, variant in sorted(together):
            yield batch, variant, together[batch, variant]


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
    _, part = np.unique(begin * ranks + end, return_inverse=True)
    order = np.argsort(part, kind="stable")
    first = np.searchsorted(part[order], part[order])
    piece = np.empty(chunks, dtype=np.int64)
    piece[order] = np.arange(chunks) - first
    return Parts(kind, begin, end, piece, np.bincount(part)[part])
