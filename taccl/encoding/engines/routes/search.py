"""Which routes are tried in which orders, and for how long.

Choosers take turns: every second turn is of the one with the fastest schedule so far, the others go round. Of
routes, orders that were best before come first; routes whose first orders are much worse than the best are
given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from taccl.encoding.engines.routes.choice import Choice, Chooser
from taccl.encoding.engines.routes.columns import Grouping, groupings
from taccl.encoding.engines.routes.orders import Open, Order
from taccl.encoding.engines.routes.tuning import (
    CHANCES,
    CHOSEN_SOON,
    LONG_S,
    MANY,
    MOST_GROUPINGS,
    SLOW_S,
    STEP,
    UNITS,
    UNITS_OF_AN_ORDER,
    VAIN,
    WAVES_BOTH,
    WAVES_ONE,
    WORSE,
    WORTH_TURNING,
)
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget, Meter


@dataclass(frozen=True)
class _Pipeline:
    """A pipeline: as in `Open.pipeline`; `most` is that many of the choice's numbers."""

    wave: float
    power: float
    most: int
    behind: float


@dataclass(frozen=True)
class _Matching:
    """A matching of the likeliest grouping of that number."""

    grouping: int
    chance: float


_Setting = _Pipeline | _Matching


class _NoTimeLeft(Exception):
    """The budget ended in the middle of an order."""


