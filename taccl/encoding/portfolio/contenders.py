"""Who has turns in a search: an engine, or as one all engines on the phases of sums or on members alone.

Before there are turns, `opened` has the first schedule of the first engine that has one at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import YES, Engine, Role, Run, Verdict, no
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.alongside import BoundsAlongside
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.lineup import Lineup, has_two_levels
from taccl.encoding.portfolio.rounds import Contender, Rounds, begun
from taccl.encoding.portfolio.tuning import (
    CONTENDERS_BOUNDS,
    CONTENDERS_OPENING,
    CONTENDERS_OPENING_S,
    CONTENDERS_SOON_S,
)
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def contenders_for(instance: Instance, lineup: Lineup, journal: Journal) -> tuple[Contender, ...]:
    """Who has turns on an instance: the engines of the lineup, those that work on phases as one.

    Where there are helpers, all engines have turns as one without them, too, after all others: what these
    find may be faster than any schedule without helpers.
    """
    engines = lineup.in_turn(instance)
    if instance.members_instance is not None:
        able = (engine for engine in engines if instance.features <= engine.features)
        whole = tuple(OneEngine(engine, lineup) for engine in able)
        on_members = OnMembers(lineup, journal, weight=max(1, len(whole)))
        if whole and not lineup.checks_needs:  # however short, it is of the engine that is requested
            whole[0].runs_always, on_members.runs_always = True, False
        return (*whole, on_members)
    if not has_two_levels(instance):
        return tuple(OneEngine(engine, lineup) for engine in engines)
    contenders, on_phases = list[Contender](), [engine for engine in engines if not engine.takes_sums]
    for engine in engines:
        if engine.takes_sums:
            contenders.append(OneEngine(engine, lineup))
        elif engine is on_phases[0]:
            contenders.append(OnPhases(lineup, journal))
    return tuple(contenders)


class OneEngine:
    """An engine on the instance as it is."""

    weight = 1

    def __init__(self, engine: Engine, lineup: Lineup) -> None:
        self._engine, self._lineup = engine, lineup
        self.name, self.role, self.runs_always = engine.name, engine.role, engine.runs_always
        self.run: Run = engine.run if engine.takes_sums else by_phases(engine.run)

    def takes_to_know_s(self, instance: Instance) -> float:
        return self._engine.takes_to_know_s(instance) if self._lineup.checks_needs else 0.0

    def verdict(self, instance: Instance) -> Verdict:
        return self._lineup.verdict(self._engine, instance)


class OnPhases:
    """All engines that work on the phases of a problem with sums: each phase has rounds of its own."""

    name = "phases"
    role: Role = "improve"
    runs_always = False

    def __init__(self, lineup: Lineup, journal: Journal) -> None:
        self._lineup, self._journal = lineup, journal
        self._serving = 1
        self._rounds: dict[Instance, Rounds] = {}
        self.run: Run = by_phases(self._round)

    @property
    def weight(self) -> int:
        return max((rounds.weight for rounds in self._rounds.values()), default=self._serving)

    def takes_to_know_s(self, instance: Instance) -> float:
        return 0.0

    def verdict(self, instance: Instance) -> Verdict:
        """Whether there are phases; engines that serve one are counted, if that takes no time."""
        phase = instance.phases.broadcast_phase
        if phase is None:
            return no("there are no two phases")
        engines = (engine for engine in self._lineup.engines if not engine.takes_sums)
        known = (engine for engine in engines if engine.takes_to_know_s(phase) < CONTENDERS_SOON_S)
        self._serving = max(1, sum(bool(self._lineup.verdict(engine, phase)) for engine in known))
        return YES

    def _round(
        self, phase: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        """A round of the engines on a phase, which goes on from what was found of it before."""
        rounds = self._rounds.get(phase)
        if rounds is None:
            rounds = self._rounds[phase] = self._begun(phase, budget)
            if incumbent is None and (first := opened(phase, options, budget, self._journal)) is not None:
                rounds.takes(first.schedule)
            if not phase.bound_us:
                for _ in BoundsAlongside(phase, self._journal).within(budget.share(CONTENDERS_BOUNDS)):
                    pass  # the phase knows what is proved of it
        rounds.takes(incumbent)
        if rounds.best is not None and rounds.best is not incumbent:
            yield Update("known", rounds.best)
        yield from rounds.round(options, budget)

    def _begun(self, phase: Instance, budget: Budget) -> Rounds:
        engines = (engine for engine in self._lineup.in_turn(phase) if not engine.takes_sums)
        contenders = tuple(OneEngine(engine, self._lineup) for engine in engines)
        rounds = Rounds(phase, contenders, self._journal)
        rounds.begin(budget)
        return rounds


class OnMembers:
    """All engines on a problem with helpers as if there were none: these have rounds of their own."""

    name = "members"
    role: Role = "improve"

    def __init__(self, lineup: Lineup, journal: Journal, weight: int) -> None:
        self._lineup, self._journal, self.weight = lineup, journal, weight
        self.runs_always = True
        self._rounds: Rounds | None = None

    def takes_to_know_s(self, instance: Instance) -> float:
        return 0.0

    def verdict(self, instance: Instance) -> Verdict:
        return YES if instance.members is not None else no("the helpers cannot be done without")

    def run(
        self, instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        """A round of the engines, which goes on from what they found before; its schedules on the whole."""
        members, alone = instance.members, instance.members_instance
        assert members is not None and alone is not None
        alone.proves(instance.bound_us)  # its schedules are schedules of the whole
        if self._rounds is None:
            self._rounds = Rounds(alone, contenders_for(alone, self._lineup, self._journal), self._journal)
            for _ in BoundsAlongside(alone, self._journal).within(budget.share(CONTENDERS_BOUNDS)):
                pass  # the members know what is proved of them
            self._rounds.begin(budget)
        if incumbent is not None and alone.bound_us >= incumbent.makespan_us - TOLERANCE_US:
            return
        if incumbent is not None:
            self._rounds.takes(members.restricted(incumbent))
        if self._rounds.best is None and (first := opened(alone, options, budget, self._journal)) is not None:
            self._rounds.takes(first.schedule)
        best_us = np.inf if incumbent is None else incumbent.makespan_us
        for update in self._rounds.round(options, budget):
            found = self._journal.accepted(update)
            if found is not None and found.makespan_us < best_us - TOLERANCE_US:
                best_us = found.makespan_us
                yield Update(update.stage, members.lifted(found))


def opened(instance: Instance, options: SearchOptions, budget: Budget, journal: Journal) -> Update | None:
    """The first schedule of the first engine that has one; None: none has.

    Members alone have one sooner, and it is never slower than that of a machine without helpers.
    """
    members, alone = instance.members, instance.members_instance
    if members is not None and alone is not None:
        first = opened(alone, options, budget, journal)
        if first is not None and first.schedule is not None:
            return replace(first, schedule=members.lifted(first.schedule), lower_bound_us=0.0)
    for engine in first_engines(instance, journal.fails):
        run = engine.at_once or engine.run
        run = run if engine.takes_sums else by_phases(run)
        soon = budget.share(CONTENDERS_OPENING).at_most(CONTENDERS_OPENING_S)
        updates = begun(run, instance, options, soon, None)
        first = next(journal.kept(engine.name, instance, budget, updates), None)
        if first is not None and first.schedule is not None:
            return first
    return None
