"""The CP engine: the joint model solved by CP-SAT, yielding each better schedule as it is found."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator

from ortools.sat.python import cp_model

from taccl.encoding.cp.hints import add_hint
from taccl.encoding.cp.model import JointModel, build, decisions
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.routes import shortest_path_sets
from taccl.encoding.symmetry import symmetry_group
from taccl.encoding.timing import Decision, in_order, without_dead_ends
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: CP-SAT proves less with fewer, even on two cores.
_WORKERS = 8
#: More ways than this to send some chunk over some link take longer to write down than to search.
_MOST_WAYS = 100_000
#: (longest way relative to the shortest, shared sends per link), with shares of the time.
_STAGES = ((1.0, 3, 0.35), (1.5, 2, 0.5), (2.0, 4, 1.0))


@beginning_with_greedy
def cp(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules until every stage is proved or the budget is over."""
    symmetry = symmetry_group(problem)
    for slack, slots, share in _STAGES:
        if not budget.remaining_s():
            return
        allowed = shortest_path_sets(problem, options.slack or slack)
        if allowed.sum() * (1 + slots) > _MOST_WAYS:
            return
        model = build(best, symmetry, allowed, slots)
        add_hint(model, best)
        for found in _solutions(model, options, budget.share(share)):
            schedule = without_dead_ends(in_order(problem, found))
            if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
                best = schedule
                yield Update("cp", best)


def _solutions(model: JointModel, options: SolveOptions, budget: Budget) -> Iterator[list[Decision]]:
    """Each solution as CP-SAT finds it; the search runs beside this thread and ends with it."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = budget.remaining_s()
    solver.parameters.num_workers = _WORKERS
    solver.parameters.random_seed = options.seed
    # Ctrl-C belongs to the caller, who ends this generator; CP-SAT's own handler aborts the process.
    solver.parameters.catch_sigint_signal = False
    found: queue.Queue[list[Decision] | None] = queue.Queue()

    class Collector(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            found.put(decisions(model, self.value))

    collector = Collector()

    def search() -> None:
        try:
            solver.solve(model.cp, collector)
        finally:
            found.put(None)

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    try:
        while (solution := found.get()) is not None:
            yield solution
    finally:
        while thread.is_alive():
            # Until the search has begun there is nothing to stop, and CP-SAT says so by an error.
            with contextlib.suppress(RuntimeError):
                solver.stop_search()
            thread.join(0.05)
