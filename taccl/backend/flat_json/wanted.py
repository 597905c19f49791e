"""What the outputs of a file of actions must hold, by where the file says that chunks lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.flat_json.cells import Cells, held_starts
from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.machine.expected import CUT_BY_RANK, Expectation, StandardOutput, Value
from taccl.model.collectives import plain_name


def expected(program: ActionsProgram, cells: Cells) -> Expectation:
    """What the outputs must hold, from where the file says that chunks lie."""
    sources: list[list[tuple[int, int]]] = [[] for _ in program.sums]
    wanted: list[tuple[int, int, int]] = []
    values: list[tuple[Value, ...]] = []
    for rank, of_rank in enumerate(program.ranks):
        for chunk, first in _cells_held(program, cells, rank, 0, of_rank.input):
            sources[chunk].append((rank, first[0]))
    number_of: dict[tuple[int, int], int] = {}
    for rank, of_rank in enumerate(program.ranks):
        for chunk, held in _cells_held(program, cells, rank, 1, of_rank.output):
            for piece, cell in enumerate(held):
                key = (chunk, piece)
                if key not in number_of:
                    number_of[key] = len(values)
                    values.append(_value(sources[chunk], piece, program.sums[chunk]))
                wanted.append((rank, cell, number_of[key]))
    columns = np.array(wanted, dtype=np.int64).reshape(-1, 3).T
    sizes = cells.layout.chunks
    return Expectation(
        collective=plain_name(program.collective),
        input_size=sizes[:, 0],
        output_size=sizes[:, 1],
        in_place_shift=np.zeros(len(sizes), dtype=np.int64),
        has_input=np.array([any(chunk >= 0 for chunk in rank.input) for rank in program.ranks]),
        has_output=np.ones(len(sizes), dtype=np.bool_),
        wanted_rank=columns[0],
        wanted_offset=columns[1],
        wanted_value=columns[2],
        values=tuple(values),
        root=program.root,
    )


def _cells_held(
    program: ActionsProgram, cells: Cells, rank: int, column: int, held: Sequence[int]
) -> list[tuple[int, range]]:
    """Each chunk of a buffer with its cells there."""
    bounds = [cells.within(rank, column, start) for start in held_starts(program, held)]
    return [
        (chunk, range(first, end))
        for chunk, first, end in zip(held, bounds, bounds[1:], strict=False)
        if chunk >= 0
    ]


def _value(sources: Sequence[tuple[int, int]], piece: int, is_sum: bool) -> tuple[Value, ...]:
    """The piece of a chunk: the sum of all inputs that hold it, or any one of them."""
    if not is_sum:
        return tuple(((first + piece, 1 << rank, 0),) for rank, first in sources)
    ranks_at: dict[int, int] = {}
    for rank, first in sources:
        ranks_at[first + piece] = ranks_at.get(first + piece, 0) | 1 << rank
    return (tuple((offset, ranks_at[offset], 0) for offset in sorted(ranks_at)),)


def holds_standard(program: ActionsProgram, call: int) -> bool:
    """Whether the file wants in all outputs what the standard collective that it names has there.

    Along a chunk, both the file and the standard go through an input element by element. The standard does so
    up to the end of a rank's part, and the next part is of another rank. So if the first and the last element
    of a chunk are right, those between are.

    Parameters
    ----------
    call : elements in the size of a call; of a reducescatter, what is left beyond equal parts is room.
    """
    name, ranks = plain_name(program.collective), len(program.ranks)
    if name in CUT_BY_RANK and name != "reducescatter" and call % ranks:
        return False  # the last elements of an output would be of no rank
    standard = StandardOutput(name, ranks, call, program.root)
    sources: list[list[tuple[int, int]]] = [[] for _ in program.sums]
    for rank, of_rank in enumerate(program.ranks):
        for chunk, first, _ in _stretches(program, of_rank.input):
            sources[chunk].append((rank, first))
    rows = [
        (rank, *row) for rank, each in enumerate(program.ranks) for row in _stretches(program, each.output)
    ]
    rank_of, chunk_of, first_of, end_of = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    covered = int((end_of - first_of).sum())
    if (end_of > standard.size * standard.exists[rank_of]).any():
        return False
    for element in (first_of, end_of - 1):
        columns = (chunk_of, element - first_of, *standard.holds(rank_of, element))
        for chunk, piece, source, holder in zip(*(column.tolist() for column in columns), strict=True):
            ranks_of = (1 << ranks) - 1 if holder < 0 else 1 << holder
            if _value(sources[chunk], piece, program.sums[chunk]) != (((source, ranks_of, 0),),):
                return False
    return covered == standard.size * int(standard.exists.sum())


def _stretches(program: ActionsProgram, held: Sequence[int]) -> list[tuple[int, int, int]]:
    """Each chunk of a buffer with its elements there, as first and end."""
    starts = held_starts(program, held)
    return [
        (chunk, first, end) for chunk, first, end in zip(held, starts, starts[1:], strict=False) if chunk >= 0
    ]
