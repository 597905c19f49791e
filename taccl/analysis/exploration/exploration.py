"""The walk: bounds at all sizes, what libraries run, then searches where the gap is largest."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.bounds import bounds_of
from taccl.analysis.exploration.cache import Cache
from taccl.analysis.exploration.curves import Curve, times_of
from taccl.analysis.exploration.envelope import Envelope
from taccl.analysis.exploration.explored import Cell, Explored
from taccl.analysis.exploration.library import NOT_WHOLE, Library, in_configuration
from taccl.analysis.exploration.question import Question
from taccl.analysis.exploration.search import Outcome, Searchers, SizeSearch, search_of
from taccl.analysis.exploration.shares import Shares
from taccl.analysis.exploration.tuning import ANCHORS, LEAST_S, SEARCHED, WAVE
from taccl.encoding.core.options import SearchOptions
from taccl.errors import ScheduleError, TacclError
from taccl.model import units
from taccl.support.budget import Budget
from taccl.support.lists import few

#: Hears each search that has ended, with the table so far.
Listener = Callable[[Cell, Explored], None]

#: What a search came to: an answer, or why there is none, and whether it is of the cache.
_Came = tuple[Answer | None, str, bool]


@dataclass(frozen=True)
class SearchPoint:
    """Where a search goes: a question, one of its requests, one of its sizes, by their numbers."""

    question: int
    way: int
    size: int


class Exploration:
    """One run of `explore`.

    Parameters
    ----------
    listen : called with every search that has ended, and the table so far; None: nobody listens.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        shares: Shares,
        cache: Cache,
        others: Searchers,
        listen: Listener | None,
        notes: tuple[str, ...],
    ) -> None:
        self._questions, self._shares, self._cache = questions, shares, cache
        self._others, self._listen = others, listen
        self._notes = dict.fromkeys(notes)
        self._envelopes: list[Envelope] = []
        self._cells: list[Cell] = []
        self.interrupted = False

    def run(self) -> None:
        """Until every size is near its bound, all searches are done, the time is up, or Ctrl-C."""
        budget = self._shares.all()
        try:
            for question in self._questions:
                bounds = bounds_of(question, self._shares.bounds())
                library = Library(question, self._shares.library())
                self._envelopes.append(Envelope.of(question, bounds, library))
                if not library.is_whole:
                    self._notes[f"{question.name}: {NOT_WHOLE}"] = None
            while not self.interrupted and (places := self._wave(budget)):
                self._search(places, budget)
        except KeyboardInterrupt:
            if not any(envelope.library or envelope.found for envelope in self._envelopes):
                raise
            self.interrupted = True

    def table(self) -> Explored:
        """What is known so far."""
        for number, envelope in enumerate(self._envelopes):
            self._envelopes[number], said = envelope.without_refuted()
            self._notes |= dict.fromkeys(said)
        return Explored(
            tuple(self._envelopes),
            tuple(self._cells),
            (*self._notes, *self._others.notes, *self._missing()),
            self.interrupted,
        )

    def _missing(self) -> Iterator[str]:
        """What there is nothing to show of, and why."""
        for question in self._questions[len(self._envelopes) :]:
            yield f"{question.name}: not looked at"
        for envelope in self._envelopes:
            without = [
                units.format_size(size)
                for size, time_us in zip(envelope.question.sizes, envelope.times_us(), strict=True)
                if math.isinf(time_us)
            ]
            if without:
                yield f"{envelope.question.name}: no algorithm was found in the time for {few(without)}"
        failed = [cell for cell in self._cells if cell.failure]
        if failed:
            yield f"{len(failed)} of {len(self._cells)} searches found nothing: {failed[0].failure}"

    def _wave(self, budget: Budget) -> list[SearchPoint]:
        """Where the next searches go; none: it is over. Neighbours are not searched for at once."""
        left = self._shares.most_searches - len(self._cells)
        if left <= 0 or self._left_s(budget) <= LEAST_S:
            return []
        at_once = self._others.jobs if self._shares.effort is None else WAVE
        promising = sorted(
            (
                (worth, number, size)
                for number, envelope in enumerate(self._envelopes)
                for size, worth in enumerate(envelope.worth(self._anchors(envelope)))
                if worth > 0
            ),
            reverse=True,
        )
        chosen: list[SearchPoint] = []
        for _, number, size in promising:
            near = (place for place in chosen if place.question == number)
            if len(chosen) < min(at_once, left) and all(abs(place.size - size) > 1 for place in near):
                turn = sum(self._envelopes[number].searches) + sum(
                    1 for place in chosen if place.question == number
                )
                chosen.append(SearchPoint(number, turn % len(self._questions[number].requests), size))
        return chosen

    def _anchors(self, envelope: Envelope) -> int:
        """Sizes of a question that have a search of their own before any other size has one."""
        return math.ceil(ANCHORS * SEARCHED * len(envelope.question.sizes))

    def _search(self, places: Sequence[SearchPoint], budget: Budget) -> None:
        """Search at these places, but for what is known already."""
        options = self._shares.options(self._others.jobs, self._left_s(budget))
        searches = [self._search_at(place, options) for place in places]
        known = [self._cache.get(search.key) for search in searches]
        missing = [number for number, answer in enumerate(known) if answer is None]
        ended: dict[int, _Came] = {
            number: (answer, "", True) for number, answer in enumerate(known) if answer is not None
        }
        order = deque(range(len(places)))
        try:
            self._hear_in_order(places, ended, order)
            for turn, outcome in self._others.outcomes([searches[number] for number in missing]):
                number = missing[turn]  # kept now, though others before it may still be at work
                answer, failure = self._kept(places[number], searches[number], outcome)
                ended[number] = answer, failure, False
                if not outcome.is_final:  # it was ended, with what it had
                    self.interrupted = True
                    return
                self._hear_in_order(places, ended, order)
        finally:
            for number in sorted(ended):
                self._hear(places[number], *ended[number])

    def _hear_in_order(
        self, places: Sequence[SearchPoint], ended: dict[int, _Came], order: deque[int]
    ) -> None:
        """Hear what ended and has its turn, so that the table does not depend on who was faster."""
        while order and order[0] in ended:
            number = order.popleft()
            self._hear(places[number], *ended.pop(number))

    def _search_at(self, place: SearchPoint, options: SearchOptions) -> SizeSearch:
        question = self._questions[place.question]
        turn = self._envelopes[place.question].searches[place.size]
        options = replace(options, seed=options.seed + turn)
        return search_of(question, place.way, question.sizes[place.size], options)

    def _kept(self, place: SearchPoint, search: SizeSearch, outcome: Outcome) -> tuple[Answer | None, str]:
        """The answer of a search, kept in the cache; without one, why there is none."""
        answer = None if outcome.text is None else Answer.from_text(outcome.text)
        if answer is None:
            return None, outcome.failure or "what a search gave back is no schedule"
        if not self._others.are_here:
            try:
                answer = self._believed(place, answer)
            except TacclError as fault:
                return None, f"what a worker gave back is refused: {fault}"
        if outcome.is_final:
            try:
                self._cache.put(search.key, answer.to_text())
            except (TacclError, OSError) as fault:
                self._notes[f"answers are not kept: {fault}"] = None
        return answer, ""

    def _believed(self, place: SearchPoint, answer: Answer) -> Answer:
        """An answer from elsewhere as a schedule of our own problem, checked here."""
        question = self._questions[place.question]
        chunks, size = answer.saved.schedule.problem.collective.chunks_per_rank, question.sizes[place.size]
        problem = question.problem(chunks, answer.size_bytes, place.way)
        if problem is None or not 0 <= size - answer.size_bytes < problem.collective.chunks_per_size:
            raise ScheduleError(f"it is for another size than {units.format_size(size)}")
        return answer.believed_for(problem)

    def _hear(self, place: SearchPoint, answer: Answer | None, failure: str, is_known: bool) -> None:
        """Add what a search came to, as a curve over all sizes."""
        question, envelope = self._questions[place.question], self._envelopes[place.question]
        size, curve = question.sizes[place.size], None
        cell = Cell(question, place.way, size, answer, failure, is_known)
        if answer is not None:
            name = f"search at {units.format_size(answer.size_bytes)}"
            try:
                curve = Curve(name, answer, place.way, times_of(question, answer, place.way))
            except TacclError as fault:
                cell = replace(cell, failure=str(fault))
        if curve is not None and question.jobs[0].has_predictions:
            envelope = self._as_files_alike(envelope, place.size, curve)
        self._envelopes[place.question] = envelope.searched(place.size, curve)
        self._cells.append(cell)
        if self._listen is not None:
            self._listen(cell, self.table())

    def _as_files_alike(self, envelope: Envelope, size: int, curve: Curve) -> Envelope:
        """The same with what libraries run at a size in the configuration that a search found best there."""
        known, configuration = envelope.best_library()[size], curve.answer.configuration
        if known is None or known.answer.configuration == configuration:
            return envelope
        made = in_configuration(envelope.question, known, configuration, self._shares.library())
        return envelope if made is None else replace(envelope, library=(*envelope.library, made))

    def _left_s(self, budget: Budget) -> float:
        """Seconds of the day that are left; where work counts, the number of searches is what ends it."""
        return budget.remaining_s() if self._shares.effort is None else math.inf
