"""How much may still be spent: the one clock of `encoding`, in seconds or in units of work."""

from __future__ import annotations

import time

from taccl.arguments import is_number, shown
from taccl.errors import SolverError

#: z3 counts milliseconds in 32 bits.
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0


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
