"""What a user may say about a search."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from taccl.encoding.core.tuning import OPTIONS_LEAST_FOR_SEARCH_S
from taccl.errors import SolverError
from taccl.model.schedule import Schedule
from taccl.support.arguments import is_number, shown, whole_number
from taccl.support.budget import MAX_TIME_LIMIT_S, Budget, PatientClock, check_effort, check_time_limit

#: HiGHS and CP-SAT have seeds of 31 bits.
MAX_SEED = 2**31 - 1
DEFAULT_TIME_LIMIT_S = 60.0
#: The largest slack that may be requested.
MAX_SLACK = 1e6


@dataclass(frozen=True)
class SearchOptions:
    """What the user requested.

    Parameters
    ----------
    engine : `auto` or the name of one engine.
    time_limit_s : seconds for everything together, at most 30 days. None: until nothing has improved for a
        while, and at most 60; or with `effort` no limit.
    gap : stop when (time - bound) / time is no more than this.
    seed : of every random choice, below 2**31.
    solver : of the MILP engine, by a name that PuLP knows.
    slack : the longest routes that MILP and CP consider, relative to the shortest; None: short ones
        first, then longer ones.
    effort : units of work in place of seconds (`core.budget`): the same answer from the same seed, on any
        machine under any load, unless a `time_limit_s` ends the call before. None: seconds count.
    is_patient : whether the search ends before its limit once nothing has improved for a while; None: if no
        limit is given.
    known : a schedule of the problem to begin with, such as one of coarser chunks (`refine`).

    Raises
    ------
    SolverError : a number that is out of range or none.
    """

    engine: str = "auto"
    time_limit_s: float | None = None
    gap: float = 0.0
    seed: int = 0
    solver: str = "highs"
    slack: float | None = None
    known: Schedule | None = None
    effort: int | None = None
    is_patient: bool | None = None

    def __post_init__(self) -> None:
        for name, what in (("engine", "the engine"), ("solver", "the solver")):
            if not isinstance(getattr(self, name), str):
                raise SolverError(f"{what} must be a name, not {shown(getattr(self, name))}")
        if self.time_limit_s is not None:
            check_time_limit(self.time_limit_s, least=0.0)
        if self.effort is not None:
            check_effort(self.effort)
        if not is_number(self.gap) or not 0 <= self.gap < 1:
            raise SolverError(
                f"a gap is a fraction from 0 up to 1, not {shown(self.gap)}", hint="--gap 0.05 for 5%"
            )
        whole_number(self.seed, "a seed", SolverError, least=0, most=MAX_SEED, hint="--seed 7")
        if self.slack is not None and (not is_number(self.slack) or not 1 <= self.slack <= MAX_SLACK):
            raise SolverError(
                f"a slack is from 1 to {MAX_SLACK:g}, not {shown(self.slack)}",
                hint="--slack 1.5: routes half as long again",
            )

    @property
    def limit_s(self) -> float:
        """Seconds after which a search ends."""
        if self.time_limit_s is not None:
            return self.time_limit_s
        return DEFAULT_TIME_LIMIT_S if self.effort is None else MAX_TIME_LIMIT_S

    def since(self, began_s: float) -> SearchOptions:
        """The options for a search in a call that began at `began_s`: what came before it took its time.

        At least a second of the time limit is for the search. Where work is counted, that is left as it is.
        """
        if self.effort is not None and self.time_limit_s is None:
            return self
        left_s = self.limit_s - (time.monotonic() - began_s)
        limit_s = max(left_s, min(self.limit_s, OPTIONS_LEAST_FOR_SEARCH_S))
        return replace(self, time_limit_s=limit_s, is_patient=self.ends_when_nothing_improves)

    @property
    def ends_when_nothing_improves(self) -> bool:
        """Whether the search ends before its limit once nothing has improved for a while."""
        if self.is_patient is None:
            return self.time_limit_s is None and self.effort is None
        return self.is_patient

    def leaving(self, seconds: float) -> SearchOptions:
        """The same with so much less of a time limit, for what comes after the search; no more than half."""
        if self.time_limit_s is None or self.ends_when_nothing_improves:
            return self
        least_s = max(self.time_limit_s / 2, min(self.time_limit_s, OPTIONS_LEAST_FOR_SEARCH_S))
        return replace(self, time_limit_s=max(least_s, self.time_limit_s - seconds))

    def budget(self) -> Budget:
        """The budget of a search, which begins now."""
        if self.effort is None:
            return Budget(self.limit_s, PatientClock() if self.ends_when_nothing_improves else None)
        return Budget.of_work(self.effort, self.time_limit_s)
