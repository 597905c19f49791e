"""The CP engine: the joint model solved by CP-SAT, first on short ways, then with nothing left out.

What is found with nothing left out is proved for the problem itself (`proof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.bounds import lower_bound
from taccl.encoding.cp.hints import add_hint
from taccl.encoding.cp.model import build
from taccl.encoding.cp.proof import bound_of, prove, whole_model
from taccl.encoding.cp.solve import news, schedule_of
from taccl.encoding.cp.ticks import ticks_of
from taccl.encoding.cp.ways import near_ways
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.symmetry import symmetry_group
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: More ways than this to send some chunk over some link take longer to write down than to search.
_MOST_WAYS = 100_000
#: With no more ways than this nothing has to be left out to find good schedules soon.
_FEW_WAYS = 2_000
#: (longest way relative to the shortest, shared sends per link), with shares of the time that is left.
_STAGES = ((1.0, 3, 0.3), (1.5, 2, 0.4), (2.0, 4, 0.5))
_STAGES_WITH_FEW_WAYS = ((1.0, 3, 0.15),)
#: Part of the time that is left for the model with nothing left out, before it is asked for proofs.
_WHOLE_SHARE = 0.2
#: A bound that grows by less than this fraction is not worth telling before the end.
_NEWS = 1e-3


@dataclass
class _Known:
    """The best so far of a problem."""

    best: Schedule
    bound_us: float

    def better(self, update: Update) -> Iterator[Update]:
        """The part of an update that is news."""
        schedule, bound_us = update.schedule, update.lower_bound_us
        if schedule is not None and schedule.makespan_us < self.best.makespan_us - TOLERANCE_US:
            self.best = schedule
            yield update
        elif bound_us > self.bound_us:
            self.bound_us = bound_us
            yield update


def jointly(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules, and bounds, until everything is proved or the budget is over.

    For problems of copies, and those that sum every chunk over all ranks for all ranks (AllReduce):
    sums and copies in one model, so that a chunk is copied on while others are still being summed.
    """
    if not _is_for_model(problem):
        return
    known = _Known(best, lower_bound(problem, budget.remaining_s() / 8).value_us)
    # Whether any valid schedule is welcome.
    free = not problem.symmetry and problem.limits.own_first is None and options.slack is None
    few = free and problem.num_chunks * problem.topology.num_links <= _FEW_WAYS
    for slack, slots, share in _STAGES_WITH_FEW_WAYS if few else _STAGES:
        if budget.remaining_s():
            stage = _near(problem, options, budget.share(share), known, options.slack or slack, slots)
            for update in stage:
                yield from known.better(update)
    if few:
        for update in _whole(problem, options, budget.share(_WHOLE_SHARE), known):
            yield from known.better(update)
    for update in prove(problem, options, budget, known.best, known.bound_us):
        if free or update.schedule is None:
            yield from known.better(update)
    if few:
        for update in _whole(problem, options, budget, known):
            yield from known.better(update)


#: The engine for copies.
cp = beginning_with_greedy(jointly)


def _is_for_model(problem: Problem) -> bool:
    collective = problem.collective
    return not collective.is_reduction or bool(
        collective.reduces.all() and collective.pre.all() and collective.post.all()
    )


def _near(
    problem: Problem, options: SolveOptions, budget: Budget, known: _Known, slack: float, slots: int
) -> Iterator[Update]:
    """Schedules on ways that are short enough, with the problem's symmetry."""
    ticks = ticks_of(problem, known.best.makespan_us)
    lasting = ticks.at_least(known.bound_us), ticks.at_most(known.best.makespan_us)
    ways = near_ways(problem, ticks, lasting[1], slack)
    if ways.allowed.sum() * (1 + slots) > _MOST_WAYS:
        return
    model = build(problem, ticks, lasting, symmetry_group(problem), ways, slots)
    add_hint(model, known.best)
    for each in news(model, options.seed, budget):
        if each.decisions is not None:
            yield Update("cp", schedule_of(problem, each.decisions))


def _whole(problem: Problem, options: SolveOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """Schedules and bounds with nothing left out."""
    model = whole_model(problem, known.best, known.bound_us)
    if model is None or not budget.remaining_s():
        return
    add_hint(model, known.best)
    told = 0.0
    for each in news(model, options.seed, budget):
        if each.decisions is not None:
            yield Update("cp", schedule_of(problem, each.decisions))
        elif each.bound > told * (1 + _NEWS) or each.is_last:
            told = each.bound
            yield bound_of(model, each.bound)