class RouteSearch:
    """All routes of one problem in all orders.

    `takes_s` : how long the last order took. `units` : of work that are not spent yet. `must_end` : the first
    order ends whatever the time is, since others wait for a first schedule.
    """

    def __init__(
        self, instance: Instance, choosers: list[Chooser], seed: int, must_end: bool = False
    ) -> None:
        self.instance, self.problem, self.seed = instance, instance.problem, seed
        self.choosers = choosers
        reduces = self.problem.collective.reduces
        self.both = bool(reduces.any()) and instance.phases.broadcast_phase is not None
        # What begins all at once and ends as a trickle fills links better than its mirror image.
        self.is_backwards = bool(reduces.all()) and not self.both and self.problem.topology.reads_backwards
        self.takes_s, self.units, self.must_end = 0.0, 0.0, must_end

    def schedules(self, budget: Budget, best_us: float) -> Iterator[Schedule]:
        """Better and better schedules; where there is none yet, a first order is tried even without time.

        So it is where its routes are chosen in a moment.
        """
        streams = [_Stream(self, choose, budget) for choose in self.choosers]
        is_soon = self.problem.num_chunks * self.problem.num_ranks <= CHOSEN_SOON
        is_first = is_soon or best_us == np.inf
        meter, turn, vain_us, held = budget.meter(), 0, np.inf, None
        while streams and (is_first or self._goes_on(budget, meter)):
            stream = (
                min(streams, key=lambda each: each.best_us) if turn % 2 else streams[turn // 2 % len(streams)]
            )
            turn += 1
            order = next(stream.orders, None)
            if order is None:
                streams.remove(stream)
                is_first &= best_us == np.inf
                continue
            is_first = self.must_end = False
            makespan_us = order.makespan_us
            stream.best_us = min(stream.best_us, makespan_us)
            if makespan_us < best_us - TOLERANCE_US:
                # Rows take as long as an order: of many small steps the last is reported.
                held = order
                if makespan_us < vain_us * (1 - STEP) or vain_us == np.inf:
                    vain_us, held = makespan_us, None
                    yield order.schedule()
                best_us = makespan_us
        if held is not None:
            yield held.schedule()

    def _goes_on(self, budget: Budget, meter: Meter) -> bool:
        """Whether there is time for another order; of large ones none is begun that would not be there."""
        units, self.units = self.units, 0.0
        return meter.goes_on(units) and (self.takes_s < SLOW_S or budget.remaining_s() > self.takes_s)

    def is_too_long(self, rows: int, budget: Budget) -> bool:
        """Whether an order of this many rows, though none was made yet, would not be there in time."""
        nominal_s = _units(rows) / UNITS_PER_S
        return not self.must_end and nominal_s >= LONG_S and nominal_s > budget.remaining_s()

    def spend(self, rows: int, began_s: float, budget: Budget) -> None:
        """Note an order of this many rows."""
        units = _units(rows)
        self.units += units
        self.takes_s = max(budget.read_s() - began_s, units / UNITS_PER_S * budget.counts_work)


def _units(rows: int) -> float:
    """The work that an order of this many rows is."""
    return UNITS_OF_AN_ORDER + UNITS * rows


class _Stream:
    """The orders of one chooser's routes, one after another."""

    def __init__(self, search: RouteSearch, choose: Chooser, budget: Budget) -> None:
        self._search, self._choose, self._budget = search, choose, budget
        self.best_us = np.inf
        self._least_us: dict[type, float] = {_Pipeline: np.inf, _Matching: np.inf}
        self._number = 0
        self._settings: list[_Setting] = []
        self.orders = self._all_orders()

    def _all_orders(self) -> Iterator[Order]:
        search, budget = self._search, self._budget
        with suppress(_NoTimeLeft):  # other routes would have no time either
            for choice in self._choose(search.instance, search.seed, budget):
                yield from self._orders_of(choice)
                self._number += 1

    def _orders_of(self, choice: Choice) -> Iterator[Order]:
        """What comes of the routes: of pipelines and of matchings those first that were best before.

        Where the first is much worse than the best that was first, its others are not tried.
        """
        search, rows = self._search, len(choice.routes)
        if search.is_too_long(rows, self._budget):
            raise _NoTimeLeft
        opened = Open(
            search.problem, choice.routes, search.is_backwards, detours=choice.turns_back, look=self._look
        )
        likely = self._likely(opened, choice)
        settings = self._settings or self._first_settings(choice)
        came_us: dict[type, dict[_Setting, float]] = {_Pipeline: {}, _Matching: {}}
        given_up = set[type]()
        for setting in settings:
            kind, began_s = type(setting), self._budget.read_s()
            order = None if kind in given_up else self._order(opened, choice, likely, setting)
            if order is None:
                continue
            search.spend(rows, began_s, self._budget)
            first_us = order.makespan_us
            if self._settings and not came_us[kind] and first_us > self._least_us[kind] * (1 + WORSE):
                given_up.add(kind)
            came_us[kind][setting] = first_us
            yield order
            if isinstance(setting, _Pipeline) and first_us <= self._least_us[kind] * (1 + WORTH_TURNING):
                yield from self._turned(order, choice, choice.most[setting.most])
            self._least_us[kind] = min(self._least_us[kind], first_us)
        self._settings = self._good_settings(settings, came_us, given_up)

    def _look(self) -> None:
        if not (self._search.must_end or self._budget.remaining_s()):
            raise _NoTimeLeft

    def _good_settings(
        self, settings: list[_Setting], came_us: dict[type, dict[_Setting, float]], given_up: set[type]
    ) -> list[_Setting]:
        """Of each kind the settings that were near the best; those from before where it was given up."""
        kept: list[_Setting] = []
        for kind, came in came_us.items():
            if kind in given_up or not came:
                kept += [setting for setting in settings if type(setting) is kind]
                continue
            most_us = min(came.values()) * (1 + WORSE)
            kept += sorted((setting for setting, us in came.items() if us <= most_us), key=came.__getitem__)
        return kept

    def _order(self, opened: Open, choice: Choice, likely: list[Grouping], setting: _Setting) -> Order | None:
        """One order of the routes; None where the setting is none of theirs."""
        seed = self._search.seed + self._number
        if isinstance(setting, _Matching):
            if setting.grouping >= len(likely):
                return None
            return opened.matching(likely[setting.grouping], setting.chance, seed)
        if setting.most >= len(choice.most):
            return None
        noise = None
        if choice.chance:
            noise = 1.0 + choice.chance * np.random.default_rng(seed).random(len(choice.routes))
        return opened.pipeline(
            setting.wave, setting.power, choice.most[setting.most], behind=setting.behind, noise=noise
        )

    def _first_settings(self, choice: Choice) -> list[_Setting]:
        """All pipelines and matchings, the likeliest first."""
        waves = choice.waves or (WAVES_BOTH if self._search.both else WAVES_ONE)
        pipelines: list[_Setting] = [
            _Pipeline(wave, power, most, behind)
            for most in range(len(choice.most))
            for behind in choice.behind
            for power in choice.powers
            for wave in (waves if len(choice.powers) == 1 else (0.0,))
        ]
        if not choice.matches or len(choice.routes) > MANY:
            return pipelines
        matchings: list[_Setting] = [
            _Matching(grouping, chance) for chance in CHANCES for grouping in range(MOST_GROUPINGS)
        ]
        return [pipelines[0], *matchings[:MOST_GROUPINGS], *pipelines[1:], *matchings[MOST_GROUPINGS:]]

    def _likely(self, opened: Open, choice: Choice) -> list[Grouping]:
        """The groupings that promise most in a matching, the best first."""
        if not choice.matches or len(choice.routes) > MANY:
            return []
        every = groupings(max(choice.most))
        if len(every) == 1:
            return every
        promised_us = dict[Grouping, float]()
        for grouping in every:
            self._look()  # among hundreds of ranks each takes a second
            promised_us[grouping] = opened.promised_us(grouping)
        # Of those that differ by rounding only, the one with the smallest groups.
        best = sorted(every, key=lambda each: (float(f"{promised_us[each]:.5g}"), each.size))
        return best[:MOST_GROUPINGS]

    def _turned(self, order: Order, choice: Choice, most: int) -> Iterator[Order]:
        """What comes of a pipeline that is scheduled again and again from its end."""
        search, vain, least_us = self._search, 0, order.makespan_us
        if not (choice.turns_back and search.both and search.problem.topology.reads_backwards):
            return
        while vain < VAIN:
            began_s = self._budget.read_s()
            try:
                order = order.again(most, self._look)
            except _NoTimeLeft:
                return
            search.spend(len(order.routes), began_s, self._budget)
            vain = 0 if order.makespan_us < least_us - TOLERANCE_US else vain + 1
            least_us = min(least_us, order.makespan_us)
            yield order
