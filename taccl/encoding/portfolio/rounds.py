"""For how long each engine runs: rounds of equal turns, after each of which half of the engines stay.

    n engines, T seconds      R = 1 + ceil(log2 n) rounds of T / R seconds each

    round 1   all n           turns of  T / (R n)
    round 2   n / 2           turns of 2T / (R n)    those that improved the schedule last
    round R   the last one    a turn of T / R
    then      all again, with other seeds, while the gap is open and time is left

That is successive halving (Jamieson and Talwalkar, 2016). Time that an engine leaves goes on to those after
it. An engine that ends its turn by itself without an improvement waits until another one has improved
something, or until all wait. One that searched all schedules is done. An engine that builds its schedules has
one turn, for which it may take half of the round, since it ends by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from taccl.encoding.core.options import MAX_SEED, SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Role, Run, Verdict, no
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.tuning import ROUNDS_FOR_A_BUILDER
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import contradicts, is_optimal
from taccl.support.budget import Budget


class Contender(Protocol):
    """Who has turns."""

    @property
    def name(self) -> str: ...

    @property
    def run(self) -> Run: ...

    @property
    def weight(self) -> int:
        """For how many engines it stands."""
        ...

    @property
    def role(self) -> Role: ...

    @property
    def runs_always(self) -> bool:
        """Whether it has its turn even where no time is left."""
        ...

    def takes_to_know_s(self, instance: Instance) -> float:
        """About how many seconds it takes to find out whether it runs."""
        ...

    def verdict(self, instance: Instance) -> Verdict:
        """Whether it runs on an instance, or why not.

        Raises
        ------
        TacclError : an engine of another package breaks down over that.
        """
        ...


@dataclass(eq=False)
class _Standing:
    """How a contender stands.

    `turns` : that it had. `improved_at` : the number of all turns when it improved last; 0: never.
    `ended_us` : the best time when it ended by itself.
    """

    contender: Contender
    turns: int = 0
    improved_at: int = 0
    ended_us: float | None = None

    def is_done(self, best_us: float) -> bool:
        """Whether it ended by itself, and nothing has improved since."""
        return self.ended_us is not None and best_us >= self.ended_us - TOLERANCE_US


class Rounds:
    """The turns on one instance, and the best schedule so far.

    Parameters
    ----------
    instance, contenders : who has turns on what, in this order.
    journal : notes what everyone did.
    best : a schedule to begin with.
    """

    def __init__(
        self,
        instance: Instance,
        contenders: tuple[Contender, ...],
        journal: Journal,
        best: Schedule | None = None,
    ) -> None:
        self._instance, self._journal = instance, journal
        self._contenders = contenders
        self._all = list[_Standing]()
        self._staying = list[_Standing]()
        self._turns = 0
        self.best = best

    def begin(self, budget: Budget) -> None:
        """Ask everyone whether it runs on the instance: who does not takes no part of the time."""
        self._all = [_Standing(contender) for contender in self._contenders if self._runs(contender, budget)]
        self._staying = list(self._all)

    @property
    def best_us(self) -> float:
        """The time of the best schedule; inf: there is none."""
        return math.inf if self.best is None else self.best.makespan_us

    @property
    def weight(self) -> int:
        """For how many engines those stand that have a turn in the next round."""
        return sum(standing.contender.weight for standing in self._waiting())

    def part_of_round(self, budget: Budget, least_s: float) -> Budget:
        """What the next round may spend: as much as each round until one engine is left.

        No turn has less than `least_s` where there are several rounds.
        """
        weight = max(1, self.weight)
        rounds = 1 + math.ceil(math.log2(weight))
        affordable = int(min(rounds, budget.remaining_s() / (weight * max(least_s, 1e-9))))
        return budget.share(1 / max(1, affordable))

    def round(self, options: SearchOptions, budget: Budget) -> Iterator[Update]:
        """A turn of everyone who stays; then the half that improved last stays."""
        turns = self._waiting()
        for position, standing in enumerate(turns):
            if self.is_close(options.gap):
                return
            yield from self._turn(standing, options, budget.share(_part_of(turns[position:])))
        last = sorted(turns, key=lambda standing: -standing.improved_at)[: math.ceil(len(turns) / 2)]
        self._staying = [turn for turn in turns if turn in last] if len(turns) > 1 else list(self._all)

    def takes(self, schedule: Schedule | None) -> bool:
        """Go on from a schedule if it is faster; whether it is."""
        if schedule is None or schedule.makespan_us >= self.best_us - TOLERANCE_US:
            return False
        self.best = schedule
        return True

    def _waiting(self) -> list[_Standing]:
        """Who has a turn in the next round: of who stays, or else of all, those who can do more.

        Where nobody can, those who improve what is known try again, as each turn has a seed of its own.
        """
        for among in (self._staying, self._all):
            waiting = [standing for standing in among if not standing.is_done(self.best_us)]
            if waiting:
                return waiting
        return [standing for standing in self._all if standing.contender.role == "improve"]

    def _runs(self, contender: Contender, budget: Budget) -> bool:
        if not budget.remaining_s() and not contender.runs_always:
            verdict = no("no time was left for it")
        elif contender.takes_to_know_s(self._instance) > budget.remaining_s():
            verdict = no("no time was left to look for symmetries")
        else:
            try:
                verdict = contender.verdict(self._instance)
            except Exception as fault:  # of the engine that is requested, and no other has to pay for it
                self._journal.fails(contender.name, fault)
                return False
        if not verdict:
            self._journal.declines(contender.name, verdict.reason)
        return bool(verdict)

    def _turn(self, standing: _Standing, options: SearchOptions, budget: Budget) -> Iterator[Update]:
        contender = standing.contender
        if not budget.remaining_s() and not contender.runs_always:
            self._journal.declines(contender.name, "no time was left for it")
            return
        trying = replace(options, seed=(options.seed + standing.turns) % (MAX_SEED + 1))
        standing.turns, self._turns = standing.turns + 1, self._turns + 1
        before_us = self.best_us
        updates = begun(contender.run, self._instance, trying, budget, self.best)
        for update in self._journal.kept(contender.name, self._instance, budget, updates):
            yield update
            self.takes(self._journal.accepted(update))
            self._instance.proves(update.lower_bound_us)
            if self.is_close(options.gap):
                break
        if self.best_us < before_us - TOLERANCE_US:
            standing.improved_at = self._turns
        elif budget.remaining_s():
            standing.ended_us = self.best_us
        if contender.role == "first":
            standing.ended_us = -math.inf

    def is_close(self, gap: float) -> bool:
        """Whether there is a schedule within the gap, a fraction of its time, of the bound.

        A bound that stands above the schedule is wrong and ends nothing.
        """
        if self.best is None or contradicts(self._instance.bound_us, self.best_us):
            return False
        return is_optimal(self.best_us, self._instance.bound_us, gap)


def _part_of(turns: list[_Standing]) -> float:
    """The part of what is left of a round for the first of these turns."""
    if turns[0].contender.role == "first":
        return ROUNDS_FOR_A_BUILDER
    weights = [standing.contender.weight for standing in turns]
    return weights[0] / max(1, sum(weights))


def begun(
    run: Run, instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """The updates of a run, which is called when the first is requested: so its failure is one of a turn."""
    yield from run(instance, options, budget, incumbent)
