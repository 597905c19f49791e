"""Cells: stretches of elements that every action, and every chunk, takes whole or not at all.

Where every chunk is one element, so is every cell. Otherwise, as in an AlltoAll of unequal parts counted in
bytes, there are as few cells as the actions allow: a bound of a chunk or an action in one buffer is a bound
wherever the same elements lie. So the time of a check grows with the actions and chunks, and not with their
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.flat_json.document import ActionsProgram, Do, Span
from taccl.backend.machine.expected import MAX_CELLS
from taccl.backend.machine.layout import Layout
from taccl.backend.program import Buffer
from taccl.model.collective import IntArray

#: As the columns of `Layout.base`.
COLUMN = {Buffer.INPUT: 0, Buffer.OUTPUT: 1, Buffer.SCRATCH: 2}

#: Elements of a buffer: rank, column, first, end.
_Stretch = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Cells:
    """Where cells begin.

    Parameters
    ----------
    starts : by rank and column the first elements of all cells, and the end of the last.
    layout : the cells in the memory of all ranks.
    """

    starts: Sequence[Sequence[IntArray]]
    layout: ElementLayout

    def first(self, rank: int, span: Span) -> int:
        """The cell of all memory at which a span begins."""
        column = COLUMN[span.buffer]
        return int(self.layout.base[rank, column]) + self.within(rank, column, span.offset)

    def count(self, rank: int, span: Span, elements: int) -> int:
        """The cells of a span."""
        column = COLUMN[span.buffer]
        end = self.within(rank, column, span.offset + elements)
        return end - self.within(rank, column, span.offset)

    def within(self, rank: int, column: int, element: int) -> int:
        """The cell of a buffer that begins at an element."""
        return int(np.searchsorted(self.starts[rank][column], element))


@dataclass(frozen=True, eq=False)
class ElementLayout(Layout):
    """A layout that names cells by their elements; `starts` as in `Cells`."""

    starts: Sequence[Sequence[IntArray]] = ()

    def name(self, cell: int) -> str:
        """`elements 5 to 8 of the output of rank 2`."""
        rank = self.owner(cell)
        for buffer, column in reversed(COLUMN.items()):
            within, starts = cell - int(self.base[rank, column]), self.starts[rank][column]
            if within >= 0 and within < len(starts) - 1:
                first, end = int(starts[within]), int(starts[within + 1])
                several = f"elements {first} to {end - 1}" if end - first > 1 else f"element {first}"
                return f"{several} of the {buffer.name.lower()} of rank {rank}"
        return f"memory of rank {rank}"


def cells_of(program: ActionsProgram, *, even: bool = False) -> Cells | None:
    """The cells of a program whose spans are inside its buffers; None: they are too many to be looked at.

    Parameters
    ----------
    even : whether all cells must have as many elements, then as many as all bounds are multiples of.
    """
    sizes = buffer_elements(program)
    moved = sum(action.elements for rank in program.ranks for action in rank.actions)
    if max(program.chunk_elements, default=1) == 1 and int(sizes.sum()) + moved <= MAX_CELLS:
        return _laid_out([[np.arange(size + 1) for size in of_rank] for of_rank in sizes.tolist()])
    starts = _refined(program, sizes)
    if starts is None or not even:
        return None if starts is None else _laid_out(starts)
    unit = max(1, int(np.gcd.reduce(np.concatenate([column for of_rank in starts for column in of_rank]))))
    if (int(sizes.sum()) + moved) // unit > MAX_CELLS:
        return None
    return _laid_out([[np.arange(0, size + 1, unit) for size in of_rank] for of_rank in sizes.tolist()])


def _laid_out(starts: list[list[IntArray]]) -> Cells:
    chunks = np.array([[len(column) - 1 for column in of_rank] for of_rank in starts], dtype=np.int64)
    plain = Layout.of(chunks, None)
    layout = ElementLayout(
        **{name: getattr(plain, name) for name in Layout.__dataclass_fields__}, starts=starts
    )
    return Cells(starts, layout)


def buffer_elements(program: ActionsProgram) -> IntArray:
    """Elements of input, output and scratch, shape (num_ranks, 3)."""
    return np.array(
        [
            [held_starts(program, rank.input)[-1], held_starts(program, rank.output)[-1], rank.scratch]
            for rank in program.ranks
        ],
        dtype=np.int64,
    ).reshape(-1, 3)


def held_starts(program: ActionsProgram, held: Sequence[int]) -> list[int]:
    """The element at which each chunk of a buffer begins, and the end; room for no chunk is one element."""
    starts = [0]
    for chunk in held:
        starts.append(starts[-1] + (program.chunk_elements[chunk] if chunk >= 0 else 1))
    return starts


def _refined(program: ActionsProgram, sizes: IntArray) -> list[list[IntArray]] | None:
    """Bounds of cells, passed on between places of the same elements until nothing changes."""
    bounds = [[{0, size} for size in of_rank] for of_rank in sizes.tolist()]
    same = list(_same_elements(program))
    for stretches in same:
        for rank, column, first, end in stretches:
            bounds[rank][column] |= {first, end}
    changed = True
    while changed:
        changed = False
        for stretches in same:
            inside = [
                {bound - first for bound in _between(bounds[rank][column], first, end)}
                for rank, column, first, end in stretches
            ]
            together = set[int]().union(*inside)
            for (rank, column, first, _), known in zip(stretches, inside, strict=True):
                if len(known) < len(together):
                    bounds[rank][column] |= {first + bound for bound in together}
                    changed = True
        if sum(len(column) for of_rank in bounds for column in of_rank) > MAX_CELLS:
            return None
    return [[np.array(sorted(column), dtype=np.int64) for column in of_rank] for of_rank in bounds]


def _between(bounds: set[int], first: int, end: int) -> list[int]:
    if end - first < len(bounds):
        return [bound for bound in range(first, end + 1) if bound in bounds]
    return [bound for bound in bounds if first <= bound <= end]


def _same_elements(program: ActionsProgram) -> Iterator[list[_Stretch]]:
    """Stretches that hold the same elements: places of a chunk, ends of an action, ends of a message."""
    places: dict[int, list[_Stretch]] = {}
    messages: dict[tuple[int, int, int], list[_Stretch]] = {}
    for number, rank in enumerate(program.ranks):
        for column, held in enumerate((rank.input, rank.output)):
            starts = held_starts(program, held)
            for chunk, first, end in zip(held, starts, starts[1:], strict=False):
                if chunk >= 0:
                    places.setdefault(chunk, []).append((number, column, first, end))
        for action in rank.actions:
            ends = [
                (number, COLUMN[span.buffer], span.offset, span.offset + action.elements)
                for span in (action.source, action.target)
                if span is not None
            ]
            if action.do.travels:
                pair = (number, action.peer) if action.do is Do.SEND else (action.peer, number)
                messages.setdefault((*pair, action.message), []).extend(ends)
            else:
                yield ends
    yield from places.values()
    yield from messages.values()
