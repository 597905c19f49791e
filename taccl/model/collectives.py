"""The standard collectives, by name: who has and who wants which chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.units import format_size
from taccl.support.arguments import is_whole, shown, whole_number
from taccl.support.size_limits import check_places


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
        owner=part,
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
        owner=part,
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
        owner=source,
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
        owner=at_root,
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
        owner=part,
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
        owner=np.full(mirror.num_chunks, root),
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

#: Those in which all parts look the same, so that those of one node stand for all (`first_parts`).
EQUAL_PARTS = ("allgather", "reducescatter", "allreduce")
#: The names that `make_collective` knows.
COLLECTIVES = (*_ROOTLESS, *_ROOTED)
#: Those with a root.
ROOTED = tuple(_ROOTED)


def first_parts(name: str, num_ranks: int, chunks_per_rank: int, owners: int) -> Collective:
    """The chunks of the first ranks of a collective with equal parts, alone, at the offsets that they have.

    Nothing of the others is built: AllGather on 16,384 ranks has 2**28 places, and this has `owners` of it.

    Parameters
    ----------
    name : one of `EQUAL_PARTS`.
    owners : how many ranks.
    """
    part, piece = _parts(owners, chunks_per_rank)
    chunks = np.arange(len(part))
    at_owners, everywhere = Placement(chunks, part, piece), _everywhere(chunks, num_ranks)
    shift = np.arange(num_ranks) * chunks_per_rank
    inputs, outputs, in_place_shift = {
        "allgather": (at_owners, everywhere, shift),
        "reducescatter": (everywhere, at_owners, -shift),
        "allreduce": (everywhere, everywhere, 0 * shift),
    }[name]
    return Collective(
        name=f"{name} of the first {owners} parts",
        num_ranks=num_ranks,
        chunks_per_rank=chunks_per_rank,
        chunks_per_size=num_ranks * chunks_per_rank,
        inputs=inputs,
        outputs=outputs,
        reduces=np.full(len(part), name != "allgather"),
        owner=part,
        in_place_shift=in_place_shift,
    )


#: Of these, runtimes count the size of a call as one rank's part; of all others as nccl-tests does.
CALLED_BY_PART = ("gather", "scatter")


def parts_of_call(collective: str, num_ranks: int) -> int:
    """How many times the bytes by which runtimes know a call its size is, as nccl-tests counts it."""
    return num_ranks if plain_name(collective) in CALLED_BY_PART else 1


def calls_served(collective: str, num_ranks: int, least_bytes: int, most_bytes: int) -> str:
    """`1MB to 4MB`, the calls of a file as nccl-tests counts them, and what runtimes compare if that differs.

    Parameters
    ----------
    least_bytes, most_bytes : as the file has them; 0 for the most: any number.
    """
    parts = parts_of_call(collective, num_ranks)
    counted = _from_to(least_bytes * parts, most_bytes * parts)
    return counted if parts == 1 else f"{counted} ({_from_to(least_bytes, most_bytes)} per rank)"


def _from_to(least_bytes: int, most_bytes: int) -> str:
    most = f"to {format_size(most_bytes)}" if most_bytes else "on"
    return f"{format_size(least_bytes)} {most}"


def plain_name(collective: str) -> str:
    """`reduce_scatter`, `ReduceScatter` and `reduce-scatter` are all reducescatter."""
    return collective.lower().replace("_", "").replace("-", "")


def make_collective(
    name: str, num_ranks: int, chunks_per_rank: int = 1, root: int | None = None
) -> Collective:
    """A collective by name; case, `-` and `_` do not matter.

    Raises
    ------
    CollectiveError : unknown name, fewer than one chunk, more than can be built, a root that is no rank or is
        not wanted.
    """
    key = plain_name(name) if isinstance(name, str) else ""
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
        raise CollectiveError(f"root {shown(root)} is no rank of 0 .. {num_ranks - 1}", hint="--root R")
    return _ROOTED[key](num_ranks, chunks_per_rank, root)


#: Chunks of this many bytes, and multiples of it, hold whole numbers of every type.
_WHOLE_NUMBERS_BYTES = 16


def chunk_bytes(chunks_per_size: int, size_bytes: int) -> int:
    """Bytes in each of this many equal chunks when nccl-tests' `size` is `size_bytes`.

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
            hint=f"a size of {chunks_per_size} bytes or more, or fewer chunks",
        )
    return size - size % _WHOLE_NUMBERS_BYTES if rest and size >= _WHOLE_NUMBERS_BYTES else size


def rounding_notes(size_bytes: int, bytes_each: int, chunks: int, *, unequal: bool = False) -> Iterator[str]:
    """A note on a size of `size_bytes` that became smaller, since it is no whole number of equal chunks.

    Parameters
    ----------
    unequal : whether the chunks are of unequal sizes; then `chunks` counts the elements that they consist of.
    """
    rounded = bytes_each * chunks
    if rounded == size_bytes:
        return
    made_of = (
        f"a whole number of bytes for each of {chunks} elements, of which the file's unequal chunks are made"
        if unequal
        else f"as nccl-tests does: {chunks} equal chunks of {bytes_each} bytes"
    )
    yield f"the size of {size_bytes} bytes is rounded down to {rounded}, {made_of}"
