"""The rounds: search under the costs of one way, predict the files of all ways, go on with the best.

It knows budgets, searches and predictions; how a problem is stated and searched is its caller's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.portfolio.journal import Failure, told
from taccl.errors import NoScheduleInTime, TacclError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.predictions import NOT_TRIED, FileTried, Prediction, Predictor
from taccl.synthesis.autotune.ways import Way
from taccl.synthesis.chunking import ChunksTried
from taccl.synthesis.predicted import Execution
from taccl.synthesis.search import STOP, Answer, Found, Observer, Progress

#: Parts of what is left: for a first look by list scheduling, for each search, for predictions after it.
_LOOK, _SEARCH, _PREDICT = 0.1, 0.5, 0.5
#: Of the budget, for the search where there is one way only; the rest is for predictions.
_ALONE = 0.75
#: Ways are searched for one after another, so many at most.
_MOST_SEARCHES = 4
#: After the first look, ways that are so much slower than the best are left alone.
_PROMISING = 1.5
#: A file of no more transfers is there in a moment: one of each protocol is made, if the time is up or not.
_SOON = 5_000
#: Of the schedules that a search hands over, so many are lowered.
_FEW = 24


class HasProblem(Protocol):
    """A problem as the caller states it, with what the user should know of it."""

    @property
    def problem(self) -> Problem: ...

    @property
    def notes(self) -> tuple[str, ...]: ...


Stated = TypeVar("Stated", bound=HasProblem)


@dataclass(frozen=True, eq=False)
class Searched(Generic[Stated]):
    """What a search under the costs of one way came to.

    `found` : what is best by those costs. `all_found` : that, the best for other numbers of chunks, and
    others whose files may be faster.
    `tried`, `notes`, `chunks_note` : what is told of that number, where it was open.
    """

    way: Way
    stated: Stated
    found: Found
    all_found: tuple[tuple[Stated, Found], ...]
    tried: tuple[ChunksTried, ...] = ()
    notes: tuple[str, ...] = ()
    chunks_note: str = ""


@dataclass(frozen=True, eq=False)
class FileChoice(Generic[Stated]):
    """The way that is chosen, the schedule for it, and all that was tried.

    `execution`, `blocks_per_gpu` : of the file, where there is a prediction.
    """

    way: Way
    stated: Stated
    found: Found
    notes: tuple[str, ...]
    chunks_tried: tuple[ChunksTried, ...]
    execution: Execution | None = None
    blocks_per_gpu: int | None = None
    files_tried: tuple[FileTried, ...] = ()


def unpredicted(searched: Searched[Stated], *notes: str) -> FileChoice[Stated]:
    """What a search found best by the costs that it was given, where no file is predicted."""
    told = (*searched.notes, *searched.stated.notes, *_told((searched.chunks_note,)), *notes)
    return FileChoice(searched.way, searched.stated, searched.found, told, searched.tried)


#: Searches under the costs of a way, quickly by list scheduling or as asked, on its caller's budget.
Search = Callable[[Way, SearchOptions, Budget, "Observer | None", bool], Searched[Stated]]


def choose_file(
    search: Search[Stated],
    predictor: Predictor,
    ways: Sequence[Way],
    options: SearchOptions,
    error: float,
    on_progress: Observer | None = None,
    costs_differ: bool = True,
) -> FileChoice[Stated]:
    """The way to make the file, and the schedule for it, with the least predicted time.

    Within `error`, the fewest thread blocks win. Budget and gap are those of `options`; the gap is of each
    search. One way is searched for with all the time, as if it were no choice; so is the first where engines
    see the same costs whatever the way is (`costs_differ`).

    Raises
    ------
    TacclError : what the first search raises; or none of several ways gives a file that ends.
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    rounds = _Rounds(search, predictor, ways, options, error, on_progress, costs_differ)
    try:
        rounds.run()
    except KeyboardInterrupt:
        if not rounds.searches:
            raise
        rounds.interrupted = True
    return rounds.choice()


