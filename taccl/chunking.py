"""How finely to cut: a short look at each number of chunks, a longer one at the best, the rest for one.

Finer chunks fill a pipeline better and pay more alphas, so large sizes gain and small ones lose; which
number is best, no formula says. The search for a number begins with the best schedule of a coarser cut, so
cutting finer never makes anything slower. Each number is a problem of its own with a bound of its own; one
whose bound is above a time already found cannot win and is left alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from taccl import units
from taccl.encoding.bounds import Proof, all_bounds
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.refine import refined
from taccl.encoding.engines.registry import engine_named
from taccl.errors import NoScheduleInTime, TacclError
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule
from taccl.search import (
    STOP,
    Answer,
    Found,
    Observer,
    Progress,
    Status,
    relative_gap,
    search,
)
from taccl.tolerance import OPTIMAL_GAP

#: Parts of the time limit: for short looks by the greedy engine, and for longer ones at the best few.
_LOOKS = 0.2
_SECOND_LOOKS = 0.4
_SECOND = 4

#: Finer than this, alpha is nearly all that a chunk costs on any link between GPUs. Where ports are not
#: busy for alpha, it costs latency alone, and what a GPU loads at once is the least.
_LEAST_CHUNK_BYTES = {"serial": 1024, "pipelined": 16}
_MOST_CHUNKS = 1024

#: Looks end after so many numbers in a row that were so much slower than the best, or no faster.
_PATIENCE = 2
_MUCH_SLOWER = 1.25
_MOST_IN_VAIN = 4

#: Time of a first schedule grows about with this power of the number of chunks, at the most.
_GROWTH = 1.5

#: Less than this many seconds are not worth another search.
_A_MOMENT_S = 0.05

#: Larger schedules are not refined only to be told.
_MOST_CARRIED = 100_000

#: A search that took this part of its time ended because the time was up.
_NEARLY = 0.95


class _HasProblem(Protocol):
    @property
    def problem(self) -> Problem: ...


Stated = TypeVar("Stated", bound=_HasProblem)


@dataclass(frozen=True)
class ChunksTried:
    """What one number of chunks gave: the best time with the bound for that number.

    `remark` says what became of it.
    """

    chunks: int
    chunk_bytes: int
    time_us: float
    lower_bound_us: float
    bound_source: str
    seconds: float
    remark: str

    @property
    def gap(self) -> float:
        """(time - bound) / time, a fraction."""
        return relative_gap(self.time_us, self.lower_bound_us)

    @property
    def line(self) -> str:
        """Its figures for people."""
        figures = f"{self.time_us:.2f} us, bound {self.lower_bound_us:.2f} us, gap {100 * self.gap:.2f}%"
        return f"{figures}: {self.remark}"


@dataclass(frozen=True, eq=False)
class Choice(Generic[Stated]):
    """The number of chunks that gave the fastest schedule, and all that were tried.

    `any_chunks` bounds the time whatever the number is.
    """

    stated: Stated
    found: Found
    tried: tuple[ChunksTried, ...]
    any_chunks: Proof

    @property
    def note(self) -> str:
        """The choice and what the bound is about, in a sentence."""
        number = self.stated.problem.collective.chunks_per_rank
        tried = ", ".join(str(each.chunks) for each in self.tried)
        return (
            f"chunks auto: {number} per rank, the fastest of {tried}; the bound is for {number}; "
            f"with any number, no schedule is faster than {self.any_chunks.value_us:.2f} us"
        )


def candidates(coarsest: Problem) -> list[int]:
    """1, 2, 3, 4, 5, 6, 8, 10, 12, 16, ... : numbers of chunks into which the size can be cut evenly.

    `coarsest` has one chunk where the others have that many.
    """
    size_bytes, parts = coarsest.size_bytes, coarsest.collective.chunks_per_size
    least = _LEAST_CHUNK_BYTES[coarsest.topology.occupancy]
    numbers = sorted({1} | {k << n for n in range(10) for k in (2, 3, 5)})

    def cuts_evenly(number: int) -> bool:
        chunk, rest = divmod(size_bytes, number * parts)
        return number <= _MOST_CHUNKS and not rest and chunk >= least

    return [number for number in numbers if number == 1 or cuts_evenly(number)]


def choose_chunks(
    state: Callable[[int], Stated],
    options: SearchOptions,
    on_progress: Observer | None = None,
    can_be_used: Callable[[Schedule], object] | None = None,
) -> Choice[Stated]:
    """Search the number of chunks, and with most of the time the schedule for the best number.

    Parameters
    ----------
    state : the problem with so many chunks in each part; the size must stay the same.
    options : as for `search`; the time limit is for everything together, the gap for the number chosen.
    can_be_used : raises TacclError where a schedule is of no use, such as one too large for a file.

    Raises
    ------
    SolverError : an unknown engine.
    NoScheduleInTime : no number of chunks gave a schedule.
    KeyboardInterrupt : the user stopped it before there was any; later, the best is kept.
    """
    if options.engine != "auto":
        engine_named(options.engine)
    hunt = _Hunt(state, options, on_progress, can_be_used)
    try:
        hunt.look_at_each()
        hunt.look_again()
        hunt.finish()
    except KeyboardInterrupt:
        if not hunt.looks:
            raise
        hunt.interrupted = True
    return hunt.choice()


@dataclass(eq=False)
class _Look(Generic[Stated]):
    """One number of chunks, and the best that is known about it."""

    chunks: int
    stated: Stated
    found: Found
    usable: bool | None = None  # None: not asked yet
    seconds: float = 0.0

    @property
    def time_us(self) -> float:
        return self.found.schedule.makespan_us


class _Hunt(Generic[Stated]):
    """The looks so far, the clock, and who listens."""

    def __init__(
        self,
        state: Callable[[int], Stated],
        options: SearchOptions,
        on_progress: Observer | None,
        can_be_used: Callable[[Schedule], object] | None,
    ) -> None:
        self._began = time.monotonic()
        self._state, self._options = state, options
        self._on_progress, self._can_be_used = on_progress, can_be_used
        self._first_s = 0.0
        self._finer_is_slower = False
        self.looks: list[_Look[Stated]] = []
        self.interrupted = False
        self._coarsest = state(1)
        proven = all_bounds(self._coarsest.problem, options.time_limit_s / 20)
        self._any_chunks = next(each for each in proven if each.holds_for_any_chunks)

    def look_at_each(self) -> None:
        """Greedy passes for each number, coarsest first, until finer ones only get slower."""
        numbers = candidates(self._coarsest.problem)
        end_s = _LOOKS * self._options.time_limit_s
        slower = in_vain = 0
        for position, number in enumerate(numbers):
            seconds, before_us = (end_s - self._elapsed_s) / (len(numbers) - position), self._best_us
            if seconds <= 0 or self._first_takes_until(number) > end_s:
                break
            try:
                self._look(number, max(seconds, _A_MOMENT_S))
            except NoScheduleInTime:
                break
            slower = slower + 1 if self.looks[-1].time_us > _MUCH_SLOWER * self._best_us else 0
            in_vain = 0 if self.looks[-1].time_us < before_us * (1 - OPTIMAL_GAP) else in_vain + 1
            self._finer_is_slower = slower == _PATIENCE or in_vain == _MOST_IN_VAIN
            if self.interrupted or self._finer_is_slower or not self._can_win(self._any_chunks.value_us):
                return
        if not self.looks:  # a machine so large that a first schedule takes most of the time
            found = self._search(self._coarsest.problem, self._options, self._left_s)
            self.looks.append(_Look(1, self._coarsest, found))

    def look_again(self) -> None:
        """Longer looks at the fastest numbers; then at finer ones, as long as the finest is the fastest."""
        seconds = _SECOND_LOOKS * self._options.time_limit_s / _SECOND
        few = [look for look in self._by_time() if self._may_win(look)][:_SECOND]
        for look in few if len(few) > 1 else ():
            if self._may_win(look) and self._left_s > seconds:
                self._improve(look, seconds, "greedy" if self._options.engine == "auto" else None)
        end_s = (_LOOKS + _SECOND_LOOKS) * self._options.time_limit_s
        for number in candidates(self._coarsest.problem)[len(self.looks) :]:
            if self.interrupted or self._by_time()[0] is not self.looks[-1]:
                return
            if not self._can_win(self._any_chunks.value_us) or self._first_takes_until(number) > end_s:
                return
            try:
                self._look(number, seconds)
            except NoScheduleInTime:
                return

    def finish(self) -> None:
        """What is left of the time for the fastest number; where that is settled, for the next.

        Last come those that there was no time to look at.
        """
        for look in self._by_time():
            if self._may_win(look) and self._is_usable(look) and self._left_s > _A_MOMENT_S:
                self._improve(look, self._left_s)
        for number in candidates(self._coarsest.problem)[len(self.looks) :]:
            if self._finer_is_slower or not self._can_win(self._any_chunks.value_us):
                return
            if self._left_s <= _A_MOMENT_S:
                return
            try:
                self._look(number, self._left_s)
            except NoScheduleInTime:
                return

    def choice(self) -> Choice[Stated]:
        """The fastest schedule that can be used; the fastest at all where none can."""
        for look in self.looks:
            self._carry_over(look)
        best = next((look for look in self._by_time() if self._is_usable(look)), self._by_time()[0])
        return Choice(
            stated=best.stated,
            found=replace(best.found, status=self._status(best), seconds=self._elapsed_s),
            tried=tuple(self._tried(look, best) for look in self.looks),
            any_chunks=self._any_chunks,
        )

    def _status(self, best: _Look[Stated]) -> Status:
        gap = relative_gap(best.time_us, best.found.lower_bound_us)
        if self.interrupted:
            return "interrupted"
        if gap <= max(OPTIMAL_GAP, self._options.gap):
            return "optimal" if gap <= OPTIMAL_GAP else "gap reached"
        return "time limit" if self._elapsed_s > _NEARLY * self._options.time_limit_s else "finished"

    def _look(self, number: int, seconds: float) -> None:
        began = self._elapsed_s
        stated = self._coarsest if number == 1 else self._state(number)
        options = replace(self._options, engine="greedy", known=self._known(stated.problem))
        found = self._search(stated.problem, options, seconds, began)
        self.looks.append(_Look(number, stated, found, seconds=self._elapsed_s - began))

    def _improve(self, look: _Look[Stated], seconds: float, engine: str | None = None) -> None:
        began = self._elapsed_s
        known = self._known(look.stated.problem)
        options = replace(self._options, engine=engine or self._options.engine, known=known)
        try:
            found = self._search(look.stated.problem, options, seconds)
        except NoScheduleInTime:  # there is one already
            return
        bound = max(look.found, found, key=lambda each: each.lower_bound_us)
        old, was_usable = look.found, look.usable
        if found.schedule.makespan_us < look.time_us:
            look.found, look.usable = found, None
            if was_usable and not self._is_usable(look):
                look.found, look.usable = old, True
        look.found = replace(look.found, lower_bound_us=bound.lower_bound_us, bound_source=bound.bound_source)
        look.seconds += self._elapsed_s - began

    def _carry_over(self, look: _Look[Stated]) -> None:
        """What was found for a coarser cut after this one was looked at holds for this one too."""
        known = self._known(look.stated.problem)
        if known is None or known.makespan_us >= look.time_us - TOLERANCE_US or len(known) > _MOST_CARRIED:
            return
        known.check()
        look.found, look.usable = replace(look.found, schedule=known), None

    def _known(self, problem: Problem) -> Schedule | None:
        """The fastest that is known for this cut or a coarser one of it, as a schedule of the problem."""
        number = problem.collective.chunks_per_rank
        for look in self._by_time():
            if look.stated.problem is problem:
                return look.found.schedule
            if number % look.chunks == 0:
                return refined(look.found.schedule, problem)
        return None

    def _search(
        self, problem: Problem, options: SearchOptions, seconds: float, began: float | None = None
    ) -> Found:
        """Search, and tell the listener which number it is about.

        `began` : notes how long it took from then to the first schedule.
        """
        start, number = self._elapsed_s, problem.collective.chunks_per_rank

        def tell(progress: Progress) -> Answer:
            nonlocal began
            if began is not None:
                self._first_s, began = self._elapsed_s - began, None
            if self._on_progress is None:
                return None
            stage = f"{progress.stage}, chunks {number}"
            try:
                answer = self._on_progress(
                    replace(progress, stage=stage, elapsed_s=start + progress.elapsed_s)
                )
            except KeyboardInterrupt:  # `search` forgets it where it has a proof already
                self.interrupted = True
                raise
            self.interrupted = self.interrupted or answer == STOP
            return answer

        found = search(problem, replace(options, time_limit_s=seconds), tell)
        self.interrupted = self.interrupted or found.status == "interrupted"
        if found.lower_bound_us >= self._any_chunks.value_us:
            return found
        return replace(found, lower_bound_us=self._any_chunks.value_us, bound_source=self._any_chunks.witness)

    def _first_takes_until(self, number: int) -> float:
        """When a first schedule for so many chunks should be there, by that of the finest so far."""
        finest = self.looks[-1].chunks if self.looks else number
        return self._elapsed_s + self._first_s * math.pow(number / finest, _GROWTH)

    def _may_win(self, look: _Look[Stated]) -> bool:
        return look.usable is not False and self._can_win(look.found.lower_bound_us)

    def _is_usable(self, look: _Look[Stated]) -> bool:
        if look.usable is None:
            try:
                if self._can_be_used is not None:
                    self._can_be_used(look.found.schedule)
                look.usable = True
            except TacclError:
                look.usable = False
        return look.usable

    def _tried(self, look: _Look[Stated], best: _Look[Stated]) -> ChunksTried:
        remark = "not faster so far"
        if look is best:
            remark = "chosen"
        elif look.usable is False:
            remark = "no file can hold it"
        elif look.found.lower_bound_us >= best.time_us:
            remark = "cannot be faster"
        return ChunksTried(
            look.chunks,
            round(look.stated.problem.chunk_mb * units.MB),
            look.time_us,
            look.found.lower_bound_us,
            look.found.bound_source,
            look.seconds,
            remark,
        )

    def _by_time(self) -> list[_Look[Stated]]:
        return sorted(self.looks, key=lambda look: look.time_us)

    @property
    def _best_us(self) -> float:
        """The fastest time among those not known to be of no use."""
        return min((look.time_us for look in self.looks if look.usable is not False), default=math.inf)

    def _can_win(self, bound_us: float) -> bool:
        """Whether what has this bound could beat the best by more than the gap asked for."""
        return bound_us < self._best_us * (1 - max(self._options.gap, OPTIMAL_GAP))

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def _left_s(self) -> float:
        """Seconds left for searching; none after an interruption."""
        return 0.0 if self.interrupted else max(0.0, self._options.time_limit_s - self._elapsed_s)
