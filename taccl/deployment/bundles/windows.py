"""Which calls take which algorithm: windows of sizes that follow each other without hole or overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from taccl.analysis.exploration.curves import Curve, times_at
from taccl.analysis.exploration.envelope import Envelope
from taccl.analysis.exploration.question import Question
from taccl.deployment.bundles.tuning import BETWEEN


@dataclass(frozen=True, eq=False)
class SizeWindow:
    """Calls of these sizes take one algorithm.

    Parameters
    ----------
    curve : None: whatever the runtime does by itself.
    min_bytes, max_bytes : both included.
    places : which sizes of the question lie in it, by their numbers.
    """

    curve: Curve | None
    min_bytes: int
    max_bytes: int
    places: tuple[int, ...]


#: What the runtime's own algorithm takes at some sizes, microseconds; None where that is not known.
Library = Callable[[Sequence[int]], Sequence[float | None]]


def windows_of(envelope: Envelope, best: Sequence[Curve | None], library: Library) -> tuple[SizeWindow, ...]:
    """The windows of a question, from its smallest size to its largest.

    Two neighbours meet where the second becomes faster.

    Parameters
    ----------
    best : for each size, the algorithm that it takes; None: the runtime's own.
    """
    question = envelope.question
    groups = [
        (curve, tuple(place for place, _ in run))
        for _, run_of in groupby(enumerate(best), key=lambda pair: id(pair[1]))
        for run in [list(run_of)]
        for curve in [run[0][1]]
    ]
    starts = [question.sizes[0]]
    for (before, left), (after, right) in pairwise(groups):
        starts.append(_crossing(question, before, after, (left[-1], right[0]), library))
    ends = [start - 1 for start in starts[1:]] + [question.sizes[-1]]
    return tuple(
        SizeWindow(curve, start, end, places)
        for (curve, places), start, end in zip(groups, starts, ends, strict=True)
    )


def _crossing(
    question: Question, before: Curve | None, after: Curve | None, places: tuple[int, int], library: Library
) -> int:
    """From which size on the second is as fast as the first, between two neighbours of the table."""
    low, high = (question.sizes[place] for place in places)
    if high - low < BETWEEN:
        return high
    sizes = [low + (high - low) * step // BETWEEN for step in range(1, BETWEEN)]
    first, second = (
        library(sizes) if curve is None else times_at(question, curve.answer, curve.way, sizes)
        for curve in (before, after)
    )
    faster = (
        size
        for size, one, other in zip(sizes, first, second, strict=True)
        if one is not None and other is not None and other <= one
    )
    return next(faster, high)
