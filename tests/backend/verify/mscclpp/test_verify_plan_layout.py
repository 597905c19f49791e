"""Parts of ranges and slices of pipelines cover a range once."""

from hypothesis import given
from hypothesis import strategies as st

from taccl.backend.plan import Share
from taccl.backend.verify.mscclpp.layout import Extent, part_of, slice_of


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 5))
def test_parts_and_slices_cover_a_range_once_and_in_order(units: int, parts: int, unit: int) -> None:
    whole = Extent(32, 32 + 16 * units)
    cut = [part_of(whole, Share(number, parts), 16) for number in range(parts)]
    assert [each.start for each in cut] == [whole.start, *(each.end for each in cut[:-1])]
    assert cut[-1].end == whole.end
    sizes = [each.end - each.start for each in cut]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] in (0, 16)
    turns = -(-units // unit)
    slices = [slice_of(whole, turn, 16 * unit) for turn in range(turns)]
    assert sum(each.end - each.start for each in slices) == 16 * units
    assert slice_of(whole, turns, 16 * unit) == Extent(whole.end, whole.end)
