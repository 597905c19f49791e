"""Listening to the engines: keep the best schedule and the best bound, and know when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from taccl.encoding.bounds import NOTHING, Proof
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Declined, EngineFailure, EngineRun, Journal
from taccl.encoding.portfolio.solve import solve
from taccl.errors import NoScheduleInTime, ScheduleError
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import OPTIMAL_GAP, contradicts
from taccl.support.budget import Budget
from taccl.support.interrupts import is_interrupt

#: Why a search ended: the schedule is proven fastest; the gap requested is proven; the engines have
#: nothing more to try; nothing had improved for a while, and no limit was given; the time was up; it was up
#: before there was a first schedule; the user stopped it; an engine broke down after others had a schedule,
#: which is kept.
Status = Literal[
    "optimal",
    "gap reached",
    "finished",
    "no improvement",
    "time limit",
    "late",
    "interrupted",
    "engine failed",
]

#: What an observer may answer to end the search and keep the best; any other answer lets it go on.
STOP: Final = "stop"
Answer = Literal["stop"] | None

#: This many of the schedules that a search passed through are kept next to the best, none of more transfers.
_MOST_PASSED, _MOST_TRANSFERS_PASSED = 6, 100_000
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

    `note` is what else an engine proved about this schedule, in a sentence; empty for nothing. `engines`
    tells what each engine did, `declined` which did not serve the problem and why, `failures` which broke
    down. `passed` are valid schedules that were the best before: the first, and the last of engines.
    `any_chunks` is the largest bound that holds for any number of equal chunks, as far as one was proved.
    """

    schedule: Schedule
    lower_bound_us: float
    bound_source: str
    status: Status
    seconds: float
    note: str = ""
    engines: tuple[EngineRun, ...] = ()
    declined: tuple[Declined, ...] = ()
    failures: tuple[EngineFailure, ...] = ()
    passed: tuple[Schedule, ...] = ()
    any_chunks: Proof = NOTHING

    def with_passed(self, others: Iterable[Schedule]) -> Found:
        """The same with more schedules that were passed, a few of the fastest."""
        each = {id(one): one for one in (*self.passed, *others)}.values()
        return replace(self, passed=tuple(sorted(each, key=lambda one: one.makespan_us)[:_MOST_PASSED]))

    def with_failures(self, others: Iterable[EngineFailure]) -> Found:
        """The same with what else broke down."""
        return replace(self, failures=tuple(dict.fromkeys((*self.failures, *others))))

    def with_any_chunks(self, proof: Proof) -> Found:
        """The same with a bound for any number of chunks, so for this one; not if the schedule refutes it."""
        if contradicts(proof.value_us, self.schedule.makespan_us):
            return self
        return replace(self, any_chunks=proof).with_bound(proof)

    def with_bound(self, proof: Proof) -> Found:
        """The same with that bound, where it is larger."""
        if proof.value_us <= self.lower_bound_us:
            return self
        return replace(self, lower_bound_us=proof.value_us, bound_source=proof.witness)

    def passing(self, schedule: Schedule) -> Found:
        """The same about another schedule of the problem, of which nothing is proved but the bound."""
        gap = relative_gap(schedule.makespan_us, self.lower_bound_us)
        proved = self.status in ("optimal", "gap reached") and gap > OPTIMAL_GAP
        return replace(
            self, schedule=schedule, note="", passed=(), status="finished" if proved else self.status
        )


def relative_gap(time_us: float, lower_bound_us: float) -> float:
    """(time - bound) / time: the largest fraction of the time that any other schedule could save."""
    return max(0.0, (time_us - lower_bound_us) / time_us) if time_us > 0 else 0.0


def status_of(
    gap: float,
    options: SearchOptions,
    *,
    cut_short: Status | None,
    first_s: float,
    elapsed_s: float,
    failed: bool,
    stalled: bool = False,
    is_settled: bool = True,
) -> Status:
    """Why a search ended: what is proved comes before whatever stopped it, and that before the clock.

    Parameters
    ----------
    gap : what is proved of the schedule, a fraction of its time.
    cut_short : what stopped it from outside; None: nothing.
    first_s, elapsed_s : seconds to the first schedule, and to the end.
    failed : whether an engine or a bound broke down.
    stalled : whether it ended because nothing had improved for a while.
    is_settled : whether all that may be faster had its turn; else no gap is that of what was requested.
    """
    if is_settled and gap <= OPTIMAL_GAP:
        return "optimal"
    if is_settled and gap <= options.gap:
        return "gap reached"
    if cut_short is not None:
        return cut_short
    if first_s > options.limit_s:
        return "late"
    if stalled:
        return "no improvement"
    if elapsed_s >= _NEARLY * options.limit_s or not (is_settled or options.effort is not None):
        return "time limit"
    return "engine failed" if failed else "finished"


def search(
    problem: Problem | Instance,
    options: SearchOptions,
    on_progress: Observer | None = None,
    budget: Budget | None = None,
) -> Found:
    """Run the engines until the gap is reached, the budget is spent, the observer says stop, or Ctrl-C.

    What was found is kept, whatever fails after it; `Found.failures` tells what did. Whoever searches the
    same problem again hands over the same instance; `budget` is by default what the options say.

    Raises
    ------
    NoScheduleInTime : no engine found a schedule, or the observer said stop before there was one.
    SolverError : an engine or solver is unknown, not installed, does not serve the problem and was requested
    by name, or broke down before any schedule.
    KeyboardInterrupt : there was no schedule when the user stopped it.
    OutOfMemory : memory ran out before there was one.
    ScheduleError : the only schedules that engines handed over are not valid.
    """
    journal, budget = Journal(), budget or options.budget()
    return heard(solve(problem, options, journal, budget), options, journal, budget, on_progress)