class _Rounds(Generic[Stated]):
    def __init__(
        self,
        search: Search[Stated],
        predictor: Predictor,
        ways: Sequence[Way],
        options: SearchOptions,
        error: float,
        on_progress: Observer | None,
        costs_differ: bool,
    ) -> None:
        self._began = time.monotonic()
        self._budget = options.budget()
        self._search, self._predictor, self._ways = search, predictor, ways
        self._options, self._error, self._on_progress = options, error, on_progress
        self._failures: list[Failure] = []
        self._told_us: dict[Way, float] = {}
        self.searches: list[Searched[Stated]] = []
        self.interrupted = False
        self._searches_once = len(ways) == 1 or not costs_differ
        self._is_searched = False  # as was asked: the first look is not
        self._has_looked = False

    def run(self) -> None:
        if self._searches_once:
            self._search_for(self._ways[0], _ALONE)
            return
        self._look(_LOOK)
        searched: set[Way] = set()
        while len(searched) < _MOST_SEARCHES and not self.interrupted:
            way = self._winner().way if self._predictor.predictions else self._ways[0]
            if way in searched or (searched and self._budget.remaining_s() <= 0):
                break
            searched.add(way)
            self._search_for(way, _SEARCH)
        if any(map(self._is_left, self._ways)):  # what there was no time for takes the time that is left
            self._predict(self.searches[-1])

    def _look(self, part: float) -> None:
        """A first schedule, made in every way: which costs are worth a search."""
        self._has_looked = True
        budget = self._budget.share(part)
        try:
            looked = self._search(self._ways[0], self._options, budget, self._listener(self._ways[0]), True)
        except NoScheduleInTime:  # the search has more of it
            return
        except Exception as fault:  # what is wrong with the request, the search says again
            self._failures.append(Failure("first look", told(fault)))
            return
        self.searches.insert(0, looked)  # the last is what was asked for
        self.interrupted = self.interrupted or looked.found.status == "interrupted"
        self._predict(looked)

    def _search_for(self, way: Way, part: float) -> None:
        budget = self._budget.share(part)
        try:
            searched = self._search(way, self._options, budget, self._listener(way), False)
        except Exception as fault:
            is_of_request = isinstance(fault, TacclError) and not isinstance(fault, NoScheduleInTime)
            if not self.searches or (is_of_request and not self._is_searched):
                raise
            self._failures.append(Failure(f"search for {way}", told(fault)))
            return
        self._is_searched = True
        self._note(searched)
        self._predict(searched)

    def _note(self, searched: Searched[Stated]) -> None:
        self.searches.append(searched)
        self.interrupted = self.interrupted or searched.found.status == "interrupted"

    def _predict(self, searched: Searched[Stated]) -> None:
        """What the files of a search would take; of the best schedule at least the way it was made for."""
        predictor, schedules = self._predictor, _distinct(searched)
        if not predictor.predictions:
            anyway = self._budget.without_end()
            predictor.predict(searched.found.schedule, [searched.way], anyway)
            if self._searches_once and predictor.predictions and len(searched.found.schedule) <= _SOON:
                predictor.predict(searched.found.schedule, self._of_others(searched.way), anyway)
        if not (predictor.predictions or self._has_looked or self.interrupted):
            self._look(_PREDICT)  # what is best has no file; what is found first may have one
        is_last = (
            self._searches_once and predictor.predictions
        )  # else some time is left to say what would fit
        budget = self._budget.share(1.0 if is_last else _PREDICT)
        best = searched.found.schedule
        if not self.interrupted:
            predictor.predict(best, self._worth_it(searched.way, best), budget)
        for schedule in sorted(schedules, key=len):
            if not self.interrupted:
                predictor.predict(schedule, [searched.way], budget)
        predicted_us = {each.schedule: each.time_us for each in predictor.of_way(searched.way)}
        for schedule in sorted(schedules, key=lambda each: (predicted_us.get(each, math.inf), len(each))):
            if self.interrupted:
                return
            predictor.predict(schedule, self._worth_it(searched.way, schedule), budget)

    def _of_others(self, way: Way) -> list[Way]:
        """The same way with other protocols."""
        return [each for each in self._ways if each == replace(way, protocol=each.protocol) and each != way]

    def _worth_it(self, way: Way, schedule: Schedule) -> list[Way]:
        """The ways that are not much slower than the best, those that nothing is known of, and this one.

        What others were too large for is tried again with a schedule that needs less. Where engines saw the
        costs of no way, a schedule that is slow in one may be the best in another: all are tried.
        """
        if self._searches_once:
            return list(self._ways)
        best = self._predictor.by_way()
        promising = {each.way for each in best if each.time_us <= _PROMISING * best[0].time_us} | {way}
        promising |= self._predictor.may_fit(schedule)
        return [each for each in self._ways if each in promising or self._is_left(each)]

    def _winner(self) -> Prediction:
        """Of the predictions within the error of the fastest, the one with the fewest thread blocks."""
        by_way = self._predictor.by_way()
        ties = [each for each in by_way if each.time_us <= by_way[0].time_us * (1 + self._error)]
        return min(ties, key=lambda each: (each.blocks_per_gpu, each.time_us))

    def _listener(self, way: Way) -> Observer:
        """Tells of one search as of a part of the whole: whose costs its times are by, and when."""
        start_s = time.monotonic() - self._began

        def tell(progress: Progress) -> Answer:
            if self._on_progress is None:
                return None
            told_us = self._told_us.get(way, math.inf)
            improved = progress.time_us is not None and progress.time_us < told_us
            self._told_us[way] = min(told_us, progress.time_us or math.inf)
            stage = progress.stage if self._searches_once else f"{progress.stage}, {way}"
            elapsed_s = start_s + progress.elapsed_s
            answer = self._on_progress(replace(progress, stage=stage, elapsed_s=elapsed_s, improved=improved))
            self.interrupted = self.interrupted or answer == STOP
            return answer

        return tell

    def choice(self) -> FileChoice[Stated]:
        last = self.searches[-1]
        if not self._predictor.predictions and not self._predictor.reasons:
            self._predict(last)
        if not self._predictor.predictions:
            return self._unpredicted(last)
        winner = self._winner()
        searched, stated, found = self._source_of(winner)
        chunks_note, chunks_tried = _of_chunks(searched, stated)
        notes = (*searched.notes, *stated.notes, chunks_note, self._why(winner))
        return FileChoice(
            way=winner.way,
            stated=stated,
            found=self._ended(found),
            notes=tuple(_told(notes)),
            chunks_tried=chunks_tried,
            execution=winner.execution,
            blocks_per_gpu=winner.blocks_per_gpu,
            files_tried=tuple(self._rows(winner)) if len(self._ways) > 1 else (),
        )

    def _unpredicted(self, last: Searched[Stated]) -> FileChoice[Stated]:
        """Where no way gives a file that fits and ends, the schedule is kept, with the reasons."""
        reasons = self._predictor.reasons
        reason = reasons.get(last.way, "there was no time for it")
        choice = unpredicted(last, f"no time is predicted for a file of {last.way}: {reason}")
        rows = tuple(_skipped(way, reasons.get(way, NOT_TRIED)) for way in self._ways)
        return replace(choice, found=self._ended(last.found), files_tried=rows if len(self._ways) > 1 else ())

    def _ended(self, found: Found) -> Found:
        """What was found, with how the whole ended."""
        return replace(
            found,
            status="interrupted" if self.interrupted and found.status != "optimal" else found.status,
            seconds=time.monotonic() - self._began,
            failures=tuple(dict.fromkeys((*found.failures, *self._failures))),
        )

    def _source_of(self, winner: Prediction) -> tuple[Searched[Stated], Stated, Found]:
        """The search that a schedule is from, and what it knew of it."""
        return next(
            (searched, stated, found)
            for searched in self.searches
            for stated, found in searched.all_found
            if found.schedule is winner.schedule
        )

    def _rows(self, winner: Prediction) -> Iterator[FileTried]:
        """What each way came to, fastest first; then what could not be tried."""
        predicted = self._predictor.by_way()
        fastest_us = predicted[0].time_us
        for each in predicted:
            if each is winner:
                remark = "chosen"
            elif each.time_us <= fastest_us * (1 + self._error):
                within = " within the model's error" if self._error else ""
                remark = f"no faster{within}, and no fewer thread blocks"
            else:
                remark = "slower"
            yield each.tried(remark)
        known = {each.way for each in predicted}
        for way in self._ways:
            if way not in known and way not in self._predictor.left_out:
                yield _skipped(way, self._predictor.reasons.get(way, f"{NOT_TRIED}: there was no time"))

    def _why(self, winner: Prediction) -> str:
        """The choice, in a sentence; nothing where there was none."""
        if len(self._ways) == 1:
            return ""
        predicted = self._predictor.by_way()
        fastest_us = predicted[0].time_us
        ways = "the only way" if len(predicted) == 1 else f"of {len(predicted)} ways"
        said = f"protocol, instances, thread blocks: {winner.way}, {ways} predicted{self._out_of_time()}"
        blocks = f"{winner.blocks_per_gpu} thread block{'' if winner.blocks_per_gpu == 1 else 's'} on a GPU"
        if len(predicted) == 1:
            return f"{said} ({blocks})"
        if winner.time_us <= fastest_us:
            return f"{said}, the fastest ({blocks})"
        return (
            f"{said}, the fewest thread blocks ({winner.blocks_per_gpu} on a GPU) within the model's error, "
            f"{100 * self._error:.1f}%, of the fastest, {fastest_us:.2f} us"
        )

    def _is_left(self, way: Way) -> bool:
        """Whether there is neither a prediction of a way nor a reason why not, but that time was up."""
        predictor = self._predictor
        predicted = {each.way for each in predictor.predictions}
        return way not in predicted | predictor.left_out and way not in predictor.reasons

    def _out_of_time(self) -> str:
        many = sum(self._is_left(way) for way in self._ways)
        return f" (no time for {many} others)" if many else ""


