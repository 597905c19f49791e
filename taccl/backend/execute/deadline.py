"""The time limit of a call: whatever moves or makes data looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from taccl.errors import VerificationError

#: This many elements are made or compared between two looks.
_BLOCK = 2**20


class Deadline:
    """When a call has to be over, and how far it is.

    Parameters
    ----------
    limit_s : seconds from now on, for the whole call.
    clock : seconds since some moment.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_s
        self._clock, self._began_s = clock, clock()
        self._doing = "reading the program"
        self._sent: Callable[[], int] = lambda: 0
        self._planned = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, never negative."""
        return max(0.0, self.limit_s - self.elapsed_s)

    def counts(self, doing: str, planned: int, sent: Callable[[], int]) -> None:
        """From now on it is `doing` that takes the time; `sent` counts pieces so far, of those `planned`."""
        self._doing, self._sent, self._planned = doing, sent, planned

    def turns_to(self, doing: str) -> None:
        """Now it is `doing` that takes the time."""
        self._doing = doing

    def look(self) -> None:
        """Go on, if there is time.

        Raises
        ------
        VerificationError : there is none left.
        """
        elapsed_s = self.elapsed_s
        if elapsed_s > self.limit_s:
            raise self.missed(elapsed_s)

    def missed(self, elapsed_s: float | None = None) -> VerificationError:
        """What is reported when there is no time left: what was moved, in how long, and what helps."""
        took_s = self.elapsed_s if elapsed_s is None else elapsed_s
        reported = (
            f"not at an end after {took_s:.1f} s, over the limit of {self.limit_s:g} s, while {self._doing}"
        )
        if not self._planned:  # what is read or checked takes as long at any size
            return VerificationError(reported, hint="a longer --timeout")
        return VerificationError(
            f"{reported}: {self._sent()} of {self._planned} pieces were sent",
            hint="a smaller --size or a longer --timeout",
        )


def blocks_of(size: int, look: Callable[[], None]) -> Iterator[slice]:
    """Slices that cover this many elements, with a look before each."""
    for first in range(0, size, _BLOCK):
        look()
        yield slice(first, min(first + _BLOCK, size))
