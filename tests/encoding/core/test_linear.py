"""Linear programs as arrays, and the solvers behind them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from taccl.encoding.core import linear
from taccl.encoding.core.linear import LinearModel, check_solver, solve
from taccl.errors import SolverError
from taccl.support.budget import Budget

#: PuLP says in warnings what its next version will want.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

_BOTH = ["highs", "cbc"]


def _index(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def knapsack(integer: bool = True) -> LinearModel:
    """Worth 5, 4, 3 and weights 2, 3, 1 of at most 5: take the first and second, 9; the third makes it 6."""
    model = LinearModel()
    x = model.add_variables(3, 0.0, 1.0, cost=np.array([-5.0, -4.0, -3.0]), integer=integer)
    model.add_rows(1, _index(0, 0, 0), x, np.array([2.0, 3.0, 1.0]), upper=5.0)
    return model


def impossible() -> LinearModel:
    """x >= 2 of a binary."""
    model = LinearModel()
    x = model.add_binaries(1, cost=1.0)
    model.add_rows(1, _index(0), x, 1.0, lower=2.0)
    return model


def hard(items: int = 60, rows: int = 30, integer: bool = True) -> LinearModel:
    """A market split problem: equations that no solver decides in a moment, with slack at a price."""
    random = np.random.default_rng(0)
    model = LinearModel()
    x = model.add_variables(items, 0.0, 1.0, integer=integer)
    weights = random.integers(0, 100, (rows, items)).astype(np.float64)
    slack = model.add_variables(2 * rows, cost=1.0)
    row, column = np.divmod(np.arange(rows * items), items)
    lines = np.arange(rows)
    half = np.floor(weights.sum(axis=1) / 2)
    model.add_rows(
        rows,
        np.concatenate([row, lines, lines]),
        np.concatenate([x[column], slack[:rows], slack[rows:]]),
        np.concatenate([weights.ravel(), np.ones(rows), -np.ones(rows)]),
        half,
        half,
    )
    return model


@pytest.mark.parametrize("solver", _BOTH)
def test_solvers_agree_on_a_small_program(solver: str) -> None:
    solution = solve(knapsack(), solver, budget=20.0)
    assert solution.objective == pytest.approx(-9.0)
    assert solution.values == pytest.approx([1.0, 1.0, 0.0])


@pytest.mark.parametrize("solver", _BOTH)
def test_without_integers_the_last_item_is_cut(solver: str) -> None:
    solution = solve(knapsack(integer=False), solver, budget=20.0)
    assert solution.objective == pytest.approx(-5.0 - 3.0 - 4.0 * 2 / 3)


@pytest.mark.parametrize("solver", _BOTH)
def test_equations_lower_bounds_and_upper_bounds_all_count(solver: str) -> None:
    """x + y = 4, 1 <= x - y <= 2, and y is cheap: x = 2.5, y = 1.5."""
    model = LinearModel()
    x, y = model.add_variables(2, cost=np.array([2.0, 1.0]))
    model.add_rows(1, _index(0, 0), _index(x, y), 1.0, 4.0, 4.0)
    model.add_rows(1, _index(0, 0), _index(x, y), np.array([1.0, -1.0]), 1.0, 2.0)
    solution = solve(model, solver, budget=20.0)
    assert solution.values == pytest.approx([2.5, 1.5])


@pytest.mark.parametrize("solver", _BOTH)
def test_a_program_without_solutions_is_infeasible(solver: str) -> None:
    solution = solve(impossible(), solver, budget=20.0)
    assert solution.status == "infeasible"
    assert solution.values is None


def test_highs_proves_what_it_calls_optimal() -> None:
    solution = solve(knapsack())
    assert solution.status == "optimal"
    assert solution.bound == pytest.approx(solution.objective)


@pytest.mark.parametrize("solver", _BOTH)
def test_what_only_ran_into_the_time_limit_is_not_called_optimal(solver: str) -> None:
    model = hard()
    solution = solve(model, solver, budget=0.3)
    assert solution.status in ("feasible", "unknown")
    assert solution.bound < solution.objective


def test_a_given_solution_is_where_highs_starts() -> None:
    """With no time at all the start is what comes back, with its own objective."""
    model = hard()
    start = np.zeros(model.num_variables)
    lower = model.matrix()[3]
    start[60:90] = lower
    solution = solve(model, budget=0.01, start=start)
    assert solution.values is not None
    assert solution.objective <= lower.sum() + 1e-6


def test_rows_may_come_in_batches_and_out_of_order() -> None:
    model = LinearModel()
    x = model.add_variables(2)
    model.add_rows(2, _index(1, 0, 1), _index(0, 1, 1), np.array([1.0, 2.0, 3.0]), upper=np.array([4.0, 5.0]))
    model.add_rows(1, _index(0), x[:1], 6.0, lower=7.0)
    starts, column, value, lower, upper = model.matrix()
    assert starts.tolist() == [0, 1, 3, 4]
    assert column.tolist() == [1, 0, 1, 0]
    assert value.tolist() == [2.0, 1.0, 3.0, 6.0]
    assert lower.tolist() == [-np.inf, -np.inf, 7.0]
    assert upper.tolist() == [4.0, 5.0, np.inf]


@pytest.mark.parametrize("solver", _BOTH)
def test_a_variable_that_is_named_twice_in_a_row_counts_twice(solver: str) -> None:
    """Minimise x with 2 x + 1 x >= 6 and y + y - y >= 5."""
    model = LinearModel()
    x = model.add_variables(2, cost=1.0)
    model.add_rows(
        2,
        _index(0, 1, 1, 0, 1),
        x[[0, 1, 1, 0, 1]],
        np.array([2.0, 1.0, 1.0, 1.0, -1.0]),
        np.array([6.0, 5.0]),
    )
    solution = solve(model, solver)
    assert solution.values is not None
    assert solution.values.tolist() == pytest.approx([2.0, 5.0])


def test_an_unknown_solver_is_named_with_those_that_are_known() -> None:
    with pytest.raises(SolverError, match="unknown solver 'cplexx'") as caught:
        solve(knapsack(), "cplexx")
    names = str(caught.value.hint).removeprefix("one of ").split(", ")
    assert names[:2] == ["highs", "cbc"]
    assert len(set(names)) == len(names)
    with pytest.raises(SolverError, match="unknown solver"):
        check_solver("cplexx")


def test_a_solver_that_is_not_installed_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import pulp

    monkeypatch.setattr(pulp.XPRESS_CMD, "available", lambda self: False)
    monkeypatch.setattr(pulp.XPRESS, "available", lambda self: False)
    with pytest.raises(SolverError, match="'xpress' is not installed here") as caught:
        check_solver("xpress")
    assert "highs" in str(caught.value.hint)


def test_the_same_work_gives_the_same_answer_and_a_start_comes_back() -> None:
    """HiGHS stops after this many looks at whether to go on, and not by the clock; so a rerun is the same."""
    model = hard()
    runs = []
    for _ in range(2):
        budget = Budget.of_work(300)
        solution = solve(model, budget=budget, seed=3)
        assert solution.values is not None
        runs.append((solution.status, solution.values.tolist(), solution.bound, budget.remaining_s()))
    assert runs[0] == runs[1]
    assert runs[0][0] == "feasible"
    assert runs[0][-1] < 0.1


def test_work_limits_a_program_without_integers_too() -> None:
    """The knapsack's relaxation is done in a few iterations, of which none is left without work."""
    done, none = Budget.of_work(1000), Budget.of_work(1)
    assert solve(knapsack(integer=False), budget=done).status == "optimal"
    assert 0.9 < done.remaining_s() < 1.0
    assert solve(hard(integer=False), budget=none).status in ("feasible", "unknown")


