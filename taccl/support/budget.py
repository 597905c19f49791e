"""How much may still be spent: the one clock of `encoding`, in seconds or in units of work.

A search is limited by seconds, or by work. On a work clock no time passes but what is spent: a look at the
budget costs one unit, so a loop that looks always ends, and whoever does much between two looks spends what
it costs, computed from sizes. So the same request gives the same answer on an idle or a busy machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from taccl.errors import SolverError
from taccl.support.arguments import is_number, shown, whole_number

#: z3 counts milliseconds in 32 bits.
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0
#: A unit of work is nominally one millisecond of one core.
UNITS_PER_S = 1000.0
#: Whoever does many small things looks at the budget after about this many units: a look costs one.
UNITS_BETWEEN_LOOKS = 4.0
MAX_EFFORT = int(MAX_TIME_LIMIT_S * UNITS_PER_S)
#: Without a time limit: the least seconds without an improvement after which a search ends, and the fraction
#: by which a time or a bound has to improve (docs/results/patience.md).
PATIENCE_S, IMPROVES = 2.0, 1e-3


def check_time_limit(seconds: object, *, least: float | None = None, example: str = "60") -> float:
    """The seconds, if they are positive (or from `least` on) and no more than a solver can count.

    Raises
    ------
    SolverError : they are not, or are no number.
    """
    if is_number(seconds) and (seconds > 0 if least is None else seconds >= least):
        if seconds <= MAX_TIME_LIMIT_S:
            return float(seconds)
        raise SolverError(
            f"a time limit must be at most {MAX_TIME_LIMIT_S:g} s (30 days), not {shown(seconds)} s",
            hint=f"--time-limit {example}",
        )
    raise SolverError(
        f"a time limit must be positive, not {shown(seconds)} s", hint=f"--time-limit {example}"
    )


def check_effort(effort: object) -> int:
    """The units of work, if they are a whole number from 1 on.

    Raises
    ------
    SolverError : they are not.
    """
    return whole_number(effort, "an effort", SolverError, least=1, most=MAX_EFFORT, hint="--effort 10000")


class Clock(Protocol):
    """What a budget is counted on."""

    def now_s(self) -> float:
        """Seconds since some moment, nominal ones on a work clock."""
        ...

    def read_s(self) -> float:
        """The same for who only tells what was spent: it costs nothing and ends nothing."""
        ...

    def spend(self, units: float) -> None:
        """Note that so much work is done."""
        ...

    def note(self, time_us: float, lower_bound_us: float) -> None:
        """Note the best schedule and the best bound so far."""
        ...

    def excuse(self, seconds: float) -> None:
        """Note that nothing could have improved for so long."""
        ...

    def left_s(self) -> float:
        """Seconds until it ends by itself; inf: never."""
        ...

    def afresh(self) -> Clock:
        """The clock of a part that has improvements of its own, which are none of the whole."""
        ...


class WallClock:
    """Seconds as they pass. Work costs what it takes."""

    def now_s(self) -> float:
        return time.monotonic()

    def read_s(self) -> float:
        return time.monotonic()

    def spend(self, units: float) -> None:
        pass

    def note(self, time_us: float, lower_bound_us: float) -> None:
        pass

    def excuse(self, seconds: float) -> None:
        pass

    def left_s(self) -> float:
        return math.inf

    def afresh(self) -> Clock:
        return self


class PatientClock(WallClock):
    """Seconds as they pass, until nothing has improved for a while.

    It ends once as much time has passed since the last improvement as had passed before it, and at least
    `PATIENCE_S`. An improvement is a schedule that is faster, or a bound that is larger, by `IMPROVES`. It
    does not end before there is a schedule, and what it is told to excuse does not count as passed.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        self._improved_s: float | None = None
        self._excused_s = 0.0
        self._time_us, self._bound_us = math.inf, 0.0

    def note(self, time_us: float, lower_bound_us: float) -> None:
        if time_us < self._time_us * (1 - IMPROVES) or lower_bound_us > self._bound_us * (1 + IMPROVES):
            self._time_us = min(self._time_us, time_us)
            self._bound_us = max(self._bound_us, lower_bound_us)
            if math.isfinite(self._time_us):
                self._improved_s, self._excused_s = self._now_s(), 0.0

    def excuse(self, seconds: float) -> None:
        self._excused_s += seconds

    def left_s(self) -> float:
        if self._improved_s is None:
            return math.inf
        patience_s = max(PATIENCE_S, self._improved_s - self._began_s) + self._excused_s
        return self._improved_s + patience_s - self._now_s()

    def afresh(self) -> Clock:
        return PatientClock(self._now_s)


