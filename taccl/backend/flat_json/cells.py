"""Cells: stretches of elements that every action, and every chunk, takes whole or not at all.

Where every chunk is one element, so is every cell. Otherwise, as in an AlltoAll of unequal parts counted in
bytes, there are as few cells as the actions allow: a bound of a chunk or an action in one buffer is a bound
wherever the same elements lie. So the time of a check grows with the actions and chunks, and not with their
sizes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
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
    same = list(_same_elements(program))
    known = [[{0, size} for size in of_rank] for of_rank in sizes.tolist()]
    touching: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for number, stretches in enumerate(same):
        for rank, column, first, end in stretches:
            known[rank][column] |= {first, end}
            touching[rank, column].append((first, end, number))
    bounds = [[sorted(column) for column in of_rank] for of_rank in known]
    many = sum(len(column) for of_rank in bounds for column in of_rank)
    waiting = deque(range(len(same)))
    is_waiting = [True] * len(same)
    while waiting and many <= MAX_CELLS:
        number = waiting.popleft()
        is_waiting[number] = False
        for rank, column, added in _passed_on(bounds, same[number]):
            many += len(added)
            for first, end, other in touching[rank, column]:
                if not is_waiting[other] and _is_inside(added, first, end):
                    is_waiting[other] = True
                    waiting.append(other)
    if many > MAX_CELLS:
        return None
    return [[np.array(column, dtype=np.int64) for column in of_rank] for of_rank in bounds]


def _passed_on(
    bounds: list[list[list[int]]], stretches: Sequence[_Stretch]
) -> Iterator[tuple[int, int, list[int]]]:
    """Give stretches of the same elements the same bounds: the rank and buffer of each, and what is new."""
    together: set[int] = set()
    for rank, column, first, end in stretches:
        at = bounds[rank][column]
        together.update(bound - first for bound in at[bisect_left(at, first) : bisect_right(at, end)])
    for rank, column, first, end in stretches:
        at = bounds[rank][column]
        inside = slice(bisect_left(at, first), bisect_right(at, end))
        added = {first + bound for bound in together}.difference(at[inside])
        if added:
            at[inside] = sorted(added.union(at[inside]))
            yield rank, column, sorted(added)


def _is_inside(bounds: list[int], first: int, end: int) -> bool:
    """Whether one of these lies between two others."""
    after = bisect_right(bounds, first)
    return after < len(bounds) and bounds[after] < end


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