def test_a_solver_that_counts_seconds_does_not_serve_a_search_that_counts_work() -> None:
    with pytest.raises(SolverError, match="'cbc' counts seconds only") as caught:
        solve(knapsack(), "cbc", Budget.of_work(1000))
    assert "highs" in str(caught.value.hint)


@pytest.mark.parametrize("solver", _BOTH)
def test_a_program_that_is_too_large_for_the_memory_is_not_begun(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "LINEAR_MOST_ENTRIES", 2)
    assert solve(knapsack(), solver, budget=20.0).status == "unknown"


def test_what_highs_says_of_a_failure_reaches_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, failed = linear.highspy.Highs.wait, linear.highspy.HighsStatus.kError
    monkeypatch.setattr(linear.highspy.Highs, "wait", lambda *given: (wait(*given)[0], failed))
    with pytest.raises(SolverError, match="HiGHS failed: "):
        solve(knapsack())


@pytest.mark.parametrize("solver", _BOTH)
def test_both_solvers_take_a_start_and_a_seed(solver: str) -> None:
    known = np.array([0.0, 1.0, 1.0])
    assert solve(knapsack(), solver, 20.0, seed=7, start=known).objective == pytest.approx(-9.0)


def test_names_of_solvers_may_be_short_or_as_pulp_has_them() -> None:
    for name in ("highs", "HiGHS", "cbc", "CBC", "pulp_cbc_cmd"):
        check_solver(name)


@pytest.mark.parametrize("order", ["highspy, ortools", "ortools, highspy"])
def test_both_solvers_can_be_imported_in_one_process_in_either_order(order: str) -> None:
    """Both carry a libhighs; from highspy 1.15 on, the second to be imported fails."""
    modules = [{"highspy": "highspy", "ortools": "ortools.sat.python.cp_model"}[m] for m in order.split(", ")]
    program = "".join(f"import {module}\n" for module in modules) + (
        "import highspy\n"
        "from ortools.sat.python import cp_model\n"
        "highspy.Highs()\n"
        "model = cp_model.CpModel()\n"
        "assert cp_model.CpSolver().solve(model) == cp_model.OPTIMAL\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
