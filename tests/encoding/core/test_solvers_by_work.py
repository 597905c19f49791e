"""Engines that ask solvers: with a budget of work each says the same again, whatever the clock says."""

from __future__ import annotations

import itertools
import random

import pytest
from registered import OnProblem, all_programs, cp, joint, milp
from small_problems import ndv2_node, problem, ring, two_nodes

from taccl.encoding.core.options import SearchOptions
from taccl.model.problem import Problem
from taccl.support.budget import Budget

Said = list[tuple[str, float | None, float, str]]


def said(engine: OnProblem, requested: Problem, units: int, seed: int = 0) -> tuple[Said, float]:
    """What an engine says, and what is left of the budget."""
    budget = Budget.of_work(units)
    updates = [
        (each.stage, each.schedule and each.schedule.makespan_us, each.lower_bound_us, each.note)
        for each in engine(requested, SearchOptions(seed=seed), budget, None)
    ]
    return updates, budget.remaining_s()


@pytest.fixture
def wild_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps ahead by anything up to a minute whenever somebody looks."""
    jumps = random.Random(1)
    moments = itertools.accumulate(jumps.uniform(0.0, 60.0) for _ in itertools.count())
    monkeypatch.setattr("time.monotonic", lambda: next(moments))


@pytest.mark.parametrize(
    ("engine", "requested"),
    [
        (cp, problem(ndv2_node(), "allgather", 2)),
        (cp, problem(two_nodes(), "alltoall")),
        (joint, problem(ring(3, 0.5, 3.0), "allreduce", max_group=2)),
        (milp, problem(ndv2_node(), "allgather", 2)),
        (milp, problem(two_nodes(), "alltoall", 2)),
    ],
    ids=["cp", "cp pairs", "joint", "milp", "milp pairs"],
)
def test_the_same_work_and_seed_give_the_same_answers_on_any_clock(
    engine: OnProblem, requested: Problem, request: pytest.FixtureRequest
) -> None:
    calm = said(engine, requested, 300, seed=5)
    assert calm[0], "a first schedule at least"
    request.getfixturevalue("wild_clock")
    assert said(engine, requested, 300, seed=5) == calm


def test_all_programs_are_searched_alike_with_the_same_work() -> None:
    requested = problem(ring(3, 0.5, 3.0), "allreduce")
    first = said(all_programs, requested, 300)
    assert said(all_programs, requested, 300) == first


@pytest.mark.parametrize("engine", [cp, milp], ids=["cp", "milp"])
def test_without_work_there_is_no_more_than_a_first_schedule(engine: OnProblem) -> None:
    assert len(said(engine, problem(ndv2_node(), "allgather"), 1)[0]) <= 1
