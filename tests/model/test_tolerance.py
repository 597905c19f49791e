import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.model.tolerance import EQUAL, ULPS, contradicts, is_above, is_optimal, lasts, over_us, takes_time


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e6])
def test_what_is_forgiven_grows_with_what_is_compared(scale: float) -> None:
    assert over_us(3 * scale, 2 * scale) < 3 * scale
    assert over_us(3 * scale, 2 * scale) > 3 * scale * (1 - 1e-9)
    assert lasts(*map(np.array, (0.0, scale * (1 + 5e-10), scale)))
    assert not lasts(*map(np.array, (0.0, scale * (1 + 5e-9), scale)))
    assert is_optimal(scale, scale * (1 - 5e-10))
    assert not is_optimal(scale, scale * (1 - 5e-9))
    assert is_optimal(scale, 0.9 * scale, gap=0.1)
    assert is_above(1.00001 * scale, scale)
    assert not is_above(scale * (1 + 5e-10), scale)
    assert contradicts(1.00001 * scale, scale)
    assert not contradicts(scale * (1 + 5e-8 * min(1.0, 1 / scale)), scale)


def test_what_takes_no_time_is_over_but_for_the_steps_of_the_clock() -> None:
    assert over_us(0.0, 0.0) == -8 * math.ulp(0.0)
    assert 7.0 - over_us(7.0, 0.0) == 8 * math.ulp(7.0)


def test_a_port_is_idle_only_where_a_send_takes_no_time_at_all() -> None:
    assert takes_time(np.array([0.0, 1e-300, 1.0])).tolist() == [False, True, True]


#: Times and durations of machines of any speed, and what is far below a step of the clock.
MOMENTS = st.floats(0.0, 1e12)
DURATIONS = st.one_of(st.floats(0.0, 1e9), st.floats(1e-18, 1e-6))


@given(MOMENTS, DURATIONS)
def test_a_thing_is_over_a_billionth_and_some_steps_of_the_clock_before_its_end_at_most(
    start_us: float, lasted_us: float
) -> None:
    end_us = start_us + lasted_us
    early = Fraction(end_us) - Fraction(float(over_us(end_us, lasted_us)))
    step = Fraction(math.ulp(end_us))
    assert 0 <= early <= Fraction(EQUAL) * Fraction(lasted_us) + (ULPS + 2) * step


@given(MOMENTS, st.lists(DURATIONS, min_size=1, max_size=60))
def test_what_many_tiny_things_one_after_another_are_forgiven(begin_us: float, lasting: list[float]) -> None:
    """Each begins as soon as the one before counts as over."""
    now, end_us = begin_us, begin_us
    for lasted_us in lasting:
        start_us = max(now, begin_us)
        end_us = max(end_us, start_us + lasted_us)
        now = float(over_us(start_us + lasted_us, lasted_us))
    taken, had = sum(map(Fraction, lasting)), Fraction(end_us) - Fraction(begin_us)
    steps = len(lasting) * (ULPS + 3) * Fraction(math.ulp(end_us))
    assert taken <= had + Fraction(EQUAL) * taken + steps


@given(st.floats(1e-300, 1e300))
def test_the_steps_of_the_clock_for_each_thing_are_a_tiny_part_of_the_time_that_has_passed(us: float) -> None:
    assert (ULPS + 3) * math.ulp(us) <= 2.5e-15 * us
