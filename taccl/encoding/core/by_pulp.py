"""Any solver that PuLP drives, in a process of its own.

PuLP waits for a solver without an end of its own making, leaves its temporary files behind when it is
interrupted, and forgets the process that it waits for. So it runs here in a child process with a folder of
its own: when the time is up, the user interrupts, or all is done, the whole group of processes is ended and
the folder removed. Arrays go there and come back in files.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pulp

from taccl.encoding.core.tuning import BY_PULP_GRACE_S, BY_PULP_MOST_WRITING_S, BY_PULP_WRITING
from taccl.errors import SolverError
from taccl.model.network import FloatArray

#: Solvers that take a seed: by PuLP's name, the option that says so.
_SEED_OPTIONS = {"PULP_CBC_CMD": "randomCbcSeed {}", "COIN_CMD": "randomCbcSeed {}"}

_CHILD = "from taccl.encoding.core.by_pulp import child; child()"
_MODEL, _START, _ANSWER, _ERRORS = "model.npz", "start.npy", "answer.npz", "errors.txt"

Outcome = Literal["feasible", "infeasible", "unknown"]


@dataclass(frozen=True, eq=False)
class PulpModel:
    """Minimise cost * x subject to row_lower <= rows * x <= row_upper and lower <= x <= upper.

    Parameters
    ----------
    lower, upper, cost, integer : shape (num_variables,).
    starts, column, value : the rows, compressed. row_lower, row_upper : shape (num_rows,).
    """

    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    integer: np.ndarray
    starts: np.ndarray
    column: np.ndarray
    value: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray


def find_solver(name: str) -> str:
    """PuLP's own name of a solver that is installed.

    Raises
    ------
    SolverError : PuLP does not know it, or it is not installed.
    """
    known: dict[str, str] = {solver.lower(): solver for solver in pulp.listSolvers()}
    aliases = [name.lower(), f"{name.lower()}_cmd", f"pulp_{name.lower()}_cmd"]
    matches = [known[alias] for alias in aliases if alias in known]
    if not matches:
        names = dict.fromkeys(("highs", "cbc", *sorted(known)))  # the two that come with taccl first
        raise SolverError(f"unknown solver {name!r}", hint=f"one of {', '.join(names)}")
    for match in matches:
        if pulp.getSolver(match, msg=False).available():
            return match
    raise SolverError(
        f"the solver {name!r} is not installed here", hint="--solver highs, which comes with taccl"
    )


def solve_by_pulp(
    model: PulpModel,
    solver: str,
    time_limit_s: float,
    gap: float,
    seed: int = 0,
    start: FloatArray | None = None,
) -> tuple[Outcome, FloatArray | None]:
    """What the solver that PuLP calls `solver` found, and its values, shape (num_variables,).

    The solver never gets more than is left of the limit when it begins, in whole seconds, since many count
    those only: with less than one it is not requested. What takes longer than a second beyond the limit is
    ended.

    Parameters
    ----------
    seed : for CBC; others have seeds of their own.
    start : a solution to begin with, for solvers that PuLP can tell one, shape (num_variables,).

    Raises
    ------
    SolverError : it failed, or its files could not be written.
    """
    ends_s = time.monotonic() + time_limit_s
    try:
        with tempfile.TemporaryDirectory(prefix="taccl-", ignore_cleanup_errors=True) as folder:
            np.savez(Path(folder, _MODEL), **vars(model))
            if start is not None:
                np.save(Path(folder, _START), start)
            left_s = ends_s - time.monotonic()
            arguments = [folder, solver, repr(left_s), repr(gap), repr(seed)]
            _run(folder, arguments, max(0.0, left_s) + BY_PULP_GRACE_S)
            answer = Path(folder, _ANSWER)
            if not answer.exists():
                return "unknown", None
            with np.load(answer) as found:
                outcome = str(found["outcome"])
                values = np.array(found["values"])
    except OSError as failure:
        reason = failure.strerror or failure
        raise SolverError(f"the solver {solver} has no room for its files: {reason}") from failure
    if outcome == "infeasible":
        return "infeasible", None
    return ("feasible", values) if outcome == "feasible" else ("unknown", None)


def _run(folder: str, arguments: list[str], seconds: float) -> None:
    """Run the child until it ends or for this many seconds. Nothing that it started is left afterwards."""
    places = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), folder)
    modules = os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path)
    with Path(folder, _ERRORS).open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
            env=os.environ | places | {"PYTHONPATH": modules},
            start_new_session=True,
        )
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        finally:
            _end(child)
    if child.returncode:
        said = Path(folder, _ERRORS).read_text(errors="replace").strip().splitlines()
        raise SolverError(f"the solver failed: {said[-1] if said else f'exit code {child.returncode}'}")


def _end(child: subprocess.Popen[Any]) -> None:
    """End a process that still runs, and those that it started."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()


