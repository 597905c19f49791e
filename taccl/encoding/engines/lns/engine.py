"""Local search by windows: a part of the best schedule is decided anew by CP-SAT, the rest stays.

From the known schedule a window is drawn near what ends last, in one of several routes (`choose`). CP-SAT
decides its routes, sends and orders for the least end, and among equal ends for the fewest sends that end
last. What is no worse is where the next window is drawn from. Windows grow where CP-SAT is done with them
soon, and shrink where it is not; kinds that helped are drawn more often (Shaw 1998, large neighbourhoods;
Roepke and Pisinger 2006, adaptive ones).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from taccl.encoding.core.cp_sat import events_of
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.lns.apart import bundles_of, taken_apart
from taccl.encoding.engines.lns.choose import KINDS, Chooser, slacks_us, split
from taccl.encoding.engines.lns.model import WindowModel, build
from taccl.encoding.engines.lns.solutions import decisions
from taccl.encoding.engines.lns.tuning import (
    ALWAYS_DRAWN,
    FORGET,
    GROW,
    LEAST_S,
    MOST_ROWS,
    MOST_S,
    MOST_TRANSFERS,
    PART,
    ROWS_PER_S,
    SHRINK,
    SOON,
    WORKERS,
)
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

#: Routes in the first window of each kind, and at least and at most.
_FIRST, _LEAST, _MOST = 150.0, 40.0, 6_000.0
#: This many sends of a model are written down in a unit of work, and this many rows taken apart.
_WRITTEN_PER_UNIT, _APART_PER_UNIT = 30, 50


def serves(instance: Instance) -> Verdict:
    """Whether a window of it can be written down soon."""
    problem, collective = instance.problem, instance.problem.collective
    if collective.is_reduction and problem.tail_us is not None:
        return no("of sums it does not know what follows where")
    least = max(len(collective.inputs), len(collective.outputs))
    if least > MOST_TRANSFERS:
        return no(f"more than {MOST_TRANSFERS:,} transfers are too many to be taken apart for each window")
    return YES


@dataclass
class _Kind:
    """How a kind of windows does; `is_too_large` : its least ones cannot be written down in time."""

    name: str
    size: float = _FIRST
    merit: float = 1.0
    is_too_large: bool = False

    def learns(self, helped: bool, tried: _Tried) -> None:
        """Kinds that helped are drawn more often; windows grow where CP-SAT is soon done with them."""
        self.merit = FORGET * self.merit + (1 - FORGET) * helped
        if not tried.proved:
            self.size = max(_LEAST, self.size * SHRINK)
        elif tried.left > 1 - SOON:
            self.size = min(_MOST, self.size * GROW)


@dataclass(frozen=True)
class _Tried:
    """What CP-SAT made of a window: its last solution, whether it was done, the part of its time left."""

    found: list[Decision] | None
    proved: bool
    left: float


#: Of a window that was too large to be written down.
_UNDECIDED = _Tried(None, proved=False, left=0.0)


def lns(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield better and better schedules until the budget is over.

    Raises
    ------
    SolverError : CP-SAT failed.
    """
    if not serves(instance) or len(best) > 4 * MOST_TRANSFERS or not budget.remaining_s():
        return
    search = _Search(instance, options, best)
    reported_us = best.makespan_us
    while budget.remaining_s() and search.goes_on():
        search.step(budget)
        if search.best.makespan_us < reported_us - TOLERANCE_US:
            reported_us = search.best.makespan_us
            yield Update("lns", search.best)