class WorkClock:
    """Seconds that pass by work alone: UNITS_PER_S units are a second, and a look is one unit.

    `limit_s` : after this many seconds of the day nothing is left; None: they do not matter.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._units = 0.0
        self._end_s = None if limit_s is None else time.monotonic() + limit_s

    def now_s(self) -> float:
        if self._end_s is not None and time.monotonic() >= self._end_s:
            return math.inf
        self._units += 1.0
        return self._units / UNITS_PER_S

    def read_s(self) -> float:
        return self._units / UNITS_PER_S

    def spend(self, units: float) -> None:
        self._units += units

    def note(self, time_us: float, lower_bound_us: float) -> None:
        pass

    def excuse(self, seconds: float) -> None:
        pass

    def left_s(self) -> float:
        return math.inf

    def afresh(self) -> Clock:
        return self

    def apart(self) -> WorkClock:
        """A clock of its own, at 0, with the same end by the time of day."""
        clock = WorkClock()
        clock._end_s = self._end_s
        return clock


class Budget:
    """What is left of the seconds or of the work; shares of it run on the same clock.

    Parameters
    ----------
    seconds : from now on.
    clock : what they are counted on; None: the time of day.
    """

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock: Clock = WallClock() if clock is None else clock
        self._end_s = self._clock.now_s() + seconds

    @staticmethod
    def of_work(units: int, limit_s: float | None = None) -> Budget:
        """A budget of this many units of work; without a limit, no clock on the wall has a say in it."""
        return Budget(units / UNITS_PER_S, WorkClock(limit_s))

    @property
    def counts_work(self) -> bool:
        """Whether it counts work. Then solvers need limits that are no times."""
        return isinstance(self._clock, WorkClock)

    def remaining_s(self) -> float:
        """Seconds left, never negative; of work, UNITS_PER_S units are a second."""
        return max(0.0, min(self._end_s - self._clock.now_s(), self._clock.left_s()))

    def note(self, time_us: float, lower_bound_us: float) -> None:
        """Note the best schedule and the best bound so far, for a clock that ends when nothing improves."""
        self._clock.note(time_us, lower_bound_us)

    def excuse(self, seconds: float) -> None:
        """Note that nothing could have improved for so long, for a clock that ends when nothing does."""
        self._clock.excuse(seconds)

    @property
    def has_stalled(self) -> bool:
        """Whether it ended because nothing had improved for a while."""
        return self._clock.left_s() <= 0

    def read_s(self) -> float:
        """Seconds since some moment, nominal ones of work, for telling what was spent and no decision.

        It costs nothing, so telling changes no answer.
        """
        return self._clock.read_s()

    def spend(self, units: float) -> None:
        """Note work that was done, or is about to be: nominally this many milliseconds of one core."""
        self._clock.spend(units)

    def meter(self) -> Meter:
        """Notes work that comes in small parts."""
        return Meter(self)

    def share(self, fraction: float, *, afresh: bool = False) -> Budget:
        """A budget of a part of what is left, on the same clock.

        `afresh` : with improvements of its own, so that what has not improved here is nothing to it.
        """
        if afresh:
            left_s = max(0.0, self._end_s - self._clock.now_s()) if self.remaining_s() else 0.0
            return Budget(left_s * min(1.0, fraction), self._clock.afresh())
        return Budget(min(self.remaining_s() * fraction, self.remaining_s()), self._clock)

    def at_most(self, seconds: float) -> Budget:
        """A budget of this many seconds, or of what is left if that is less, on the same clock."""
        return Budget(min(seconds, self.remaining_s()), self._clock)

    def anew(self) -> Budget:
        """As much work as is left, counted apart from this budget; with the same end by the time of day.

        Of a budget of seconds: a budget of what is left, as seconds pass for both.
        """
        clock = self._clock.apart() if isinstance(self._clock, WorkClock) else self._clock
        return Budget(self._end_s - self._clock.read_s(), clock)

    def without_end(self) -> Budget:
        """A budget that is never spent, whatever has stalled: for what is done in any case."""
        return Budget(math.inf, self._clock if self.counts_work else None)


class Meter:
    """Notes work that comes in parts of less than a unit, of which a look at the budget would cost one each.

    It looks at the beginning, and then whenever `UNITS_BETWEEN_LOOKS` were done.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget, self._units, self._looked = budget, 0.0, False

    def goes_on(self, units: float) -> bool:
        """Note so much work; whether something of the budget was left at the last look."""
        self._units += units
        if self._looked and self._units < UNITS_BETWEEN_LOOKS:
            return True
        self._looked = True
        self._budget.spend(max(0.0, self._units - 1))
        self._units = 0.0
        return self._budget.remaining_s() > 0
