import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies_schedule import machine, schedules
from studies import examples

from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.testing import assert_same_schedule, assert_valid_schedule

RANDOM = settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))


def chain(occupancy: str = "serial") -> Schedule:
    """A MB of rank 0 in two chunks, together to rank 1 in 3 us and one by one to rank 2 in 2 us each."""
    topology = machine(
        3, [(0, 1), (1, 2)], ports=((0,), (1, 2)), port_names=("a", "b", "c"), occupancy=occupancy
    )
    problem = Problem(topology, make_collective("broadcast", 3, 2), chunk_mb=0.5)
    return schedule_from_sends(problem, [Send((1,), 1, 3.0), Send((0, 1), 0, 0.0), Send((0,), 1, 5.0)])


def test_sends_become_rows_in_order_of_time_with_ends_by_the_cost_model() -> None:
    schedule = chain()
    schedule.check()
    assert schedule.chunk.tolist() == [0, 1, 1, 0]
    assert (schedule.src.tolist(), schedule.dst.tolist()) == ([0, 0, 1, 1], [1, 1, 2, 2])
    assert schedule.start_us.tolist() == [0.0, 0.0, 3.0, 5.0]
    assert schedule.end_us.tolist() == [3.0, 3.0, 5.0, 7.0]
    assert schedule.group.tolist() == [0, 0, 1, 2]


def test_groups_are_sends() -> None:
    sends = chain().sends
    assert (len(sends), sends.count.tolist(), sends.link.tolist()) == (3, [2, 1, 1], [0, 1, 1])
    assert (sends.first_row.tolist(), sends.of_row.tolist()) == ([0, 2, 3], [0, 0, 1, 2])


def test_bandwidths_are_those_of_nccl_tests() -> None:
    schedule = chain()
    assert schedule.makespan_us == 7.0
    assert schedule.algbw_gbps == pytest.approx(2**20 / 7e-6 / 1e9)
    assert schedule.busbw_gbps == schedule.algbw_gbps


@pytest.mark.parametrize(
    ("occupancy", "ports"), [("serial", [3.0, 4.0, 4.0]), ("pipelined", [2.0, 2.0, 2.0])]
)
def test_links_carry_and_ports_are_busy(occupancy: str, ports: list[float]) -> None:
    schedule = chain(occupancy)
    assert schedule.link_busy_us.tolist() == [3.0, 4.0]
    assert schedule.port_busy_us.tolist() == ports


def test_a_schedule_of_no_sends_takes_no_time() -> None:
    schedule = schedule_from_sends(chain().problem, [])
    assert (len(schedule), len(schedule.sends), schedule.makespan_us) == (0, 0, 0.0)
    assert schedule.link_busy_us.tolist() == [0.0, 0.0]


@RANDOM
@given(schedules(), st.randoms(use_true_random=False))
def test_the_order_of_rows_says_nothing(schedule: Schedule, chance) -> None:
    rows = list(range(len(schedule)))
    chance.shuffle(rows)
    shuffled = schedule.take(np.array(rows, dtype=np.int64))
    assert_valid_schedule(shuffled)
    assert_same_schedule(shuffled, schedule)


@RANDOM
@given(schedules())
def test_sorting_a_sorted_schedule_changes_nothing(schedule: Schedule) -> None:
    again = schedule.sorted()
    for name in ("chunk", "link", "start_us", "end_us", "reduce", "group"):
        assert np.array_equal(getattr(again, name), getattr(schedule, name))
    assert (np.diff(schedule.start_us) >= 0).all()
