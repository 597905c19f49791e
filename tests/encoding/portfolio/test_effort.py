"""With work in place of seconds, the same request gives the same answer, whatever a clock says."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from small_problems import full, ndv2_node, problem, ring, two_nodes

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.portfolio.solve import solve
from taccl.errors import SolverError
from taccl.model.problem import Problem
from taccl.support.budget import UNITS_PER_S, Budget


def answers(small: Problem, effort: int, seed: int = 0) -> list[tuple[str, float | None, float]]:
    """All that a search says."""
    options = SearchOptions(effort=effort, seed=seed)
    return [
        (
            update.stage,
            None if update.schedule is None else update.schedule.makespan_us,
            update.lower_bound_us,
        )
        for update in solve(small, options)
    ]


@pytest.fixture
def wild_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps ahead by anything up to a minute whenever somebody looks."""
    jumps = random.Random(1)
    moments = itertools.accumulate(jumps.uniform(0.0, 60.0) for _ in itertools.count())
    monkeypatch.setattr("time.monotonic", lambda: next(moments))


@pytest.mark.parametrize(
    "small",
    [
        problem(two_nodes(), "allgather", 2),
        problem(ndv2_node(), "allgather", chunk_mb=0.001),
        problem(ring(4), "allreduce"),
        problem(full(3), "alltoall", 2),
    ],
    ids=["nodes", "small messages", "sums", "pairs"],
)
def test_the_same_effort_gives_the_same_answer_on_any_clock(
    small: Problem, request: pytest.FixtureRequest
) -> None:
    calm = answers(small, 1_500)
    request.getfixturevalue("wild_clock")
    assert answers(small, 1_500) == calm
    assert any(time_us is not None for _, time_us, _ in calm)


def test_a_look_at_a_budget_of_work_costs_a_unit_so_that_loops_end() -> None:
    budget, looks = Budget.of_work(100), 0
    while budget.remaining_s():
        looks += 1
    assert 90 <= looks <= 100


def test_small_parts_of_work_are_noted_without_a_look_for_each() -> None:
    """1000 parts of a hundredth of a unit are 10 units of work, and two looks or three."""
    budget = Budget.of_work(1_000)
    meter = budget.meter()
    assert all(meter.goes_on(0.01) for _ in range(1_000))
    assert 0.985 <= budget.remaining_s() <= 0.995


def test_loops_that_note_small_parts_end_with_the_budget() -> None:
    meter, done = Budget.of_work(100).meter(), 0
    while meter.goes_on(0.25):
        done += 1
    assert 360 <= done <= 400


def test_without_a_budget_no_part_goes_on() -> None:
    assert not Budget(0.0).meter().goes_on(0.0)
    assert not Budget.of_work(0).meter().goes_on(0.0)


def test_work_is_spent_by_all_shares_of_a_budget() -> None:
    budget = Budget.of_work(1_000)
    part = budget.share(0.5)
    part.spend(600)
    assert not part.remaining_s()
    assert 0.0 < budget.remaining_s() < 0.4


def test_what_is_done_in_any_case_is_counted_as_work_too() -> None:
    """Without an end, but on the same clock: how long it took, and what is left, is reported in units."""
    budget = Budget.of_work(100)
    anyway = budget.without_end()
    began_s, left_s = anyway.read_s(), budget.remaining_s()
    anyway.spend(90)
    assert anyway.counts_work and anyway.remaining_s() == math.inf
    assert anyway.read_s() - began_s == pytest.approx(90 / UNITS_PER_S, abs=3 / UNITS_PER_S)
    assert left_s - budget.remaining_s() == pytest.approx(90 / UNITS_PER_S, abs=3 / UNITS_PER_S)


def test_seconds_are_not_spent_by_work() -> None:
    budget = Budget(3600.0)
    budget.spend(10**9)
    assert budget.remaining_s() > 0.0


@pytest.mark.parametrize("effort", [0, -1, 1.5, "many"])
def test_an_effort_is_a_whole_number_from_one_on(effort: object) -> None:
    with pytest.raises(SolverError, match="an effort"):
        SearchOptions(effort=effort)
