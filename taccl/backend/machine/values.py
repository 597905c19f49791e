"""The values that cells hold, numbered, and in words.

Values (see `expected`) are interned: a cell holds a small number, equal values have equal numbers, and each
sum of two values is computed once.
"""

from __future__ import annotations

from taccl.backend.machine.expected import NOWHERE, Value

#: The number of the value of memory that nobody wrote.
UNWRITTEN = 0


class Values:
    """The values that occur, numbered: 0 is unwritten memory, then come the inputs, then sums as they occur.

    `width` is the largest number of chunks in an input buffer; input chunk k of rank r has the number
    1 + r * width + k, so inputs cost no memory.
    """

    def __init__(self, num_ranks: int, width: int) -> None:
        self._width = width
        self._first_sum = 1 + num_ranks * width
        self._sum_of: list[Value] = []
        self._number_of: dict[Value, int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def __getitem__(self, number: int) -> Value:
        if number == UNWRITTEN:
            return ((NOWHERE, 1, 0),)
        if number < self._first_sum:
            rank, offset = divmod(number - 1, self._width)
            return ((offset, 1 << rank, 0),)
        return self._sum_of[number - self._first_sum]

    def inputs(self, rank: int, size: int) -> range:
        """The numbers of the first `size` input chunks of a rank."""
        first = 1 + rank * self._width
        return range(first, first + size)

    def number(self, value: Value) -> int:
        """The number of a value, new if it has not occurred."""
        if len(value) == 1:
            offset, ranks, twice = value[0]
            if offset == NOWHERE:
                return UNWRITTEN
            if not twice and ranks & (ranks - 1) == 0 and offset < self._width:
                return self.inputs(ranks.bit_length() - 1, self._width)[offset]
        number = self._number_of.get(value)
        if number is None:
            number = self._number_of[value] = self._first_sum + len(self._sum_of)
            self._sum_of.append(value)
        return number

    def sum(self, a: int, b: int) -> int:
        """The union of two multisets; three times counts as twice."""
        key = (a, b)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.number(_union(self[a], self[b]))
        return known

    def is_tainted(self, number: int) -> bool:
        """Whether unwritten memory is part of it."""
        return self[number][0][0] == NOWHERE


def _union(a: Value, b: Value) -> Value:
    if len(a) == 1 and len(b) == 1 and a[0][0] == b[0][0]:
        (offset, ranks, twice), (_, more, more_twice) = a[0], b[0]
        return ((offset, ranks | more, twice | more_twice | (ranks & more)),)
    merged = {offset: (ranks, twice) for offset, ranks, twice in a}
    for offset, ranks, twice in b:
        before, before_twice = merged.get(offset, (0, 0))
        merged[offset] = (before | ranks, before_twice | twice | (before & ranks))
    return tuple((offset, *merged[offset]) for offset in sorted(merged))


def describe(value: Value) -> str:
    """A value in words: `the sum of input chunk 3 of ranks 0-7`."""
    if value == ((NOWHERE, 1, 0),):
        return "nothing that was written"
    parts = []
    for offset, ranks, twice in value:
        if offset == NOWHERE:
            parts.append("unwritten memory")
            continue
        part = f"input chunk {offset} of {named_ranks(ranks)}"
        parts.append(part + (f" ({named_ranks(twice)} more than once)" if twice else ""))
    is_sum = len(value) > 1 or value[0][1] & (value[0][1] - 1) or value[0][2]
    return ("the sum of " if is_sum else "") + " and ".join(parts)


def named_ranks(mask: int) -> str:
    """`rank 3`, `ranks 0-3, 7`."""
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
