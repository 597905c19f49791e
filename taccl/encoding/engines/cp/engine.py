"""The CP engine: the joint model solved by CP-SAT, first on short ways, then with nothing left out.

What is found with nothing left out is proved for the problem itself (`proof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.core.budget import Budget
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.cp.hints import add_hint
from taccl.encoding.engines.cp.model import build
from taccl.encoding.engines.cp.proof import is_provable, prove, proved_us, told, whole_model
from taccl.encoding.engines.cp.solve import events, schedule_of
from taccl.encoding.engines.cp.ticks import Ticks, ticks_of
from taccl.encoding.engines.cp.ways import Ways, near_ways, ways_beside
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: More (way, shared send) pairs than this take longer to write down than to search, and so many a second.
_MOST_WAYS = 100_000
_WAYS_PER_S = 5_000
#: Chunks times links: beyond this, even the shortest ways are too many.
_MOST_CELLS = 20_000_000
#: With no more ways than this nothing has to be left out to find good schedules soon.
_FEW_WAYS = 2_000
#: With more ways than this, sums and copies are left to be found apart.
_MOST_JOINT_WAYS = 2_000
#: (longest way relative to the shortest, shared sends per link), with shares of the time that is left.
_STAGES = ((1.0, 3, 0.35), (1.5, 2, 0.5), (2.0, 4, 1.0))
_STAGES_BEFORE_PROOF = ((1.0, 3, 0.25), (1.5, 2, 0.3), (2.0, 4, 0.3))
_STAGES_WITH_FEW_WAYS = ((1.0, 3, 0.15),)
#: Where there are nodes: ways between them as in the best schedule, ways inside up to so many times the
#: shortest, shared sends per link, and the part of the time for that.
_BESIDE_SLACK, _BESIDE_SLOTS, _BESIDE_SHARE = 2.0, 4, 0.6
#: Part of the time that is left for the model with nothing left out, before it is asked for proofs.
_WHOLE_SHARE = 0.2
#: A bound that grows by less than this fraction is not worth telling before the end.
_REPORTED_GROWTH = 1e-3


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
        elif update.note:
            yield update


def jointly(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules, and bounds, until everything is proved or the budget is over.

    For problems of copies and those that `serves_jointly` says yes to: sums and copies decided together,
    so that a
    chunk is copied on while others are still being summed. Of these, what is proved is told in notes
    (`proof`).
    """
    problem = instance.problem
    if problem.num_chunks * problem.topology.num_links > _MOST_CELLS:
        return
    known = _Known(best, instance.bound_us)
    provable = is_provable(problem, best)
    # Whether any valid schedule is welcome.
    free = not problem.symmetry and problem.limits.own_first is None and options.slack is None
    few = free and provable and has_few_ways(problem)
    stages = _STAGES_WITH_FEW_WAYS if few else _STAGES_BEFORE_PROOF if provable else _STAGES
    if problem.topology.internode.any() and not problem.collective.is_reduction:
        for update in _beside(problem, options, budget.share(_BESIDE_SHARE), known):
            yield from known.better(update)
    for slack, slots, share in stages:
        if budget.remaining_s():
            stage = _near(problem, options, budget.share(share), known, options.slack or slack, slots)
            for update in stage:
                yield from known.better(update)
    if few:
        for update in _whole(problem, options, budget.share(_WHOLE_SHARE), known):
            yield from known.better(update)
    if provable:
        for update in prove(problem, options, budget, known.best, known.bound_us):
            if free or update.schedule is None:
                yield from known.better(update)
    if few:
        for update in _whole(problem, options, budget, known):
            yield from known.better(update)


def serves(instance: Instance) -> Verdict:
    """Whether the model can be written down at all."""
    problem = instance.problem
    if problem.num_chunks * problem.topology.num_links > _MOST_CELLS:
        return no(f"more than {_MOST_CELLS} pairs of a chunk and a link are too many for one model")
    return YES


def has_few_ways(problem: Problem) -> bool:
    """Whether CP-SAT may be expected to prove the fastest schedule, or come near it, in seconds."""
    return problem.num_chunks * problem.topology.num_links <= _FEW_WAYS


def serves_jointly(instance: Instance) -> Verdict:
    """Whether every chunk is summed over all ranks for all ranks, and the problem is small."""
    problem = instance.problem
    collective, everywhere = problem.collective, problem.num_chunks * problem.num_ranks
    if not (collective.reduces.all() and len(collective.inputs) == len(collective.outputs) == everywhere):
        return no("it is for sums over all ranks that all ranks want")
    if 2 * problem.num_chunks * problem.topology.num_links > _MOST_JOINT_WAYS:
        return no(f"more than {_MOST_JOINT_WAYS} candidate transfers of both phases")
    return YES


def _near(
    problem: Problem, options: SearchOptions, budget: Budget, known: _Known, slack: float, slots: int
) -> Iterator[Update]:
    """Schedules on ways that are short enough, with the problem's symmetry."""
    ticks = ticks_of(problem, known.best.makespan_us)
    ways = near_ways(problem, ticks, ticks.at_most(known.best.makespan_us), slack)
    yield from _on(ways, slots, ticks, problem, options, budget, known)


def _beside(problem: Problem, options: SearchOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """Schedules that send between nodes what the best one does, with the problem's symmetry."""
    ticks = ticks_of(problem, known.best.makespan_us)
    horizon, symmetry = ticks.at_most(known.best.makespan_us), symmetry_group(problem)
    ways = ways_beside(known.best, ticks, horizon, symmetry, _BESIDE_SLACK)
    yield from _on(ways, _BESIDE_SLOTS, ticks, problem, options, budget, known)


def _on(
    ways: Ways,
    slots: int,
    ticks: Ticks,
    problem: Problem,
    options: SearchOptions,
    budget: Budget,
    known: _Known,
) -> Iterator[Update]:
    if ways.allowed.sum() * (1 + slots) > min(_MOST_WAYS, _WAYS_PER_S * budget.remaining_s()):
        return
    lasting = ticks.at_least(known.bound_us), ticks.at_most(known.best.makespan_us)
    model = build(problem, ticks, lasting, symmetry_group(problem), ways, slots)
    add_hint(model, known.best)
    for each in events(model, options.seed, budget):
        if each.decisions is not None:
            yield Update("cp", schedule_of(problem, each.decisions))


def _whole(problem: Problem, options: SearchOptions, budget: Budget, known: _Known) -> Iterator[Update]:
    """Schedules and bounds with nothing left out."""
    model = whole_model(problem, known.best, known.bound_us)
    add_hint(model, known.best)
    most_told = 0.0
    for each in events(model, options.seed, budget):
        if each.decisions is not None:
            yield Update("cp", schedule_of(problem, each.decisions))
        elif each.bound > most_told * (1 + _REPORTED_GROWTH) or each.is_last:
            most_told = each.bound
            if (least_us := proved_us(model, each.bound)) > known.bound_us:
                yield told(problem, least_us, known.best)
