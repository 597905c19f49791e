"""How the time or the work of an exploration is shared: bounds, what libraries run, equal searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taccl.analysis.exploration.question import Question
from taccl.analysis.exploration.tuning import (
    BOUNDS_SHARE,
    DEFAULT_S_EACH,
    DONE,
    LIBRARY_SHARE,
    MOST_DEFAULT_S,
    MOST_TIMES,
    SEARCHED,
)
from taccl.encoding.core.options import SearchOptions
from taccl.support.budget import Budget, check_effort, check_time_limit


@dataclass(frozen=True)
class Shares:
    """Of one exploration.

    Parameters
    ----------
    time_limit_s : of all; None: work counts.
    effort : units of work of all; None: time counts.
    searches : this many share the time or the work.
    seed : of every random choice.
    """

    time_limit_s: float | None
    effort: int | None
    questions: int
    searches: int
    seed: int

    @staticmethod
    def of(questions: Sequence[Question], time_limit: float | None, effort: int | None, seed: int) -> Shares:
        """The shares of an exploration of these questions.

        Raises
        ------
        SolverError : a limit that is none.
        """
        cells = sum(len(question.sizes) for question in questions)
        searches = sum(math.ceil(SEARCHED * len(question.sizes)) for question in questions)
        if effort is not None:
            check_effort(effort)
        if time_limit is not None:
            check_time_limit(time_limit)
        elif effort is None:
            time_limit = min(MOST_DEFAULT_S, DEFAULT_S_EACH * cells)
        return Shares(time_limit, effort, len(questions), searches, seed)

    def less(self, passed_s: float) -> Shares:
        """The same where this many seconds of the limit have passed."""
        if self.time_limit_s is None:
            return self
        return replace(self, time_limit_s=max(0.0, self.time_limit_s - passed_s))

    @property
    def most_searches(self) -> int:
        """How many at most: where time counts, those that end early leave time for others."""
        return self.searches if self.effort is not None else MOST_TIMES * self.searches

    def all(self) -> Budget:
        """The budget of all, which begins now."""
        if self.effort is None:
            return Budget(self.time_limit_s or 0.0)
        return Budget.of_work(self.effort, self.time_limit_s)

    def bounds(self) -> Budget:
        """The budget for the bounds of one question, next to those that are made in any case."""
        return self._part(BOUNDS_SHARE / self.questions)

    def library(self) -> Budget:
        """The budget for what libraries run, of one question."""
        return self._part(LIBRARY_SHARE / self.questions)

    def options(self, jobs: int, left_s: float) -> SearchOptions:
        """What is requested of each search; `left_s` : of all."""
        share = (1 - BOUNDS_SHARE - LIBRARY_SHARE) / max(1, self.searches)
        if self.effort is not None:
            units = max(1, round(share * self.effort))
            return SearchOptions(effort=units, time_limit_s=self.time_limit_s, gap=DONE, seed=self.seed)
        each_s = share * jobs * (self.time_limit_s or 0.0)
        return SearchOptions(time_limit_s=min(each_s, left_s), gap=DONE, seed=self.seed)

    def _part(self, share: float) -> Budget:
        if self.effort is None:
            return Budget(share * (self.time_limit_s or 0.0))
        return Budget.of_work(max(1, round(share * self.effort)), self.time_limit_s)
