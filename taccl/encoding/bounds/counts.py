"""Counts that only grow, as steps in time: what can be held, informed or served by a moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(slots=True)
class Steps:
    """A count that only grows: from `times[i]` on, microseconds, it is `counts[i]`; before the first, 0."""

    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def at(self, time_us: float) -> int:
        """The count at a moment."""
        place = bisect_right(self.times, time_us)
        return self.counts[place - 1] if place else 0

    def first(self, count: int) -> float | None:
        """When a count is first reached; None: never."""
        place = bisect_left(self.counts, count)
        return self.times[place] if place < len(self.times) else None

    @property
    def last(self) -> int:
        """The count at the end of what is known."""
        return self.counts[-1] if self.counts else 0

    def grow(self, time_us: float, count: int) -> None:
        """Step up to a count that is larger than the last, no sooner than the last step."""
        self.times.append(time_us)
        self.counts.append(count)

    def capped(self, most: int) -> Steps:
        """The same, and no more than so much."""
        if self.last <= most:
            return self
        place = bisect_left(self.counts, most)
        return Steps([*self.times[: place + 1]], [*self.counts[:place], most])

    def moments(self) -> FloatArray:
        """When each count from 1 to the last is first reached."""
        counts = np.array([0, *self.counts], dtype=np.int64)
        return np.repeat(np.array(self.times, dtype=np.float64), counts[1:] - counts[:-1])

    def key(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Equal for equal counts."""
        return tuple(self.times), tuple(self.counts)


def sum_of(counts: Sequence[Steps], most: int | IntArray) -> Steps:
    """The sum of some counts, of each no more than `most`: a number, or shape (len(counts),)."""
    grows: dict[float, int] = {}
    for steps, cap in zip(counts, np.broadcast_to(most, len(counts)).tolist(), strict=True):
        before = 0
        for time_us, count in zip(steps.times, steps.counts, strict=True):
            if before >= cap:
                break
            grows[time_us] = grows.get(time_us, 0) + min(cap, count) - before
            before = count
    times = sorted(grows)
    return Steps(times, list(accumulate(grows[time_us] for time_us in times)))
