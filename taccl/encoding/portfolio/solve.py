"""The engines under one roof: a first schedule, the bounds, the search, and the last improvements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds import Bound, lower_bound, quick_bound
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.linear import check_solver
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import halves, reducing
from taccl.encoding.core.update import Update
from taccl.encoding.engines.combining import bulk, bulk_at_once, bulk_exchange, bulk_sums
from taccl.encoding.engines.cp import all_programs, cp, is_for_all_programs, is_for_one_model, jointly
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.flows import flows
from taccl.encoding.engines.greedy import greedy
from taccl.encoding.engines.milp import milp, rejoined
from taccl.encoding.engines.orders import smt
from taccl.encoding.engines.textbook import textbook
from taccl.encoding.engines.trees import trees
from taccl.encoding.portfolio.stages import is_huge, share_of_exchange, share_of_sums, turns
from taccl.encoding.symmetry.group import symmetry_group
from taccl.errors import NoScheduleInTime, SolverError, TopologyError
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule
from taccl.tolerance import is_optimal

_ENGINES: dict[str, Engine] = {
    "textbook": textbook,
    "greedy": greedy,
    "bulk": bulk,
    "milp": milp,
    "cp": cp,
    "trees": trees,
    "flows": flows,
    "smt": smt,
}

#: With more pairs of a chunk and a link than this, a greedy pass takes seconds.
_MOST_FOR_FIRST_GREEDY = 1_500_000

#: Parts of the time for all programs of a small problem with sums, for other engines after that, and of the
#: rest for all programs again.
_ALL_PROGRAMS_FIRST, _ENGINES_BETWEEN, _ALL_PROGRAMS_LAST = 0.35, 0.5, 0.9
#: The part of the time for algorithms that everybody knows, whatever engine is asked for.
_TEXTBOOK = 0.15

#: The part of the time for algorithms that everybody knows, whatever engine is asked for.
_TEXTBOOK = 0.15

#: What `SearchOptions.engine` may be.
ENGINES = ("auto", *_ENGINES)


def solve(problem: Problem, options: SearchOptions) -> Iterator[Update]:
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
    first = _first(problem, options)
    if first is None or first.schedule is None:
        raise NoScheduleInTime("no policy of the greedy engine meets every demand of this problem")
    quick = quick_bound(problem)
    yield replace(first, lower_bound_us=quick.value_us, bound_source=quick.witness)
    bound = lower_bound(problem, budget.remaining_s() / 4)
    yield Update("bound", None, bound.value_us, bound.witness)

    best, known = first.schedule, options.known
    if known is not None and known.makespan_us < best.makespan_us - TOLERANCE_US:
        best = known
        yield Update("refined", best)
    share = 1.0 if options.engine == "textbook" else _TEXTBOOK
    for update in textbook(problem, options, budget.share(share), best):
        yield update
        best = update.schedule or best
    if options.engine == "textbook":
        return
    for update in _among_all_programs(problem, options, budget, best, bound):
        yield update
        best = update.schedule or best
    if options.engine == "smt":
        yield from smt(problem, options, budget, best)
    if options.engine == "auto" and not is_huge(problem):
        yield from _polished(best, options, budget)


def _first(problem: Problem, options: SearchOptions) -> Update | None:
    """A schedule as soon as there can be one."""
    large = problem.num_chunks * problem.topology.num_links > _MOST_FOR_FIRST_GREEDY
    for engine in (bulk_at_once, greedy) if large else (greedy,):
        update = next(reducing(engine)(problem, options, Budget(0.0), None), None)
        if update is not None:
            return update
    return None


def _check_links_take_time(problem: Problem) -> None:
    topology = problem.topology
    free = np.flatnonzero((topology.alpha_us == 0) & (topology.beta_us_per_mb == 0))
    if len(free):
        raise TopologyError(
            f"the link {topology.describe_link(int(free[0]))} of {topology.name!r} costs nothing: "
            "its alpha and beta are both 0",
            hint="give it a small alpha, such as 0.001 us",
        )


def _among_all_programs(
    problem: Problem, options: SearchOptions, budget: Budget, best: Schedule, bound: Bound
) -> Iterator[Update]:
    """`_searched`; and before and after it, small problems with sums are decided among all programs."""
    if options.engine not in ("auto", "cp") or not is_for_all_programs(problem):
        yield from _searched(problem, options, budget, best, bound)
        return
    bound_us = bound.value_us
    for update in all_programs(problem, options, budget.share(_ALL_PROGRAMS_FIRST), best, bound_us):
        yield update
        best, bound_us = update.schedule or best, max(bound_us, update.lower_bound_us)
    for update in _searched(problem, options, budget.share(_ENGINES_BETWEEN), best, bound):
        yield update
        best, bound_us = update.schedule or best, max(bound_us, update.lower_bound_us)
    yield from all_programs(problem, options, budget.share(_ALL_PROGRAMS_LAST), best, bound_us)


def _searched(
    problem: Problem, options: SearchOptions, budget: Budget, best: Schedule, bound: Bound
) -> Iterator[Update]:
    """What the chosen engine finds; the rest of the budget is for the groups and orders of its best."""
    if options.engine in ("auto", "bulk"):
        for combining, share in (
            (bulk_exchange, share_of_exchange(problem)),
            (bulk_sums, share_of_sums(problem)),
        ):
            for update in combining(problem, options, budget.share(share), best):
                yield update
                best = update.schedule or best
    if options.engine == "auto":
        parts = halves(problem)
        # The halves of an AllReduce are problems of their own, to which its bound says nothing.
        engine, share = _taking_turns(bound if None in (parts.sums, parts.spread) else None), 0.9
    else:
        engine, share = (greedy, 0.3) if options.engine == "smt" else (_ENGINES[options.engine], 0.95)
    in_one_model = options.engine in ("auto", "cp") and is_for_one_model(problem)
    both = reducing(engine, jointly if in_one_model else None)
    yield from both(problem, options, budget.share(share), best)


def _taking_turns(known: Bound | None) -> Engine:
    """The engines of `auto` after each other, until one meets the bound: the known one, if there is one."""

    def auto(
        problem: Problem, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        best, bound_us = incumbent, (known or lower_bound(problem, budget.remaining_s() / 8)).value_us
        for number, turn in enumerate(turns(problem)):
            if _is_close(best, bound_us, options.gap):
                return
            trying = replace(options, seed=options.seed + number)
            for update in turn.engine(problem, trying, budget.share(turn.share), best):
                yield update
                best, bound_us = update.schedule or best, max(bound_us, update.lower_bound_us)
                if _is_close(best, bound_us, options.gap):
                    return

    return auto


def _is_close(schedule: Schedule | None, bound_us: float, gap: float) -> bool:
    """Whether there is a schedule within the gap, a fraction of its time, of the bound."""
    return schedule is not None and is_optimal(schedule.makespan_us, bound_us, gap)


def _polished(best: Schedule, options: SearchOptions, budget: Budget) -> Iterator[Update]:
    """Groups anew for the orders of a schedule, then orders anew for its groups, while that helps."""
    symmetry = symmetry_group(best.problem)
    time_us = float("inf")
    while best.makespan_us < time_us and budget.remaining_s():
        joined = rejoined(best, symmetry, options, budget.share(0.5))
        if joined is not None:
            best = joined
            yield Update("milp", best)
        elif time_us < float("inf"):
            return
        time_us = best.makespan_us
        for update in smt(best.problem, options, budget, best):
            yield update
            best = update.schedule or best
