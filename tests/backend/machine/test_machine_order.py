"""Moments know what lies before them: all of it by full edges, by relaxed ones what the start knew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taccl.backend.machine import order as module
from taccl.backend.machine.order import DATA, PACKETS, RELAXED, OrderWriter


def known(order: OrderWriter, level: int, moment: int, column: int, tick: int) -> bool:
    return bool(order.order().knows(level, np.array([moment]), np.array([column]), np.array([tick]))[0])


@pytest.mark.parametrize("kind", [DATA, RELAXED, PACKETS])
def test_an_edge_is_wholly_known_at_its_level_and_above(kind: int) -> None:
    order = OrderWriter()
    host, block = order.new_column(), order.new_column()
    start = order.moment(-1, [], host, 1)
    met = order.moment(start, [(start, DATA)], block, 1)
    elsewhere = order.moment(-1, [])
    heard = order.moment(elsewhere, [(elsewhere, DATA), (met, kind)])
    for level in (DATA, RELAXED, PACKETS):
        assert known(order, level, heard, host, 1)
        assert known(order, level, heard, block, 1) is (level >= kind)
    assert order.has_reached([heard], met) and not order.has_reached([elsewhere], met)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Per moment, the moments right before it."""
    count = draw(st.integers(1, 12))
    return [
        draw(st.lists(st.integers(0, here - 1), unique=True, max_size=3)) if here else []
        for here in range(count)
    ]


@given(graphs(), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_clocks_and_reachability_agree_with_a_search(before: list[list[int]], width: int) -> None:
    order = OrderWriter()
    for here, edges in enumerate(before):
        order.moment(0 if here else -1, [(each, DATA) for each in edges], order.new_column(), 1)
    reached = [{here} for here in range(len(before))]
    for here, edges in enumerate(before):
        for each in edges:
            reached[here] |= reached[each]
    first, second = (each.ravel() for each in np.indices((len(before), len(before))))
    wanted = [u in reached[v] for u, v in zip(first.tolist(), second.tolist(), strict=True)]
    with pytest.MonkeyPatch.context() as patch:  # tables of several passes
        patch.setattr(module, "CLOCK_ENTRIES", width * len(before))
        patch.setattr(module, "REACH_BITS", width)
        assert order.order().knows(DATA, second, first, np.ones_like(first)).tolist() == wanted
        assert order.order().reaches(first, second).tolist() == wanted
