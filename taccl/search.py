"""Listening to the engines: keep the best schedule and the best bound, and know when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.portfolio.solve import solve
from taccl.errors import NoScheduleInTime, ScheduleError, SolverError
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule
from taccl.tolerance import OPTIMAL_GAP, contradicts

#: Why a search ended: the schedule is proven fastest; the gap asked for is proven; the engines have
#: nothing more to try; the time was up; the user stopped it; an engine broke down after others had a
#: schedule, which is kept.
Status = Literal["optimal", "gap reached", "finished", "time limit", "interrupted", "engine failed"]

#: What an observer may answer to end the search and keep the best; any other answer lets it go on.
STOP: Final = "stop"
Answer = Literal["stop"] | None

#: A first schedule counts as in time up to this many time limits: a solver that is stopped at the
#: limit needs a moment to hand over what it has.
_GRACE = 1.5

#: Engines that stop at the limit may do so a little before it.
_NEARLY = 0.95


@dataclass(frozen=True)
class Progress:
    """Where a search stands.

    Parameters
    ----------
    stage : what the engine is doing, in its words.
    elapsed_s : seconds since the search began.
    time_us : of the best schedule so far; None before the first.
    lower_bound_us, bound_source : the best bound so far (0: none yet), and where it comes from.
    improved : whether this news is a faster schedule.
    """

    stage: str
    elapsed_s: float
    time_us: float | None
    lower_bound_us: float
    bound_source: str
    improved: bool

    @property
    def gap(self) -> float | None:
        """(time - bound) / time; None before the first schedule."""
        return None if self.time_us is None else relative_gap(self.time_us, self.lower_bound_us)


#: Hears all news of a search, and may answer `stop`.
Observer = Callable[[Progress], Answer]


@dataclass(frozen=True, eq=False)
class Found:
    """The best schedule of a search (it passed `Schedule.check()`), its bound, and how it ended.

    `note` is what else an engine proved about this schedule, in a sentence; empty for nothing.
    """

    schedule: Schedule
    lower_bound_us: float
    bound_source: str
    status: Status
    seconds: float
    note: str = ""


def relative_gap(time_us: float, lower_bound_us: float) -> float:
    """(time - bound) / time: the largest fraction of the time that any other schedule could save."""
    return max(0.0, (time_us - lower_bound_us) / time_us) if time_us > 0 else 0.0


def search(problem: Problem, options: SearchOptions, on_progress: Observer | None = None) -> Found:
    """Run the engines until the gap is reached, the time is up, the observer says stop, or Ctrl-C is pressed.

    Raises
    ------
    NoScheduleInTime : there was no schedule when the time was up, or when the observer said stop.
    SolverError : an engine or solver is unknown, not installed, or broke down before any schedule.
    KeyboardInterrupt : there was no schedule when the user stopped it.
    ScheduleError : an engine handed over a schedule, or a bound, that is not right.
    """
    listener = _Listener(options, on_progress)
    cut_short: Status | None = None
    try:
        for update in solve(problem, options):
            if listener.take(update) == STOP:
                cut_short = "interrupted"
                break
            if listener.is_done:
                break
    except KeyboardInterrupt:
        if listener.schedule is None:
            raise
        cut_short = "interrupted"
    except SolverError:
        if listener.schedule is None:
            raise
        cut_short = "engine failed"
    return listener.found(cut_short)


class _Listener:
    """The best of all updates so far. The clock of a search is here and nowhere else."""

    def __init__(self, options: SearchOptions, on_progress: Observer | None) -> None:
        self.schedule: Schedule | None = None
        self._time_us: float | None = None
        self._bound_us = 0.0
        self._bound_source = ""
        self._note = ""
        self._options = options
        self._on_progress = on_progress
        self._began = time.monotonic()

    def take(self, update: Update) -> Answer:
        """Keep what is better, tell the observer, and hand on its answer."""
        improved = self._take_schedule(update.schedule)
        self._note = update.note or ("" if improved else self._note)
        if update.lower_bound_us > self._bound_us:
            self._bound_us, self._bound_source = update.lower_bound_us, update.bound_source
        self._bound_is_below_time()
        if self._on_progress is None:
            return None
        return self._on_progress(
            Progress(
                stage=update.stage,
                elapsed_s=self._elapsed_s,
                time_us=self._time_us,
                lower_bound_us=self._bound_us,
                bound_source=self._bound_source,
                improved=improved,
            )
        )

    @property
    def is_done(self) -> bool:
        return self._gap <= max(self._options.gap, OPTIMAL_GAP) or (
            self._elapsed_s >= self._options.time_limit_s
        )

    def found(self, cut_short: Status | None) -> Found:
        if self.schedule is None:
            if cut_short is not None:
                raise NoScheduleInTime("the search was stopped before there was any schedule")
            raise self._no_schedule("no schedule was found")
        return Found(
            schedule=self.schedule,
            lower_bound_us=self._bound_us,
            bound_source=self._bound_source,
            status=self._status(cut_short),
            seconds=self._elapsed_s,
            note=self._note,
        )

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def _gap(self) -> float:
        return 1.0 if self._time_us is None else relative_gap(self._time_us, self._bound_us)

    def _take_schedule(self, schedule: Schedule | None) -> bool:
        if schedule is None or (
            self._time_us is not None and schedule.makespan_us >= self._time_us - TOLERANCE_US
        ):
            return False
        if self.schedule is None and self._elapsed_s > _GRACE * self._options.time_limit_s:
            raise self._no_schedule(f"the first schedule came after {self._elapsed_s:.2f} s")
        schedule.check()
        self.schedule, self._time_us = schedule, schedule.makespan_us
        return True

    def _bound_is_below_time(self) -> None:
        """A bound above a valid schedule is a mistake of this program, and must not pass for a proof."""
        if self._time_us is not None and contradicts(self._bound_us, self._time_us):
            raise ScheduleError(
                f"a lower bound of {self._bound_us:.6f} us ({self._bound_source}) stands above a valid "
                f"schedule of {self._time_us:.6f} us: one of the two is wrong",
                hint="please report this with your command and files; another --engine may avoid it",
            )

    def _status(self, cut_short: Status | None) -> Status:
        if self._gap <= OPTIMAL_GAP:
            return "optimal"
        if self._gap <= self._options.gap:
            return "gap reached"
        if cut_short is not None:
            return cut_short
        return "time limit" if self._elapsed_s >= _NEARLY * self._options.time_limit_s else "finished"

    def _no_schedule(self, what: str) -> NoScheduleInTime:
        bound = f"; no schedule is faster than {self._bound_us:.2f} us" if self._bound_us else ""
        return NoScheduleInTime(
            f"{what}, and the time limit is {self._options.time_limit_s:g} s{bound}",
            hint="a larger --time-limit, fewer --chunks, or --engine greedy",
        )
