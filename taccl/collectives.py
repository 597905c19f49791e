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

from taccl.arguments import is_whole, shown, whole_number
from taccl.buildable import check_places
from taccl.chunk_maps import ChunkClasses, RankSets
from taccl.errors import CollectiveError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Placement:
    """Where chunks sit in a buffer: row i says that `chunk[i]` is at `offset[i]` on `rank[i]`.

    Offsets count chunks, not bytes. The three arrays have equal length.
    """

    chunk: IntArray
    rank: IntArray
    offset: IntArray

    def __len__(self) -> int:
        return len(self.chunk)

    def table(self, num_chunks: int, num_ranks: int) -> BoolArray:
        """Dense membership, shape (num_chunks, num_ranks)."""
        held = np.zeros((num_chunks, num_ranks), dtype=np.bool_)
        held[self.chunk, self.rank] = True
        return held

    def offsets(self, num_chunks: int, num_ranks: int) -> IntArray:
        """Dense offsets, shape (num_chunks, num_ranks); -1 where the chunk is not."""
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

    def __repr__(self) -> str:
        return f"Collective({self.name}, {self.num_ranks} ranks, {self.num_chunks} chunks)"

    @property
    def num_chunks(self) -> int:
        return len(self.reduces)

    @cached_property
    def pre(self) -> BoolArray:
        """Dense precondition, shape (num_chunks, num_ranks)."""
        return self.inputs.table(self.num_chunks, self.num_ranks)

    @cached_property
    def post(self) -> BoolArray:
        """Dense postcondition, shape (num_chunks, num_ranks)."""
        return self.outputs.table(self.num_chunks, self.num_ranks)

    @property
    def is_reduction(self) -> bool:
        return bool(self.reduces.any())

    @property
    def busbw_factor(self) -> float:
        """nccl-tests' factor from algbw to busbw."""
        n = self.num_ranks
        if self.name == "allreduce":
            return 2 * (n - 1) / n
        if self.name in ("allgather", "reducescatter", "alltoall", "gather", "scatter"):
            return (n - 1) / n
        return 1.0

    def describe_chunk(self, chunk: int) -> str:
        """A chunk in the user's words: `chunk 5 (piece 1 of rank 2's part)`."""
        home = int(self.home[chunk])
        if self.name == "alltoall":
            source, target = divmod(chunk // self.chunks_per_rank, self.num_ranks)
            return f"chunk {chunk} (from rank {source} to rank {target})"
        return f"chunk {chunk} (piece {chunk % self.chunks_per_rank} of rank {home}'s part)"

    def reversed(self) -> Collective:
        """The collective run backwards in time: a sum to one rank becomes a copy from it.

        Raises
        ------
        CollectiveError : a chunk is neither a copy from one rank nor a sum for one rank.
        """
        sums_to_one = self.reduces & (self.post.sum(axis=1) == 1)
        copies_from_one = ~self.reduces & (self.pre.sum(axis=1) == 1)
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
        starts, wanted = (
            RankSets.of(self.num_chunks, rows.chunk, rows.rank) for rows in (self.inputs, self.outputs)
        )
        return ChunkClasses.of(self.home, self.reduces.astype(np.int64), starts, wanted)


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


def check_placements(collective: Collective) -> None:
    """Raise CollectiveError for a collective made by hand whose columns are not what they should be."""
    ranks, chunks = collective.num_ranks, len(collective.reduces)
    for what, placement in (("input", collective.inputs), ("output", collective.outputs)):
        columns = (placement.chunk, placement.rank, placement.offset)
        if len({len(column) for column in columns}) > 1:
            raise CollectiveError(f"the {what} columns of {collective.name} differ in length")
        for name, column, limit in zip(
            ("chunk", "rank", "offset"), columns, (chunks, ranks, 2**62), strict=True
        ):
            values = np.asarray(column)
            if len(values) and not (values.dtype.kind in "iu" and 0 <= values.min() and values.max() < limit):
                raise CollectiveError(
                    f"a {name} of the {what}s of {collective.name} is outside 0 .. {limit - 1}"
                )
    home = np.asarray(collective.home)
    if home.shape != (chunks,) or (chunks and not (0 <= home.min() and home.max() < ranks)):
        raise CollectiveError(f"each chunk of {collective.name} must have a rank as its home")
    if min(collective.chunks_per_rank, collective.chunks_per_size) < 1:
        raise CollectiveError(f"{collective.name} has no chunks in its size")


def chunk_bytes(collective: Collective, size_bytes: int) -> int:
    """Bytes per chunk when nccl-tests' `size` is `size_bytes`.

    Raises
    ------
    CollectiveError : the size cannot be cut into that many equal chunks.
    """
    whole_number(size_bytes, "a size", CollectiveError, least=0, most=2**62)
    size, rest = divmod(int(size_bytes), collective.chunks_per_size)
    if rest or not size:
        nearest = max(1, round(size_bytes / collective.chunks_per_size)) * collective.chunks_per_size
        raise CollectiveError(
            f"a size of {size_bytes} bytes cannot be cut into the {collective.chunks_per_size} equal "
            f"chunks of this {collective.name}",
            hint=f"--size {nearest}, or another number of chunks",
        )
    return size
