"""Latency against bandwidth: the algorithms that no other one matches in both."""

from __future__ import annotations

from collections.abc import Sequence

from taccl.analysis.exploration.tuning import SAME


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
