"""The rounds: search under the costs of one configuration, predict the files of all, go on with the best."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.portfolio.journal import EngineFailure, reported
from taccl.errors import NoScheduleInTime, TacclError
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.file_choice import Depth, FileChoice, Searched, reported_notes, unpredicted
from taccl.synthesis.autotune.files_tried import NOT_TRIED, FileTried, Prediction
from taccl.synthesis.autotune.predictions import Predictor
from taccl.synthesis.autotune.proofs import gathered_of
from taccl.synthesis.autotune.tuning import (
    CHOOSE_ALONE,
    CHOOSE_FEW,
    CHOOSE_LISTED,
    CHOOSE_LOOK,
    CHOOSE_MOST_LOOKS,
    CHOOSE_MOST_SEARCHES,
    CHOOSE_PREDICT,
    CHOOSE_PROMISING,
    CHOOSE_SEARCH,
    CHOOSE_SOON,
)
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.search import STOP, Answer, Found, Observer, Progress, status_of

#: Searches under the costs of a configuration, so deep, on its caller's budget.
Search = Callable[[Configuration, SearchOptions, Budget, "Observer | None", Depth], Searched]


def choose_file(
    search: Search,
    predictor: Predictor,
    configurations: Sequence[Configuration],
    options: SearchOptions,
    error: float,
    on_progress: Observer | None = None,
    costs_differ: bool = True,
) -> FileChoice:
    """The configuration, and the schedule for it, with the least predicted time.

    Within `error`, the fewest thread blocks win. Budget and gap are those of `options`; the gap is of each
    search. One configuration alone is searched for with all the time; so is the first where engines see the
    same costs under all (`costs_differ`).

    Raises
    ------
    TacclError : what the first search raises; or none of several configurations gives a file that ends.
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    rounds = _Rounds(search, predictor, configurations, options, error, on_progress, costs_differ)
    try:
        rounds.run()
    except KeyboardInterrupt:
        if not rounds.searches:
            raise
        rounds.interrupted = True
    return rounds.choice()