class _Search:
    """The schedule from which the next window is drawn, and how kinds of windows did so far."""

    def __init__(self, instance: Instance, options: SearchOptions, best: Schedule) -> None:
        self._instance, self._seed = instance, options.seed
        self._lots = random.Random(options.seed)
        self._kinds = [_Kind(name) for name in KINDS]
        self._number, self._ends_here = 0, False
        usable = instance.problem.limits.may_use
        self._usable = None if usable is None else usable[instance.problem.collective.owner]
        self._take(best)

    def goes_on(self) -> bool:
        """Whether there may be anything better."""
        return not self._ends_here and self.best.makespan_us > self._instance.bound_us + TOLERANCE_US

    def _take(self, schedule: Schedule) -> None:
        self.best = schedule
        sends = schedule.sends
        order = sends.by_start
        self._starts: list[float] = sends.start_us[order].tolist()
        self._ends: list[float] = sends.end_us[order].tolist()
        self._decisions = decisions_of(schedule)
        self._bundles = bundles_of(schedule.problem, self._decisions)
        first = {chunks[0] for chunks in self._bundles}
        self._rows = sum(len(first.intersection(decision.chunks)) for decision in self._decisions)
        self._late = _ending_last(schedule)

    def step(self, budget: Budget) -> None:
        """Draw a window and decide it anew."""
        kinds = [each for each in self._kinds if not each.is_too_large]
        if not kinds:
            self._ends_here = True
            return
        kind = self._lots.choices(kinds, [each.merit + ALWAYS_DRAWN for each in kinds])[0]
        model = self._drawn(kind, budget)
        if model is None:  # there is less and less time, so that it is too large at its least is for good
            kind.is_too_large = kind.size <= _LEAST
            kind.learns(False, _UNDECIDED)
            return
        tried = self._decided_anew(model, budget)
        helped = tried.found is not None and self._accepts(in_order(self._instance.problem, tried.found))
        kind.learns(helped, tried)

    def _drawn(self, kind: _Kind, budget: Budget) -> WindowModel | None:
        """The model of a window; None if writing it down takes longer than there is time.

        Where no window can be drawn from this schedule, the search ends here.
        """
        problem, lots = self._instance.problem, self._lots
        bundles = split(self._bundles, range(len(self._bundles)), lots)
        if self._rows > _most_rows(budget):
            self._ends_here = True
            return None
        budget.spend(self._rows / _APART_PER_UNIT)
        apart = taken_apart(problem, self._decisions, bundles)
        if apart is None:  # own sums are made of what only later ones bring
            self._ends_here = True
            return None
        slack = slacks_us(apart, self._starts, self._ends)
        window = Chooser(apart, self._starts, slack, lots).draw(kind.name, round(kind.size))
        ticks = ticks_of(problem, self.best.makespan_us)
        last = ticks.at_most(self.best.makespan_us)
        model = build(
            apart,
            self._starts,
            window,
            ticks,
            last,
            lambda bundle, link: self._usable is None or bool(self._usable[bundles[bundle][0], link]),
            _most_rows(budget),
        )
        if model is not None:
            budget.spend(len(model.sends) / _WRITTEN_PER_UNIT)
        return model

    def _decided_anew(self, model: WindowModel, budget: Budget) -> _Tried:
        self._number += 1
        share = budget.at_most(min(max(PART * budget.remaining_s(), LEAST_S), MOST_S))
        found: list[Decision] | None = None
        proved, before_s = False, share.remaining_s()
        read = partial(decisions, model)
        for event in events_of(model.cp, read, self._seed + self._number, share, WORKERS):
            found = event.decisions or found
            proved = proved or (event.is_last and share.remaining_s() > 0)
        return _Tried(found, proved, share.remaining_s() / before_s if before_s else 0.0)

    def _accepts(self, schedule: Schedule) -> bool:
        known_us, late = self.best.makespan_us, self._late
        if schedule.makespan_us > known_us + TOLERANCE_US:
            return False
        faster = schedule.makespan_us < known_us - TOLERANCE_US
        if not faster and _ending_last(schedule) > late:
            return False
        better = faster or _ending_last(schedule) < late
        self._take(schedule)
        return better


def _most_rows(budget: Budget) -> float:
    """The most rows of which a window is written down in time."""
    return min(MOST_ROWS, ROWS_PER_S * budget.remaining_s())


def _ending_last(schedule: Schedule) -> int:
    """How many sends end with the schedule, or what follows them does."""
    sends, tail_at = schedule.sends, schedule.problem.tail_at
    done = sends.end_us
    if tail_at:
        cells = zip(schedule.chunk.tolist(), schedule.dst.tolist(), strict=True)
        follows = np.zeros(len(sends))
        np.maximum.at(follows, sends.of_row, [tail_at.get(cell, 0.0) for cell in cells])
        done = done + follows
    return int((done > schedule.makespan_us - TOLERANCE_US).sum())
