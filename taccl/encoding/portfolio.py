"""Which engines run, in what order, and when to stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds import Bound, lower_bound, quick_bound
from taccl.encoding.combine import reducing
from taccl.encoding.cp import cp, has_few_ways, is_for_one_model, jointly
from taccl.encoding.engine import Budget, Engine, SolveOptions, Update
from taccl.encoding.greedy import greedy
from taccl.encoding.linear import check_solver
from taccl.encoding.milp import milp, rejoined
from taccl.encoding.routes import shortest_path_sets
from taccl.encoding.symmetry import symmetry_group
from taccl.encoding.trees import is_for_trees, trees
from taccl.errors import NoScheduleInTime, SolverError, TopologyError
from taccl.problem import Problem
from taccl.schedule import Schedule

_ENGINES: dict[str, Engine] = {"greedy": greedy, "milp": milp, "cp": cp, "trees": trees}
#: The engines that `auto` runs after each other, each with its part of the time that is left.
_AUTO = ((greedy, 0.2), (milp, 0.3), (cp, 1.0))
_AUTO_WITH_TREES = ((trees, 0.4), *_AUTO)
#: Where CP has few ways to consider, it is asked first, for this part of the time: often that ends it.
_CP_FIRST = 0.2

#: More pairs of a chunk and a link on ways up to so many times the shortest make a problem too large.
_MOST_WAYS = 60_000
_LONG_WAYS = 1.5

#: What `SolveOptions.engine` may be.
ENGINES = ("auto", *_ENGINES)


def solve(problem: Problem, options: SolveOptions) -> Iterator[Update]:
    """Yield better and better schedules and bounds until the engines are done or the time is up.

    The first update carries a schedule and a bound. Whoever listens may stop at any moment, for one
    when the bound is near enough: what was yielded stays valid.

    Raises
    ------
    SolverError : an engine or solver that is unknown or not installed.
    TopologyError : a link that takes no time at all, so that "earlier" has no meaning on it.
    NoScheduleInTime : there is no first schedule.
    """
    if options.engine not in ENGINES:
        raise SolverError(f"unknown engine {options.engine!r}", hint="one of " + ", ".join(ENGINES))
    check_solver(options.solver)
    _check_links_take_time(problem)
    budget = Budget(options.time_limit_s)
    first = next(reducing(greedy)(problem, options, Budget(0.0), None), None)
    if first is None:
        raise NoScheduleInTime("no policy of the greedy engine meets every demand of this problem")
    quick = quick_bound(problem)
    yield replace(first, lower_bound_us=quick.value_us, bound_source=quick.witness)
    bound = lower_bound(problem, budget.remaining_s() / 4)
    yield Update("bound", None, bound.value_us, bound.witness)

    best = first.schedule
    engine = _auto if options.engine == "auto" else _ENGINES[options.engine]
    at_once = options.engine in ("auto", "cp") and is_for_one_model(problem)
    for update in reducing(engine, jointly if at_once else None)(problem, options, budget.share(0.95), best):
        yield update
        best = update.schedule or best
    if options.engine == "auto" and best is not None and budget.remaining_s():
        joined = rejoined(best, symmetry_group(problem), options, budget)
        if joined is not None:
            yield Update("milp", joined)


def _check_links_take_time(problem: Problem) -> None:
    topology = problem.topology
    free = np.flatnonzero((topology.alpha_us == 0) & (topology.beta_us_per_mb == 0))
    if len(free):
        raise TopologyError(
            f"the link {topology.describe_link(int(free[0]))} of {topology.name!r} costs nothing: "
            "its alpha and beta are both 0",
            hint="give it a small alpha, such as 0.001 us",
        )


def _auto(
    problem: Problem, options: SolveOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """The engines after each other, until one meets the bound of this problem."""
    best, bound = incumbent, lower_bound(problem, budget.remaining_s() / 8)
    many_chunks = problem.collective.chunks_per_rank > 1
    plan = _AUTO_WITH_TREES if many_chunks and is_for_trees(problem) else _AUTO
    if shortest_path_sets(problem, _LONG_WAYS).sum() > _MOST_WAYS:
        # MILP and CP will leave such a problem alone; their time is greedy's.
        plan = (*plan, (greedy, 1.0))
    if has_few_ways(problem):
        plan = ((cp, _CP_FIRST), *plan)
    for number, (engine, share) in enumerate(plan):
        if _is_close(best, bound, options.gap):
            return
        trying = replace(options, seed=options.seed + number)
        for update in engine(problem, trying, budget.share(share), best):
            yield update
            best = update.schedule or best
            if _is_close(best, bound, options.gap):
                return


def _is_close(schedule: Schedule | None, bound: Bound, gap: float) -> bool:
    """Whether there is a schedule within the gap, a fraction of its time, of the bound."""
    if schedule is None:
        return False
    return schedule.makespan_us - bound.value_us <= (gap + 1e-9) * schedule.makespan_us
