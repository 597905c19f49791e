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
from typing import Any

import numpy as np

from taccl.model.collective import BoolArray, Collective, IntArray
from taccl.model.collectives import plain_name

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


def is_rooted(collective: str) -> bool:
    """Whether a collective has a root rank."""
    return plain_name(collective) in _ROOTED


def _whole(ranks: int, chunks: int) -> int:
    return chunks


def _part(ranks: int, chunks: int) -> int:
    return chunks // ranks


def _all_parts(ranks: int, chunks: int) -> int:
    return chunks * ranks


def _of_parts(offset: IntArray, part: int, own: IntArray | int = 0) -> tuple[IntArray, IntArray]:
    """An output of parts, one of each rank: there the `own`-th of its input."""
    return own * part + offset % part, offset // part


#: Per collective the chunks of an input, those of an output, and what an output holds. Sizes are of (ranks,
#: chunks of a call); what it holds is of (rank, offset, chunks of an output, ranks, root): which input chunk,
#: and of which rank; -1: the sum of all.
_STANDARD: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "allreduce": (_whole, _whole, lambda rank, k, size, ranks, root: (k, -1)),
    "reduce": (_whole, _whole, lambda rank, k, size, ranks, root: (k, -1)),
    "broadcast": (_whole, _whole, lambda rank, k, size, ranks, root: (k, root)),
    "allgather": (_part, _whole, lambda rank, k, size, ranks, root: _of_parts(k, size // ranks)),
    "reducescatter": (_whole, _part, lambda rank, k, size, ranks, root: (rank * size + k, -1)),
    "alltoall": (_whole, _whole, lambda rank, k, size, ranks, root: _of_parts(k, size // ranks, rank)),
    "gather": (_whole, _all_parts, lambda rank, k, size, ranks, root: _of_parts(k, size // ranks)),
    "scatter": (_all_parts, _whole, lambda rank, k, size, ranks, root: (rank * size + k, root)),
}


@dataclass(frozen=True, slots=True)
class StandardOutput:
    """What the outputs of a standard collective hold, where a call has `chunks`, as in `specification`."""

    name: str
    ranks: int
    chunks: int
    root: int | None

    @property
    def size(self) -> int:
        """Chunks of an output."""
        return int(_STANDARD[self.name][1](self.ranks, self.chunks))

    @property
    def exists(self) -> BoolArray:
        """Per rank, whether it has an output."""
        return _has_output(self.name, self.ranks, self.root)

    def holds(self, rank: IntArray, offset: IntArray) -> tuple[IntArray, IntArray]:
        """Per place which input chunk, and of which rank; -1: the sum of all."""
        source, holder = _STANDARD[self.name][2](rank, offset, self.size, self.ranks, self.root)
        return source + np.zeros_like(offset), holder + np.zeros_like(offset)


def specification(name: str, ranks: int, chunks: int, root: int | None = None) -> Expectation:
    """One of the `STANDARD` collectives, where a call is cut into `chunks`; `root` None stands for rank 0.

    The call is the whole buffer, of allgather the output and of gather and scatter one rank's part.
    """
    if root is None and name in _ROOTED:
        root = 0
    output = StandardOutput(name, ranks, chunks, root)
    inputs, outputs, has_output = int(_STANDARD[name][0](ranks, chunks)), output.size, output.exists
    rank, offset = (where.ravel() for where in np.indices((ranks, outputs)))
    rank, offset = rank[has_output[rank]], offset[has_output[rank]]
    source, holder = output.holds(rank, offset)
    distinct, value = np.unique(source * (ranks + 1) + holder + 1, return_inverse=True)
    values: list[tuple[Value, ...]] = []
    for chunk, summed in (divmod(code, ranks + 1) for code in distinct.tolist()):
        values.append((((chunk, 1 << summed - 1 if summed else (1 << ranks) - 1, 0),),))
    has_input: BoolArray = np.ones(ranks, dtype=np.bool_)
    if name in ("broadcast", "scatter"):
        has_input = np.asarray(np.arange(ranks) == root)
    part = {"allgather": outputs // ranks, "gather": chunks, "reducescatter": -outputs, "scatter": -chunks}
    return Expectation(
        collective=name,
        input_size=np.full(ranks, inputs),
        output_size=np.full(ranks, outputs),
        in_place_shift=np.arange(ranks) * part.get(name, 0),
        has_input=has_input,
        has_output=has_output,
        wanted_rank=rank,
        wanted_offset=offset,
        wanted_value=value,
        values=tuple(values),
        root=root,
    )


def _has_output(name: str, ranks: int, root: int | None) -> BoolArray:
    if name in ("reduce", "gather") and root is not None:
        return np.asarray(np.arange(ranks) == root)
    return np.ones(ranks, dtype=np.bool_)


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
