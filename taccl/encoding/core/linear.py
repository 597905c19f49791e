"""Linear and mixed-integer programs as arrays, and the solvers that take them.

Rows are built in bulk from NumPy columns. HiGHS, the default, is handed the arrays as they are; any
other solver is driven through PuLP (`by_pulp`), whose row objects are slow to build but reach every
solver that PuLP knows. Whatever a solver says, `Solution.status` is read from the solver itself: PuLP calls a
model optimal that only ran into its time limit.

On a work clock HiGHS stops after a number of simplex iterations, or, where there are integers, of looks at
whether it should go on, which it makes at the same places of the same search. So the same model and seed give
the same answer whatever else the machine does. Solvers behind PuLP have no such limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import highspy
import numpy as np

from taccl.encoding.core.by_pulp import PulpModel, find_solver, solve_by_pulp
from taccl.encoding.core.tuning import (
    LINEAR_ENTRIES_PER_S,
    LINEAR_MOST_ENTRIES,
    LINEAR_MOST_ITERATIONS,
    LINEAR_PER_ITERATION_UNIT,
    LINEAR_PER_LOOK_UNIT,
)
from taccl.errors import SolverError
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

Values = float | FloatArray
Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found.

    Parameters
    ----------
    status : `optimal`: proved to the requested gap; `feasible`: valid but not proved; `infeasible`: proved
        to have none; `unknown`: none found in time.
    values : shape (num_variables,), if there is a solution.
    objective : of `values`.
    bound : no solution has a smaller objective; -inf if the solver proves nothing.
    duals : shape (num_rows,), the price of each row, where HiGHS solved a model without integers.
    """

    status: Status
    values: FloatArray | None = None
    objective: float = np.inf
    bound: float = -np.inf
    duals: FloatArray | None = None


class LinearModel:
    """Minimise cost * x subject to lower <= rows * x <= upper, built batch by batch."""

    def __init__(self) -> None:
        self._variables: list[tuple[FloatArray, FloatArray, FloatArray, bool]] = []
        self._rows: list[tuple[FloatArray, FloatArray]] = []
        self._entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.num_variables = 0
        self.num_rows = 0

    def add_variables(
        self,
        count: int,
        lower: Values = 0.0,
        upper: Values = np.inf,
        cost: Values = 0.0,
        integer: bool = False,
    ) -> IntArray:
        """Append variables; returns their columns, shape (count,)."""
        first, self.num_variables = self.num_variables, self.num_variables + count
        spread = [np.broadcast_to(np.asarray(v, dtype=np.float64), (count,)) for v in (lower, upper, cost)]
        self._variables.append((spread[0], spread[1], spread[2], integer))
        return np.arange(first, first + count)

    def add_binaries(self, count: int, cost: Values = 0.0) -> IntArray:
        """Append variables that are 0 or 1."""
        return self.add_variables(count, 0.0, 1.0, cost, integer=True)

    def add_rows(
        self,
        count: int,
        row: IntArray,
        column: IntArray,
        coefficient: Values,
        lower: Values = -np.inf,
        upper: Values = np.inf,
    ) -> None:
        """Append `count` rows; entry i adds `coefficient[i]` to row `row[i]` of them."""
        low, high = (np.broadcast_to(np.asarray(v, dtype=np.float64), (count,)) for v in (lower, upper))
        values = np.broadcast_to(np.asarray(coefficient, dtype=np.float64), row.shape)
        self._rows.append((low, high))
        self._entries.append((row + self.num_rows, column, values))
        self.num_rows += count

    @property
    def num_entries(self) -> int:
        """How many coefficients the rows have."""
        return sum(len(column) for _, column, _ in self._entries)

    def columns(self) -> tuple[FloatArray, FloatArray, FloatArray, np.ndarray]:
        """Lower bounds, upper bounds, costs and whether integer, each of shape (num_variables,)."""
        lower, upper, cost = (np.concatenate([v[i] for v in self._variables]) for i in range(3))
        integer = np.concatenate([np.full(len(v[0]), v[3]) for v in self._variables])
        return lower, upper, cost, integer

    def matrix(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]:
        """The rows in compressed form: starts, columns, coefficients; then lower and upper.

        A variable is at most once in a row: HiGHS, handed it twice, may never come back.
        """
        row, column, value = (np.concatenate([e[i] for e in self._entries]) for i in range(3))
        places, place = np.unique(row * self.num_variables + column, return_inverse=True)
        row, column = np.divmod(places, self.num_variables)
        starts = np.searchsorted(row, np.arange(self.num_rows + 1))
        lower, upper = (np.concatenate([r[i] for r in self._rows]) for i in range(2))
        return starts, column, np.bincount(place, value, len(places)).astype(np.float64), lower, upper


