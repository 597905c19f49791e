"""What a program has to compute: sizes of the buffers, aliasing in place, and the wanted outputs.

A *value* is a multiset of contributions. The contribution of rank r's input chunk k is written as
bit r of the entry for offset k. A value is a tuple of entries (offset, ranks that contribute, ranks that
contribute more than once), sorted by offset, the ranks being bit masks. Input chunk k of rank r is
((k, 1 << r, 0),), and the AllReduce of chunk k over n ranks is ((k, 2**n - 1, 0),).

The standard collectives are written out here once more, apart from `taccl.model.collectives`, so that a
mistake there or in a lowering is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taccl.model.collective import BoolArray, Collective, IntArray

Entry = tuple[int, int, int]
Value = tuple[Entry, ...]

#: The offset of the entry that stands for memory that nobody wrote.
NOWHERE = -1
#: The most chunks that are looked at, in the buffers of all ranks and in all steps.
MAX_CELLS = 16_000_000

_ROOTED = ("broadcast", "reduce", "gather", "scatter")
CUT_BY_RANK = ("allgather", "reducescatter", "alltoall")
STANDARD = ("allreduce", *CUT_BY_RANK, *_ROOTED)


@dataclass(frozen=True, eq=False)
class Expectation:
    """The specification of one collective for one program, in the program's chunks.

    Parameters
    ----------
    collective : lower case, without `-` and `_`.
    input_size, output_size : shape (num_ranks,); chunks in the buffers that the caller hands over.
    in_place_shift : shape (num_ranks,); in place, input offset k is output offset k + shift.
    has_input : shape (num_ranks,); whether the input holds anything at the start.
    has_output : shape (num_ranks,); whether the caller hands over an output buffer, if it calls out of place.
    wanted_rank, wanted_offset, wanted_value : one row per output chunk that must be right; the value is
        an index into `values`.
    values : per distinct wanted value, the alternatives that are right.
    root : of the rooted collectives.
    """

    collective: str
    input_size: IntArray
    output_size: IntArray
    in_place_shift: IntArray
    has_input: BoolArray
    has_output: BoolArray
    wanted_rank: IntArray
    wanted_offset: IntArray
    wanted_value: IntArray
    values: tuple[tuple[Value, ...], ...]
    root: int | None = None


def plain_name(collective: str) -> str:
    """`reduce_scatter`, `ReduceScatter` and `reduce-scatter` are all reducescatter."""
    return collective.lower().replace("_", "").replace("-", "")


def is_rooted(collective: str) -> bool:
    """Whether a collective has a root rank."""
    return plain_name(collective) in _ROOTED


def specification(name: str, ranks: int, chunks: int, root: int | None = None) -> Expectation:
    """One of the `STANDARD` collectives, where a call is cut into `chunks`; `root` None stands for rank 0.

    The call is the whole buffer, of allgather the output and of gather and scatter one rank's part.
    """
    return _SPECIFICATIONS[name](name, ranks, chunks, 0 if root is None and name in _ROOTED else root)


def _specification(
    name: str,
    ranks: int,
    sizes: tuple[int, int],
    wanted: tuple[IntArray, IntArray, IntArray],
    values: list[Value],
    shift: IntArray | None = None,
    root: int | None = None,
    only_root_has_input: bool = False,
) -> Expectation:
    has_input = np.ones(ranks, dtype=np.bool_)
    if only_root_has_input:
        has_input[:] = np.arange(ranks) == root
    return Expectation(
        collective=name,
        input_size=np.full(ranks, sizes[0]),
        output_size=np.full(ranks, sizes[1]),
        in_place_shift=np.zeros(ranks, dtype=np.int64) if shift is None else shift,
        has_input=has_input,
        has_output=_has_output(name, ranks, root),
        wanted_rank=wanted[0],
        wanted_offset=wanted[1],
        wanted_value=wanted[2],
        values=tuple((value,) for value in values),
        root=root,
    )


def _has_output(name: str, ranks: int, root: int | None) -> BoolArray:
    if name in ("reduce", "gather") and root is not None:
        return np.asarray(np.arange(ranks) == root)
    return np.ones(ranks, dtype=np.bool_)


def _all_pairs(ranks: int, chunks: int) -> tuple[IntArray, IntArray]:
    rank, offset = np.divmod(np.arange(ranks * chunks), chunks)
    return rank, offset


def _allreduce(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    rank, offset = _all_pairs(ranks, chunks)
    values: list[Value] = [((k, (1 << ranks) - 1, 0),) for k in range(chunks)]
    return _specification(name, ranks, (chunks, chunks), (rank, offset, offset), values)


def _reduce(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    offset = np.arange(chunks)
    values: list[Value] = [((k, (1 << ranks) - 1, 0),) for k in range(chunks)]
    wanted = (np.full(chunks, root), offset, offset)
    return _specification(name, ranks, (chunks, chunks), wanted, values, root=root)


def _broadcast(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    rank, offset = _all_pairs(ranks, chunks)
    values: list[Value] = [((k, 1 << int(root or 0), 0),) for k in range(chunks)]
    return _specification(
        name, ranks, (chunks, chunks), (rank, offset, offset), values, root=root, only_root_has_input=True
    )


def _allgather(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    part = chunks // ranks
    rank, offset = _all_pairs(ranks, chunks)
    values: list[Value] = [((k % part, 1 << (k // part), 0),) for k in range(chunks)]
    return _specification(
        name, ranks, (part, chunks), (rank, offset, offset), values, shift=np.arange(ranks) * part
    )


def _reducescatter(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    part = chunks // ranks
    rank, offset = _all_pairs(ranks, part)
    values: list[Value] = [((k, (1 << ranks) - 1, 0),) for k in range(chunks)]
    wanted = (rank, offset, rank * part + offset)
    return _specification(name, ranks, (chunks, part), wanted, values, shift=-np.arange(ranks) * part)


def _alltoall(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    part = chunks // ranks
    rank, offset = _all_pairs(ranks, chunks)
    values: list[Value] = [
        ((r * part + k % part, 1 << (k // part), 0),) for r in range(ranks) for k in range(chunks)
    ]
    return _specification(name, ranks, (chunks, chunks), (rank, offset, rank * chunks + offset), values)


def _gather(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    """The call's count is one rank's part, so that is what nchunksperloop cuts.

    A call is in place for the runtimes if the input is the rank's part of the output, on every rank.
    """
    offset = np.arange(ranks * chunks)
    values: list[Value] = [((k % chunks, 1 << (k // chunks), 0),) for k in range(ranks * chunks)]
    wanted = (np.full(ranks * chunks, root), offset, offset)
    shift = np.arange(ranks) * chunks
    return _specification(name, ranks, (chunks, ranks * chunks), wanted, values, shift=shift, root=root)


def _scatter(name: str, ranks: int, chunks: int, root: int | None) -> Expectation:
    """As in gather, nchunksperloop cuts one rank's part, and in place means the same on every rank."""
    rank, offset = _all_pairs(ranks, chunks)
    values: list[Value] = [((k, 1 << int(root or 0), 0),) for k in range(ranks * chunks)]
    shift = -np.arange(ranks) * chunks
    return _specification(
        name,
        ranks,
        (ranks * chunks, chunks),
        (rank, offset, rank * chunks + offset),
        values,
        shift=shift,
        root=root,
        only_root_has_input=True,
    )


