"""What a search found, next to the fastest algorithm that libraries have: whether it is worth deploying."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from taccl.errors import TacclError
from taccl.exploration.library import library_curves
from taccl.exploration.question import Question, question_of
from taccl.exploration.tuning import COMPARED_S, LIBRARY_SHARE, SAME
from taccl.support.budget import Budget, check_effort, check_time_limit
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.result import Result


@dataclass(frozen=True)
class Compared:
    """A result and what users run today, in the same model.

    Parameters
    ----------
    time_us : of the result, of its file where that is predicted.
    baseline : the fastest algorithm that libraries have and the machine has the links for; None: there is
        none, or there was no time to write it down.
    baseline_us : its time, of a file where the result's is one.
    """

    time_us: float
    baseline: str | None
    baseline_us: float | None

    @property
    def speedup(self) -> float | None:
        """Time of the baseline over that of the result."""
        return None if self.baseline_us is None or not self.time_us else self.baseline_us / self.time_us

    @property
    def line(self) -> str:
        """The same for people."""
        if self.baseline_us is None:
            return "libraries have no algorithm for this, or there was no time for it"
        known = f"{self.baseline} ({self.baseline_us:.2f} us), the fastest known of libraries"
        if self.time_us < self.baseline_us * (1 - SAME):
            return f"{self.speedup:.2f} times as fast as {known}"
        return f"no faster than {known}: use what you have"

    def to_dict(self) -> dict[str, object]:
        """Keys and values of `taccl synthesize --compare --json`."""
        return {"baseline": self.baseline, "baseline_us": self.baseline_us, "speedup": self.speedup}


def shares_of(time_limit: float | None, effort: int | None) -> tuple[float | None, int | None, Budget]:
    """What is left of a limit and an effort for the search, and the budget for `compared`.

    Raises
    ------
    SolverError : a limit or an effort that cannot be.
    """
    limit_s = None if time_limit is None else LIBRARY_SHARE * check_time_limit(time_limit)
    search_s = None if time_limit is None else (1 - LIBRARY_SHARE) * time_limit
    if effort is None:
        return search_s, None, Budget(COMPARED_S if limit_s is None else limit_s)
    check_effort(effort)
    units = max(1, round(LIBRARY_SHARE * effort))
    return search_s, max(1, effort - units), Budget.of_work(units, limit_s)


def compared(result: Result, request: Request, output: OutputOptions, budget: Budget) -> Compared:
    """A result next to the fastest of what libraries have at its size.

    Whatever goes wrong, and Ctrl-C, end it with what is known by then: the result is there.

    Parameters
    ----------
    request, output : what the result answers.
    """
    baseline, baseline_us = None, math.inf
    near = None if result.execution is None else Configuration(result.protocol, result.instances)
    with suppress(KeyboardInterrupt, TacclError):
        for curve in library_curves(_question(result, request, output), budget, near):
            if curve.times_us[0] < baseline_us:
                baseline, baseline_us = curve.name, curve.times_us[0]
    time_us = result.time_us if result.execution is None else result.execution.time_us
    return Compared(time_us, baseline, None if baseline is None else baseline_us)


def _question(result: Result, request: Request, output: OutputOptions) -> Question:
    """What the result answers at its size, by links alone where no file of it is predicted."""
    question, _ = question_of(request, (request.sketch,), output, (round(result.size_bytes),))
    if result.execution is not None:
        return question
    return replace(question, jobs=tuple(replace(job, has_predictions=False) for job in question.jobs))
