"""Where several chunks in one send save nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from small_problems import machine, random_schedules

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.model.collectives import COLLECTIVES
from taccl.model.network import Occupancy
from taccl.model.schedule import TOLERANCE_US, Schedule


@pytest.mark.parametrize(
    ("alpha_us", "occupancy", "rate", "expected"),
    [
        (1.0, "serial", 1.0, False),
        (0.0, "serial", 1.0, True),
        (1.0, "pipelined", 1.0, True),
        (1.0, "pipelined", 0.5, False),
        (0.0, "serial", 0.5, False),
    ],
)
def test_groups_count_where_alpha_keeps_a_port_busy_and_where_a_port_is_faster_than_the_link(
    alpha_us: float, occupancy: Occupancy, rate: float, expected: bool
) -> None:
    """Links 0 and 1 share a port; link 2 has none but its own, and no alpha."""
    links = [(0, 1, alpha_us, 2.0), (1, 2, alpha_us, 2.0), (2, 0, 0.0, 2.0)]
    topology = machine(3, links, occupancy, shared=[(0, 1)], rates=[rate])
    assert one_by_one(topology).tolist() == [expected, expected, True]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_schedules(COLLECTIVES))
def test_a_group_goes_piece_by_piece_and_nothing_gets_later(schedule: Schedule) -> None:
    """The same sends, each of them with one chunk, in the same order."""
    topology = replace(schedule.problem.topology, occupancy="pipelined", port_betas=None)
    problem = replace(schedule.problem, topology=topology)
    together = in_order(problem, decisions_of(schedule))
    pieces = [
        replace(each, chunks=(chunk,), sums=None if each.sums is None else (each.sums[place],))
        for each in decisions_of(together)
        for place, chunk in enumerate(each.chunks)
    ]
    apart = in_order(problem, pieces)
    apart.check()
    assert (apart.sends.count == 1).all()
    assert apart.makespan_us <= together.makespan_us + TOLERANCE_US