def _skipped(way: Way, reason: str) -> FileTried:
    return FileTried(way.protocol, way.instances, way.thread_blocks, None, None, None, None, None, reason)


def _distinct(searched: Searched[Stated]) -> list[Schedule]:
    """What a search hands over, the fastest of it by its costs, without what is there twice."""
    seen: dict[tuple[int, float, int], Schedule] = {}
    for _, found in searched.all_found:
        schedule = found.schedule
        chunks = schedule.problem.collective.chunks_per_rank
        seen.setdefault((chunks, schedule.makespan_us, len(schedule)), schedule)
    return sorted(seen.values(), key=lambda each: each.makespan_us)[:_FEW]


def _told(notes: Iterable[str]) -> Iterator[str]:
    return (note for note in notes if note)


def _of_chunks(searched: Searched[Stated], stated: Stated) -> tuple[str, tuple[ChunksTried, ...]]:
    """What is told of the number of chunks, where it was open and predictions choose another."""
    number = stated.problem.collective.chunks_per_rank
    before = searched.stated.problem.collective.chunks_per_rank
    if number == before or not searched.tried:
        return searched.chunks_note, searched.tried
    tried = []
    for each in searched.tried:
        if each.chunks == number:
            tried.append(replace(each, remark="chosen: its file is predicted fastest"))
        elif each.chunks == before:
            tried.append(replace(each, remark="fastest by these costs, but not its file"))
        else:
            tried.append(each)
    note = f"chunks auto: {number} per rank, by the predicted time of the file; the bound is for {number}"
    return note, tuple(tried)
