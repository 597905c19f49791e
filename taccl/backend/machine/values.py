"""The values that cells hold, numbered, and in words.

Values (see `expected`) are interned: a cell holds a small number.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.expected import NOWHERE, Value
from taccl.model.collective import BoolArray, IntArray

#: The number of the value of memory that nobody wrote.
UNWRITTEN = 0


class Values:
    """The values that occur, numbered: 0 is unwritten memory, then come the inputs, then sums as they occur.

    `width` is the largest number of chunks in an input buffer; input chunk k of rank r has the number
    1 + r * width + k, so inputs cost no memory. A sum is kept as the numbers of its two terms, and worked out
    when somebody looks at it; sums of unlike terms may be equal, see `equal_numbers`.
    """

    def __init__(self, num_ranks: int, width: int) -> None:
        self._width = width
        self.first_sum = 1 + num_ranks * width
        self._left = self._right = np.zeros(0, dtype=np.int64)
        self._sum_of: dict[int, Value] = {}
        self._number_of: dict[Value, int] = {}

    def set_sums(self, left: IntArray, right: IntArray) -> None:
        """The two terms of each sum, in order of number; terms come before their sums."""
        self._left, self._right = left, right

    def __getitem__(self, number: int) -> Value:
        if number == UNWRITTEN:
            return ((NOWHERE, 1, 0),)
        if number < self.first_sum:
            rank, offset = divmod(number - 1, self._width)
            return ((offset, 1 << rank, 0),)
        ahead = [number]
        while ahead:
            here = ahead[-1]
            terms = int(self._left[here - self.first_sum]), int(self._right[here - self.first_sum])
            missing = [term for term in terms if term >= self.first_sum and term not in self._sum_of]
            if missing:
                ahead.extend(missing)
                continue
            ahead.pop()
            if here not in self._sum_of:
                self._sum_of[here] = _union(*(self._known(term) for term in terms))
        return self._sum_of[number]

    def _known(self, number: int) -> Value:
        return self._sum_of[number] if number >= self.first_sum else self[number]

    def inputs(self, rank: int, size: int) -> range:
        """The numbers of the first `size` input chunks of a rank."""
        first = 1 + rank * self._width
        return range(first, first + size)

    def canonical(self, value: Value) -> int:
        """A number that equal values share; of unwritten memory and of inputs their own."""
        if len(value) == 1:
            offset, ranks, twice = value[0]
            if offset == NOWHERE:
                return UNWRITTEN
            if not twice and ranks & (ranks - 1) == 0 and offset < self._width:
                return self.inputs(ranks.bit_length() - 1, self._width)[offset]
        return self._number_of.setdefault(value, self.first_sum + len(self._number_of))

    def equal_numbers(self, numbers: IntArray) -> IntArray:
        """The canonical number of each."""
        if not len(numbers) or int(numbers.max()) < self.first_sum:
            return numbers
        distinct, which = np.unique(numbers, return_inverse=True)
        canonical = [
            number if number < self.first_sum else self.canonical(self[number])
            for number in distinct.tolist()
        ]
        return np.array(canonical, dtype=np.int64)[which]

    def differ(self, a: IntArray, b: IntArray) -> BoolArray:
        """Per row, whether two numbers stand for unlike values."""
        return np.asarray(self.equal_numbers(a) != self.equal_numbers(b))

    def any_tainted(self, numbers: IntArray) -> bool:
        """Whether unwritten memory is part of any of some values."""
        return any(self[number][0][0] == NOWHERE for number in np.unique(numbers).tolist())


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
