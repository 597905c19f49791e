from dataclasses import replace

import numpy as np
import pytest
from strategies_schedule import machine

from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.testing import assert_same_schedule, assert_valid_schedule


def broadcast(start_us: float = 3.0, **changes) -> Schedule:
    """Rank 0's chunk to rank 1, and on to rank 2 at `start_us`."""
    problem = Problem(machine(3, [(0, 1), (1, 2)]), make_collective("broadcast", 3), chunk_mb=1.0)
    return schedule_from_sends(replace(problem, **changes), [Send((0,), 0, 0.0), Send((0,), 1, start_us)])


def test_a_valid_schedule_passes() -> None:
    assert_valid_schedule(broadcast())


def test_a_schedule_that_is_not_valid_fails_with_its_findings() -> None:
    with pytest.raises(AssertionError, match=r"1 -> 2, 2.000 us\): its sender does not hold it yet"):
        assert_valid_schedule(broadcast(start_us=2.0))


def test_row_order_and_group_numbers_do_not_make_a_schedule_another() -> None:
    one = broadcast()
    assert_same_schedule(one, replace(one.take(np.array([1, 0])), group=np.array([3, 9])))


def test_the_first_difference_in_time_is_named() -> None:
    with pytest.raises(AssertionError, match=r"row 1 differs in start_us: 3.0 and 4.0"):
        assert_same_schedule(broadcast(), broadcast(start_us=4.0))
    with pytest.raises(AssertionError, match="2 transfers, the other 1"):
        assert_same_schedule(broadcast(), broadcast().take(np.array([0])))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"chunk_mb": 2.0}, "chunk_mb"),
        ({"max_group": 5}, "max_group"),
        ({"symmetry": (np.arange(3),)}, "symmetry"),
        ({"collective": make_collective("broadcast", 3, 2)}, "collective"),
        ({"topology": machine(3, [(0, 1), (1, 2)], alpha_us=np.array([1.0, 1.5]))}, "topology"),
    ],
)
def test_a_schedule_of_another_problem_is_another(changes: dict, part: str) -> None:
    with pytest.raises(AssertionError, match=f"the problems differ in {part}"):
        assert_same_schedule(broadcast(), broadcast(**changes))
