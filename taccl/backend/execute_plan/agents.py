"""What acts by itself in a run, and what it may wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Wait:
    """What an agent waits for.

    Parameters
    ----------
    is_over : whether it may go on.
    says : what it waits for, as the end of a sentence; None: for others of its own block or rank, which is
        reported of them.
    """

    is_over: Callable[[], bool]
    says: Callable[[], str] | None = None


class Agent(Protocol):
    """Whoever acts: `run` yields each wait, to be resumed when it is over, and None where others may act."""

    rank: int
    ended: bool
    waits_for: Wait | None

    def run(self) -> Iterator[Wait | None]:
        """All that it does."""
        ...


class Waiting:
    """The judge of waits: each knows by itself whether it is over."""

    @staticmethod
    def is_over(wait: Wait) -> bool:
        """Whether an agent may go on."""
        return wait.is_over()
