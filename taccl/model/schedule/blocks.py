"""Long columns block by block: what is computed on the way stays in the cache, and takes no memory.

A column of millions of rows is made of pages that the system has to find first; each step on whole columns
asks for more of them, and that takes longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.model.collective import BoolArray

_ROWS = 1 << 15


def blocks(length: int) -> Iterator[slice]:
    """The rows 0 .. length - 1, some thousands at a time."""
    return (slice(begin, min(begin + _ROWS, length)) for begin in range(0, length, _ROWS))


def blocks_between(values: NDArray[Any], rows: int) -> Iterator[slice]:
    """Blocks of at least this many rows, but for the last; equal neighbours are in the same one."""
    ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
    begin = 0
    while begin < len(values):
        end = int(ends[min(int(np.searchsorted(ends, begin + rows)), len(ends) - 1)])
        yield slice(begin, end)
        begin = end


def first_row(length: int, bad: Callable[[slice], BoolArray]) -> int | None:
    """The first row for which `bad` is true; it gets some rows, and says of each whether it is."""
    for rows in blocks(length):
        found = bad(rows)
        if found.any():
            return int(rows.start) + int(found.argmax())
    return None


def column_of(length: int, dtype: Any, values: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """The column that `values` gives some rows of at a time."""
    column = np.empty(length, dtype)
    for rows in blocks(length):
        column[rows] = values(rows)
    return column