_SPECIFICATIONS: dict[str, Callable[[str, int, int, int | None], Expectation]] = {
    "allreduce": _allreduce,
    "allgather": _allgather,
    "reducescatter": _reducescatter,
    "alltoall": _alltoall,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
}


def expectation_of(collective: Collective, pieces: int) -> Expectation:
    """A collective given as data, each of its chunks cut into `pieces`."""
    ranks = collective.num_ranks
    sources: list[list[tuple[int, int]]] = [[] for _ in range(collective.num_chunks)]
    inputs = collective.inputs
    for chunk, rank, offset in zip(
        inputs.chunk.tolist(), inputs.rank.tolist(), inputs.offset.tolist(), strict=True
    ):
        sources[chunk].append((rank, offset))
    values = []
    for chunk, places in enumerate(sources):
        for piece in range(pieces):
            at = [(rank, offset * pieces + piece) for rank, offset in places]
            values.append(_sum_of(at) if collective.reduces[chunk] else _any_of(at))
    outputs = collective.outputs
    within = np.tile(np.arange(pieces), len(outputs))
    has_input = np.zeros(ranks, dtype=np.bool_)
    has_input[inputs.rank] = True
    name = plain_name(collective.name)
    input_size, output_size = inputs.buffer_size(ranks), outputs.buffer_size(ranks)
    if name in STANDARD:  # the caller hands over whole buffers on every rank
        input_size[:], output_size[:] = input_size.max(), output_size.max()
    shift = collective.in_place_shift
    if name in ("gather", "scatter"):  # known at the root only, where alone both buffers exist
        shift = np.arange(ranks) * collective.chunks_per_rank * (1 if name == "gather" else -1)
    return Expectation(
        collective=name,
        input_size=input_size * pieces,
        output_size=output_size * pieces,
        in_place_shift=shift * pieces,
        has_input=has_input,
        has_output=_has_output(name, ranks, collective.root),
        wanted_rank=np.repeat(outputs.rank, pieces),
        wanted_offset=np.repeat(outputs.offset, pieces) * pieces + within,
        wanted_value=np.repeat(outputs.chunk, pieces) * pieces + within,
        values=tuple(values),
        root=collective.root,
    )


def _sum_of(places: list[tuple[int, int]]) -> tuple[Value, ...]:
    ranks_at: dict[int, int] = {}
    for rank, offset in places:
        ranks_at[offset] = ranks_at.get(offset, 0) | 1 << rank
    return (tuple((offset, ranks_at[offset], 0) for offset in sorted(ranks_at)),)


def _any_of(places: list[tuple[int, int]]) -> tuple[Value, ...]:
    return tuple(((offset, 1 << rank, 0),) for rank, offset in places)