class _Rounds:
    def __init__(
        self,
        search: Search,
        predictor: Predictor,
        configurations: Sequence[Configuration],
        options: SearchOptions,
        error: float,
        on_progress: Observer | None,
        costs_differ: bool,
    ) -> None:
        self._began = time.monotonic()
        self._budget = options.budget()
        self._search, self._predictor, self._configurations = search, predictor, configurations
        self._options, self._error, self._on_progress = options, error, on_progress
        self._failures: list[EngineFailure] = []
        self._reported_us: dict[Configuration, float] = {}
        self.searches: list[Searched] = []
        self.interrupted = False
        self._costs_differ = costs_differ
        self._searches_once = len(configurations) == 1 or not costs_differ
        self._is_searched = False  # as was requested: the first look is not
        self._has_looked = False

    def run(self) -> None:
        if self._searches_once:
            if self._costs_differ:
                self._look(self._configurations[0], "built")
            self._search_for(self._configurations[0], CHOOSE_ALONE)
            return
        self._look(self._configurations[0], "listed")
        for configuration in self._winners(CHOOSE_MOST_LOOKS, self._configurations[0]):
            self._look(configuration, "built")
        for configuration in self._winners(CHOOSE_MOST_SEARCHES):
            self._search_for(configuration, CHOOSE_SEARCH)
        if any(map(self._is_left, self._configurations)):
            self._predict(self.searches[-1])  # what there was no time for takes the time that is left

    def _winners(self, most: int, then: Configuration | None = None) -> Iterator[Configuration]:
        """What is best by now, until that was there before; `then` this one, whose costs differ."""
        seen: set[Configuration] = set()
        while len(seen) < most and not self.interrupted:
            configuration = (
                self._winner().configuration if self._predictor.predictions else self._configurations[0]
            )
            if configuration in seen and then is not None:
                configuration = then
            if configuration in seen or (seen and self._budget.remaining_s() <= 0):
                return
            seen.add(configuration)
            yield configuration

    def _look(self, configuration: Configuration, depth: Depth) -> None:
        """What is soon made by the costs of a configuration, as files: which costs are worth a search."""
        self._has_looked = True
        part = CHOOSE_LISTED if depth == "listed" else CHOOSE_LOOK
        try:
            looked = self._made(configuration, part, depth)
        except NoScheduleInTime:  # the search has more of it
            return
        except Exception as fault:  # what is wrong with the request, the search says again
            self._failures.append(EngineFailure("first look", reported(fault)))
            return
        self.searches.insert(0, looked)  # the last is what was requested
        self.interrupted = self.interrupted or looked.found.status == "interrupted"
        began_s = time.monotonic()
        self._predict(looked)
        self._budget.excuse(time.monotonic() - began_s)  # few and short, so all are taken

    def _search_for(self, configuration: Configuration, part: float) -> None:
        try:
            searched = self._made(configuration, part, "searched")
        except Exception as fault:
            is_of_request = isinstance(fault, TacclError) and not isinstance(fault, NoScheduleInTime)
            if not self.searches or (is_of_request and not self._is_searched):
                raise
            self._failures.append(EngineFailure(f"search for {configuration}", reported(fault)))
            return
        self._is_searched = True
        self.searches.append(searched)
        self.interrupted = self.interrupted or searched.found.status == "interrupted"
        self._predict(searched)

    def _made(self, configuration: Configuration, part: float, depth: Depth) -> Searched:
        """What a search comes to; it makes no files, which are what improves, so its time is excused."""
        budget, began_s = self._budget.share(part, afresh=True), time.monotonic()
        try:
            return self._search(configuration, self._options, budget, self._listener(configuration), depth)
        finally:
            self._budget.excuse(time.monotonic() - began_s)

    def _predict(self, searched: Searched) -> None:
        """What the files of a search would take; of the best schedule at least in its own configuration."""
        predictor, schedules = self._predictor, searched.distinct(CHOOSE_FEW)
        if not predictor.predictions:
            self._predict_anyway(searched, schedules)
        if not (predictor.predictions or self._has_looked or self.interrupted):
            self._look(self._configurations[0], "listed")  # what is found first may have a file
        budget = self._budget.share(self._part_for_predictions(searched), afresh=True)
        try:
            self._predict_all(searched, schedules, budget)
        finally:
            self._budget.note(min((each.time_us for each in predictor.predictions), default=math.inf), 0.0)

    def _predict_all(self, searched: Searched, schedules: Sequence[Schedule], budget: Budget) -> None:
        """Each schedule in one configuration, then the fastest in all that are worth it."""
        predictor = self._predictor
        for schedule, configuration in self._each_once(searched, schedules):
            if not self.interrupted:
                predictor.predict(schedule, [configuration], budget)
        predicted_us: dict[Schedule, float] = {}
        for each in reversed(predictor.by_time()):
            predicted_us[each.schedule] = each.time_us
        fastest = sorted(schedules, key=lambda each: (predicted_us.get(each, math.inf), len(each)))
        for schedule in fastest:
            if self.interrupted:
                return
            predictor.predict(schedule, self._worth_it(searched.configuration, schedule), budget)

    def _part_for_predictions(self, searched: Searched) -> float:
        """Of what is left: all after the last search, but that some time is left to say what would fit."""
        if searched.depth != "searched":
            return CHOOSE_LISTED if self._searches_once else CHOOSE_LOOK
        return 1.0 if self._searches_once and self._predictor.predictions else CHOOSE_PREDICT

    def _each_once(
        self, searched: Searched, schedules: Sequence[Schedule]
    ) -> list[tuple[Schedule, Configuration]]:
        """In which configuration each schedule is predicted first: that of its search, or the likeliest."""
        if searched.depth == "built":
            return self._predictor.by_guess(schedules, self._configurations)
        best, configuration = searched.found.schedule, searched.configuration
        return [(each, configuration) for each in (best, *sorted(schedules, key=len))]

    def _predict_anyway(self, searched: Searched, schedules: Sequence[Schedule]) -> None:
        """What is made whatever the budget has left: the best, and small files of other protocols."""
        predictor, best, anyway = self._predictor, searched.found.schedule, self._budget.without_end()
        predictor.predict(best, [searched.configuration], anyway)
        soon = [each for each in schedules if len(each) <= CHOOSE_SOON]
        if self._searches_once and predictor.predictions and soon:
            for other in self._of_others(searched.configuration):
                likely = predictor.likely(soon, other)
                for schedule in soon:
                    if schedule in (best, likely):
                        predictor.predict(schedule, [other], anyway)
        for made in predictor.predictions:
            self._budget.note(made.time_us, 0.0)

    def _of_others(self, configuration: Configuration) -> list[Configuration]:
        """The same configuration with other protocols."""
        return [
            each
            for each in self._configurations
            if each == replace(configuration, protocol=each.protocol) and each != configuration
        ]

    def _worth_it(self, configuration: Configuration, schedule: Schedule) -> list[Configuration]:
        """The configurations not much slower than the best, those that nothing is known of, and this one.

        What others were too large for is tried again with a schedule that needs less. Where engines saw the
        costs of none, a schedule that is slow in one may be the best in another: all are tried.
        """
        if self._searches_once:
            return list(self._configurations)
        best = self._predictor.by_configuration()
        promising = {
            each.configuration for each in best if each.time_us <= CHOOSE_PROMISING * best[0].time_us
        } | {configuration}
        promising |= self._predictor.may_fit(schedule)
        return [each for each in self._configurations if each in promising or self._is_left(each)]

    def _winner(self) -> Prediction:
        """Of the predictions within the error of the fastest, the one with the fewest thread blocks."""
        by_configuration = self._predictor.by_configuration()
        ties = [
            each
            for each in by_configuration
            if each.time_us <= by_configuration[0].time_us * (1 + self._error)
        ]
        return min(ties, key=lambda each: (each.blocks_per_gpu, each.time_us))

    def _listener(self, configuration: Configuration) -> Observer:
        """Tells of one search as of a part of the whole: whose costs its times are by, and when."""
        start_s = time.monotonic() - self._began

        def tell(progress: Progress) -> Answer:
            if self._on_progress is None:
                return None
            reported_us = self._reported_us.get(configuration, math.inf)
            improved = progress.time_us is not None and progress.time_us < reported_us
            self._reported_us[configuration] = min(reported_us, progress.time_us or math.inf)
            stage = progress.stage if self._searches_once else f"{progress.stage}, {configuration}"
            elapsed_s = start_s + progress.elapsed_s
            answer = self._on_progress(replace(progress, stage=stage, elapsed_s=elapsed_s, improved=improved))
            self.interrupted = self.interrupted or answer == STOP
            return answer

        return tell

    def choice(self) -> FileChoice:
        last = self.searches[-1]
        if not self._predictor.predictions and not self._predictor.reasons:
            self._predict(last)
        if not self._predictor.predictions:
            return self._unpredicted(last)
        winner = self._winner()
        searched, formulated, found = self._source_of(winner)
        chunks_note, chunks_tried = searched.of_chunks(formulated)
        gathered = gathered_of(formulated.problem, self.searches)
        notes = (*searched.notes, *formulated.notes, chunks_note, self._why(winner))
        return FileChoice(
            configuration=winner.configuration,
            formulated=formulated,
            found=self._ended(gathered.of(found), searched.depth),
            notes=tuple(reported_notes(notes)),
            chunks_tried=gathered.of_rows(chunks_tried),
            execution=winner.execution,
            blocks_per_gpu=winner.blocks_per_gpu,
            files_tried=tuple(self._rows(winner)) if len(self._configurations) > 1 else (),
        )

    def _unpredicted(self, last: Searched) -> FileChoice:
        """Where no configuration gives a file that fits and ends, the schedule is kept, with the reasons."""
        reasons = self._predictor.reasons
        reason = reasons.get(last.configuration, "there was no time for it")
        choice = unpredicted(last, f"no time is predicted for a file of {last.configuration}: {reason}")
        rows = tuple(
            FileTried.skipped(configuration, reasons.get(configuration, NOT_TRIED))
            for configuration in self._configurations
        )
        return replace(
            choice, found=self._ended(last.found), files_tried=rows if len(self._configurations) > 1 else ()
        )

    def _ended(self, found: Found, depth: Depth = "searched") -> Found:
        """What was found, with how the whole ended; a look has no end of its own."""
        passed_s = time.monotonic() - self._began
        found, status = found.with_failures(self._failures), found.status
        is_settled = not any(map(self._is_left, self._configurations))
        claims_too_much = status in ("optimal", "gap reached") and not is_settled
        if claims_too_much or ((self.interrupted or depth != "searched") and status != "optimal"):
            status = status_of(
                1.0,  # of a file nothing is proved by the bound of its schedule
                self._options,
                is_settled=is_settled,
                cut_short="interrupted" if self.interrupted else None,
                first_s=0.0,
                elapsed_s=passed_s,
                failed=bool(found.failures),
                stalled=self._budget.has_stalled,
            )
        return replace(found, status=status, seconds=passed_s)

    def _source_of(self, winner: Prediction) -> tuple[Searched, Formulated, Found]:
        """The search that a schedule is from, and what it knew of it."""
        return next(
            (searched, formulated, found)
            for searched in self.searches
            for formulated, found in searched.all_found
            if found.schedule is winner.schedule
        )

    def _rows(self, winner: Prediction) -> Iterator[FileTried]:
        """What each configuration came to, fastest first; then what could not be tried."""
        predicted = self._predictor.by_configuration()
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
        known = {each.configuration for each in predicted}
        for configuration in self._configurations:
            if configuration not in known and configuration not in self._predictor.left_out:
                yield FileTried.skipped(
                    configuration,
                    self._predictor.reasons.get(configuration, f"{NOT_TRIED}: there was no time"),
                )

    def _why(self, winner: Prediction) -> str:
        """The choice, in a sentence; nothing where there was none."""
        if len(self._configurations) == 1:
            return ""
        predicted = self._predictor.by_configuration()
        fastest_us = predicted[0].time_us
        several = "the only one" if len(predicted) == 1 else f"of {len(predicted)} configurations"
        chosen = f"protocol, instances, thread blocks: {winner.configuration}"
        said = f"{chosen}, {several} predicted{self._out_of_time()}"
        blocks = f"{winner.blocks_per_gpu} thread block{'' if winner.blocks_per_gpu == 1 else 's'} on a GPU"
        if len(predicted) == 1:
            return f"{said} ({blocks})"
        if winner.time_us <= fastest_us:
            return f"{said}, the fastest ({blocks})"
        return (
            f"{said}, the fewest thread blocks ({winner.blocks_per_gpu} on a GPU) within the model's error, "
            f"{100 * self._error:.1f}%, of the fastest, {fastest_us:.2f} us"
        )

    def _is_left(self, configuration: Configuration) -> bool:
        """Whether time was up for a configuration: it has no prediction, and no reason why not."""
        predictor = self._predictor
        predicted = {prediction.configuration for prediction in predictor.predictions}
        return configuration not in predicted | predictor.left_out and configuration not in predictor.reasons

    def _out_of_time(self) -> str:
        many = sum(self._is_left(configuration) for configuration in self._configurations)
        return f" (no time for {many} others)" if many else ""
