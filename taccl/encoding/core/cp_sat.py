"""CP-SAT next to this thread: each solution and each bound as it finds them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from taccl.encoding.core.tuning import CP_SAT_S_PER_DETERMINISTIC_S, CP_SAT_WORKERS
from taccl.errors import SolverError
from taccl.support.budget import UNITS_PER_S, Budget

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


_Decisions = TypeVar("_Decisions")


@dataclass(frozen=True)
class SolverEvent(Generic[_Decisions]):
    """A solution, or how many ticks every solution of the model lasts.

    Parameters
    ----------
    decisions : what the solution says, as the caller reads it.
    impossible : the model has no solution.
    is_last : the search is over.
    deterministic_s : how much CP-SAT had done by then, by its own count, as far as that is known.
    """

    decisions: _Decisions | None = None
    bound: int = 0
    impossible: bool = False
    is_last: bool = False
    deterministic_s: float = 0.0


def events_of(
    model: cp_model.CpModel,
    read: Callable[[Callable[[Any], int]], _Decisions],
    seed: int,
    budget: Budget,
    workers: int = CP_SAT_WORKERS,
) -> Iterator[SolverEvent[_Decisions]]:
    """The same of any model; `read` is given the value of each variable in a solution."""
    from ortools.sat.python import cp_model  # takes half a second, which searches without CP need not wait

    solver = _solver(seed, budget, workers)
    found: queue.Queue[SolverEvent[_Decisions] | BaseException | None] = queue.Queue()

    class Collector(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            # What is raised in here would end the process.
            try:
                found.put(SolverEvent(read(self.value), deterministic_s=_counted_s(self.deterministic_time)))
            except BaseException as fault:
                found.put(fault)
                self.stop_search()

    solver.best_bound_callback = lambda bound: found.put(SolverEvent(bound=round(bound)))
    collector = Collector()

    def search() -> None:
        try:
            status = solver.solve(model, collector)
            found.put(_last_event(solver, model, status))
        except BaseException as fault:
            found.put(fault)
        finally:
            found.put(None)

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    done_s = 0.0
    try:
        while (each := found.get()) is not None:
            if isinstance(each, SolverError):
                raise each
            if isinstance(each, IndexError | RuntimeError):
                # CP-SAT itself breaks down, once in some thousand models; what it said before holds.
                raise SolverError(f"CP-SAT failed: {each}") from each
            if isinstance(each, BaseException):
                raise each
            done_s = max(done_s, each.deterministic_s)
            yield each
    finally:
        while thread.is_alive():
            # Until the search has begun there is nothing to stop, and CP-SAT says so by an error.
            with contextlib.suppress(RuntimeError):
                solver.stop_search()
            thread.join(0.05)
        budget.spend(round(done_s * CP_SAT_S_PER_DETERMINISTIC_S * UNITS_PER_S))


def _solver(seed: int, budget: Budget, workers: int) -> cp_model.CpSolver:
    """CP-SAT with the limits of a budget.

    On a work clock one worker does a piece of each strategy in turn: so its search is the same each time.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if budget.counts_work:
        parameters.max_deterministic_time = budget.remaining_s() / CP_SAT_S_PER_DETERMINISTIC_S
        parameters.num_workers = 1
        parameters.interleave_search = workers > 1
    else:
        parameters.max_time_in_seconds = budget.remaining_s()
        parameters.num_workers = workers
    parameters.random_seed = seed
    # Ctrl-C belongs to the caller, who ends this generator; CP-SAT's own handler aborts the process.
    parameters.catch_sigint_signal = False
    return solver


def _counted_s(deterministic_s: float) -> float:
    """CP-SAT's count without its last digits, which depend on the order in which it adds up."""
    return round(deterministic_s, 6)


def _last_event(
    solver: cp_model.CpSolver, model: cp_model.CpModel, status: cp_model.CpSolverStatus
) -> SolverEvent[Any]:
    """What CP-SAT ends with.

    Raises
    ------
    SolverError : it does not take the model.
    """
    from ortools.sat.python import cp_model

    done_s = _counted_s(solver.response_proto.deterministic_time)
    if status == cp_model.MODEL_INVALID:
        raise SolverError(f"CP-SAT does not take the model that was written for it: {model.validate()}")
    if status == cp_model.INFEASIBLE:
        return SolverEvent(impossible=True, is_last=True, deterministic_s=done_s)
    known = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    bound = round(solver.best_objective_bound) if known else 0
    return SolverEvent(bound=bound, is_last=True, deterministic_s=done_s)
