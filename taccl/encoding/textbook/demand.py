"""What a problem asks for, as textbooks see it: parts, each from somewhere to somewhere, in pieces."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.collectives import Collective, IntArray

#: What is asked for: every part at every rank (AllGather, Broadcast); each part at one rank (AlltoAll, Scatter,
#: Gather); the sum over all ranks at every rank (AllReduce).
Kind = Literal["spread", "routed", "summed"]


@dataclass(frozen=True, eq=False)
class Demand:
    """A collective that textbooks have algorithms for.

    Parameters
    ----------
    kind : what is asked for.
    begin : shape (num_chunks,); where each chunk starts; of one that is summed, its home.
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
    def is_from_one(self) -> bool:
        """Whether all chunks start at one rank."""
        return len(np.unique(self.begin)) == 1

    def streams(self, variants: tuple[int, ...], batches: int) -> list[tuple[int, list[int]]]:
        """The chunks dealt to variants of an algorithm, and those of each variant and part to batches.

        `variants` is the pattern in which pieces are dealt, such as (0, 1) for every other one. Each entry is
        a variant with the chunks that it handles together; earlier batches stand first.
        """
        turn = np.array(variants)[(self._part * self.pieces + self.piece) % len(variants)]
        streams: dict[tuple[int, int], list[int]] = defaultdict(list)
        _, own = np.unique(self._part * (turn.max(initial=0) + 1) + turn, return_inverse=True)
        count = np.bincount(own)
        seen = np.zeros_like(count)
        for chunk in np.lexsort((self.piece, self._part)).tolist():
            group = own[chunk]
            batch = int(seen[group] * min(batches, count[group]) // count[group])
            seen[group] += 1
            streams[batch, int(turn[chunk])].append(chunk)
        return [(variant, streams[batch, variant]) for batch, variant in sorted(streams)]

    @property
    def _part(self) -> IntArray:
        return self.begin * (int(self.end.max(initial=0)) + 1) + (self.end if self.kind == "routed" else 0)


def demand_of(collective: Collective) -> Demand | None:
    """What a collective asks for; None if textbooks have no algorithm for it, or nothing has to move."""
    chunks, ranks = collective.num_chunks, collective.num_ranks
    if ranks < 2 or not chunks:
        return None
    starts = np.bincount(collective.inputs.chunk, minlength=chunks)
    wanted = np.bincount(collective.outputs.chunk, minlength=chunks)
    begin, end = collective.home.astype(np.int64), collective.home.astype(np.int64)
    kind: Kind
    if collective.reduces.all() and (starts == ranks).all() and (wanted == ranks).all():
        kind = "summed"
    elif collective.reduces.any() or (starts != 1).any():
        return None
    else:
        begin = np.zeros(chunks, dtype=np.int64)
        begin[collective.inputs.chunk] = collective.inputs.rank
        end = begin.copy()
        if (wanted == ranks).all():
            kind = "spread"
        elif (wanted == 1).all():
            kind = "routed"
            end[collective.outputs.chunk] = collective.outputs.rank
        else:
            return None
    _, part = np.unique(begin * ranks + end, return_inverse=True)
    order = np.argsort(part, kind="stable")
    first = np.searchsorted(part[order], part[order])
    piece = np.empty(chunks, dtype=np.int64)
    piece[order] = np.arange(chunks) - first
    return Demand(kind, begin, end, piece, np.bincount(part)[part])
