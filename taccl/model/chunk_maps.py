"""Where chunks go when ranks change places.

Nothing tells two chunks apart that belong to one rank, start at the same ranks, are wanted at the same ranks
and are both sums or both copies: they are of one *class*. A permutation of the ranks takes each class to a
class of the same size, or the collective is not the same afterwards. Inside a class chunks keep their order,
so that maps of permutations can be composed like the permutations themselves.

Classes and sets of ranks are found once for a collective. After that a permutation costs a look-up for each
set and each class, and no Python object for each chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankSets:
    """The different sets of ranks that chunks are at.

    Parameters
    ----------
    of_chunk : shape (num_chunks,); the number of each chunk's set.
    members : the sets in the order of their numbers, those of one size together: shape (sets, size), each
        row in ascending order.
    """

    of_chunk: _Ints
    members: tuple[_Ints, ...]

    @staticmethod
    def of(num_chunks: int, chunk: _Ints, rank: _Ints) -> RankSets:
        """The sets of a placement's rows."""
        rank = np.asarray(rank, dtype=np.int64)[np.lexsort((rank, chunk))]
        size = np.bincount(chunk, minlength=num_chunks)
        first = np.cumsum(size) - size
        of_chunk, members, so_far = np.zeros(num_chunks, dtype=np.int64), [], 0
        for each in np.unique(size).tolist():
            chunks = np.flatnonzero(size == each)
            rows = rank[first[chunks][:, None] + np.arange(each)]
            one_of, number = _different(rows)
            of_chunk[chunks] = number + so_far
            members.append(rows[one_of])
            so_far += len(one_of)
        return RankSets(of_chunk, tuple(members))

    def __len__(self) -> int:
        return sum(map(len, self.members))

    def images(self, rank_map: _Ints) -> _Ints | None:
        """The set that each set goes to, shape (sets,); None if one goes to a set that no chunk has."""
        images, so_far = [], 0
        for rows in self.members:
            number = {row.tobytes(): so_far + i for i, row in enumerate(rows)}
            moved = np.sort(rank_map[rows], axis=1)
            images += [number.get(row.tobytes(), -1) for row in moved]
            so_far += len(rows)
        return None if -1 in images else np.array(images, dtype=np.int64)


def _different(rows: _Ints) -> tuple[_Ints, _Ints]:
    """One row of each kind, by its position, and the kind of each row."""
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    if rows.shape[1] == 1:
        _, one_of, number = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        return one_of, number
    rows = np.ascontiguousarray(rows)
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, one_of, number = np.unique(as_bytes, return_index=True, return_inverse=True)
    return one_of, number


@dataclass(frozen=True, eq=False)
class ChunkClasses:
    """The classes of a collective's chunks.

    Parameters
    ----------
    starts, wanted : the sets of ranks before and after.
    pairs : the pairs of such sets that chunks have, as start * len(wanted) + wanted, ascending.
    keys : shape (num_classes,), ascending; owner, label and pair of each class as one number.
    labels : how many labels there are.
    owner, label, pair : shape (num_classes,).
    of_chunk, place : shape (num_chunks,); the class of each chunk, and its place in it.
    chunks, first : the chunks class by class, and where each class begins, shape (num_classes + 1,).
    """

    starts: RankSets
    wanted: RankSets
    pairs: _Ints
    keys: _Ints
    labels: int
    owner: _Ints
    label: _Ints
    pair: _Ints
    of_chunk: _Ints
    place: _Ints
    chunks: _Ints
    first: _Ints

    @staticmethod
    def of(owner: _Ints, label: _Ints, starts: RankSets, wanted: RankSets) -> ChunkClasses:
        """Classes of chunks with equal owner, label and sets; labels are numbers from 0 on."""
        labels = int(label.max(initial=0)) + 1
        pairs, pair = np.unique(starts.of_chunk * len(wanted) + wanted.of_chunk, return_inverse=True)
        key = (owner * labels + label) * len(pairs) + pair
        keys, one_of, of_chunk = np.unique(key, return_index=True, return_inverse=True)
        chunks = np.argsort(of_chunk, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(of_chunk, minlength=len(keys)))])
        place = np.zeros(len(chunks), dtype=np.int64)
        place[chunks] = np.arange(len(chunks)) - first[of_chunk[chunks]]
        members = (owner[one_of], label[one_of], pair[one_of])
        return ChunkClasses(
            starts, wanted, pairs, keys, labels, *members, of_chunk, place, chunks, first.astype(np.int64)
        )

    def image(self, rank_map: _Ints) -> _Ints | None:
        """The permutation of chunks that goes with one of ranks; None if the collective changes."""
        rank_map = np.asarray(rank_map, dtype=np.int64)
        starts, wanted = self.starts.images(rank_map), self.wanted.images(rank_map)
        if starts is None or wanted is None:
            return None
        start, want = np.divmod(self.pairs, max(len(self.wanted), 1))
        pairs = _positions(self.pairs, starts[start] * len(self.wanted) + wanted[want])
        if pairs is None:
            return None
        key = (rank_map[self.owner] * self.labels + self.label) * len(self.pairs) + pairs[self.pair]
        classes = _positions(self.keys, key)
        size = np.diff(self.first)
        if classes is None or (size[classes] != size).any():
            return None
        return np.asarray(self.chunks[self.first[classes[self.of_chunk]] + self.place])


def _positions(ascending: _Ints, values: _Ints) -> _Ints | None:
    """Where each value stands; None if one is not there."""
    if not len(ascending):
        return np.zeros(0, dtype=np.int64)
    position = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return position if (ascending[position] == values).all() else None
