"""What an engine is: a function from a problem to a stream of improving answers.

Engines are anytime. They yield an `Update` whenever they have a better schedule or a better bound,
and stop when they have nothing more to say or their budget is spent. They print nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from taccl.arguments import is_number, shown, whole_number
from taccl.errors import SolverError
from taccl.problem import Problem
from taccl.schedule import Schedule

#: z3 counts milliseconds in 32 bits; HiGHS and CP-SAT have seeds of 31.
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0
MAX_SEED = 2**31 - 1
#: Longer ways than this times the shortest are of no use to anybody.
MAX_SLACK = 1e6


@dataclass(frozen=True)
class SolveOptions:
    """What the user asked for.

    Parameters
    ----------
    engine : `auto` or the name of one engine.
    time_limit_s : seconds for everything together, at most 30 days.
    gap : stop when (time - bound) / time is no more than this.
    seed : of every random choice, below 2**31.
    solver : of the MILP engine, by a name that PuLP knows.
    slack : the longest ways that MILP and CP consider, relative to the shortest; None: short ones
        first, then longer ones.
    known : a schedule of the problem to begin with, such as one of coarser chunks (`refine`).

    Raises
    ------
    SolverError : a number that is out of range or none.
    """

    engine: str = "auto"
    time_limit_s: float = 60.0
    gap: float = 0.0
    seed: int = 0
    solver: str = "highs"
    slack: float | None = None
    known: Schedule | None = None

    def __post_init__(self) -> None:
        for name, what in (("engine", "the engine"), ("solver", "the solver")):
            if not isinstance(getattr(self, name), str):
                raise SolverError(f"{what} must be a name, not {shown(getattr(self, name))}")
        check_time_limit(self.time_limit_s, least=0.0)
        if not is_number(self.gap) or not 0 <= self.gap < 1:
            raise SolverError(
                f"a gap is a fraction from 0 up to 1, not {shown(self.gap)}", hint="--gap 0.05 for 5%"
            )
        whole_number(self.seed, "a seed", SolverError, least=0, most=MAX_SEED, hint="--seed 7")
        if self.slack is not None and (not is_number(self.slack) or not 1 <= self.slack <= MAX_SLACK):
            raise SolverError(
                f"a slack is from 1 to {MAX_SLACK:g}, not {shown(self.slack)}",
                hint="--slack 1.5: ways half as long again",
            )


def check_time_limit(seconds: object, *, least: float | None = None, example: str = "60") -> float:
    """The seconds, if they are positive (or from `least` on) and no more than a solver can count.

    Raises
    ------
    SolverError : they are not, or are no number.
    """
    if is_number(seconds) and (seconds > 0 if least is None else seconds >= least):
        if seconds <= MAX_TIME_LIMIT_S:
            return float(seconds)
        raise SolverError(
            f"a time limit must be at most {MAX_TIME_LIMIT_S:g} s (30 days), not {shown(seconds)} s",
            hint=f"--time-limit {example}",
        )
    raise SolverError(
        f"a time limit must be positive, not {shown(seconds)} s", hint=f"--time-limit {example}"
    )


@dataclass(frozen=True)
class Update:
    """News from an engine: a better schedule, a better bound, or both; or a note.

    `lower_bound_us` holds for every schedule of the problem, not only for this one; 0 says nothing.
    `bound_source` says in a few words where it comes from. `note` is a fact about the last schedule
    that is no bound, in a sentence for the user.
    """

    stage: str
    schedule: Schedule | None = None
    lower_bound_us: float = 0.0
    bound_source: str = ""
    note: str = ""


class Budget:
    """The seconds that are left: the one clock of this room, started when it is made."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def share(self, fraction: float) -> Budget:
        """A budget of a part of what is left."""
        return Budget(self.remaining_s() * fraction)


class Engine(Protocol):
    """One way of answering a problem that only copies (no sums; see `combine`)."""

    def __call__(
        self, problem: Problem, options: SolveOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        """Yield better and better schedules than `incumbent` until done or out of budget."""
        ...
