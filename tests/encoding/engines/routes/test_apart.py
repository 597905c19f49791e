"""Sums through relays that may not sum, or not copy: parts stay apart, and each send says what it carries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import TooLarge, fastest
from hypothesis import HealthCheck, assume, given, settings
from small_problems import custom, featured_problems, machine, problem, ring
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.routes.apart import schedules_apart
from taccl.encoding.engines.routes.shortest import along_shortest_paths
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.search import search

_NO_SUMS, _NO_COPIES = ("may_sum",), ("may_copy",)


def around(members: int, name: str, cannot: tuple[str, ...], pieces: int = 1) -> Problem:
    """Ranks around a relay, which is the last rank and cannot do this; every link takes 1 + 2 us a chunk."""
    links = [(a, members, 1.0, 2.0) for a in range(members)]
    links += [(members, a, 1.0, 2.0) for a in range(members)]
    is_relay = np.arange(members + 1) == members
    topology = replace(machine(members + 1, links), is_helper=is_relay, **dict.fromkeys(cannot, ~is_relay))
    return Problem(topology, make_collective(name, members, pieces).with_helpers(1), 1.0)


def best(requested: Problem) -> Schedule:
    return min(schedules_apart(requested), key=lambda schedule: schedule.makespan_us)


def test_a_relay_that_may_not_sum_passes_one_part_after_another() -> None:
    """Both contributions reach the relay at 3; its link to rank 0 takes one until 6 and the other until 9."""
    schedule = best(around(3, "reduce", _NO_SUMS))
    schedule.check()
    assert schedule.makespan_us == 9.0 == fastest(around(3, "reduce", _NO_SUMS)).makespan_us
    assert schedule.sums is not None
    assert sorted(schedule.sums.sets()) == [0b010, 0b010, 0b100, 0b100]


@pytest.mark.parametrize("cannot", [_NO_SUMS, _NO_COPIES, _NO_SUMS + _NO_COPIES])
@pytest.mark.parametrize("name", ["allreduce", "reducescatter", "reduce"])
def test_three_gpus_sum_through_a_relay_whatever_it_cannot_do(name: str, cannot: tuple[str, ...]) -> None:
    requested = around(3, name, cannot, 2)
    done = search(requested, SearchOptions(effort=200))
    done.schedule.check()
    assert lower_bound(requested).value_us <= done.schedule.makespan_us * (1 + 1e-9)


def test_without_copies_no_part_passes_the_relay_twice() -> None:
    """Sums of all before and of all behind each rank of a line: six different parts of four ranks."""
    requested = around(4, "allreduce", _NO_SUMS + _NO_COPIES)
    schedule = best(requested)
    schedule.check()
    into_relay = (schedule.dst == 4) & (schedule.chunk == 0)
    assert schedule.sums is not None
    parts = [schedule.sums.sets()[row] for row in np.flatnonzero(into_relay)]
    assert sorted(parts) == [0b0001, 0b0011, 0b0111, 0b1000, 0b1100, 0b1110]


def test_a_copy_through_a_relay_stands_next_to_a_sum() -> None:
    hub = around(3, "reduce", _NO_SUMS)
    both = replace(
        hub, collective=custom(3, [((0, 1, 2), (0,), True), ((1,), (0, 2), False)]).with_helpers(1)
    )
    search(both, SearchOptions(effort=200)).schedule.check()


def test_a_root_that_may_not_sum_is_no_root() -> None:
    topology = replace(ring(3, both=True), may_sum=np.array([False, True, True]))
    for schedule in schedules_apart(problem(topology, "allreduce")):
        schedule.check()
        assert schedule.sums is not None


def test_where_every_rank_sums_and_copies_there_is_nothing_to_keep_apart() -> None:
    assert not list(schedules_apart(problem(ring(3), "allreduce")))


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(most_ranks=3, names=("allreduce", "reducescatter", "reduce")))
def test_no_schedule_is_faster_than_the_fastest_program(requested: Problem) -> None:
    assume(requested.topology.may_copy is None)
    schedule = next(schedules_apart(requested), None)
    assume(schedule is not None)
    assert schedule is not None
    schedule.check()
    try:
        optimum = fastest(requested, 700).makespan_us
    except TooLarge:
        return
    assert optimum <= schedule.makespan_us + 1e-6


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(most_ranks=4, names=("allreduce", "reducescatter", "reduce")))
def test_a_machine_whose_members_may_all_sum_and_copy_has_a_schedule(requested: Problem) -> None:
    """Whatever its helper cannot do, if the sum goes to one rank or nothing forbids its copies."""
    topology = requested.topology
    may = [each for each in (topology.may_sum, topology.may_copy) if each is not None]
    assume(all(each[: topology.num_members].all() for each in may) and "helpers" in requested.features)
    compact = along_shortest_paths(requested)
    assert compact is not None or next(schedules_apart(requested), None) is not None
