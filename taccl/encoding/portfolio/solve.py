"""The engines under one roof: a first schedule, bounds next to the search, and the last improvements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.linear import check_solver
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import engine_named, serves_somehow
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.alongside import BoundsAlongside
from taccl.encoding.portfolio.contenders import OnMembers, contenders_for, opened
from taccl.encoding.portfolio.impossible import limited_ranks, why_impossible
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.lineup import lineup_for
from taccl.encoding.portfolio.rounds import Rounds
from taccl.encoding.portfolio.tuning import (
    SOLVE_BOUNDS,
    SOLVE_BOUNDS_AGAIN,
    SOLVE_BOUNDS_BETWEEN,
    SOLVE_HELPED,
    SOLVE_LEAST_TURN_S,
)
from taccl.errors import NoScheduleInTime, SolverError, TopologyError, out_of_memory
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US
from taccl.support.budget import Budget


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
        the problem and was requested by name.
    TopologyError : a link that takes no time at all, so that "earlier" has no meaning on it; ranks that may
        not sum or not copy, so that there is no schedule.
    NoScheduleInTime : there is no first schedule.
    OutOfMemory : there is none, and an engine lacked memory for one.
    """
    check_solver(options.solver)
    instance = problem if isinstance(problem, Instance) else Instance(problem)
    problem, budget = instance.problem, budget or options.budget()
    _check_links_take_time(problem)
    requested = engine_requested(instance, options.engine)
    yield from _Search(instance, options, budget, journal or Journal()).run(requested)


def engine_requested(instance: Instance, name: str) -> Engine | None:
    """The engine of that name; None for `auto`.

    Raises
    ------
    SolverError : there is none, or it does not serve the problem.
    TacclError : it is of another package, and breaks down or cannot be loaded.
    """
    if name == "auto":
        return None
    requested = engine_named(name)
    verdict = serves_somehow(requested, instance)
    if not verdict and something_moves(instance.problem):
        raise SolverError(
            f"the engine {requested.name} does not serve this problem: {verdict.reason}",
            hint="--engine auto; --explain-stages shows what it would run",
        )
    return requested


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
    """The best so far, and the engines' rounds."""

    def __init__(self, instance: Instance, options: SearchOptions, budget: Budget, journal: Journal) -> None:
        self._instance, self._options, self._budget, self._journal = instance, options, budget, journal
        self._bounds = BoundsAlongside(instance, journal)
        self._was_searched = options.known is not None and instance.bound_us > 0

    def run(self, requested: Engine | None) -> Iterator[Update]:
        lineup = lineup_for(requested, self._journal.fails, again=self._was_searched)
        contenders = contenders_for(self._instance, lineup, self._journal)
        without_helpers = self._without_helpers(requested)
        if without_helpers is not None:
            contenders = tuple(each for each in contenders if not isinstance(each, OnMembers))
        rounds = Rounds(self._instance, contenders, self._journal)
        began_s = self._budget.read_s()
        for update in self._first():
            yield update
            rounds.takes(self._journal.accepted(update))
        least_s = max(SOLVE_LEAST_TURN_S, self._budget.read_s() - began_s)
        if without_helpers is not None:
            for update in without_helpers:
                if update.schedule is not None and update.schedule.makespan_us < rounds.best_us:
                    yield update
                    rounds.takes(self._journal.accepted(update))
            self._budget = self._budget.share(SOLVE_HELPED)
        if not rounds.is_close(self._options.gap):
            rounds.begin(self._budget)
        is_first = True
        while rounds.weight and not rounds.is_close(self._options.gap):
            if not (is_first or self._budget.remaining_s()):
                return
            yield from rounds.round(self._options, rounds.part_of_round(self._budget, least_s))
            yield from self._bounds.within(self._budget.share(SOLVE_BOUNDS_BETWEEN))
            is_first = False

    def _without_helpers(self, requested: Engine | None) -> Iterator[Update] | None:
        """Where work counts, the search of the machine without helpers, as it is by itself; None: none.

        It has all the work that this search has, counted apart, so no search ends worse for having helpers.
        """
        members, alone = self._instance.members, self._instance.members_instance
        if members is None or alone is None or not self._budget.counts_work:
            return None
        known = self._options.known
        options = replace(self._options, known=None if known is None else members.restricted(known))
        search = _Search(alone, options, self._budget.anew(), self._journal)
        return (
            Update(update.stage, None if update.schedule is None else members.lifted(update.schedule))
            for update in search.run(requested)
        )

    def _first(self) -> Iterator[Update]:
        """A schedule as soon as there can be one, with a bound; then the best bound.

        If the first is late, whoever listens stops there.
        """
        openings = self._openings()
        first = next(openings)
        best = max(self._bounds.at_once(), key=lambda update: update.lower_bound_us, default=Update("bound"))
        yield replace(first, lower_bound_us=best.lower_bound_us, bound_source=best.bound_source)
        yield from openings
        yield from self._bounds.quick(self._budget)
        share = SOLVE_BOUNDS_AGAIN if self._was_searched else SOLVE_BOUNDS
        yield from self._bounds.within(self._budget.share(share))

    def _openings(self) -> Iterator[Update]:
        """What the search begins with, the fastest first: what is known, and what is found at once.

        An instance that was searched before begins with what it was left with alone.
        """
        known = self._options.known
        if known is not None and self._was_searched:
            yield Update("known", known)
            return
        found = self._found_at_once()
        found_us = math.inf if found.schedule is None else found.schedule.makespan_us
        if known is not None and known.makespan_us < found_us - TOLERANCE_US:
            yield Update("refined", known)
        yield found

    def _found_at_once(self) -> Update:
        first = opened(self._instance, self._options, self._budget, self._journal)
        if first is None:
            if self._journal.lacked_memory:
                raise out_of_memory(self._why_no_first())
            reason = why_impossible(self._instance.problem)
            if reason is not None:
                raise TopologyError(reason[0], hint=reason[1])
            raise NoScheduleInTime(self._why_no_first())
        return first

    def _why_no_first(self) -> str:
        failures = "; ".join(f"{each.name} failed: {each.text}" for each in self._journal.failures)
        limited = limited_ranks(self._instance.problem.topology)
        found_none = f"no engine found a schedule, with ranks that are limited: {limited}" if limited else ""
        return failures or found_none or "no policy of list scheduling meets every demand of this problem"
