"""The engines under one roof: a first schedule, bounds beside the search, and the last improvements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds import between_nodes, quick_bound
from taccl.encoding.core.linear import check_solver
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import Engine, Run
from taccl.encoding.engines.registry import engine_named, verdict_of
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.beside import BoundsBeside
from taccl.encoding.portfolio.conditions import is_huge, knows_phases
from taccl.encoding.portfolio.first import first_engines
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.stages import ALWAYS, PHASES, Stage, plan_for, verdict_on
from taccl.errors import NoScheduleInTime, SolverError, TopologyError
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import contradicts, is_optimal
from taccl.support.budget import Budget

#: The part of the time that is left for groups, each time.
_GROUPS = 0.5


def polished(
    instance: Instance, best: Schedule, options: SearchOptions, budget: Budget, journal: Journal
) -> Iterator[Update]:
    """Better schedules with the routes of `best`, in turns, as long as that helps."""
    groups, orders = engine_named("groups"), engine_named("orders")
    if not (groups.can(instance) and orders.can(instance)):
        return
    time_us = float("inf")
    while best.makespan_us < time_us and budget.remaining_s():
        regrouped = groups.run(instance, options, budget.share(_GROUPS), best)
        before = best
        for update in journal.kept(groups.name, instance, budget, regrouped):
            yield update
            best = journal.accepted(update) or best
        if best is before and time_us < float("inf"):
            return
        time_us = best.makespan_us
        reordered = orders.run(instance, options, budget, best)
        for update in journal.kept(orders.name, instance, budget, reordered):
            yield update
            best = journal.accepted(update) or best


#: Parts of the time for bounds: after the first schedule, after each turn for those that there was no time
#: for, and of each phase before its engines.
_BOUNDS, _BOUNDS_BETWEEN, _BOUNDS_OF_PHASE = 1 / 4, 1 / 8, 1 / 8
#: With more outputs even quick bounds take seconds, so what nodes prove at once is told before.
_MANY_OUTPUTS = 2**20


def solve(
    problem: Problem | Instance,
    options: SearchOptions,
    journal: Journal | None = None,
    budget: Budget | None = None,
) -> Iterator[Update]:
    """Yield better and better schedules and bounds until the engines are done or the time is up.

    The first update carries a schedule and a bound. Whoever listens may stop at any moment, for one
    when the bound is near enough: what was yielded stays valid. `journal` notes what every engine did.
    `budget` is what may be spent, by default what the options say.

    Raises
    ------
    SolverError : an engine or solver that is unknown or not installed, or an engine that does not serve
        the problem and was asked for by name.
    TopologyError : a link that takes no time at all, so that "earlier" has no meaning on it.
    NoScheduleInTime : there is no first schedule.
    """
    check_solver(options.solver)
    instance = problem if isinstance(problem, Instance) else Instance(problem)
    problem, budget = instance.problem, budget or options.budget()
    _check_links_take_time(problem)
    asked = engine_asked_for(instance, options.engine)
    yield from _Search(instance, options, budget, journal or Journal()).run(asked)


def engine_asked_for(instance: Instance, name: str) -> Engine | None:
    """The engine of that name; None for `auto`.

    Raises
    ------
    SolverError : there is none, or it does not serve the problem.
    TacclError : it is of another package, and breaks down or cannot be loaded.
    """
    if name == "auto":
        return None
    asked = engine_named(name)
    verdict = verdict_of(asked, instance)
    if not verdict and something_moves(instance.problem):
        raise SolverError(
            f"the engine {asked.name} does not serve this problem: {verdict.reason}",
            hint="--engine auto; --explain-stages shows what it would run",
        )
    return asked


def something_moves(problem: Problem) -> bool:
    """Whether some chunk is wanted where it is not, or summed from elsewhere."""
    collective = problem.collective
    have, want = (
        placement.chunk * problem.num_ranks + placement.rank
        for placement in (collective.inputs, collective.outputs)
    )
    summed = np.bincount(collective.inputs.chunk, collective.reduces[collective.inputs.chunk]) > 1
    return bool(summed.any()) or not np.isin(want, have).all()


def _check_links_take_time(problem: Problem) -> None:
    topology = problem.topology
    free = np.flatnonzero((topology.alpha_us == 0) & (topology.beta_us_per_mb == 0))
    if len(free):
        raise TopologyError(
            f"the link {topology.describe_link(int(free[0]))} of {topology.name!r} costs nothing: "
            "its alpha and beta are both 0",
            hint="give it a small alpha, such as 0.001 us",
        )


class _Search:
    """The best so far, and the engines' turns."""

    def __init__(self, instance: Instance, options: SearchOptions, budget: Budget, journal: Journal) -> None:
        self._instance, self._options, self._budget, self._journal = instance, options, budget, journal
        self._bounds = BoundsBeside(instance, journal)
        self._best: Schedule | None = None

    def run(self, asked: Engine | None) -> Iterator[Update]:
        plan = plan_for(asked, self._journal.fails)
        yield from self._first()
        known = self._options.known
        if known is not None and known.makespan_us < self._time_us - TOLERANCE_US:
            refined = Update("refined", known)
            yield refined
            self._keep(refined)
        for stage in plan.whole:
            for update in self._turn(stage, plan.each_phase):
                yield update
                self._keep(update)
                self._instance.proves(update.lower_bound_us)
            yield from self._bounds.within(self._budget.share(_BOUNDS_BETWEEN))
        if asked is None and not is_huge(self._instance) and self._best is not None:
            yield from polished(self._instance, self._best, self._options, self._budget, self._journal)

    @property
    def _time_us(self) -> float:
        return float("inf") if self._best is None else self._best.makespan_us

    def _keep(self, update: Update) -> None:
        """Go on from a schedule that was told, if it is faster and whoever listens took it for valid."""
        schedule = self._journal.accepted(update)
        if schedule is not None and schedule.makespan_us < self._time_us:
            self._best = schedule

    def _first(self) -> Iterator[Update]:
        """A schedule as soon as there can be one, with a bound; then the best bound."""
        first = self._left_by_an_earlier_search() or self._found_at_once()
        quick = quick_bound(self._instance)
        self._instance.proves(quick.value_us)
        best = Update("bound", None, quick.value_us, quick.witness)
        known = [best]
        is_late = not self._budget.remaining_s()  # whoever listens stops here: what is known at once is told
        if is_late or len(self._instance.problem.collective.outputs) > _MANY_OUTPUTS:
            nodes = between_nodes(self._instance)
            self._instance.proves(nodes.value_us)
            known.append(Update("bound", None, nodes.value_us, nodes.witness))
        if is_late:
            known += self._bounds.quick(self._budget)
        best = max(known, key=lambda update: update.lower_bound_us)
        first = replace(first, lower_bound_us=best.lower_bound_us, bound_source=best.bound_source)
        yield first
        self._keep(first)
        yield from self._bounds.quick(self._budget)
        yield from self._bounds.within(self._budget.share(_BOUNDS))

    def _left_by_an_earlier_search(self) -> Update | None:
        """What an instance that was searched before was left with, if that is handed over."""
        known = self._options.known
        return Update("known", known) if known is not None and self._instance.bound_us else None

    def _found_at_once(self) -> Update:
        """The first schedule of the first engine that has one."""
        for engine in first_engines(self._instance, self._journal.fails):
            run = engine.at_once or engine.run
            run = run if engine.takes_sums else by_phases(run)
            updates = _begun(run, self._instance, self._options, self._budget.share(0.0), None)
            first = next(self._journal.kept(engine.name, self._instance, self._budget, updates), None)
            if first is not None and first.schedule is not None:
                return first
        raise NoScheduleInTime(self._why_no_first())

    def _why_no_first(self) -> str:
        failures = "; ".join(f"{each.name} failed: {each.text}" for each in self._journal.failures)
        if not (failures or first_engines(self._instance)):
            declined = verdict_of(engine_named("hierarchical"), self._instance).reason
            return f"with so many outputs, only `hierarchical` has schedules, and it declines: {declined}"
        return failures or "no policy of the greedy engine meets every demand of this problem"

    def _turn(self, stage: Stage, each_phase: tuple[Stage, ...]) -> Iterator[Update]:
        """What a row of the plan finds."""
        try:
            verdict = verdict_on(stage, self._instance)
        except Exception as fault:  # of the engine that is asked, and no other has to pay for it
            self._journal.fails(stage.engine, fault)
            return
        if not verdict:
            self._journal.declines(stage.engine, verdict.reason)
            return
        if not self._budget.remaining_s() and stage.engine != ALWAYS:
            self._journal.declines(stage.engine, "no time was left for it")
            return
        budget = self._budget.share(stage.share(self._instance))
        if stage.engine == PHASES:
            joint = engine_named("joint")
            is_asked = any(row.engine == "cp" for row in each_phase)
            jointly = joint.run if is_asked and joint.can(self._instance) else None
            turns = self._turns(each_phase)
            run = by_phases(turns, jointly) if knows_phases(self._instance) else turns
            name = "phases"
        else:
            engine = engine_named(stage.engine)
            run, name = engine.run if engine.takes_sums else by_phases(engine.run), engine.name
        updates = _begun(run, self._instance, self._options, budget, self._best)
        yield from self._journal.kept(name, self._instance, self._budget, updates)

    def _turns(self, table: tuple[Stage, ...]) -> Run:
        """The engines of a table after each other, on a phase, until one meets its bound."""

        def run(
            phase: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
        ) -> Iterator[Update]:
            best = incumbent
            if best is None and (engine := first_engines(phase, self._journal.fails)[0]).takes_sums:
                # A pass of the greedy engine would take seconds, and it would go on to its end.
                at_once = _begun(engine.run, phase, options, budget.share(0.0), None)
                for update in self._journal.kept(engine.name, phase, budget, at_once):
                    yield update
                    best = update.schedule or best
            if not phase.bound_us and len(table) > 1:
                for _ in BoundsBeside(phase, self._journal).within(budget.share(_BOUNDS_OF_PHASE)):
                    pass  # the phase knows what is proved of it
            number = 0
            for stage in table:
                if len(table) > 1 and _is_close(best, phase.bound_us, options.gap):
                    return
                if best is not None and not budget.remaining_s():
                    return
                if stage.asks_quotient and phase.quotient_takes_s > budget.remaining_s():
                    self._journal.declines(stage.engine, "no time was left to look for symmetries")
                    continue
                if not (verdict := verdict_on(stage, phase)):
                    self._journal.declines(stage.engine, verdict.reason)
                    continue
                engine, trying = engine_named(stage.engine), replace(options, seed=options.seed + number)
                number += 1
                share = budget.share(stage.share(phase))
                updates = _begun(engine.run, phase, trying, share, best)
                for update in self._journal.kept(engine.name, phase, budget, updates):
                    yield update
                    best = update.schedule or best
                    phase.proves(update.lower_bound_us)
                    if len(table) > 1 and _is_close(best, phase.bound_us, options.gap):
                        return

        return run


def _begun(
    run: Run, instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """The updates of a run, which is called when the first is asked for: so its failure is one of a turn."""
    yield from run(instance, options, budget, incumbent)


def _is_close(schedule: Schedule | None, bound_us: float, gap: float) -> bool:
    """Whether there is a schedule within the gap, a fraction of its time, of the bound.

    A bound that stands above the schedule is wrong and ends nothing.
    """
    if schedule is None or contradicts(bound_us, schedule.makespan_us):
        return False
    return is_optimal(schedule.makespan_us, bound_us, gap)
