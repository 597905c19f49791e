"""What is wanted of a network: a collective, or several at once, with sizes and moments of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.tuning import DEMAND_LARGE

#: No part of an AlltoAll is larger.
_MOST_BYTES = 2**50


@dataclass(frozen=True, eq=False)
class Demand:
    """A collective whose chunks may differ in size, be ready late, or have something after them.

    Parameters
    ----------
    sizes, ready_us, tail_us, sum_work_us : as in `Problem`.
    chunk_bytes : bytes of a chunk of size 1, where the demand itself says so; None: a request's size does.
    """

    collective: Collective
    sizes: FloatArray | None = None
    ready_us: FloatArray | None = None
    tail_us: FloatArray | None = None
    chunk_bytes: float | None = None
    sum_work_us: FloatArray | None = None

    @property
    def units_per_size(self) -> float:
        """Chunks of size 1 in what nccl-tests prints as `size`."""
        mean = 1.0 if self.sizes is None else float(np.mean(self.sizes))
        return self.collective.chunks_per_size * mean

    def stated(self, problem: Problem) -> Problem:
        """The problem of the collective alone, with the sizes and moments that are wanted.

        Symmetries that move a chunk to one of another size, or of another moment, are left out.
        """
        columns = {name: getattr(self, name) for name in ("sizes", "ready_us", "tail_us", "sum_work_us")}
        if all(column is None for column in columns.values()):
            return problem
        stated = replace(problem, symmetry=(), **columns)
        kept = tuple(ranks for ranks in problem.symmetry if stated.chunk_map(ranks) is not None)
        return replace(stated, symmetry=kept) if kept else stated


@dataclass(frozen=True, eq=False)
class Part:
    """One of several collectives at once.

    Parameters
    ----------
    demand : among as many ranks as there are members; it says how large its chunks are.
    members : shape (demand.collective.num_ranks,); the rank of each.
    """

    demand: Demand
    members: IntArray


def together(name: str, num_ranks: int, parts: Sequence[Part]) -> Demand:
    """Several collectives as one: their chunks, and on each rank their buffers, one part behind another.

    Raises
    ------
    CollectiveError : no parts; a part that says not how large its chunks are; members that are no ranks, or
        the same rank twice.

    Examples
    --------
    >>> from taccl.model.collectives import make_collective
    >>> pair = Demand(make_collective("allreduce", 2), chunk_bytes=1024)
    >>> both = together("two", 4, [Part(pair, np.array([0, 1])), Part(pair, np.array([2, 3]))])
    >>> both.collective.num_chunks, both.chunk_bytes
    (4, 1024.0)
    """
    if not parts:
        raise CollectiveError(f"{name} has no parts")
    for number, part in enumerate(parts):
        _check_members(name, num_ranks, number, part)
    bytes_of = np.concatenate([_chunk_bytes(part.demand) for part in parts])
    smallest = float(bytes_of.min())
    inputs, outputs = (
        _placed([(part, getattr(part.demand.collective, which)) for part in parts], num_ranks)
        for which in ("inputs", "outputs")
    )
    largest = max(int(rows.buffer_size(num_ranks).max()) for rows in (inputs, outputs))
    collective = Collective(
        name=name,
        num_ranks=num_ranks,
        chunks_per_rank=1,
        chunks_per_size=largest,
        inputs=inputs,
        outputs=outputs,
        reduces=np.concatenate([part.demand.collective.reduces for part in parts]),
        owner=np.concatenate([part.members[part.demand.collective.owner] for part in parts]),
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )
    return Demand(
        collective,
        sizes=_unless(bytes_of / smallest, 1.0),
        ready_us=_unless(_moments(parts, "ready_us", "inputs"), 0.0),
        tail_us=_unless(_moments(parts, "tail_us", "outputs"), 0.0),
        chunk_bytes=smallest,
    )


def alltoallv(size_bytes: IntArray, pieces: int = 1) -> Demand:
    """An AlltoAll of unequal parts: rank i sends `size_bytes[i, j]` bytes to rank j.

    Parameters
    ----------
    size_bytes : shape (num_ranks, num_ranks); 0: nothing is sent, and there is no chunk.
    pieces : equal chunks that each part is cut into; one that is large next to what the busiest rank has to
        do is cut before (`cut_parts`), since only whole chunks go on.

    Raises
    ------
    CollectiveError : no square table of whole numbers; a negative one; nothing to send at all; pieces that
        are no whole bytes.

    Examples
    --------
    >>> alltoallv(np.array([[0, 300], [100, 0]])).sizes
    array([3., 1.])
    """
    table = checked_sizes(size_bytes)
    source, target = np.nonzero(table)
    if not len(source):
        raise CollectiveError("an alltoallv has to send something: all sizes are 0")
    busiest = max(int(table.sum(0).max()), int(table.sum(1).max()))
    part, size = cut_parts(table[source, target], DEMAND_LARGE * busiest / len(table))
    source, target = source[part], target[part]
    if (size % pieces).any():
        unit = int(np.gcd.reduce(size))
        raise CollectiveError(
            f"{pieces} chunks of each part are no whole bytes: all sizes are multiples of {unit}",
            hint=f"as many chunks as divide {unit}, or auto" if unit > 1 else "1 chunk",
        )
    ranks, parts = len(table), np.arange(len(source))
    chunk = np.arange(len(source) * pieces)
    piece = np.tile(np.arange(pieces), len(source))
    offset_in, offset_out = (_rank_among(key, parts) for key in (source, target))
    of_part = np.repeat(size / pieces, pieces)
    inputs = Placement(chunk, np.repeat(source, pieces), np.repeat(offset_in, pieces) * pieces + piece)
    outputs = Placement(chunk, np.repeat(target, pieces), np.repeat(offset_out, pieces) * pieces + piece)
    collective = Collective(
        name="alltoallv",
        num_ranks=ranks,
        chunks_per_rank=pieces,
        chunks_per_size=max(int(rows.buffer_size(ranks).max()) for rows in (inputs, outputs)),
        inputs=inputs,
        outputs=outputs,
        reduces=np.zeros(len(chunk), dtype=np.bool_),
        owner=np.repeat(source, pieces),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )
    smallest = float(of_part.min())
    return Demand(collective, sizes=_unless(of_part / smallest, 1.0), chunk_bytes=smallest)


def checked_sizes(size_bytes: IntArray) -> IntArray:
    """The table, if it is one of sizes. Raises CollectiveError, as `alltoallv`."""
    try:
        table = np.asarray(size_bytes)
    except ValueError:  # rows of several lengths
        table = np.asarray(size_bytes, dtype=np.object_)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.dtype.kind not in "iu":
        raise CollectiveError(
            f"the sizes of an alltoallv are a square table of whole numbers, not {table.dtype} of shape "
            f"{table.shape}",
            hint="row i, column j: bytes from rank i to rank j",
        )
    outside = np.argwhere((table < 0) | (table > _MOST_BYTES))
    if len(outside):
        row, column = outside[0].tolist()
        raise CollectiveError(
            f"the size from rank {row} to rank {column} is {table[row, column]} bytes, which is not from 0 "
            f"to {_MOST_BYTES}"
        )
    return np.asarray(table, dtype=np.int64)


def cut_parts(size: IntArray, most: float) -> tuple[IntArray, IntArray]:
    """Chunks of parts of these sizes: the part of each, and its size; only large parts are several chunks.

    Chunks of a part are nearly equal, and multiples of what divides all sizes; so none is larger than `most`
    by more than that.
    """
    unit = int(np.gcd.reduce(size))
    whole = size // unit
    many = np.minimum(whole, np.ceil(size / most).astype(np.int64))
    part = np.repeat(np.arange(len(size)), many)
    place = _rank_among(part, np.arange(len(part)))
    return part, (whole[part] * (place + 1) // many[part] - whole[part] * place // many[part]) * unit


def _rank_among(key: IntArray, parts: IntArray) -> IntArray:
    """For each row, how many rows before it have the same key."""
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], key[order])
    count = np.empty_like(parts)
    count[order] = parts - first
    return count


def _check_members(name: str, num_ranks: int, number: int, part: Part) -> None:
    members, wanted = part.members, part.demand.collective.num_ranks
    said = f"part {number} of {name}"
    if part.demand.chunk_bytes is None:
        raise CollectiveError(f"{said} does not say how large it is", hint="size: 16MB")
    if len(members) != wanted:
        raise CollectiveError(f"{said} is for {wanted} ranks and has {len(members)} members")
    outside = members[(members < 0) | (members >= num_ranks)]
    if len(outside):
        raise CollectiveError(f"member {outside[0]} of {said} is no rank of 0 .. {num_ranks - 1}")
    if len(np.unique(members)) < len(members):
        raise CollectiveError(f"{said} has a member twice")


def _chunk_bytes(demand: Demand) -> FloatArray:
    """The bytes of each chunk, shape (num_chunks,)."""
    sizes = np.ones(demand.collective.num_chunks) if demand.sizes is None else demand.sizes
    return np.asarray(sizes * (demand.chunk_bytes or 0.0))


def _placed(rows: Sequence[tuple[Part, Placement]], num_ranks: int) -> Placement:
    """The placements of all parts, each behind those before it, in chunks and in the buffer of each rank."""
    taken, chunks = np.zeros(num_ranks, dtype=np.int64), 0
    columns: list[tuple[IntArray, IntArray, IntArray]] = []
    for part, placement in rows:
        rank = part.members[placement.rank]
        columns.append((placement.chunk + chunks, rank, placement.offset + taken[rank]))
        taken[part.members] += placement.buffer_size(len(part.members))
        chunks += part.demand.collective.num_chunks
    return Placement(*(np.concatenate(each) for each in zip(*columns, strict=True)))


def _moments(parts: Sequence[Part], name: str, rows: str) -> FloatArray:
    """The moments of all parts, row by row."""
    return np.concatenate(
        [
            np.zeros(len(getattr(part.demand.collective, rows)))
            if (times := getattr(part.demand, name)) is None
            else times
            for part in parts
        ]
    )


def _unless(values: FloatArray, usual: float) -> FloatArray | None:
    return None if (values == usual).all() else values
