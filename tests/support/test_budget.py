"""Without a time limit, a search ends when nothing has improved for as long as it took to find it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.encoding.core.options import SearchOptions
from taccl.support.budget import PATIENCE_S, Budget, PatientClock


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def after(improvements: list[tuple[float, float, float]]) -> tuple[Hand, PatientClock]:
    """A clock to which (seconds, time, bound) were noted."""
    hand = Hand()
    clock = PatientClock(hand)
    for hand.now_s, time_us, bound_us in improvements:
        clock.note(time_us, bound_us)
    return hand, clock


def test_it_does_not_end_before_there_is_a_schedule() -> None:
    hand, clock = after([(5.0, math.inf, 3.0)])
    hand.now_s = 1e6
    assert clock.left_s() == math.inf


def test_soon_after_the_start_it_waits_for_the_least_patience() -> None:
    hand, clock = after([(0.5, 10.0, 1.0)])
    assert clock.left_s() == PATIENCE_S
    hand.now_s = 0.5 + PATIENCE_S
    assert clock.left_s() <= 0


def test_what_is_excused_does_not_count_until_the_next_improvement() -> None:
    hand, clock = after([(4.0, 10.0, 1.0)])
    clock.excuse(3.0)
    assert clock.left_s() == 4.0 + 3.0
    hand.now_s = 6.0
    clock.note(8.0, 1.0)
    assert clock.left_s() == 6.0


def test_later_it_waits_for_as_long_as_the_last_improvement_took() -> None:
    _, clock = after([(1.0, 10.0, 1.0), (9.0, 8.0, 1.0)])
    assert clock.left_s() == 9.0


def test_a_better_bound_is_an_improvement_and_a_hair_is_none() -> None:
    _, clock = after([(1.0, 10.0, 1.0), (6.0, 10.0, 5.0), (8.0, 9.9999, 5.0)])
    assert clock.left_s() == pytest.approx(6.0 + 6.0 - 8.0)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(1, 100), st.floats(0, 1)), min_size=1, max_size=8))
def test_it_ends_by_twice_the_time_of_the_last_note(notes: list[tuple[float, float, float]]) -> None:
    notes.sort()
    hand, clock = after(notes)
    last_s = notes[-1][0]
    hand.now_s = last_s + max(PATIENCE_S, last_s)
    assert clock.left_s() <= 0


def test_only_a_search_without_a_limit_is_patient() -> None:
    assert SearchOptions().ends_when_nothing_improves
    assert not SearchOptions(time_limit_s=60).ends_when_nothing_improves
    assert not SearchOptions(effort=100).ends_when_nothing_improves
    assert SearchOptions().since(0.0).ends_when_nothing_improves  # what is left of the default is no limit


def test_a_budget_is_over_when_its_clock_has_no_patience_left() -> None:
    hand, clock = after([(1.0, 10.0, 1.0)])
    budget = Budget(60.0, clock)
    assert 0 < budget.remaining_s() <= PATIENCE_S
    hand.now_s += PATIENCE_S
    assert budget.remaining_s() == 0
    assert budget.has_stalled and budget.share(0.5).remaining_s() == 0


def test_a_part_with_improvements_of_its_own_has_patience_of_its_own() -> None:
    hand, clock = after([])
    whole = Budget(60.0, clock)
    part = whole.share(0.5, afresh=True)
    part.note(10.0, 1.0)
    hand.now_s += PATIENCE_S
    assert part.remaining_s() == 0
    assert whole.remaining_s() > PATIENCE_S


def test_what_is_done_in_any_case_is_done_after_all_patience() -> None:
    hand, clock = after([(1.0, 10.0, 1.0)])
    hand.now_s = 100.0
    assert Budget(60.0, clock).without_end().remaining_s() == math.inf
