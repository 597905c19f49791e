"""What an engine is: a function from a problem to a stream of improving answers.

Engines are anytime. They yield an `Update` whenever they have a better schedule or a better bound,
and stop when they have nothing more to say or their budget is spent. They print nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from taccl.problem import Problem
from taccl.schedule import Schedule


@dataclass(frozen=True)
class SolveOptions:
    """What the user asked for.

    Parameters
    ----------
    engine : `auto` or the name of one engine.
    time_limit_s : seconds for everything together.
    gap : stop when (time - bound) / time is no more than this.
    seed : of every random choice.
    solver : of the MILP engine, by a name that PuLP knows.
    slack : the longest ways that MILP and CP consider, relative to the shortest; None: short ones
        first, then longer ones.
    known : a schedule of the problem to begin with, such as one of coarser chunks (`refine`).
    """

    engine: str = "auto"
    time_limit_s: float = 60.0
    gap: float = 0.0
    seed: int = 0
    solver: str = "highs"
    slack: float | None = None
    known: Schedule | None = None


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
