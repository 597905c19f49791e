"""What an engine is: a function from a problem to a stream of improving answers.

Engines are anytime. They yield an `Update` whenever they have a better schedule or a better bound,
and stop when they have nothing more to say or their budget is spent. They print nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from taccl.encoding.core.budget import Budget
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.problem import Problem
from taccl.schedule import Schedule


class Engine(Protocol):
    """One way of answering a problem that only copies (no sums; see `combine`)."""

    def __call__(
        self, problem: Problem, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        """Yield better and better schedules than `incumbent` until done or out of budget."""
        ...
