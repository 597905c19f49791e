"""Alpha and beta of a line are found, whatever disturbs a few times; what is no line is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.calibration.benchmarks.hockney import Times, fit, floor, ranges
from taccl.errors import MeasurementError
from taccl.model.units import KB, MB

SIZES = [2**at for at in range(10, 25)]


def times(alpha_us: float, beta: float, sizes: list[int] = SIZES) -> Times:
    return Times.of([(size, alpha_us + size / MB * beta) for size in sizes])


@settings(max_examples=examples(10), deadline=None)
@given(st.floats(0.5, 100), st.floats(1, 1000))
def test_a_line_is_found_exactly(alpha_us: float, beta: float) -> None:
    line = fit(times(alpha_us, beta))
    assert line.alpha_us.value == pytest.approx(alpha_us, rel=1e-6)
    assert line.beta_us_per_mb.value == pytest.approx(beta, rel=1e-6)
    assert line.worst_miss < 1e-6
    assert not line.alpha_us.is_weak
    assert not line.beta_us_per_mb.is_weak


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10), st.floats(1.5, 4))
def test_one_disturbed_size_does_not_move_the_line(at: int, factor: float) -> None:
    points = [(size, 5 + size / MB * 60) for size in SIZES]
    points[at] = (points[at][0], points[at][1] * factor)
    line = fit(Times.of(points))
    assert line.alpha_us.value == pytest.approx(5, rel=1e-6)
    assert line.beta_us_per_mb.value == pytest.approx(60, rel=1e-6)
    assert line.worst_miss == pytest.approx(1 - 1 / factor)


def test_the_best_of_repeats_counts() -> None:
    points = [(size, 5 + size / MB * 60) for size in SIZES]
    slower = [(size, time_us * 1.3) for size, time_us in points]
    assert fit(Times.of(slower + points)).alpha_us.value == pytest.approx(5, rel=1e-6)


def test_intervals_hold_the_number_and_are_the_same_each_time() -> None:
    chance = np.random.default_rng(1)
    noisy = Times.of([(size, (5 + size / MB * 60) * chance.uniform(0.97, 1.03)) for size in SIZES])
    first, second = fit(noisy), fit(noisy)
    assert first == second
    assert first != fit(noisy, seed=1)
    for number in (first.alpha_us, first.beta_us_per_mb):
        assert number.low <= number.value <= number.high
    assert first.alpha_us.low < 5 < first.alpha_us.high
    assert first.beta_us_per_mb.low < 60 < first.beta_us_per_mb.high


def test_an_alpha_that_large_sizes_hide_is_weak() -> None:
    chance = np.random.default_rng(2)
    sizes = [2**at for at in range(25, 33)]
    noisy = Times.of([(size, (5 + size / MB * 60) * chance.uniform(0.98, 1.02)) for size in sizes])
    assert fit(noisy).alpha_us.is_weak


def test_fewer_than_4_sizes_are_refused() -> None:
    assert fit(times(5, 60, SIZES[:4])).points == 4
    with pytest.raises(MeasurementError, match=r"3 size\(s\) tell no line"):
        fit(times(5, 60, SIZES[:3]))


@pytest.mark.parametrize("slope", [0, -1])
def test_times_that_do_not_grow_are_refused(slope: float) -> None:
    with pytest.raises(MeasurementError, match="no line over the sizes"):
        fit(Times.of([(size, 100 + slope * size / MB) for size in SIZES]))


def test_a_change_of_protocol_begins_a_range() -> None:
    """Up to 32 KB 4 us and 300 us/MB, then 40 us and 60 us/MB."""
    points = [(size, 4 + size / MB * 300 if size <= 32 * KB else 40 + size / MB * 60) for size in SIZES]
    small, large = ranges(Times.of(points))
    assert (small.sizes[-1], large.sizes[0]) == (32 * KB, 64 * KB)
    assert fit(large).alpha_us.value == pytest.approx(40)
    assert fit(small).beta_us_per_mb.value == pytest.approx(300)


def test_a_single_disturbed_size_begins_none() -> None:
    points = [(size, (5 + size / MB * 60) * (2 if size == 64 * KB else 1)) for size in SIZES]
    assert len(ranges(Times.of(points))) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**30), st.floats(0.1, 1e6)), max_size=40))
def test_ranges_hold_every_size_once_and_in_order(points: list[tuple[int, float]]) -> None:
    whole = Times.of(points)
    assert np.array_equal(np.concatenate([cut.sizes for cut in ranges(whole)]), whole.sizes)


def test_the_floor_is_what_the_smallest_sizes_take() -> None:
    low = floor(Times.of([(0, 1.0), (1, 3.3), (2, 3.4), (4, 3.3), (8, 9.0), (16, 3.3), (32, 10), (64, 12)]))
    assert low is not None
    assert low.time_us.value == pytest.approx(3.3)  # size 0 moves nothing, and 8 bytes were disturbed


def test_there_is_no_floor_where_every_byte_is_paid() -> None:
    assert floor(times(0, 60)) is None


def test_a_faster_protocol_of_larger_sizes_is_no_part_of_the_floor() -> None:
    low = floor(
        Times.of([(1, 11.0), (2, 10.8), (4, 10.7), (8, 10.8), (16, 7.0), (32, 7.0), (64, 1.0), (128, 1.1)])
    )
    assert low is not None
    assert (low.sizes, low.points) == ((1, 8), 4)
    assert low.time_us.value == pytest.approx(10.8)


def test_steps_of_a_clock_are_no_difference_below_a_microsecond() -> None:
    low = floor(Times.of([(1, 0.34), (4, 0.31), (64, 0.35), (256, 0.36), (512, 8.4), (4096, 8.6)]))
    assert low is not None
    assert (low.sizes, low.points) == ((1, 256), 4)


def test_the_first_sizes_may_still_be_warming_up() -> None:
    low = floor(Times.of([(1, 33.7), (2, 34.2), (4, 31.1), (8, 31.3), (16, 30.7), (32, 40), (64, 50)]))
    assert low is not None
    assert low.sizes == (4, 16)
