"""What must be where, before and after: the collectives as data.

A collective is a set of chunks. Each chunk starts at some ranks (the precondition) and is wanted at
some ranks (the postcondition). A chunk that *reduces* starts as one contribution at every rank of
its precondition and is wanted as their sum. Both conditions are sparse columns, so that an AlltoAll
over a thousand ranks is a million rows and not a matrix of 10**9 cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taccl.arguments import column, is_whole, shown, text, whole_number
from taccl.buildable import check_places, check_table
from taccl.chunk_maps import ChunkClasses, RankSets
from taccl.errors import CollectiveError

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
    home : shape (num_chunks,); the rank whose part a chunk belongs to: the source where a part has
        one source, else the rank that the sum is for.
    in_place_shift : shape (num_ranks,); in place, input offset k is output offset k + shift.
    root : the root rank of Broadcast, Reduce, Gather and Scatter.
    num_helpers : so many of the ranks, the last ones, are *helpers*: no data of theirs is in the collective.
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
    home: IntArray
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

    def _check_columns(self) -> None:
        reduces = np.asarray(self.reduces)
        if reduces.ndim != 1 or (reduces.size and reduces.dtype.kind != "b"):
            raise CollectiveError(f"reduces of {self.name} must be a column of true and false")
        object.__setattr__(self, "reduces", reduces.astype(np.bool_, copy=False))
        for name, length, of in (
            ("home", self.num_chunks, "chunk"),
            ("in_place_shift", self.num_ranks, "rank"),
        ):
            values = column(getattr(self, name), f"{name} of {self.name}", CollectiveError, kinds="iu")
            if len(values) != length:
                raise CollectiveError(
                    f"{name} of {self.name} must have a number for each {of}: {length}, not {len(values)}"
                )
            object.__setattr__(self, name, values)
        if self.num_chunks and not (0 <= self.home.min() and self.home.max() < self.num_ranks):
            raise CollectiveError(f"each chunk of {self.name} must have a rank as its home")

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

    def beside(self, num_helpers: int) -> Collective:
        """The same collective among so many more ranks, which are helpers."""
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
        n = self.num_members
        if self.name == "allreduce":
            return 2 * (n - 1) / n
        if self.name in ("allgather", "reducescatter", "alltoall", "gather", "scatter"):
            return (n - 1) / n
        return 1.0

    def describe_chunk(self, chunk: int) -> str:
        """A chunk in the user's words: `chunk 5 (piece 1 of rank 2's part)`."""
        home = int(self.home[chunk])
        if self.name == "alltoall":
            source, target = divmod(chunk // self.chunks_per_rank, self.num_members)
            return f"chunk {chunk} (from rank {source} to rank {target})"
        return f"chunk {chunk} (piece {chunk % self.chunks_per_rank} of rank {home}'s part)"

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

        Chunks with equal home, precondition, postcondition and kind are mapped in their order (`chunk_maps`).
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
        return ChunkClasses.of(self.home, 2 * labels + self.reduces, starts, wanted)


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


def _parts(num_ranks: int, pieces: int) -> tuple[IntArray, IntArray]:
    """(part, piece) of each chunk of a buffer of `num_ranks` parts of `pieces` chunks."""
    part, piece = np.divmod(np.arange(num_ranks * pieces), pieces)
    return part, piece


def _everywhere(chunks: IntArray, num_ranks: int) -> Placement:
    """Every chunk on every rank, at the offset that is its own number."""
    chunk = np.tile(chunks, num_ranks)
    return Placement(chunk, np.repeat(np.arange(num_ranks), len(chunks)), chunk)


def allgather(num_ranks: int, chunks_per_rank: int = 1) -> Collective:
    """Every rank gets every rank's part."""
    part, piece = _parts(num_ranks, chunks_per_rank)
    chunks = np.arange(len(part))
    return Collective(
        name="allgather",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=len(part),
        inputs=Placement(chunks, part, piece),
        outputs=_everywhere(chunks, num_ranks),
        reduces=np.zeros(len(part), dtype=np.bool_),
        home=part,
        in_place_shift=np.arange(num_ranks) * chunks_per_rank,
    )


def reducescatter(num_ranks: int, chunks_per_rank: int = 1) -> Collective:
    """Rank q gets the sum over all ranks of part q."""
    return allgather(num_ranks, chunks_per_rank).reversed()


def allreduce(num_ranks: int, chunks_per_rank: int = 1) -> Collective:
    """Every rank gets the sum over all ranks of the buffer; part q is called rank q's."""
    part, _ = _parts(num_ranks, chunks_per_rank)
    everywhere = _everywhere(np.arange(len(part)), num_ranks)
    return Collective(
        name="allreduce",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=len(part),
        inputs=everywhere,
        outputs=everywhere,
        reduces=np.ones(len(part), dtype=np.bool_),
        home=part,
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )


def alltoall(num_ranks: int, chunks_per_rank: int = 1) -> Collective:
    """Rank d gets part d of every rank; chunk (source * num_ranks + d) * chunks_per_rank + piece."""
    chunks = np.arange(num_ranks * num_ranks * chunks_per_rank)
    pair, piece = np.divmod(chunks, chunks_per_rank)
    source, target = np.divmod(pair, num_ranks)
    return Collective(
        name="alltoall",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=num_ranks * chunks_per_rank,
        inputs=Placement(chunks, source, target * chunks_per_rank + piece),
        outputs=Placement(chunks, target, source * chunks_per_rank + piece),
        reduces=np.zeros(len(chunks), dtype=np.bool_),
        home=source,
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )


def broadcast(num_ranks: int, chunks_per_rank: int = 1, root: int = 0) -> Collective:
    """Every rank gets the root's buffer, cut into `chunks_per_rank` chunks."""
    chunks = np.arange(chunks_per_rank)
    at_root = np.full(chunks_per_rank, root)
    return Collective(
        name="broadcast",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=chunks_per_rank,
        inputs=Placement(chunks, at_root, chunks),
        outputs=_everywhere(chunks, num_ranks),
        reduces=np.zeros(chunks_per_rank, dtype=np.bool_),
        home=at_root,
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
        root=root,
    )


def reduce(num_ranks: int, chunks_per_rank: int = 1, root: int = 0) -> Collective:
    """The root gets the sum over all ranks of the buffer."""
    return broadcast(num_ranks, chunks_per_rank, root).reversed()


def gather(num_ranks: int, chunks_per_rank: int = 1, root: int = 0) -> Collective:
    """The root gets every rank's part."""
    part, piece = _parts(num_ranks, chunks_per_rank)
    chunks = np.arange(len(part))
    shift = np.zeros(num_ranks, dtype=np.int64)
    shift[root] = root * chunks_per_rank
    return Collective(
        name="gather",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=len(part),
        inputs=Placement(chunks, part, piece),
        outputs=Placement(chunks, np.full(len(part), root), chunks),
        reduces=np.zeros(len(part), dtype=np.bool_),
        home=part,
        in_place_shift=shift,
        root=root,
    )


def scatter(num_ranks: int, chunks_per_rank: int = 1, root: int = 0) -> Collective:
    """Rank q gets part q of the root's buffer."""
    mirror = gather(num_ranks, chunks_per_rank, root)
    return replace(
        mirror,
        name="scatter",
        inputs=mirror.outputs,
        outputs=mirror.inputs,
        home=np.full(mirror.num_chunks, root),
        in_place_shift=-mirror.in_place_shift,
    )


_ROOTLESS: dict[str, Callable[[int, int], Collective]] = {
    "allgather": allgather,
    "reducescatter": reducescatter,
    "allreduce": allreduce,
    "alltoall": alltoall,
}
_ROOTED: dict[str, Callable[[int, int, int], Collective]] = {
    "broadcast": broadcast,
    "reduce": reduce,
    "gather": gather,
    "scatter": scatter,
}

#: The names that `make_collective` knows.
COLLECTIVES = (*_ROOTLESS, *_ROOTED)


def make_collective(
    name: str, num_ranks: int, chunks_per_rank: int = 1, root: int | None = None
) -> Collective:
    """A collective by name; case, `-` and `_` do not matter.

    Raises
    ------
    CollectiveError : unknown name, fewer than one chunk, more than can be built, a root that is no rank or is
        not wanted.
    """
    key = name.lower().replace("-", "").replace("_", "") if isinstance(name, str) else ""
    if key not in COLLECTIVES:
        raise CollectiveError(f"unknown collective {shown(name)}", hint="one of " + ", ".join(COLLECTIVES))
    for number in (num_ranks, chunks_per_rank):
        if not is_whole(number) or number < 1:
            raise CollectiveError(
                f"{key} needs at least one rank and one chunk per rank, "
                f"not {shown(num_ranks)} ranks and {shown(chunks_per_rank)} chunks per rank"
            )
    num_ranks, chunks_per_rank = int(num_ranks), int(chunks_per_rank)
    check_places(key, num_ranks, chunks_per_rank)
    if key in _ROOTLESS:
        if root is not None:
            raise CollectiveError(f"{key} has no root", hint="leave --root out")
        return _ROOTLESS[key](num_ranks, chunks_per_rank)
    root = 0 if root is None else root
    if not is_whole(root) or not 0 <= root < num_ranks:
        raise CollectiveError(f"root {shown(root)} is no rank of 0 .. {num_ranks - 1}")
    return _ROOTED[key](num_ranks, chunks_per_rank, root)


#: Chunks of this many bytes, and multiples of it, hold whole numbers of every type.
_WHOLE_NUMBERS_BYTES = 16


def chunk_bytes(chunks_per_size: int, size_bytes: int) -> int:
    """Bytes in each of so many equal chunks when nccl-tests' `size` is `size_bytes`.

    A size that is no whole number of equal chunks is rounded down, as nccl-tests does with the parts of
    ranks; then chunks of 16 bytes or more are also rounded down to a multiple of 16, which any type divides.

    Raises
    ------
    CollectiveError : there is not a byte for each chunk.
    """
    whole_number(size_bytes, "a size", CollectiveError, least=0, most=2**62)
    size, rest = divmod(int(size_bytes), chunks_per_size)
    if not size:
        raise CollectiveError(
            f"a size of {size_bytes} bytes has not one for each of {chunks_per_size} chunks",
            hint=f"--size {chunks_per_size} or more, or fewer chunks",
        )
    return size - size % _WHOLE_NUMBERS_BYTES if rest and size >= _WHOLE_NUMBERS_BYTES else size