def child() -> None:
    """What the child process does; its arguments are those of `_run`."""
    began = time.monotonic()
    folder, solver, limit, gap, seed = sys.argv[1:]
    with np.load(Path(folder, _MODEL)) as arrays:
        model = PulpModel(**arrays)
    program, variables = _program(model)
    known = Path(folder, _START)
    if known.exists():
        for variable, value in zip(variables, np.load(known).tolist(), strict=True):
            variable.setInitialValue(value, check=False)
    left_s = float(limit) - (time.monotonic() - began)
    seconds = math.floor(left_s - min(BY_PULP_WRITING * left_s, BY_PULP_MOST_WRITING_S))
    if seconds < 1:
        return
    program.solve(_solver(solver, seconds, float(gap), int(seed), known.exists()))
    outcome: Outcome = "unknown"
    if program.status == pulp.LpStatusInfeasible:
        outcome = "infeasible"
    elif program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        outcome = "feasible"
    values = np.array([variable.varValue or 0.0 for variable in variables], dtype=np.float64)
    unfinished = Path(folder, f"unfinished-{_ANSWER}")
    np.savez(unfinished, outcome=outcome, values=values)
    unfinished.replace(Path(folder, _ANSWER))


def _solver(name: str, seconds: float, gap: float, seed: int, has_start: bool) -> Any:
    """PuLP's solver of that name, reported as much as it takes: some know no gap, no start and no seed."""
    known = inspect.signature(type(pulp.getSolver(name, msg=False)).__init__).parameters
    reported: dict[str, Any] = {"gapRel": gap}
    if has_start:
        reported["warmStart"] = True
    if name in _SEED_OPTIONS:
        reported["options"] = [_SEED_OPTIONS[name].format(seed)]
    return pulp.getSolver(
        name, msg=False, timeLimit=seconds, **{key: value for key, value in reported.items() if key in known}
    )


def _program(model: PulpModel) -> tuple[Any, list[Any]]:
    program = pulp.LpProblem("taccl", pulp.LpMinimize)
    variables = [
        pulp.LpVariable(f"x{i}", float(low), _finite(high), "Integer" if whole else "Continuous")
        for i, (low, high, whole) in enumerate(zip(model.lower, model.upper, model.integer, strict=True))
    ]
    program.setObjective(pulp.LpAffineExpression(zip(variables, model.cost.tolist(), strict=True)))
    for row, (first, last) in enumerate(pairwise(model.starts.tolist())):
        terms = [(variables[model.column[i]], float(model.value[i])) for i in range(first, last)]
        expression = pulp.LpAffineExpression(terms)
        low, high = float(model.row_lower[row]), float(model.row_upper[row])
        if low == high:
            program += expression == low
            continue
        if np.isfinite(low):
            program += expression >= low
        if np.isfinite(high):
            program += expression <= high
    return program, variables


def _finite(bound: float) -> float | None:
    return None if np.isinf(bound) else float(bound)
