"""Columns of whole numbers: a table says what a sort says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taccl.schedule.numbering import different, first_positions, first_repeated

dense = st.lists(st.integers(0, 12), max_size=12)
sparse = st.lists(st.integers(-(10**12), 10**12) | st.integers(-2, 2), max_size=12)


@given(dense | sparse)
def test_different_values_are_those_of_a_sort(values: list[int]) -> None:
    column = np.array(values, dtype=np.int64)
    found, number = different(column)
    assert found.tolist() == sorted(set(values))
    assert found[number].tolist() == values
    assert first_positions(number, len(found)).tolist() == [
        values.index(each) for each in sorted(set(values))
    ]


@given(dense | sparse)
def test_the_first_repeated_value_is_the_first_that_stood_before(values: list[int]) -> None:
    expected = next((i for i, each in enumerate(values) if each in values[:i]), None)
    assert first_repeated(np.array(values, dtype=np.int64)) == expected
