"""Columns of whole numbers: a table says what a sort says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taccl.model.schedule.numbering import (
    by_occurrence,
    different,
    first_positions,
    first_repeated,
    order_of,
)

dense = st.lists(st.integers(0, 12), max_size=12)
sparse = st.lists(st.integers(-(10**12), 10**12) | st.integers(-2, 2), max_size=12)
ascending = dense.map(sorted)


@given(dense | sparse | ascending)
def test_different_values_are_those_of_a_sort(values: list[int]) -> None:
    column = np.array(values, dtype=np.int64)
    found, number = different(column)
    assert found.tolist() == sorted(set(values))
    assert found[number].tolist() == values
    assert first_positions(number, len(found)).tolist() == [
        values.index(each) for each in sorted(set(values))
    ]


@given(dense | sparse | ascending)
def test_the_first_repeated_value_is_the_first_that_stood_before(values: list[int]) -> None:
    expected = next((i for i, each in enumerate(values) if each in values[:i]), None)
    assert first_repeated(np.array(values, dtype=np.int64)) == expected


@given(dense | sparse | ascending)
def test_values_are_counted_in_the_order_in_which_they_first_stand(values: list[int]) -> None:
    seen = list(dict.fromkeys(values))
    assert by_occurrence(np.array(values, dtype=np.int64)).tolist() == [seen.index(each) for each in values]


#: Moments of which some are equal, some differ by a rounding, and some are no numbers.
moments = st.sampled_from([0.0, -0.0, 1.0, float(np.nextafter(1.0, 2.0)), 3.5, float("inf"), float("nan")])
minors = st.integers(0, 3) | st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(moments, minors), max_size=12), st.booleans())
def test_an_order_by_two_columns_is_that_of_a_sort_by_both(
    rows: list[tuple[float, int]], begun: bool
) -> None:
    if begun:
        rows = sorted(rows)
    major = np.array([moment for moment, _ in rows], dtype=np.float64)
    minor = np.array([number for _, number in rows], dtype=np.int64)
    order = order_of(major, minor)
    expected = np.lexsort((minor, major)).tolist()
    assert (list(range(len(rows))) if order is None else order.tolist()) == expected
