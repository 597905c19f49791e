"""Which neighbours share a send, when every order is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import checked_gain
from hypothesis import HealthCheck, given, settings
from small_problems import machine, problem, random_schedules, ring

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.milp import rejoined
from taccl.encoding.engines.milp.contiguity import build
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def anew(schedule: Schedule, seconds: float = 20.0) -> Schedule | None:
    """The schedule joined anew, and checked."""
    budget = Budget.of_work(round(1000 * seconds))
    better = rejoined(schedule, symmetry_group(schedule.problem), SearchOptions(), budget)
    return checked_gain(schedule, better)


def piece_by_piece(problem: Problem, pieces: int) -> Schedule:
    """Rank 0's pieces down the links 0 and 1, each by itself."""
    return in_order(problem, [Decision((piece,), link) for link in (0, 1) for piece in range(pieces)])


def line(alpha_us: float, pieces: int, max_group: int = 71, beta: float = 1.0) -> Problem:
    """0 -> 1 -> 2."""
    topology = machine(3, [(0, 1, alpha_us, beta), (1, 2, alpha_us, beta)])
    return problem(topology, "broadcast", pieces, max_group=max_group)


def test_two_neighbours_are_joined_where_alpha_is_large() -> None:
    """Alone: 11, 22 and 33 us; together: 12 and 24."""
    better = anew(piece_by_piece(line(10.0, 2), 2))
    assert better is not None
    assert better.sends.count.tolist() == [2, 2]
    assert better.makespan_us == pytest.approx(24.0)


def test_a_schedule_is_left_alone_where_joining_cannot_help() -> None:
    """Alone 2, 4 and 6 us; together the second rank would have to wait."""
    assert anew(piece_by_piece(line(0.0, 2, beta=2.0), 2)) is None


def test_what_is_joined_to_no_use_is_parted_again() -> None:
    together = in_order(line(0.5, 2, beta=10.0), [Decision((0, 1), 0), Decision((0, 1), 1)])
    better = anew(together)
    assert better is not None
    assert better.sends.count.max() == 1
    assert better.makespan_us == pytest.approx(3 * 10.5)


@pytest.mark.parametrize(("most", "time_us"), [(1, 55.0), (2, 36.0), (3, 36.0), (4, 28.0)])
def test_no_send_gets_more_chunks_than_the_limit(most: int, time_us: float) -> None:
    """4 pieces over 0 -> 1 -> 2; 3 + 1 is never better than 2 + 2."""
    alone = piece_by_piece(line(10.0, 4, max_group=most), 4)
    better = anew(alone) or alone
    assert better.sends.count.max() <= most
    assert better.makespan_us == pytest.approx(time_us)


def test_where_groups_save_nothing_every_chunk_goes_by_itself_and_no_solver_is_asked() -> None:
    """Pipelined: together the chunks end at 14 and 28 us, one by one at 12, 14 and then 24, 26."""
    topology = replace(line(10.0, 1, beta=2.0).topology, occupancy="pipelined")
    together = in_order(problem(topology, "broadcast", 2), [Decision((0, 1), 0), Decision((0, 1), 1)])
    assert together.makespan_us == pytest.approx(28.0)
    no_solver = SearchOptions(solver="nobody has it")
    better = rejoined(together, symmetry_group(together.problem), no_solver, Budget(0.0))
    assert better is not None
    better.check()
    assert better.sends.count.tolist() == [1, 1, 1, 1]
    assert better.makespan_us == pytest.approx(26.0)


def test_own_chunks_do_not_join_with_others_where_they_go_first() -> None:
    """AllGather down a line: rank 1 sends its own chunk and then rank 0's, in one send if it may."""
    links = [(0, 1, 1.0, 1.0), (1, 2, 20.0, 1.0), (2, 1, 1.0, 1.0), (1, 0, 1.0, 1.0)]
    topology = machine(3, links)
    decisions = [Decision((1,), 1), Decision((0,), 0), Decision((0,), 1)]
    decisions += [Decision((2,), 2), Decision((2,), 3), Decision((1,), 3)]
    free = in_order(problem(topology, "allgather"), decisions)
    better = anew(free)
    assert better is not None
    assert better.makespan_us == pytest.approx(2.0 + 22.0)
    ruled = problem(
        topology, "allgather", limits=RoutingLimits(own_first=np.array([False, True, False, False]))
    )
    assert anew(in_order(ruled, decisions)) is None


def test_a_symmetric_schedule_stays_symmetric() -> None:
    turned = problem(ring(4, alpha_us=10.0), "allgather", 2, symmetry=[[1, 2, 3, 0]])
    decisions = [
        Decision((2 * ((rank - step) % 4) + piece,), rank)
        for step in range(3)
        for piece in range(2)
        for rank in range(4)
    ]
    better = anew(in_order(turned, decisions))
    assert better is not None
    assert better.makespan_us == pytest.approx(36.0)
    assert better.sends.count.tolist() == [2] * 12


def test_nothing_to_join_is_left_alone() -> None:
    assert anew(in_order(problem(machine(1, []), "allgather"), [])) is None


def test_without_time_nothing_worse_comes_back() -> None:
    alone = piece_by_piece(line(10.0, 4), 4)
    better = anew(alone, seconds=0.0)
    assert better is None or better.makespan_us < alone.makespan_us


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random_schedules(COLLECTIVES))
def test_the_given_schedule_solves_the_program_with_its_own_time(schedule: Schedule) -> None:
    """Every row and every bound of a variable holds, so no solver can do worse than the schedule."""
    program = build(schedule, symmetry_group(schedule.problem))
    model, start = program.model, program.given()
    lower, upper, cost, _ = model.columns()
    starts, column, value, row_lower, row_upper = model.matrix()
    row = np.repeat(np.arange(model.num_rows), np.diff(starts))
    made = np.bincount(row, value * start[column], model.num_rows)
    slack = TOLERANCE_US * max(1.0, schedule.makespan_us)
    assert (start >= lower - slack).all()
    assert (start <= upper + slack).all()
    broken = np.flatnonzero((made < row_lower - slack) | (made > row_upper + slack))
    assert not len(broken), (broken, row_lower[broken], made[broken], row_upper[broken])
    assert cost @ start == pytest.approx(schedule.makespan_us)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random_schedules(COLLECTIVES))
def test_any_valid_schedule_joined_anew_is_valid_and_faster_or_left_alone(schedule: Schedule) -> None:
    better = anew(schedule, seconds=1.0)
    assert better is None or better.makespan_us < schedule.makespan_us
