"""Routes: which links each chunk passes, without any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.numbering import by_value


@dataclass(frozen=True, eq=False)
class Routes:
    """One row for each chunk and link; no chunk comes to a rank twice, but for the parts of a sum.

    Parameters
    ----------
    chunk, link, is_sum : shape (rows,).
    company : shape (rows,); chunks of one company may share sends: they pass their links in one order.
    turn : shape (rows,); from 0 to 1, the later the chunk's turn.
    mixes : whether chunks of different companies may share sends where they meet.
    """

    chunk: IntArray
    link: IntArray
    is_sum: BoolArray
    company: IntArray
    turn: FloatArray
    mixes: bool = False

    def __len__(self) -> int:
        return len(self.chunk)

    def as_sums(self) -> Routes:
        """Copies on the reversed network, read backwards."""
        return replace(self, is_sum=~self.is_sum)

    def then(self, copies: Routes) -> Routes:
        """The sums, followed by copies of what they make."""
        last = int(self.company.max(initial=-1)) + 1
        return Routes(
            np.concatenate([self.chunk, copies.chunk]),
            np.concatenate([self.link, copies.link]),
            np.concatenate([self.is_sum, copies.is_sum]),
            np.concatenate([self.company, copies.company + last]),
            np.concatenate([self.turn, copies.turn]),
            self.mixes and copies.mixes,
        )

    def take(self, rows: IntArray) -> Routes:
        """Some rows, in this order."""
        return Routes(
            self.chunk[rows],
            self.link[rows],
            self.is_sum[rows],
            self.company[rows],
            self.turn[rows],
            self.mixes,
        )


def copies_of(carried: Iterable[tuple[Sequence[int], int, int]], turn_of: FloatArray) -> Routes:
    """Copies: (chunks, link, company) of each; `turn_of` has the turn of each chunk."""
    parts = [(chunk, link, company) for chunks, link, company in carried for chunk in chunks]
    chunk, link, company = np.array(parts, dtype=np.int64).reshape(-1, 3).T.copy()
    return Routes(chunk, link, np.zeros(len(chunk), dtype=np.bool_), company, turn_of[chunk])


def turns(source: IntArray) -> FloatArray:
    """The turn of each chunk where chunks of all sources alternate, shape (num_chunks,)."""
    order = by_value(source)
    place = np.empty(len(source), dtype=np.int64)
    place[order] = np.arange(len(source)) - np.searchsorted(source[order], source[order])
    return np.asarray(place / max(1, int(place.max(initial=0)) + 1))


@dataclass(frozen=True)
class Grouping:
    """Sends of at most `size` chunks; `tapered`: small ones first and last, so that pipes fill early."""

    size: int
    tapered: bool = False

    def cut(self, chunks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The sends that carry these chunks, in order."""
        first, size = 0, 1 if self.tapered else self.size
        while first < len(chunks):
            left = len(chunks) - first
            if self.tapered and 2 * size > left:
                size = max(1, left // 2)
            yield chunks[first : first + size]
            first += size
            size = min(self.size, 2 * size)


def groupings(most: int) -> list[Grouping]:
    """All groupings into sends of up to `most` chunks, by powers of two."""
    sizes = [1 << power for power in range(max(1, most).bit_length())]
    return [Grouping(size, tapered) for size in sizes for tapered in (False, True) if size > 1 or not tapered]
