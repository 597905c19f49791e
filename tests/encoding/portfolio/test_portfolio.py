"""Which engines run, and when they stop."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from itertools import pairwise, takewhile

import pytest
from brute_force import fastest
from hypothesis import HealthCheck, given, settings
from small_problems import (
    ENGINE_BETAS,
    custom_problems,
    full,
    machine,
    ndv2_node,
    problem,
    problems,
    ring,
    two_nodes,
)

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.registry import ENGINES, engine_named, names
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.solve import solve
from taccl.errors import SolverError, TopologyError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.search import search


def heard(problem: Problem, options: SearchOptions) -> tuple[list[Schedule], float]:
    """All schedules, each checked, and the best bound, when the engines are done."""
    schedules, bound = [], 0.0
    for update in solve(problem, options):
        bound = max(bound, update.lower_bound_us)
        if update.schedule is not None:
            update.schedule.check()
            schedules.append(update.schedule)
    return schedules, bound


def test_a_second_search_of_an_instance_goes_on_from_what_the_first_found() -> None:
    """No engine looks for a first schedule again, which takes long on large machines."""
    instance, options = Instance(problem(ring(4), "allgather")), SearchOptions(engine="greedy", effort=300)
    found = [update.schedule for update in solve(instance, options) if update.schedule is not None]
    first, *_ = solve(instance, replace(options, known=found[-1]))
    assert (first.stage, first.schedule) == ("known", found[-1])
    assert 0 < first.lower_bound_us <= found[-1].makespan_us
    anew, *_ = solve(instance.problem, replace(options, known=found[-1]))
    assert anew.stage != "known"


def test_what_is_known_comes_first_where_it_is_better_so_that_no_late_search_loses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested = problem(ring(4), "allgather")
    known = heard(requested, SearchOptions(engine="greedy", effort=300))[0][-1]
    later = replace(known, start_us=known.start_us + 5.0, end_us=known.end_us + 5.0)
    monkeypatch.setattr("taccl.encoding.portfolio.solve.opened", lambda *args: Update("greedy", later))
    found = search(requested, SearchOptions(time_limit_s=0.0, known=known))
    assert found.schedule.makespan_us == known.makespan_us
    assert search(requested, SearchOptions(time_limit_s=0.0)).schedule.makespan_us == later.makespan_us


def test_the_engines_have_names() -> None:
    assert names()[0] == "auto"
    assert {"textbook", "greedy", "combining", "milp", "cp", "routes", "lns"} < set(names())
    assert len(set(names())) == len(ENGINES) + 1


@pytest.mark.parametrize("engine", names())
@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "reducescatter"])
def test_every_engine_answers_a_collective_or_says_why_it_does_not(engine: str, name: str) -> None:
    small, options = problem(two_nodes(), name), SearchOptions(engine=engine, time_limit_s=0.2)
    if engine != "auto" and not (verdict := engine_named(engine).can(Instance(small))):
        with pytest.raises(SolverError, match=re.escape(verdict.reason)):
            next(solve(small, options))
        return
    schedules, bound = heard(small, options)
    times = [schedule.makespan_us for schedule in schedules]
    assert all(later < earlier for earlier, later in pairwise(times))
    assert 0.0 < bound <= times[-1] + 1e-6
    assert all(schedule.problem is small for schedule in schedules)


def test_the_first_update_brings_a_schedule_and_a_bound() -> None:
    first = next(solve(problem(ndv2_node(), "alltoall"), SearchOptions(time_limit_s=0.0)))
    assert first.schedule is not None
    assert first.lower_bound_us > 0.0
    assert first.bound_source


def test_bounds_follow_the_first_schedule_the_cheapest_first_and_each_better_than_the_one_before() -> None:
    updates = solve(problem(two_nodes(), "allgather"), SearchOptions(effort=3_000))
    first = next(updates)
    proved = list(takewhile(lambda update: update.stage == "bound", updates))
    values = [first.lower_bound_us, *(update.lower_bound_us for update in proved)]
    assert all(later > earlier for earlier, later in pairwise(values))
    assert values[-1] == pytest.approx(26.0)
    assert "node 0" in proved[-1].bound_source


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_schedule_that_meets_the_bound_ends_the_search_long_before_the_time(chunks: int) -> None:
    """Direct sends between all of three ranks: with an hour to spare this returns."""
    small = problem(full(3), "alltoall", chunks)
    schedules, bound = heard(small, SearchOptions(time_limit_s=3600.0))
    assert schedules[-1].makespan_us == pytest.approx(1.0 + chunks)
    assert bound == pytest.approx(schedules[-1].makespan_us)


def test_a_gap_that_is_wide_enough_ends_the_search_long_before_the_time() -> None:
    """26 us is the optimum and 24 the bound: no search would prove more, and none is requested to."""
    schedules, bound = heard(problem(two_nodes(), "allgather"), SearchOptions(time_limit_s=3600.0, gap=0.1))
    assert bound >= 0.9 * schedules[-1].makespan_us


def test_auto_finds_the_optimum_of_a_small_machine() -> None:
    small = problem(two_nodes(), "allgather")
    optimum = fastest(small).makespan_us
    for update in solve(small, SearchOptions(time_limit_s=20.0)):
        if update.schedule is not None and update.schedule.makespan_us <= optimum + 1e-6:
            return
    raise AssertionError(f"{optimum} us was not found")


def test_where_nothing_has_to_move_an_empty_schedule_is_all() -> None:
    for engine in names():
        schedules, bound = heard(
            problem(machine(1, []), "allreduce"), SearchOptions(engine, time_limit_s=0.5)
        )
        assert [len(schedule) for schedule in schedules] == [0]
        assert bound == 0.0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(limited=True, betas=ENGINE_BETAS))
def test_no_bound_is_ever_above_a_schedule(small: Problem) -> None:
    schedules, bound = heard(small, SearchOptions(time_limit_s=0.15))
    assert schedules
    assert bound <= schedules[-1].makespan_us + 1e-6


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(custom_problems(most_ranks=4, betas=ENGINE_BETAS))
def test_no_bound_is_ever_above_a_schedule_of_a_custom_collective(small: Problem) -> None:
    schedules, bound = heard(small, SearchOptions(time_limit_s=0.15))
    assert schedules
    assert bound <= schedules[-1].makespan_us + 1e-6


def test_an_engine_that_went_names_the_one_that_serves_in_its_place() -> None:
    with pytest.raises(SolverError, match="no engine 'along-trees' any more") as caught:
        engine_named("along-trees")
    assert caught.value.hint == "greedy serves in its place"


def test_an_unknown_engine_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SolverError, match="unknown engine 'quantum'") as caught:
        next(solve(problem(ring(3), "allgather"), SearchOptions(engine="quantum")))
    assert caught.value.hint == "one of " + ", ".join(names())


def test_an_unknown_solver_is_refused_before_anything_is_searched() -> None:
    with pytest.raises(SolverError, match="unknown solver 'abacus'"):
        next(solve(problem(ring(3), "allgather"), SearchOptions(solver="abacus")))


@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_who_stops_listening_stops_the_search_beside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the stream, as Ctrl-C does, leaves no thread behind.

    Three pieces each, and a first schedule that nobody improved, because what CP-SAT has proved by the time
    of its news has no thread any more.
    """
    monkeypatch.setattr("taccl.encoding.portfolio.contenders.CONTENDERS_OPENING", 0.0)
    before = set(threading.enumerate())
    updates = solve(problem(ndv2_node(), name, 3), SearchOptions(engine="cp", time_limit_s=600.0))
    for update in updates:
        if update.stage == "cp":
            break
    assert set(threading.enumerate()) > before, "CP-SAT searches next to this thread"
    updates.close()
    assert set(threading.enumerate()) <= before


def test_a_link_that_takes_no_time_is_refused_by_name() -> None:
    free = machine(2, [(0, 1, 0.0, 0.0), (1, 0, 1.0, 1.0)])
    with pytest.raises(TopologyError, match=r"0 -> 1 .* costs nothing"):
        next(solve(problem(free, "allgather"), SearchOptions()))
