"""What a search found, next to the fastest algorithm that libraries have: whether it is worth deploying."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from taccl.analysis.exploration.library import Library
from taccl.analysis.exploration.question import Question, question_of
from taccl.analysis.exploration.tuning import COMPARED_S, COMPARED_SAME, LIBRARY_SHARE
from taccl.backend.target import ThreadBlocks
from taccl.errors import TacclError
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
    baseline : the fastest algorithm of libraries that was tried; None: none was.
    baseline_us : its time, of a file where the result's is one.
    tried : how many algorithms were.
    is_whole : whether there was time for all that the machine has the links for.
    failure : why the comparison ended early, or why there is nothing to compare with.
    """

    time_us: float
    baseline: str | None
    baseline_us: float | None
    tried: int
    is_whole: bool
    failure: str = ""

    @property
    def speedup(self) -> float | None:
        """Time of the baseline over that of the result."""
        return None if self.baseline_us is None or not self.time_us else self.baseline_us / self.time_us

    @property
    def line(self) -> str:
        """The same for people."""
        speedup = self.speedup
        if speedup is None:
            return self.failure or "libraries have no algorithm for this"
        of_all = f"the fastest of {self.tried} algorithm{'' if self.tried == 1 else 's'} of libraries"
        if not self.is_whole:
            of_all += f" that were tried; {self.failure or 'there was no time for others'}"
        known = f"{self.baseline} ({self.baseline_us:.2f} us), {of_all}"
        if speedup > 1 + COMPARED_SAME:
            return f"{speedup:.2f} times as fast as {known}"
        if speedup >= 1 - COMPARED_SAME:
            return f"as fast as {known}: use what you have"
        return f"{1 / speedup:.2f} times as long as {known}: use what you have"

    def to_dict(self) -> dict[str, object]:
        """Keys and values of `taccl synthesize --compare --json`."""
        return {
            "baseline": self.baseline,
            "baseline_us": self.baseline_us,
            "speedup": self.speedup,
            "baselines_tried": self.tried,
            "baselines_whole": self.is_whole,
            "baseline_failure": self.failure,
        }


def shares_of(
    time_limit: float | None, effort: int | None
) -> tuple[float | None, int | None, Callable[[], Budget]]:
    """What a limit and an effort leave for the search, and what begins the budget of `compared` after it.

    Raises
    ------
    SolverError : a limit or an effort that cannot be.
    """
    limit_s = None if time_limit is None else LIBRARY_SHARE * check_time_limit(time_limit)
    search_s = None if time_limit is None else (1 - LIBRARY_SHARE) * time_limit
    if effort is None:
        return search_s, None, partial(Budget, COMPARED_S if limit_s is None else limit_s)
    check_effort(effort)
    units = max(1, round(LIBRARY_SHARE * effort))
    return search_s, max(1, effort - units), partial(Budget.of_work, units, limit_s)


def compared(result: Result, request: Request, output: OutputOptions, budget: Budget) -> Compared:
    """A result next to the fastest of what libraries have at its size.

    What goes wrong, and Ctrl-C, end it with what is known by then, and it says so.

    Parameters
    ----------
    request, output : what the result answers.
    """
    time_us = result.time_us if result.execution is None else result.execution.time_us
    best, tried, is_whole, failure = None, set[str](), False, ""
    try:
        library = Library(_question(result, request, output), budget, _configuration(result))
        for curve in library:
            tried.add(curve.name)
            if best is None or curve.times_us[0] < best.times_us[0]:
                best = curve
        is_whole = library.is_whole
    except KeyboardInterrupt:
        failure = "it was interrupted"
    except TacclError as fault:
        failure = fault.message
    if best is None or math.isinf(best.times_us[0]):
        return Compared(time_us, None, None, 0, is_whole, failure)
    return Compared(time_us, best.name, best.times_us[0], len(tried), is_whole, failure)


def _configuration(result: Result) -> Configuration | None:
    """Of the file whose time the result has; None: it has that of links."""
    if result.execution is None:
        return None
    blocks: ThreadBlocks = "one-way" if result.thread_blocks == "one-way" else "two-way"
    return Configuration(result.protocol, result.instances, blocks)


def _question(result: Result, request: Request, output: OutputOptions) -> Question:
    """What the result answers at its size, by links alone where no file of it is predicted."""
    question, _ = question_of(request, (request.sketch,), output, (round(result.size_bytes),))
    return question.of_links if result.execution is None else question
