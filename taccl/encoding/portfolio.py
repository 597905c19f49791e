"""Which engines run, in what order, and when to stop."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.bounds import Bound, lower_bound
from taccl.encoding.combine import reducing
from taccl.encoding.engine import Budget, Engine, SolveOptions, Update
from taccl.encoding.greedy import greedy
from taccl.encoding.linear import check_solver
from taccl.encoding.milp import milp
from taccl.errors import SolverError
from taccl.problem import Problem
from taccl.schedule import Schedule

_ENGINES: dict[str, Engine] = {"greedy": greedy, "milp": milp}

#: What `SolveOptions.engine` may be.
ENGINES = ("auto", *_ENGINES)


def solve(problem: Problem, options: SolveOptions) -> Iterator[Update]:
    """Yield better and better schedules and bounds until the gap is met or the time is up.

    The first update carries a schedule; every schedule has passed its checks. Stop iterating at any
    moment: what was yielded stays valid.

    Raises
    ------
    SolverError : an engine or solver that is unknown or not installed.
    ScheduleError : an engine made a schedule that is not valid (a bug).
    """
    if options.engine not in ENGINES:
        raise SolverError(f"unknown engine {options.engine!r}", hint="one of " + ", ".join(ENGINES))
    check_solver(options.solver)
    budget = Budget(options.time_limit_s)
    best: Schedule | None = None
    bound = Bound(0.0, "")
    for update in _updates(problem, options, budget):
        if update.schedule is not None:
            update.schedule.check()
            best = update.schedule
        if update.lower_bound_us > bound.value_us:
            bound = Bound(update.lower_bound_us, update.bound_source)
        yield update
        if best is not None and best.makespan_us - bound.value_us <= options.gap * best.makespan_us + 1e-9:
            return


def _updates(problem: Problem, options: SolveOptions, budget: Budget) -> Iterator[Update]:
    """The first greedy schedule, the bound, and then what the engines find."""
    quick = reducing(greedy)(problem, options, Budget(0.0), None)
    first = next(quick)
    yield first
    bound = lower_bound(problem)
    yield Update("bound", None, bound.value_us, bound.witness)
    best = first.schedule
    names = list(_ENGINES) if options.engine == "auto" else [options.engine]
    for position, name in enumerate(names):
        share = budget.share(1.0 / (len(names) - position))
        for update in reducing(_ENGINES[name])(problem, options, share, best):
            yield update
            best = update.schedule if update.schedule is not None else best
