"""Successive halving: a short trial of each number of chunks, longer ones of the best, the rest for one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from taccl.encoding.bounds import quick_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import EngineFailure, reported
from taccl.encoding.portfolio.solve import engine_requested
from taccl.errors import CollectiveError, NoScheduleInTime, OutOfMemory, TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import OPTIMAL_GAP
from taccl.support.budget import Budget
from taccl.synthesis.autotune.chunk_counts import Proved, candidates, quick_engine, worth_trying
from taccl.synthesis.autotune.seeds import carry_over, found_across, known_for, numbers_across, part_across
from taccl.synthesis.autotune.trials import Choice, Trial, by_time, first_usable, gap_of_all, worth_longer
from taccl.synthesis.autotune.tuning import (
    CHUNK_SEARCH_AHEAD,
    CHUNK_SEARCH_COARSER,
    CHUNK_SEARCH_FAR_BEYOND,
    CHUNK_SEARCH_FEW,
    CHUNK_SEARCH_GROWTH,
    CHUNK_SEARCH_LOWERING,
    CHUNK_SEARCH_MOST_CELLS,
    CHUNK_SEARCH_MOST_IN_VAIN,
    CHUNK_SEARCH_MOST_TRANSFERS,
    CHUNK_SEARCH_MUCH_SLOWER,
    CHUNK_SEARCH_PATIENCE,
    CHUNK_SEARCH_SAVES,
    CHUNK_SEARCH_STATING,
    CHUNK_SEARCH_TWO,
)
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.search import STOP, Answer, Found, Observer, Progress, status_of
from taccl.synthesis.searcher import Alone, Searcher

#: Parts of the budget: for short trials by list scheduling, for longer ones of the best few, and for a bound
#: that holds for any number of chunks.
_FIRST_ROUND, _SECOND_ROUND, _ANY_CHUNKS = 0.2, 0.4, 0.05

#: Less than this many seconds are not worth another search.
_A_MOMENT_S = 0.05


class ChunkSearch:
    """The trials so far, the budget, and who listens.

    All decisions are made by the budget's clock, so that work units decide where work is counted.
    """

    def __init__(
        self,
        state: Callable[[int], Formulated],
        options: SearchOptions,
        on_progress: Observer | None,
        can_be_used: Callable[[Schedule], object] | None,
        budget: Budget | None = None,
        searcher: Searcher | None = None,
        chunk_bytes: int = 1,
    ) -> None:
        self._searcher = Alone() if searcher is None else searcher
        self._began = time.monotonic()
        self._budget = options.budget() if budget is None else budget
        self._total_s = self._budget.remaining_s()
        self._state, self._options = state, options
        self._on_progress, self._can_be_used = on_progress, can_be_used
        self._first_s, self._reported_us, self._finer_is_slower = 0.0, math.inf, False
        self._first_schedule_s: float | None = None
        self._fault: Exception | None = None
        self._failures: list[EngineFailure] = []
        self.trials: list[Trial] = []
        self.interrupted = False
        self._coarsest = state(1)
        self._instance = self._known_size(self._coarsest.problem)
        engine_requested(self._instance, options.engine)
        self._proved = Proved(self._instance, self._budget.share(_ANY_CHUNKS), self._fails)
        self._whole_us = quick_bound(self._instance).value_us
        any_us = self._proved.any_chunks.value_us if self._proved.counts_bytes else self._whole_us
        every = candidates(self._coarsest.problem, chunk_bytes)
        self._untried = worth_trying(every, self._whole_us, CHUNK_SEARCH_FAR_BEYOND * any_us)
        self._numbers_across = numbers_across(self._instance, self._untried)
        self._across: Schedule | None = None
        self._ahead: dict[int, tuple[Formulated, Instance]] = {}
        self._quick = quick_engine(self._instance, options) or options.engine

    def begin_elsewhere(self) -> None:
        """Let others try each number meanwhile, where there are others."""
        if isinstance(self._searcher, Alone):
            return
        end_s, problems = self._elapsed_s + CHUNK_SEARCH_AHEAD * self._total_s, [self._coarsest.problem]
        try:
            for number in self._untried[1:]:
                cells = number * problems[0].num_chunks * problems[0].num_ranks
                if self._elapsed_s > end_s or cells > CHUNK_SEARCH_MOST_CELLS:
                    break
                problems.append(self._state(number).problem)
        except (CollectiveError, MemoryError):  # the trial of that number says so
            pass
        options = self._options_for(0.0, self._options.engine, None)
        self._searcher.begin(problems, options, self._budget.share(_FIRST_ROUND))

    def hear_elsewhere(self) -> None:
        """Take what others found for each number meanwhile."""
        for number in self._searcher.heard_of():
            self._take_in(number)

    def round_across_numbers(self) -> None:
        """What engines build at once with several numbers of chunks: nothing slower may be the answer.

        Short trials have no time for them, and longer ones are about other numbers.
        """
        if self._options.engine != "auto" or not self._numbers_across or not self._goes_on():
            return

        def formulated(number: int) -> Instance:
            if (trial := self._trial_of(number)) is not None:
                return trial.instance
            self._ahead[number] = ahead = self._stated(number)
            # So that the search of it begins with what is handed over.
            ahead[1].proves(self._proved.any_chunks.value_us)
            return ahead[1]

        try:
            share = self._budget.share(part_across(self._instance))
            for schedule in found_across(self._numbers_across, formulated, share):
                self._across = schedule
        except Exception as fault:  # costs what it would have found
            self._fails("textbooks", reported(fault))
        if self._across is not None and self._across.makespan_us < self._best_us - TOLERANCE_US:
            self._take_in(self._across.problem.collective.chunks_per_rank)
        self._ahead.clear()

    def _take_in(self, number: int) -> None:
        """What became known of a number meanwhile, by a search of a moment."""
        if (trial := self._trial_of(number)) is not None:
            self._improve(trial, _A_MOMENT_S)
        elif number in self._untried:
            self._try(number, _A_MOMENT_S)
        self.trials.sort(key=lambda trial: trial.chunks)

    def _trial_of(self, number: int) -> Trial | None:
        return next((trial for trial in self.trials if trial.chunks == number), None)

    def first_round(self) -> None:
        """A short trial of each number, coarsest first, until finer ones only get slower."""
        end_s = _FIRST_ROUND * self._total_s
        slower = in_vain = 0
        while self._untried:
            seconds, before_us = (end_s - self._elapsed_s) / len(self._untried), self._best_us
            till_s = end_s if len(self.trials) > 1 else CHUNK_SEARCH_TWO * self._total_s
            if self._elapsed_s >= till_s or self._first_is_there_at(self._untried[0]) > till_s:
                break
            trial = self._try(self._untried[0], max(seconds, _A_MOMENT_S))
            slower = slower + 1 if trial and trial.time_us > CHUNK_SEARCH_MUCH_SLOWER * self._best_us else 0
            in_vain = 0 if self._best_us < before_us * (1 - OPTIMAL_GAP) else in_vain + 1
            if len(self.trials) == 1 and self._elapsed_s > end_s:
                break  # the machine is large: what is known of one number comes before a second
            self._finer_is_slower = slower == CHUNK_SEARCH_PATIENCE or in_vain == CHUNK_SEARCH_MOST_IN_VAIN
            if self.interrupted or self._finer_is_slower or not self._a_number_can_win():
                break
        for trial in by_time(self.trials)[CHUNK_SEARCH_FEW:]:
            trial.forget_derived()
        if not self.trials:
            self._only_the_coarsest()

    def second_round(self) -> None:
        """Finer numbers, as long as the finest is the fastest; then longer trials of the fastest ones."""
        seconds = _SECOND_ROUND * self._total_s / CHUNK_SEARCH_FEW
        end_s = (_FIRST_ROUND + _SECOND_ROUND) * self._total_s
        while by_time(self.trials)[0] is self.trials[-1] and self._goes_on():
            finer = [number for number in self._untried if number > self.trials[-1].chunks]
            if not finer or self._first_is_there_at(finer[0]) > end_s or not self._try(finer[0], seconds):
                break
        few = worth_longer(filter(self._may_win, self.trials))[:CHUNK_SEARCH_FEW]
        for trial in few if len(few) > 1 else ():
            if self._may_win(trial) and self._left_s > seconds and self._elapsed_s < end_s:
                self._improve(trial, seconds, self._quick if self._options.engine == "auto" else None)

    def last_round(self) -> None:
        """What is left for the fastest number; where it is settled, for the next; then for untried ones."""
        self._carry_over()
        for coarser in worth_longer(filter(self._may_win, self.trials))[:1]:
            if coarser is not by_time(self.trials)[0]:  # what it finds the others have, too
                self._improve(coarser, CHUNK_SEARCH_COARSER * self._left_s)
        for trial in by_time(self.trials):
            if self._left_s > _A_MOMENT_S and self._may_win(trial) and self._is_usable(trial):
                self._improve(trial, self._left_s)
        while self._others_wait and self._goes_on():
            if self._first_is_there_at(self._untried[0], is_last=True) > self._total_s:
                return
            self._try(self._untried[0], self._left_s)

    def choice(self) -> Choice:
        """The fastest schedule that can be used; the fastest at all where none can."""
        self._carry_over()
        best, self.interrupted = first_usable(by_time(self.trials), self._is_usable, self.interrupted)
        found = best.found.with_any_chunks(self._proved.with_those_of(self.trials, best.time_us))
        found, passed_s = found.with_failures(self._failures), time.monotonic() - self._began
        status = status_of(
            gap_of_all(self.trials, found, self._others_wait),
            self._options,
            # A search that ended before others had their trials was not the end of what there is to try.
            is_settled=not (self.interrupted or (self._others_wait and self._a_number_can_win())),
            cut_short="interrupted" if self.interrupted else None,
            first_s=self._first_schedule_s or 0.0,
            elapsed_s=passed_s,
            failed=bool(found.failures),
            stalled=self._budget.has_stalled,
        )
        return Choice.of(best, replace(found, status=status, seconds=passed_s), self.trials)

    def _carry_over(self) -> None:
        """Let each number have what was found for another, where it is one of its schedules."""
        try:
            carry_over(self.trials)
        except Exception as fault:  # costs what it would have brought
            self._fails("chunks", reported(fault))

    def _only_the_coarsest(self) -> None:
        """For a machine so large that a first schedule takes most of the time, or where short trials fail."""
        if self.interrupted and self._fault is not None:
            raise self._fault
        began_s, self._untried = self._elapsed_s, [number for number in self._untried if number > 1]
        found = self._search(self._instance, self._options, self._left_s, began_s)
        self.trials.append(Trial(1, self._coarsest, found, self._elapsed_s - began_s, None, self._instance))

    def _try(self, number: int, seconds: float) -> Trial | None:
        """A trial of a number that was not tried yet; None if it fails."""
        self._untried.remove(number)
        began_s = self._elapsed_s
        try:
            formulated, instance = self._stated(number)
            known = known_for(formulated.problem, self.trials, self._across, self._budget)
            options = self._options_for(seconds, self._quick, known)
            found = self._search(instance, options, seconds, began_s)
        except Exception as fault:
            self._fail(number, fault)
            return None
        took_s = self._elapsed_s - began_s
        self._first_s = max(self._first_s, took_s - seconds)
        self.trials.append(Trial(number, formulated, found, took_s, None, instance))
        finest = number * CHUNK_SEARCH_MOST_TRANSFERS / max(1, len(found.schedule))
        finer = [finer for finer in self._untried if finer <= finest]
        self._untried = worth_trying(finer, self._whole_us, CHUNK_SEARCH_SAVES * self._best_us)
        return self.trials[-1]

    def _stated(self, number: int) -> tuple[Formulated, Instance]:
        """The problem with this many chunks."""
        if number == 1:
            return self._coarsest, self._instance
        if number in self._ahead:
            return self._ahead[number]
        formulated = self._state(number)
        instance = self._known_size(formulated.problem)
        instance.any_chunks_us = self._proved.with_those_of(self.trials, math.inf).value_us
        return formulated, instance

    def _fail(self, number: int, fault: Exception) -> None:
        """Note what a trial ended with; finer ones need no less memory, and are no less too large."""
        self._fault = self._fault or fault
        if isinstance(fault, CollectiveError | MemoryError | OutOfMemory):
            self._untried.clear()
        if not isinstance(fault, CollectiveError | NoScheduleInTime):
            self._fails(f"chunks {number}", reported(fault))

    def _fails(self, name: str, why: str) -> None:
        self._failures.append(EngineFailure(name, why))

    def _improve(self, trial: Trial, seconds: float, engine: str | None = None) -> None:
        """Search longer for the number of a trial."""
        began_s, problem = self._elapsed_s, trial.formulated.problem
        known = known_for(problem, self.trials, self._across, self._budget)
        options = self._options_for(seconds, engine or self._options.engine, known)
        try:
            found = self._search(trial.instance, options, seconds)
        except Exception as fault:  # there is a schedule already
            self._fail(trial.chunks, fault)
            return
        finally:
            trial.seconds += self._elapsed_s - began_s
        before, was_usable = trial.found, trial.usable
        trial.learn(found)
        trial.found = trial.found.with_passed((*found.passed, found.schedule))
        if found.schedule.makespan_us >= before.schedule.makespan_us:
            return
        trial.found = replace(trial.found, schedule=found.schedule, note=found.note)
        trial.usable = None
        if was_usable and not self._is_usable(trial):
            trial.found = replace(trial.found, schedule=before.schedule, note=before.note)
            trial.usable = True

    def _search(
        self, instance: Instance, options: SearchOptions, seconds: float, began_s: float | None = None
    ) -> Found:
        """Search, and tell the listener which number it is about.

        `began_s` : notes how long it took from then to the first schedule.
        """
        start, number = time.monotonic() - self._began, instance.problem.collective.chunks_per_rank

        def tell(progress: Progress) -> Answer:
            nonlocal began_s
            if began_s is not None:
                self._first_s, began_s = self._elapsed_s - began_s, None
            if self._first_schedule_s is None and progress.time_us is not None:
                self._first_schedule_s = start + progress.elapsed_s
            if self._on_progress is None:
                return None
            news = replace(
                progress,
                stage=f"{progress.stage}, chunks {number}",
                elapsed_s=start + progress.elapsed_s,
                improved=progress.time_us is not None and progress.time_us < self._reported_us,
            )
            self._reported_us = min(self._reported_us, progress.time_us or math.inf)
            try:
                answer = self._on_progress(news)
            except KeyboardInterrupt:  # `search` forgets it where it has a proof already
                self.interrupted = True
                raise
            self.interrupted = self.interrupted or answer == STOP
            return answer

        found = self._searcher.search(instance, options, tell, self._budget.at_most(seconds))
        self.interrupted = self.interrupted or found.status == "interrupted"
        self._proved.forget_wrong(instance, found.schedule.makespan_us)
        return found.with_bound(self._proved.of(instance))

    def _options_for(self, seconds: float, engine: str, known: Schedule | None) -> SearchOptions:
        """What is requested of a part of the search; of work, the budget alone says how long."""
        limit_s = seconds if self._options.effort is None else self._options.time_limit_s
        return replace(self._options, time_limit_s=limit_s, engine=engine, known=known)

    def _known_size(self, problem: Problem) -> Instance:
        """An instance of a problem that was just stated, with a note of the work that it was."""
        self._budget.spend(CHUNK_SEARCH_STATING * len(problem.collective.outputs))
        return Instance(problem)

    def _first_is_there_at(self, number: int, is_last: bool = False) -> float:
        """When a first schedule for this many chunks should be there, by that of the finest so far.

        The first trial took what all share, too, so the second is not taken to be longer, unless it would be
        the last.
        """
        telling = self.trials if is_last else self.trials[1:]
        finest = telling[-1].chunks if telling else number
        return self._elapsed_s + self._first_s * math.pow(number / finest, CHUNK_SEARCH_GROWTH)

    def _goes_on(self) -> bool:
        """Whether there is something to gain by another number, and time for it."""
        return self._left_s > _A_MOMENT_S and self._a_number_can_win()

    def _may_win(self, trial: Trial) -> bool:
        return trial.usable is not False and self._can_win(trial.found.lower_bound_us)

    def _is_usable(self, trial: Trial) -> bool:
        if trial.usable is None:
            self._budget.spend(CHUNK_SEARCH_LOWERING * len(trial.found.schedule))
            try:
                if self._can_be_used is not None:
                    self._can_be_used(trial.found.schedule)
                trial.usable = True
            except (TacclError, MemoryError):
                trial.usable = False
        return trial.usable

    @property
    def _others_wait(self) -> bool:
        """Whether there are numbers that had no trial, and may be faster than those that had one."""
        return bool(self._untried) and not self._finer_is_slower

    @property
    def _best_us(self) -> float:
        """The fastest time among those not known to be of no use."""
        return min((trial.time_us for trial in self.trials if trial.usable is not False), default=math.inf)

    def _can_win(self, bound_us: float) -> bool:
        """Whether what has this bound could beat the best by more than the gap requested."""
        return bound_us < self._best_us * (1 - max(self._options.gap, OPTIMAL_GAP))

    def _a_number_can_win(self) -> bool:
        return self._can_win(self._proved.any_chunks.value_us)

    @property
    def _elapsed_s(self) -> float:
        """Seconds since the beginning. What a patient clock has left until it ends says nothing of that."""
        if self._budget.counts_work:
            return self._total_s - self._budget.remaining_s()
        return time.monotonic() - self._began

    @property
    def _left_s(self) -> float:
        """Seconds left for searching; none after an interruption."""
        return 0.0 if self.interrupted else self._budget.remaining_s()
