"""CP-SAT next to the caller: what it finds, how it ends, and what becomes of its failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ortools.sat.python import cp_model

from taccl.encoding.core.cp_sat import SolverEvent, events_of
from taccl.errors import SolverError
from taccl.support.budget import Budget


def knapsack(items: int) -> tuple[cp_model.CpModel, list[Any]]:
    """Items that weigh 3, 10, 17, .. mod 101 and are to fill half of all that, as nearly as can be."""
    model = cp_model.CpModel()
    taken = [model.new_bool_var(f"x{i}") for i in range(items)]
    weights = [3 + 7 * i % 101 for i in range(items)]
    missing = model.new_int_var(0, sum(weights), "missing")
    model.add(sum(w * x for w, x in zip(weights, taken, strict=True)) + missing == sum(weights) // 2)
    model.minimize(missing)
    return model, taken


def heard(
    model: cp_model.CpModel, variables: list[Any], budget: Budget
) -> list[SolverEvent[tuple[int, ...]]]:
    def read(value: Callable[[Any], int]) -> tuple[int, ...]:
        return tuple(value(each) for each in variables)

    return list(events_of(model, read, 0, budget))


def test_solutions_and_bounds_come_as_they_are_found_and_the_last_event_says_so() -> None:
    found = heard(*knapsack(12), Budget(60.0))
    assert [each.is_last for each in found] == [False] * (len(found) - 1) + [True]
    assert any(each.decisions is not None for each in found)
    assert found[-1].bound == 0


def test_what_has_no_solution_is_impossible() -> None:
    model = cp_model.CpModel()
    x = model.new_bool_var("x")
    model.add(x >= 2)
    assert heard(model, [x], Budget(60.0))[-1].impossible


def test_the_same_work_gives_the_same_events() -> None:
    """CP-SAT counts its own steps, and one worker makes them in the same order."""
    runs = []
    for _ in range(2):
        model, taken = knapsack(40)
        for turn in range(1, 6):
            model.add(sum((7 * i * turn) % 13 * x for i, x in enumerate(taken)) == 60 + turn)
        budget = Budget.of_work(500)
        runs.append((heard(model, taken, budget), budget.remaining_s()))
    assert runs[0] == runs[1]
    assert runs[0][1] < 0.5


def test_a_model_that_cp_sat_does_not_take_is_an_error_with_its_text() -> None:
    model = cp_model.CpModel()
    x = model.new_int_var(-(2**62), 2**62, "x")
    model.add(2**62 * x <= 5)
    with pytest.raises(SolverError, match="CP-SAT does not take the model that was written for it: "):
        heard(model, [x], Budget(60.0))


def test_a_breakdown_of_cp_sat_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(cp_model.CpSolver, "solve", broken)
    with pytest.raises(SolverError, match="CP-SAT failed: out of cheese"):
        heard(*knapsack(3), Budget(60.0))


def test_what_goes_wrong_while_a_solution_is_read_reaches_the_caller() -> None:
    def read(value: Callable[[Any], int]) -> int:
        raise ZeroDivisionError("while reading")

    model, _ = knapsack(5)
    with pytest.raises(ZeroDivisionError, match="while reading"):
        list(events_of(model, read, 0, Budget(60.0)))


def test_a_search_ends_when_nobody_listens_any_more() -> None:
    model, taken = knapsack(30)
    stream = events_of(model, lambda value: value(taken[0]), 0, Budget(3600.0))
    assert next(iter(stream)) is not None
    stream.close()
