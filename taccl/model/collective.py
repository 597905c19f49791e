"""What must be where, before and after: a collective as data.

A collective is a set of chunks. Each chunk starts at some ranks (the precondition) and is wanted at
some ranks (the postcondition). A chunk that *reduces* starts as one contribution at every rank of
its precondition and is wanted as their sum. Both conditions are sparse columns, so that an AlltoAll
over a thousand ranks is a million rows and not a matrix of 10**9 cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taccl.errors import CollectiveError
from taccl.model.chunk_maps import ChunkClasses, RankSets
from taccl.model.units import format_count
from taccl.support.arguments import column, shown, text, whole_number
from taccl.support.size_limits import check_table

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_PLACEMENT = ("chunk", "rank", "offset")
#: No number of a collective is as large.
_MOST = 2**62


@dataclass(frozen=True, eq=False)
class Placement:
    """Where chunks sit in a buffer: row i says that `chunk[i]` is at `offset[i]` on `rank[i]`.

    Offsets count chunks, not bytes. The three arrays have equal length.

    Raises
    ------
    CollectiveError : columns that are no whole numbers, of unequal length or with a negative number; a chunk
        that is twice on a rank.
    """

    chunk: IntArray
    rank: IntArray
    offset: IntArray

    def __post_init__(self) -> None:
        for name in _PLACEMENT:
            values = column(getattr(self, name), f"the {name}s of a placement", CollectiveError, kinds="iu")
            if len(values) and not (values.min() >= 0 and values.max() < _MOST):
                bad = int(values[(values < 0) | (values >= _MOST)][0])
                raise CollectiveError(f"a {name} of a placement is {bad}, which is outside 0 .. {_MOST - 1}")
            object.__setattr__(self, name, values)
        if not len(self.chunk) == len(self.rank) == len(self.offset):
            raise CollectiveError(
                f"the columns of a placement differ in length: {len(self.chunk)} chunks, "
                f"{len(self.rank)} ranks and {len(self.offset)} offsets"
            )
        twice = _first_pair_that_repeats(self.chunk, self.rank)
        if twice is not None:
            raise CollectiveError(f"a placement has chunk {twice[0]} on rank {twice[1]} twice")

    def __len__(self) -> int:
        return len(self.chunk)

    def where(self, rows: BoolArray) -> Placement:
        """The chosen rows."""
        return Placement(self.chunk[rows], self.rank[rows], self.offset[rows])

    def cut(self, pieces: int) -> Placement:
        """Each chunk cut into this many, one behind the other where it lay."""
        piece = np.tile(np.arange(pieces), len(self))
        return Placement(
            np.repeat(self.chunk, pieces) * pieces + piece,
            np.repeat(self.rank, pieces),
            np.repeat(self.offset, pieces) * pieces + piece,
        )

    def table(self, num_chunks: int, num_ranks: int) -> BoolArray:
        """Dense membership, shape (num_chunks, num_ranks).

        Raises
        ------
        CollectiveError : the table has more cells than any may have (`buildable`).
        """
        check_table(num_chunks, num_ranks)
        held = np.zeros((num_chunks, num_ranks), dtype=np.bool_)
        held[self.chunk, self.rank] = True
        return held

    def offsets(self, num_chunks: int, num_ranks: int) -> IntArray:
        """Dense offsets, shape (num_chunks, num_ranks); -1 where the chunk is not. Raises as `table`."""
        check_table(num_chunks, num_ranks)
        offset = np.full((num_chunks, num_ranks), -1, dtype=np.int64)
        offset[self.chunk, self.rank] = self.offset
        return offset

    def held(self, rank: int) -> tuple[int, ...]:
        """The chunks of one rank's buffer in the order in which they lie there; -1: room for none."""
        return tuple(self.held_column(rank).tolist())

    def held_column(self, rank: int) -> IntArray:
        """`held` as a column."""
        here = np.flatnonzero(self.rank == rank)
        held = np.full(int(self.offset[here].max(initial=-1)) + 1, -1, dtype=np.int64)
        held[self.offset[here]] = self.chunk[here]
        return held

    def buffer_size(self, num_ranks: int) -> IntArray:
        """Chunks that the buffer of each rank must have room for, shape (num_ranks,)."""
        size = np.zeros(num_ranks, dtype=np.int64)
        np.maximum.at(size, self.rank, self.offset + 1)
        return size


