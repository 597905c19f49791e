r"""Groups that take turns on ports, each worth so much by when it leaves and what is left after it: exactly.

A *way* is a number of chunks over one kind of link, left from some moment on. Left at x, no sooner, its group
keeps its port busy until x + busy and arrives at x + takes (where ports are busy at the ends of sends, from x
+ early on until it arrives); with L left then until the end, it is worth

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

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.steps import CLOSE, OutOfBudget
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

    `from_us`, `takes_us`, `busy_us` and `early_us`, how long a group leaves before its turn on the port, in
    microseconds. All groups through the port together are worth no more than `cap`.
    """

    from_us: FloatArray
    takes_us: FloatArray
    busy_us: FloatArray
    early_us: FloatArray
    most: IntArray
    many: IntArray
    once: IntArray
    w: IntArray
    s: IntArray
    tables: tuple[StepTable, StepTable]
    cap: int

    def key(self) -> bytes:
        """Equal for ports that are equivalent."""
        columns = (self.from_us, self.takes_us, self.busy_us, self.early_us)
        counts = (self.most, self.many, self.once, self.w, self.s)
        return b"".join(column.tobytes() for column in (*columns, *counts, np.array([self.cap])))

    def worth(self, end_us: float, enough: int, close: float, meter: Meter) -> int:
        """The most that groups in turns are worth by an end; or `enough`, if it is no less.

        Raises
        ------
        OutOfBudget : before that is known.
        """
        enough = min(enough, self.cap)
        if self._at_one_go(end_us, enough, close, meter) >= enough:
            return enough
        todo = [(0.0, 0)]  # from when on the port is free, and less than nothing for what that is worth
        seen: dict[int, float] = {0: 0.0}
        best = -1
        while todo:
            free_us, less = heapq.heappop(todo)
            if -less <= best:
                continue
            best = -less
            if best >= enough:
                return enough
            more, then = self._next(free_us, end_us, close, meter)
            order = np.lexsort((then, -more))
            # Of crossings that are worth less, those that are over sooner.
            sooner = np.minimum.accumulate(np.concatenate([[np.inf], then[order][:-1]])) > then[order]
            for place in order[sooner].tolist():
                earliest, reached = float(then[place]), min(best + int(more[place]), enough)
                if earliest < seen.get(reached, np.inf):
                    seen[reached] = earliest
                    heapq.heappush(todo, (earliest, -reached))
        return best

    def _at_one_go(self, end_us: float, enough: int, close: float, meter: Meter) -> int:
        """What groups in turns are worth at least, each worth most for the time until its port is free."""
        free_us, worth = 0.0, 0
        while worth < enough:
            more, then = self._next(free_us, end_us, close, meter)
            if not len(more):
                break
            rate = more / np.maximum(then - free_us, close or 1.0)
            chosen = int(rate.argmax())
            free_us, worth = float(then[chosen]), worth + int(more[chosen])
        return worth

    def _next(self, free_us: float, end_us: float, close: float, meter: Meter) -> tuple[IntArray, FloatArray]:
        """What crossings are worth by an end if their port is free from now on, and when it is free again.

        Ways that are worth nothing are left out.
        """
        if not meter.goes_on(PORT_TURNS_UNITS + PORT_TURNS_UNITS_PER_WAY * len(self.most)):
            raise OutOfBudget
        informed, spread = self.tables
        leaves = np.maximum(free_us - self.early_us, self.from_us)
        left = end_us - (leaves + self.takes_us) + close
        kept = np.flatnonzero(left >= 0)
        left = left[kept]
        more = np.minimum(
            np.minimum(self.most[kept], self.many[kept] * informed.at(self.w[kept], left)),
            self.once[kept] * spread.at(self.s[kept], left),
        )
        then = (leaves + self.early_us + self.busy_us)[kept]
        return more[more > 0], then[more > 0]


class Turns:
    """Groups that take turns on several ports, until a horizon in microseconds."""

    def __init__(self, ports: Sequence[Routes], horizon_us: float, budget: Budget) -> None:
        self._horizon_us, self._close, self._meter = horizon_us, CLOSE * horizon_us, budget.meter()
        self.ports = ports
        equivalent: dict[bytes, list[Routes]] = {}
        for routes in ports:
            equivalent.setdefault(routes.key(), []).append(routes)
        self._equivalent = list(equivalent.values())

    def worth(self, end_us: float) -> int:
        """The most that all groups are worth by an end.

        Raises
        ------
        OutOfBudget : before that is known.
        """
        return sum(routes.worth(end_us, routes.cap, self._close, self._meter) for routes in self.ports)

    def allow(self, need: int, end_us: float) -> bool:
        """Whether groups through all ports together can be worth this much by an end.

        Raises
        ------
        OutOfBudget : before that is known.
        """
        left = need
        for each in self._equivalent:
            left -= len(each) * each[0].worth(end_us, max(0, left), self._close, self._meter)
            if left <= 0:
                return True
        return False

    def least_end_us(self, need: int, known_us: float) -> float:
        """The least moment by which groups through all ports can be worth this much, or a little less.

        0 where that is no later than `known_us`, and the horizon where it is no sooner. Where the budget does
        not let it end, what has been shown until then.
        """
        refuted, horizon_us = 0.0, self._horizon_us
        try:
            if self.allow(need, known_us):
                return 0.0
            refuted, high = known_us, known_us
            while high == refuted:
                high = min(horizon_us, max(refuted * PORT_TURNS_AHEAD, horizon_us / PORT_TURNS_SOONEST))
                if not self.allow(need, high):
                    refuted = high
                    if high == horizon_us:
                        return horizon_us
            while high - refuted > _APART * high:
                middle = (high + refuted) / 2
                if self.allow(need, middle):
                    high = middle
                else:
                    refuted = middle
        except OutOfBudget:
            pass
        return refuted
