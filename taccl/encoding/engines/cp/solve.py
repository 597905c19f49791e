"""CP-SAT beside this thread: each solution and each bound as it finds them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ortools.sat.python import cp_model

from taccl.encoding.core.budget import Budget
from taccl.encoding.core.timing import Decision, in_order, without_dead_ends
from taccl.encoding.engines.cp.model import JointModel, decisions
from taccl.problem import Problem
from taccl.schedule import Schedule

#: CP-SAT proves less with fewer, even on two cores.
_WORKERS = 8


_Decisions = TypeVar("_Decisions")


@dataclass(frozen=True)
class News(Generic[_Decisions]):
    """A solution, or how many ticks every solution of the model lasts.

    Parameters
    ----------
    decisions : what the solution says, as the caller reads it.
    impossible : the model has no solution.
    is_last : the search is over.
    """

    decisions: _Decisions | None = None
    bound: int = 0
    impossible: bool = False
    is_last: bool = False


def schedule_of(problem: Problem, decisions: list[Decision]) -> Schedule:
    """The decisions with their true times, and without copies that nobody uses."""
    schedule = in_order(problem, decisions)
    return schedule if problem.collective.is_reduction else without_dead_ends(schedule)


def news(model: JointModel, seed: int, budget: Budget) -> Iterator[News[list[Decision]]]:
    """All news of a search, which ends when everything is proved, the budget is over, or nobody listens."""
    return news_of(model.cp, lambda value: decisions(model, value), seed, budget)


def news_of(
    model: cp_model.CpModel,
    read: Callable[[Callable[[Any], int]], _Decisions],
    seed: int,
    budget: Budget,
    workers: int = _WORKERS,
) -> Iterator[News[_Decisions]]:
    """The same of any model; `read` is given the value of each variable in a solution."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = budget.remaining_s()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    # Ctrl-C belongs to the caller, who ends this generator; CP-SAT's own handler aborts the process.
    solver.parameters.catch_sigint_signal = False
    found: queue.Queue[News[_Decisions] | None] = queue.Queue()

    class Collector(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            found.put(News(read(self.value)))

    solver.best_bound_callback = lambda bound: found.put(News(bound=round(bound)))
    collector = Collector()

    def search() -> None:
        try:
            status = solver.solve(model, collector)
            has_bound = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
            bound = round(solver.best_objective_bound) if has_bound else 0
            found.put(News(None, bound, impossible=status == cp_model.INFEASIBLE, is_last=True))
        except (IndexError, RuntimeError):
            # CP-SAT itself breaks down, once in some thousand models; what it said before holds.
            found.put(News(is_last=True))
        finally:
            found.put(None)

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    try:
        while (each := found.get()) is not None:
            yield each
    finally:
        while thread.is_alive():
            # Until the search has begun there is nothing to stop, and CP-SAT says so by an error.
            with contextlib.suppress(RuntimeError):
                solver.stop_search()
            thread.join(0.05)
