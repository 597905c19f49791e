"""The fastest of all curves at each size, which sizes share one, and where a search is worth most.

`front` is for latency against bandwidth: the algorithms that no other one matches in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from taccl.analysis.exploration.curves import Curve, at_size
from taccl.analysis.exploration.library import fastest_somewhere
from taccl.analysis.exploration.question import Question
from taccl.analysis.exploration.tuning import DONE, NEAR, SAME
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.stream import NOTHING
from taccl.model import units
from taccl.model.tolerance import contradicts
from taccl.synthesis.search import relative_gap


@dataclass(frozen=True, eq=False)
class Envelope:
    """All that is known of a question so far.

    Parameters
    ----------
    bounds : one for each size.
    library : curves of what libraries run.
    found : curves of what was searched for.
    searches : for each size how often it was searched for.
    proved_us : for each size that was searched for, what is proved of the numbers of chunks tried there.
    valid : for curves and sizes that came into question, whether the schedule passed its check there.
    """

    question: Question
    bounds: tuple[Proof, ...]
    library: tuple[Curve, ...]
    found: tuple[Curve, ...]
    searches: tuple[int, ...]
    proved_us: Mapping[int, float]
    valid: dict[tuple[int, int], bool] = field(default_factory=dict)

    @staticmethod
    def of(question: Question, bounds: tuple[Proof, ...], library: Iterable[Curve]) -> Envelope:
        """What is known before any search; of libraries, the curves that are the fastest at some size."""
        return Envelope(question, bounds, tuple(fastest_somewhere(library)), (), (0,) * len(bounds), {})

    def searched(self, place: int, curve: Curve | None) -> Envelope:
        """The same after a search at the size of this number, which came to a curve or to nothing."""
        searches = tuple(many + (at == place) for at, many in enumerate(self.searches))
        if curve is None:
            return replace(self, searches=searches)
        if self.question.requests[0].sketch is None and curve.way:  # what is proved is of its sketch alone
            return replace(self, searches=searches, found=(*self.found, curve))
        answer = curve.answer
        bound_us = max(answer.saved.lower_bound_us, answer.claimed_us, self.proved_us.get(place, 0.0))
        proved_us = {**self.proved_us, place: bound_us}
        return replace(self, searches=searches, found=(*self.found, curve), proved_us=proved_us)

    def without_refuted(self) -> tuple[Envelope, tuple[str, ...]]:
        """The same without bounds above a time, and a sentence for each: whoever proved it made a mistake."""
        kept, said = list(self.bounds), []
        for place, (time_us, bound) in enumerate(zip(self.times_us(), self.bounds, strict=True)):
            if contradicts(bound.value_us, time_us):
                kept[place] = NOTHING
                size = units.format_size(self.question.sizes[place])
                said.append(
                    f"a bound of {bound.value_us:.6f} us at {size} ({bound.witness}) stands above a time "
                    f"of {time_us:.6f} us, so it is wrong and not stated; please report this command"
                )
        return (replace(self, bounds=tuple(kept)), tuple(said)) if said else (self, ())

    def best(self) -> list[Curve | None]:
        """The fastest curve at each size whose schedule is valid there.

        Of those that are equally fast, one that serves its neighbours.
        """
        every = [*self.library, *self.found]
        serves = {id(curve): _times_best(every, curve) for curve in every}
        return [self._best_at(place, every, serves) for place in range(len(self.question.sizes))]

    def _best_at(self, place: int, every: Sequence[Curve], serves: dict[int, int]) -> Curve | None:
        curve = _fastest(every, place, serves)
        while curve is not None and not self._is_valid(curve, place):
            every = [each for each in every if each is not curve]
            curve = _fastest(every, place, serves)
        return curve

    def _is_valid(self, curve: Curve, place: int) -> bool:
        """Whether the schedule passes its check at a size; that is looked at once."""
        key = id(curve), place
        if key not in self.valid:
            self.valid[key] = at_size(curve.answer.saved.schedule, self.question.sizes[place]) is not None
        return self.valid[key]

    def front(self) -> dict[Curve, tuple[float, float]]:
        """The curves on the front of latency against bandwidth, with their times at both ends."""
        curves = list(dict.fromkeys([*filter(None, self.best()), *self.found, *self.library]))
        ends = [(curve.times_us[0], curve.times_us[-1]) for curve in curves]
        while True:
            found = front(ends)
            valid = {at: self._valid_ends(curves[at], ends[at]) for at in found}
            if all(ends[at] == pair for at, pair in valid.items()):
                return {curves[at]: ends[at] for at in found if min(ends[at]) < math.inf}
            for at, pair in valid.items():
                ends[at] = pair

    def _valid_ends(self, curve: Curve, ends: tuple[float, float]) -> tuple[float, float]:
        """The same without times at sizes where the schedule is not valid."""
        small, large = ends
        last = len(curve.times_us) - 1
        return (
            small if math.isinf(small) or self._is_valid(curve, 0) else math.inf,
            large if math.isinf(large) or self._is_valid(curve, last) else math.inf,
        )

    def best_library(self) -> list[Curve | None]:
        """The fastest of what libraries run at each size."""
        return [_fastest(self.library, place, {}) for place in range(len(self.question.sizes))]

    def times_us(self) -> list[float]:
        """The least time known at each size, inf where there is none."""
        every = [*self.library, *self.found]
        return [_least(every, place) for place in range(len(self.question.sizes))]

    def gaps(self) -> list[float]:
        """(time - bound) / time at each size; 1 where nothing is known."""
        pairs = zip(self.times_us(), self.bounds, strict=True)
        return [relative_gap(time, bound.value_us) if math.isfinite(time) else 1.0 for time, bound in pairs]

    def worth(self, anchors: int) -> list[float]:
        """How much a search at each size promises; 0 where the gap is closed.

        The first `anchors` sizes, evenly spread, are worth more than all others, since each is far from what
        was searched for. Then it is the gap, less for each search that was done there or near it.
        """
        many, gaps = len(self.searches), self._open_gaps()
        first = {(2 * turn + 1) * many // (2 * anchors) for turn in range(anchors)}
        worth = []
        for place, gap in enumerate(gaps):
            tried = sum(searched * 2.0 ** -abs(place - at) for at, searched in enumerate(self.searches))
            is_next = place in first and not self.searches[place]
            worth.append(0.0 if gap <= DONE else gap / (1 + tried) ** 2 + is_next)
        return worth

    def _open_gaps(self) -> list[float]:
        """The gaps, or those to what the nearest search proved of its number of chunks, if less is open."""
        times, gaps = self.times_us(), self.gaps()
        own = {place: relative_gap(times[place], bound_us) for place, bound_us in self.proved_us.items()}
        for place, gap in enumerate(gaps):
            near = min(own, key=lambda at: abs(at - place), default=place)
            if abs(near - place) <= NEAR:
                gaps[place] = min(gap, own.get(near, gap))
        return gaps


def _least(curves: Iterable[Curve], place: int) -> float:
    return min((curve.times_us[place] for curve in curves), default=math.inf)


def _times_best(every: Sequence[Curve], curve: Curve) -> int:
    """At how many sizes a curve is as fast as any."""
    return sum(time <= _least(every, place) * (1 + SAME) for place, time in enumerate(curve.times_us))


def _fastest(curves: Sequence[Curve], place: int, serves: dict[int, int]) -> Curve | None:
    least = _least(curves, place)
    if math.isinf(least):
        return None
    equal = [curve for curve in curves if curve.times_us[place] <= least * (1 + SAME)]
    return max(equal, key=lambda curve: (serves.get(id(curve), 0), -curve.times_us[place]))


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The numbers of the points on the Pareto front, ascending; of both figures of a point, lower is better.

    Figures that differ by no more than `SAME` are equal. A point is off the front if another one is as low in
    both figures and lower in one, or is equal to it, and on the front.
    """
    kept: list[int] = []
    for number, point in enumerate(points):
        is_beaten = any(dominates(other, point) for other in points)
        if not is_beaten and not any(_equal(points[other], point) for other in kept):
            kept.append(number)
    return kept


def dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether a is as low as b in both figures, and lower in one."""
    # No chain of such pairs comes back to its first point: each takes more than `SAME` off one figure and
    # adds no more than that to the other, so both cannot be as they were. So some point is on the front.
    return all(x <= y * (1 + SAME) for x, y in zip(a, b, strict=True)) and any(
        x * (1 + SAME) < y for x, y in zip(a, b, strict=True)
    )


def _equal(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return all(x <= y * (1 + SAME) and y <= x * (1 + SAME) for x, y in zip(a, b, strict=True))
