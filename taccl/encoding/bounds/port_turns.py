r"""Groups that take turns on ports, each worth so much by when it leaves and what is left after it: exactly.

A *way* is a number of chunks over one kind of link, left from some moment on. Left at x, no sooner, its group
keeps its port busy until x + busy and arrives at x + takes; with L left then until the end, it is worth

    min(most, many * w(L), once * s(L)),    w and s growing by steps.

To be worth more it would have to leave later, which is another way. So of the groups through a port only the
earliest end of its turns matters for each worth that they have together, and these ends are found in the
order of time. No ticks, so nothing is lost by rounding.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.first_times import CLOSE, OutOfBudget, Steps
from taccl.encoding.bounds.tuning import (
    PORT_TURNS_AHEAD,
    PORT_TURNS_SOONEST,
    PORT_TURNS_UNITS,
    PORT_TURNS_UNITS_PER_WAY,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget, Meter

#: Bounds are distinguished to this part of them.
_APART = 1e-11


@dataclass(frozen=True, eq=False)
class StepTable:
    """Some counts that only grow, side by side.

    Parameters
    ----------
    times_us : shape (num_counts, num_steps), filled up with infinity.
    counts : shape (num_counts, num_steps + 1); before the first step, and after each.
    """

    times_us: FloatArray
    counts: IntArray

    @staticmethod
    def of(steps: Sequence[Steps]) -> StepTable:
        most = max((len(step.times) for step in steps), default=0)
        times = np.full((len(steps), most), np.inf)
        counts = np.zeros((len(steps), most + 1), dtype=np.int64)
        for number, each in enumerate(steps):
            times[number, : len(each.times)] = each.times
            counts[number, 1 : len(each.counts) + 1] = each.counts
            counts[number, len(each.counts) + 1 :] = each.last
        return StepTable(times, counts)

    def at(self, which: IntArray, time_us: FloatArray) -> IntArray:
        """The counts at a moment each."""
        place = (self.times_us[which] <= time_us[:, None]).sum(axis=1)
        return np.asarray(self.counts[which, place])


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes through one port; columns of equal length, and the tables that `w` and `s` are rows of.

    `from_us`, `takes_us` and `busy_us` in microseconds. All groups through the port together are worth no
    more than `cap`.
    """

    from_us: FloatArray
    takes_us: FloatArray
    busy_us: FloatArray
    most: IntArray
    many: IntArray
    once: IntArray
    w: IntArray
    s: IntArray
    tables: tuple[StepTable, StepTable]
    cap: int

    def worth(self, end_us: float, enough: int, close: float, meter: Meter) -> int:
        """The most that groups in turns are worth by an end; or `enough`, if it is no less.

        Raises
        ------
        OutOfBudget : before that is known.
        """
        enough = min(enough, self.cap)
        informed, spread = self.tables
        todo = [(0.0, 0)]
        seen: dict[int, float] = {0: 0.0}
        best = -1
        while todo:
            free_us, worth = heapq.heappop(todo)
            if worth <= best:
                continue
            best = worth
            if best >= enough:
                return enough
            if not meter.goes_on(PORT_TURNS_UNITS + PORT_TURNS_UNITS_PER_WAY * len(self.most)):
                raise OutOfBudget
            leaves = np.maximum(free_us, self.from_us)
            left = end_us - (leaves + self.takes_us) + close
            kept = np.flatnonzero(left >= 0)
            left = left[kept]
            more = np.minimum(
                np.minimum(self.most[kept], self.many[kept] * informed.at(self.w[kept], left)),
                self.once[kept] * spread.at(self.s[kept], left),
            )
            then = (leaves + self.busy_us)[kept]
            order = np.lexsort((then, -more))
            earliest = np.inf
            for place in order.tolist():
                if not more[place] or then[place] >= earliest:
                    continue
                earliest = float(then[place])
                reached = min(worth + int(more[place]), enough)
                if earliest < seen.get(reached, np.inf):
                    seen[reached] = earliest
                    heapq.heappush(todo, (earliest, reached))
        return best


def least_end_us(
    ports: Sequence[Routes], need: int, known_us: float, horizon_us: float, budget: Budget
) -> float:
    """The least moment by which groups through all ports together can be worth `need`, or a little less.

    0 where that is no later than `known_us`, and `horizon_us` where it is no sooner. Where the budget does
    not let it end, what has been shown until then.
    """
    close, meter = CLOSE * horizon_us, budget.meter()
    equivalent: dict[bytes, list[Routes]] = {}
    for routes in ports:
        columns = (
            routes.from_us,
            routes.takes_us,
            routes.busy_us,
            routes.most,
            routes.many,
            routes.once,
            routes.w,
            routes.s,
        )
        key = b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
        equivalent.setdefault(key + str(routes.cap).encode(), []).append(routes)

    def possible(end_us: float) -> bool:
        left = need
        for each in equivalent.values():
            left -= len(each) * each[0].worth(end_us, max(0, left), close, meter)
            if left <= 0:
                return True
        return False

    refuted = 0.0
    try:
        if possible(known_us):
            return 0.0
        refuted, high = known_us, known_us
        while high == refuted:
            high = min(horizon_us, max(refuted * PORT_TURNS_AHEAD, horizon_us / PORT_TURNS_SOONEST))
            if not possible(high):
                refuted = high
                if high == horizon_us:
                    return horizon_us
        while high - refuted > _APART * high:
            middle = (high + refuted) / 2
            if possible(middle):
                high = middle
            else:
                refuted = middle
    except OutOfBudget:
        pass
    return refuted