def solve(
    model: LinearModel,
    solver: str = "highs",
    budget: Budget | float = 60.0,
    gap: float = 0.0,
    seed: int = 0,
    start: FloatArray | None = None,
) -> Solution:
    """Minimise the model with a solver, within the budget (a number: seconds of its own).

    A model that is too large to be read in that time, or for the memory, is `unknown`.

    Parameters
    ----------
    gap : of the objective, relative, at which a solution is good enough.
    seed, start : where the solver takes them; HiGHS and CBC do. `start`, shape (num_variables,), is a
        solution to begin with.

    Raises
    ------
    SolverError : a solver that PuLP does not know, that is not installed, that failed, or one other than
        HiGHS on a work clock.
    """
    limit = Budget(budget) if isinstance(budget, int | float) else budget
    by_highs = solver.lower() == "highs"
    name = "highs" if by_highs else find_solver(solver)
    if not by_highs and limit.counts_work:
        raise SolverError(
            f"the solver {solver!r} counts seconds only, and this search counts work",
            hint="--solver highs, or --time-limit in place of --effort",
        )
    entries = model.num_entries
    if entries > min(LINEAR_MOST_ENTRIES, LINEAR_ENTRIES_PER_S * limit.remaining_s() + LINEAR_PER_LOOK_UNIT):
        return Solution("unknown")
    if by_highs:
        return _solve_by_highs(model, limit, gap, seed, start)
    lower, upper, cost, integer = model.columns()
    arrays = PulpModel(lower, upper, cost, integer, *model.matrix())
    status, values = solve_by_pulp(arrays, name, limit.remaining_s(), gap, seed, start)
    return Solution(status) if values is None else Solution(status, values, float(cost @ values))


def check_solver(solver: str) -> None:
    """Raise `SolverError` if there is no such solver here."""
    if solver.lower() != "highs":
        find_solver(solver)


def _solve_by_highs(
    model: LinearModel, budget: Budget, gap: float, seed: int, start: FloatArray | None
) -> Solution:
    lower, upper, cost, integer = model.columns()
    starts, column, value, row_lower, row_upper = model.matrix()
    is_mip = bool(integer.any())
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.num_variables, model.num_rows
    lp.col_lower_, lp.col_upper_, lp.col_cost_ = lower, upper, cost
    lp.row_lower_, lp.row_upper_ = row_lower, row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, column, value
    if is_mip:
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in integer]
    highs = highspy.Highs()
    for option, setting in (("output_flag", False), ("mip_rel_gap", gap), ("random_seed", seed)):
        highs.setOptionValue(option, setting)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS does not take the program that was written for it")
    if start is not None:
        guess = highspy.HighsSolution()
        guess.col_value = start.tolist()
        highs.setSolution(guess)
    if not budget.counts_work:
        highs.setOptionValue("time_limit", max(budget.remaining_s(), 1e-3))
        _run_interruptibly(highs)
    elif not _run_counted(highs, budget, is_mip, len(column), model.num_rows):
        return Solution("unknown")
    return _highs_solution(highs, is_mip)


def _run_counted(highs: Any, budget: Budget, is_mip: bool, num_entries: int, num_rows: int) -> bool:
    """Solve for as much work as the budget has; False if that is too little to begin with.

    A program with integers begins with one without, which nothing interrupts: some iterations for each row.
    """
    units = 1000 * budget.remaining_s()
    per_iteration = 0.02 + (num_entries + num_rows) / LINEAR_PER_ITERATION_UNIT
    for option, setting in (("parallel", "off"), ("threads", 1)):
        highs.setOptionValue(option, setting)
    if not is_mip:
        highs.setOptionValue(
            "simplex_iteration_limit", int(min(units / per_iteration, LINEAR_MOST_ITERATIONS))
        )
        _run_interruptibly(highs)
        budget.spend(max(0, highs.getInfo().simplex_iteration_count) * per_iteration)
        return True
    first = num_rows * per_iteration
    if first > units:
        return False
    per_look = 1 + num_entries / LINEAR_PER_LOOK_UNIT
    most, looks = (units - first) / per_look, 0

    def look(event: Any) -> None:
        nonlocal looks
        looks += 1
        if looks > most:
            event.interrupt()

    highs.cbMipInterrupt += look
    _run_interruptibly(highs)
    budget.spend(first + looks * per_look)
    return True


def _run_interruptibly(highs: Any) -> None:
    """Solve next to this thread, so that Ctrl-C stops the solver instead of waiting for it.

    Raises
    ------
    SolverError : HiGHS failed.
    """
    highs.HandleUserInterrupt = True
    highs.startSolve()
    try:
        status = None
        done = False
        while not done:
            done, status = highs.wait(0.05)
    except BaseException:
        highs.cancelSolve()
        highs.wait()
        raise
    if status is None or status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS failed: {highs.modelStatusToString(highs.getModelStatus())}")


def _highs_solution(highs: Any, is_mip: bool) -> Solution:
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution("infeasible")
    optimal = status == highspy.HighsModelStatus.kOptimal
    bound = info.mip_dual_bound if is_mip else (info.objective_function_value if optimal else -np.inf)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solution("unknown", bound=bound)
    found = highs.getSolution()
    return Solution(
        status="optimal" if optimal else "feasible",
        values=np.array(found.col_value),
        objective=info.objective_function_value,
        bound=bound,
        duals=None if is_mip else np.array(found.row_dual),
    )