@dataclass(frozen=True, eq=False, repr=False)
class Collective:
    """A collective over `num_ranks` ranks, cut into chunks.

    Parameters
    ----------
    name : lower case, as the runtimes spell it: allgather, reducescatter, allreduce, alltoall,
        broadcast, reduce, gather, scatter; or the user's name for a custom one.
    num_ranks : ranks 0 .. num_ranks - 1.
    chunks_per_rank : pieces that one rank's part (for AlltoAll: each pair's part) is cut into.
    chunks_per_size : chunks in what nccl-tests prints as `size`, so chunk size = size / this.
    inputs, outputs : precondition and postcondition, with offsets in the input and output buffers.
    reduces : shape (num_chunks,); whether a chunk is a sum over its precondition.
    owner : shape (num_chunks,); the rank whose part a chunk belongs to: the source where a part has
        one source, else the rank that the sum is for.
    in_place_shift : shape (num_ranks,); in place, input offset k is output offset k + shift.
    root : the root rank of Broadcast, Reduce, Gather and Scatter.
    num_helpers : this many of the ranks, the last ones, are *helpers*: no data of theirs is in the
    collective.
        They may pass chunks on, sum and copy for the others, which are its *members*.

    Raises
    ------
    CollectiveError : a number or column of the wrong kind, length or range; a chunk that starts nowhere; a
        sum that no rank wants; a chunk that starts at a helper or is wanted there.
    """

    name: str
    num_ranks: int
    chunks_per_rank: int
    chunks_per_size: int
    inputs: Placement
    outputs: Placement
    reduces: BoolArray
    owner: IntArray
    in_place_shift: IntArray
    root: int | None = None
    num_helpers: int = 0

    def __post_init__(self) -> None:
        text(self.name, "the name of a collective", CollectiveError)
        for name in ("num_ranks", "chunks_per_rank", "chunks_per_size"):
            whole_number(getattr(self, name), f"{name} of {self.name}", CollectiveError, least=1, most=_MOST)
        most = self.num_ranks - 1
        whole_number(self.num_helpers, f"num_helpers of {self.name}", CollectiveError, least=0, most=most)
        if self.root is not None:
            whole_number(self.root, f"the root of {self.name}", CollectiveError, least=0, most=most)
        self._check_columns()
        self._check_places()
        self._check_demand()

    def only(self, chosen: BoolArray, name: str) -> Collective:
        """The chosen chunks alone, numbered in their order, at the offsets that they have."""
        number = np.cumsum(chosen) - 1

        def rows(placement: Placement) -> Placement:
            kept = placement.where(chosen[placement.chunk])
            return replace(kept, chunk=number[kept.chunk])

        return replace(
            self,
            name=name,
            inputs=rows(self.inputs),
            outputs=rows(self.outputs),
            reduces=self.reduces[chosen],
            owner=self.owner[chosen],
        )

    def _check_columns(self) -> None:
        reduces = np.asarray(self.reduces)
        if reduces.ndim != 1 or (reduces.size and reduces.dtype.kind != "b"):
            raise CollectiveError(f"reduces of {self.name} must be a column of true and false")
        object.__setattr__(self, "reduces", reduces.astype(np.bool_, copy=False))
        for name, length, of in (
            ("owner", self.num_chunks, "chunk"),
            ("in_place_shift", self.num_ranks, "rank"),
        ):
            values = column(getattr(self, name), f"{name} of {self.name}", CollectiveError, kinds="iu")
            if len(values) != length:
                raise CollectiveError(
                    f"{name} of {self.name} must have a number for each {of}: {length}, not {len(values)}"
                )
            object.__setattr__(self, name, values)
        if self.num_chunks and not (0 <= self.owner.min() and self.owner.max() < self.num_ranks):
            raise CollectiveError(f"each chunk of {self.name} must have a rank as its owner")

    def _check_places(self) -> None:
        for what, placement in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not isinstance(placement, Placement):
                raise CollectiveError(
                    f"the {what} of {self.name} must be a Placement, not {shown(placement)}"
                )
            for name, values, limit in (
                ("chunk", placement.chunk, self.num_chunks),
                ("rank", placement.rank, self.num_ranks),
            ):
                if len(values) and values.max() >= limit:
                    raise CollectiveError(
                        f"a {name} of the {what} of {self.name} is {values.max()}, "
                        f"which is outside 0 .. {limit - 1}"
                    )
            if self.num_helpers and len(placement) and placement.rank.max() >= self.num_members:
                raise CollectiveError(
                    f"rank {placement.rank.max()} is a helper of {self.name}, and is among its {what}",
                    hint="helpers hold no data: no chunk starts there, and none is wanted there",
                )

    def _check_demand(self) -> None:
        nowhere = np.flatnonzero(self.num_sources == 0)
        if len(nowhere):
            what = "is a sum without a contribution" if self.reduces[nowhere[0]] else "starts nowhere"
            raise CollectiveError(f"chunk {nowhere[0]} of {self.name} {what}")
        unwanted = np.flatnonzero(self.reduces & (self.num_wanted == 0))
        if len(unwanted):
            raise CollectiveError(
                f"chunk {unwanted[0]} of {self.name} is a sum that no rank wants",
                hint="leave it out, or say which rank wants it",
            )

    def __repr__(self) -> str:
        return f"Collective({self.name}, {self.num_ranks} ranks, {self.num_chunks} chunks)"

    @property
    def num_chunks(self) -> int:
        return len(self.reduces)

    @property
    def num_members(self) -> int:
        """Ranks that hold data: 0 .. num_members - 1."""
        return self.num_ranks - self.num_helpers

    @property
    def counted_ranks(self) -> str:
        """`4 ranks and 1 helper`."""
        counts = [(self.num_members, "rank")] + [(self.num_helpers, "helper")] * bool(self.num_helpers)
        return " and ".join(format_count(count, noun) for count, noun in counts)

    @cached_property
    def pre(self) -> BoolArray:
        """Dense precondition, shape (num_chunks, num_ranks). Raises as `Placement.table`."""
        return self.inputs.table(self.num_chunks, self.num_ranks)

    @cached_property
    def post(self) -> BoolArray:
        """Dense postcondition, shape (num_chunks, num_ranks). Raises as `Placement.table`."""
        return self.outputs.table(self.num_chunks, self.num_ranks)

    @cached_property
    def num_sources(self) -> IntArray:
        """At how many ranks each chunk starts, shape (num_chunks,)."""
        return np.bincount(self.inputs.chunk, minlength=self.num_chunks)

    @cached_property
    def num_wanted(self) -> IntArray:
        """At how many ranks each chunk is wanted, shape (num_chunks,)."""
        return np.bincount(self.outputs.chunk, minlength=self.num_chunks)

    @cached_property
    def source(self) -> IntArray:
        """The rank where each chunk starts, the least of several; -1: none. Shape (num_chunks,)."""
        return self._least_rank(self.inputs)

    @cached_property
    def destination(self) -> IntArray:
        """The rank that wants each chunk, the least of several; -1: none. Shape (num_chunks,)."""
        return self._least_rank(self.outputs)

    def _least_rank(self, placement: Placement) -> IntArray:
        least = np.full(self.num_chunks, self.num_ranks, dtype=np.int64)
        np.minimum.at(least, placement.chunk, placement.rank)
        return np.where(least < self.num_ranks, least, -1)

    def with_helpers(self, num_helpers: int) -> Collective:
        """The same collective among this many more ranks, which are helpers."""
        whole_number(num_helpers, "num_helpers", CollectiveError, least=0, most=_MOST)
        return replace(
            self,
            num_ranks=self.num_ranks + num_helpers,
            num_helpers=self.num_helpers + num_helpers,
            in_place_shift=np.concatenate([self.in_place_shift, np.zeros(num_helpers, dtype=np.int64)]),
        )

    @property
    def is_reduction(self) -> bool:
        return bool(self.reduces.any())

    @property
    def busbw_factor(self) -> float:
        """nccl-tests' factor from algbw to busbw."""
        return busbw_factor(self.name, self.num_members)

    def describe_chunk(self, chunk: int) -> str:
        """A chunk in the user's words: `chunk 5 (piece 1 of rank 2's part)`."""
        owner = int(self.owner[chunk])
        if self.name == "alltoall":
            source, target = divmod(chunk // self.chunks_per_rank, self.num_members)
            return f"chunk {chunk} (from rank {source} to rank {target})"
        return f"chunk {chunk} (piece {chunk % self.chunks_per_rank} of rank {owner}'s part)"

    def reversed(self) -> Collective:
        """The collective run backwards in time: a sum to one rank becomes a copy from it.

        Raises
        ------
        CollectiveError : a chunk is neither a copy from one rank nor a sum for one rank.
        """
        sums_to_one = self.reduces & (self.num_wanted == 1)
        copies_from_one = ~self.reduces & (self.num_sources == 1) & (self.num_wanted > 0)
        if not (sums_to_one.all() or copies_from_one.all()):
            raise CollectiveError(f"{self.name} has no mirror image: it both copies and reduces")
        return replace(
            self,
            name=_mirrored(self.name),
            inputs=self.outputs,
            outputs=self.inputs,
            reduces=~self.reduces,
            in_place_shift=-self.in_place_shift,
        )

    def chunk_map(self, rank_map: IntArray) -> IntArray | None:
        """The permutation of chunks that goes with a permutation of ranks, shape (num_chunks,).

        Chunks with equal owner, conditions and kind are mapped in their order (`chunk_maps`).
        None if the collective is not the same after the permutation.
        """
        return self._classes.image(rank_map)

    @cached_property
    def _classes(self) -> ChunkClasses:
        return self.chunk_classes(np.zeros(self.num_chunks, dtype=np.int64))

    def chunk_classes(self, labels: IntArray) -> ChunkClasses:
        """Chunks that nothing tells apart, not even their labels: numbers from 0 on, shape (num_chunks,)."""
        starts, wanted = (
            RankSets.of(self.num_chunks, rows.chunk, rows.rank) for rows in (self.inputs, self.outputs)
        )
        return ChunkClasses.of(self.owner, 2 * labels + self.reduces, starts, wanted)


def busbw_factor(name: str, ranks: int) -> float:
    """nccl-tests' factor from algbw to busbw for a collective by name, and its ranks with data.

    A part of a collective, `allgather of ...`, has the factor of the whole.
    """
    name = name.partition(" of ")[0]
    if name == "allreduce":
        return 2 * (ranks - 1) / ranks
    if name in ("allgather", "reducescatter", "alltoall", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


def _first_pair_that_repeats(chunk: IntArray, rank: IntArray) -> tuple[int, int] | None:
    """A chunk and a rank that stand in two rows. Rows in order, as most are, need no sorting."""
    for major, minor in ((chunk, rank), (rank, chunk)):
        after = (major[1:] > major[:-1]) | ((major[1:] == major[:-1]) & (minor[1:] > minor[:-1]))
        if after.all():
            return None
    order = np.lexsort((rank, chunk))
    chunk, rank = chunk[order], rank[order]
    same = np.flatnonzero((chunk[1:] == chunk[:-1]) & (rank[1:] == rank[:-1]))
    return (int(chunk[same[0]]), int(rank[same[0]])) if len(same) else None


_MIRROR = {
    "allgather": "reducescatter",
    "reducescatter": "allgather",
    "broadcast": "reduce",
    "reduce": "broadcast",
}
_REVERSED = "-reversed"


def _mirrored(name: str) -> str:
    if name.endswith(_REVERSED):
        return name.removesuffix(_REVERSED)
    return _MIRROR.get(name, name + _REVERSED)