def heard(
    updates: Iterator[Update],
    options: SearchOptions,
    journal: Journal,
    budget: Budget,
    on_progress: Observer | None = None,
) -> Found:
    """Listen to updates until the gap is reached, the time is up, the observer says stop, or Ctrl-C.

    `journal` is where those who yield them note what they did; `budget` is what they spend. It raises what
    `search` raises.
    """
    listener = _Listener(options, on_progress, journal, budget)
    cut_short: Status | None = None
    try:
        for update in updates:
            if listener.take(update) == STOP:
                cut_short = "interrupted"
                break
            if listener.is_done:
                break
    except KeyboardInterrupt:
        if listener.schedule is None:
            raise
        cut_short = "interrupted"
    except Exception as fault:  # what was found is worth more than the rest of the search
        is_stopped = is_interrupt(fault)
        if listener.schedule is None:
            if is_stopped:
                raise KeyboardInterrupt from fault
            raise
        if not is_stopped:
            journal.fails("search", fault)
        cut_short = "interrupted" if is_stopped else "engine failed"
    return listener.found(cut_short)


class _Listener:
    """The best of all updates so far. The clock of a search is here and nowhere else."""

    def __init__(
        self, options: SearchOptions, on_progress: Observer | None, journal: Journal, budget: Budget
    ) -> None:
        self.schedule: Schedule | None = None
        self._time_us: float | None = None
        self._bound_us = 0.0
        self._bound_source = ""
        self._note = ""
        self._passed: dict[str, Schedule] = {}  # by the words of who found it
        self._first_s = 0.0
        self._invalid: ScheduleError | None = None
        self._options = options
        self._on_progress = on_progress
        self._journal = journal
        self._budget = budget
        self._began = time.monotonic()

    def take(self, update: Update) -> Answer:
        """Keep what is better, and hear what the observer says to it."""
        improved = self._take_schedule(update)
        self._note = update.note or ("" if improved else self._note)
        self._take_bound(update)
        self._budget.note(math.inf if self._time_us is None else self._time_us, self._bound_us)
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
        """Whether nothing better is requested, or the time is up; work ends by itself."""
        if self._gap <= max(self._options.gap, OPTIMAL_GAP):
            return True
        return self._elapsed_s >= self._options.limit_s

    def found(self, cut_short: Status | None) -> Found:
        """What the search came to."""
        if self.schedule is None:
            if cut_short == "interrupted":
                raise NoScheduleInTime("the search was stopped before there was any schedule")
            raise self._invalid or self._no_schedule("no schedule was found")
        return Found(
            schedule=self.schedule,
            lower_bound_us=self._bound_us,
            bound_source=self._bound_source,
            status=status_of(
                self._gap,
                self._options,
                cut_short=cut_short,
                first_s=self._first_s,
                elapsed_s=self._elapsed_s,
                failed=bool(self._journal.failures),
                stalled=self._budget.has_stalled,
            ),
            seconds=self._elapsed_s,
            note=self._note,
            engines=self._journal.runs,
            declined=self._journal.declined,
            failures=tuple(self._journal.failures),
            any_chunks=NOTHING if self._is_refuted(self._journal.any_chunks) else self._journal.any_chunks,
        ).with_passed(each for each in self._passed.values() if each is not self.schedule)

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def _gap(self) -> float:
        return 1.0 if self._time_us is None else relative_gap(self._time_us, self._bound_us)

    def _take_schedule(self, update: Update) -> bool:
        schedule = update.schedule
        if schedule is None or (
            self._time_us is not None and schedule.makespan_us >= self._time_us - TOLERANCE_US
        ):
            return False
        try:
            schedule.check()
        except ScheduleError as fault:  # a mistake of one engine, which others need not pay for
            self._journal.refuses(update.stage, schedule, fault)
            self._invalid = fault
            return False
        if len(schedule) <= _MOST_TRANSFERS_PASSED:
            self._passed["first" if self.schedule is None else update.stage] = schedule
        if self.schedule is None:
            self._first_s = self._elapsed_s
        self.schedule, self._time_us = schedule, schedule.makespan_us
        if contradicts(self._bound_us, self._time_us):
            self._refuse_bound(self._bound_us, self._bound_source)
            self._bound_us, self._bound_source = 0.0, ""
        return True

    def _take_bound(self, update: Update) -> None:
        if update.lower_bound_us <= self._bound_us:
            return
        if self._time_us is not None and contradicts(update.lower_bound_us, self._time_us):
            self._refuse_bound(update.lower_bound_us, update.bound_source)
            return
        self._bound_us, self._bound_source = update.lower_bound_us, update.bound_source

    def _is_refuted(self, proof: Proof) -> bool:
        return self._time_us is not None and contradicts(proof.value_us, self._time_us)

    def _refuse_bound(self, bound_us: float, source: str) -> None:
        """A bound above a valid schedule is a mistake of this program, and must not pass for a proof."""
        fault = ScheduleError(
            f"a lower bound of {bound_us:.6f} us ({source}) stands above a valid "
            f"schedule of {self._time_us:.6f} us, so it is wrong and not stated as a bound",
            hint="please report this with your command and files",
        )
        self._journal.fails("bound", fault)

    def _no_schedule(self, what: str) -> NoScheduleInTime:
        bound = f"; no schedule is faster than {self._bound_us:.2f} us" if self._bound_us else ""
        limit = f"the search had {round(self._options.limit_s, 2):g} s"
        if self._options.effort is not None:
            limit = f"the effort is {self._options.effort}"
        failures = "".join(f"; {each.name} failed: {each.text}" for each in self._journal.failures)
        return NoScheduleInTime(
            f"{what}, and {limit}{bound}{failures}",
            hint="a larger --time-limit, or fewer --chunks",
        )
