"""The different values of a column of whole numbers, found without sorting where they are dense or in order.

Columns of schedules hold millions of cells and groups, numbered with few gaps and mostly in order: a table of
all numbers, or a look at neighbours, is then several times faster than a sort, with the same answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.blocks import first_row

#: A table may have this many cells for each value.
_CELLS_PER_VALUE = 4
#: Bits that NumPy sorts by counting.
_BITS = 16
#: More pairs of keys than this are not numbered by one of 64 bits.
_MOST_KEYS = 2**62


def ascends(values: IntArray | FloatArray) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def rises(values: IntArray | FloatArray) -> bool:
    """Whether each value is more than the one before it."""
    return bool((values[1:] > values[:-1]).all())


def different(values: IntArray) -> tuple[IntArray, IntArray]:
    """The different values, ascending, and the number of each value among them, shape (len(values),)."""
    if ascends(values):
        begins = _begins(values)
        return values[begins], np.cumsum(begins) - 1
    if not is_dense(values):
        found, number = np.unique(values, return_inverse=True)
        return found, number
    occurs = _occurring(values)
    number_of = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), number_of[values]


def by_value(values: NDArray[np.integer]) -> IntArray:
    """The positions of ascending values; equal ones keep their order.

    A sort by 16 bits at a time is a radix sort, 5 to 10 times as fast as one of whole numbers by comparison.
    """
    if not len(values) or values.min() < 0 or (most := int(values.max())) >= 1 << 2 * _BITS:
        return np.argsort(values, kind="stable")
    order = np.argsort(values.astype(np.uint16), kind="stable")
    if most < 1 << _BITS:
        return order
    return np.asarray(order[np.argsort((values[order] >> _BITS).astype(np.uint16), kind="stable")])


def first_positions(number: IntArray, count: int) -> IntArray:
    """Where each of the numbers 0 .. count - 1 stands first; all of them occur."""
    if ascends(number):
        return np.flatnonzero(_begins(number))
    first = np.full(count, len(number), dtype=np.int64)
    np.minimum.at(first, number, np.arange(len(number)))
    return first


def by_occurrence(values: IntArray) -> IntArray:
    """The number of each value where they are counted in the order in which they first stand."""
    begins = _begins(values)
    if np.count_nonzero(begins) == _how_many(values):  # equal values stand together
        return np.cumsum(begins) - 1
    found, number = different(values)
    first = first_positions(number, len(found))
    begins = np.zeros(len(values), dtype=np.bool_)
    begins[first] = True
    return (np.cumsum(begins) - 1)[first][number]


def order_of(major: FloatArray, minor: IntArray) -> IntArray | None:
    """An order by `major`, then by `minor`; None if they stand in it already.

    Rows that are equal in both keep their order.
    """

    def before_the_last(rows: slice) -> BoolArray:
        one, other = major[rows], major[rows.start + 1 : rows.stop + 1]
        within = minor[rows] <= minor[rows.start + 1 : rows.stop + 1]
        return np.asarray(~((one < other) | ((one == other) & within)))

    if first_row(len(major) - 1, before_the_last) is None:
        return None
    number = np.cumsum(_begins(major)) - 1 if ascends(major) else np.unique(major, return_inverse=True)[1]
    most = int(minor.max()) + 1
    if minor.min() < 0 or (int(number.max()) + 1) * most >= _MOST_KEYS:
        return np.lexsort((minor, major))
    key = number
    key *= most
    key += minor
    order = np.argsort(key)  # the fastest sort, which does not keep the order of equal keys

    def equal(rows: slice) -> BoolArray:
        ascending = key[order[rows.start : rows.stop + 1]]
        return np.asarray(ascending[1:] == ascending[:-1])

    return order if first_row(len(key) - 1, equal) is None else by_value(key)


def first_repeated(values: IntArray) -> int | None:
    """The position of the first value that stood before; None if all are different."""
    if rises(values) or _how_many(values) == len(values):
        return None
    _, first = np.unique(values, return_index=True)
    repeated = np.ones(len(values), dtype=np.bool_)
    repeated[first] = False
    return int(repeated.argmax())


def is_dense(values: IntArray) -> bool:
    """Whether a table of all numbers up to the largest value is not much larger than the column."""
    return bool(len(values) and values.min() >= 0 and values.max() < _CELLS_PER_VALUE * len(values))


def _how_many(values: IntArray) -> int:
    """How many different values there are."""
    if is_dense(values):
        return int(np.count_nonzero(_occurring(values)))
    return int(np.count_nonzero(_begins(np.sort(values))))


def _occurring(values: IntArray) -> BoolArray:
    """For each number up to the largest value, whether it occurs."""
    occurs = np.zeros(int(values.max()) + 1, dtype=np.bool_)
    occurs[values] = True
    return occurs


def _begins(values: IntArray | FloatArray) -> BoolArray:
    """For each value whether it is the first, or another than the one before."""
    begins = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins
