"""Latency against bandwidth: what is on the front is beaten by nothing, and all else is."""

import math

from hypothesis import given
from hypothesis import strategies as st

from taccl import explore
from taccl.analysis.exploration.envelope import dominates, front

FIGURES = st.one_of(st.just(math.inf), st.floats(0.1, 1e6), st.integers(1, 4).map(float))
POINTS = st.lists(st.tuples(FIGURES, FIGURES), max_size=12)


@given(POINTS)
def test_nothing_on_the_front_is_dominated_and_all_else_is(points: list[tuple[float, float]]) -> None:
    found = front(points)
    assert bool(found) == bool(points)
    for number, point in enumerate(points):
        is_beaten = any(dominates(other, point) for other in points)
        is_equal = any(not dominates(points[at], point) and _no_higher(points[at], point) for at in found)
        assert (number in found and not is_beaten) or (number not in found and (is_beaten or is_equal))


def _no_higher(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return all(x <= y * 1.001 for x, y in zip(a, b, strict=True))


def test_the_one_that_is_slower_at_both_ends_is_left_out() -> None:
    assert front([(1.0, 9.0), (2.0, 4.0), (2.5, 5.0), (3.0, 3.0), (math.inf, 3.0), (1.0, 9.0)]) == [0, 1, 3]


def test_of_four_in_a_full_mesh_one_hop_stands_against_half_the_bytes() -> None:
    """Whole buffers to all take 0.5 us, and 1 MB at 50 GB/s; quarters, summed and sent on, half."""
    table = explore("allreduce", topology="full:4", sizes="64,16KB,1MB", effort=500, cache=False)
    rows = table.front
    assert [round(row["smallest_us"], 2) for row in rows] == [0.5, 1.0]
    assert [round(row["largest_us"], 2) for row in rows] == [21.47, 11.49]
    names = {row["schedule"] for row in table.to_dict()["schedules"]}
    assert {row["schedule"] for row in rows} <= names
    (line,) = table.front_lines()
    assert line.startswith("front of allreduce on full:4: allreduce-1 0.50 us at 64B, 21.47 us at 1MB; ")
