"""Which of the plans that serve the same calls comes first at which size: the one predicted faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from taccl.deployment.plans import DeployedPlan

#: No call is larger.
LAST = 2**64 - 1


@dataclass(frozen=True)
class Predicted:
    """A time of a plan at one size, microseconds, with what no plan can beat there, and why."""

    name: str
    size_bytes: int
    time_us: float
    lower_bound_us: float
    bound_source: str


_Pair = tuple[DeployedPlan, DeployedPlan]

#: Times of a plan at these sizes.
Predict = Callable[[DeployedPlan, Sequence[int]], Sequence[Predicted]]


@dataclass(frozen=True)
class Preferred:
    """Up to this many bytes, these plans, the best first.

    `is_choice` : whether some of them serve the same calls there, so that the order decides.
    """

    collective: str
    ranks: int
    up_to_bytes: int
    names: tuple[str, ...]
    is_choice: bool


def preferences(
    plans: Sequence[DeployedPlan], predict: Predict | None
) -> tuple[tuple[Preferred, ...], tuple[Predicted, ...]]:
    """For each collective and number of ranks, from small sizes to large; and the times that decided.

    Times are taken at the ends of where plans overlap and at the powers of four between; in between they are
    lines, as they are in the cost model where the same ranks and links are the limit.

    Parameters
    ----------
    predict : None: nothing is known of times, and the order given is the order.
    """
    groups: dict[tuple[str, int], list[DeployedPlan]] = {}
    for plan in plans:
        groups.setdefault((plan.collective, plan.ranks), []).append(plan)
    rows: list[Preferred] = []
    times: list[Predicted] = []
    for group in groups.values():
        pairs = [pair for pair in combinations(group, 2) if pair[0].shares_calls_with(pair[1])]
        known = {} if predict is None else _known_times(pairs, predict)
        times += [each for row in known.values() for each in row]
        rows += _rows(group, pairs, known)
    return tuple(rows), tuple(times)


def _rows(
    group: Sequence[DeployedPlan], pairs: Sequence[_Pair], known: Mapping[str, Sequence[Predicted]]
) -> list[Preferred]:
    """Rows between sizes at which a window ends or two times cross; neighbours that say the same are one."""
    ends = {LAST, *_crossings(pairs, known)}
    for pair in pairs:
        low, high = _overlap(pair)
        ends |= {low - 1, high}
    rows: list[Preferred] = []
    begin = 0
    for end in sorted(ends):
        middle = (begin + end) // 2
        competing = {plan.name for pair in pairs if _is_in(middle, _overlap(pair)) for plan in pair}
        # those that compete with nobody keep the places that they were given; so do all if one has no times
        names = [plan.name for plan in group]
        if all(known.get(name) for name in competing):
            names.sort(key=lambda name: _time_at(known[name], middle) if name in competing else np.inf)
        row = Preferred(group[0].collective, group[0].ranks, end, tuple(names), bool(competing))
        if rows and (rows[-1].names, rows[-1].is_choice) == (row.names, row.is_choice):
            rows.pop()
        rows.append(row)
        begin = end + 1
    return rows


def _known_times(pairs: Sequence[_Pair], predict: Predict) -> dict[str, Sequence[Predicted]]:
    """Times of those plans that overlap with others, wherever they do."""
    sizes: dict[str, set[int]] = {}
    plans: dict[str, DeployedPlan] = {}
    for pair in pairs:
        low, high = _overlap(pair)
        between = {4**k for k in range(low.bit_length() // 2 + 1, 32) if low < 4**k < high}
        for plan in pair:
            plans[plan.name] = plan
            sizes.setdefault(plan.name, set()).update(between, (low, high))
    return {name: predict(plan, sorted(sizes[name])) for name, plan in plans.items()}


def _crossings(pairs: Sequence[_Pair], known: Mapping[str, Sequence[Predicted]]) -> Iterator[int]:
    """Sizes up to which one of two plans is faster, and above which the other is."""
    for pair in pairs:
        rows = [known.get(plan.name, ()) for plan in pair]
        if not all(rows):
            continue
        overlap = _overlap(pair)
        sizes = sorted({each.size_bytes for row in rows for each in row if _is_in(each.size_bytes, overlap)})
        ahead = [_time_at(rows[0], size) - _time_at(rows[1], size) for size in sizes]
        for (low, before), (high, after) in pairwise(zip(sizes, ahead, strict=True)):
            if before and before * after <= 0:  # also where they meet at the size itself
                yield low + int((high - low) * before / (before - after))


def _time_at(times: Sequence[Predicted], size: int) -> float:
    return float(np.interp(size, [time_.size_bytes for time_ in times], [time_.time_us for time_ in times]))


def _overlap(pair: _Pair) -> tuple[int, int]:
    one, other = pair
    return max(one.min_bytes, other.min_bytes), min(one.max_bytes, other.max_bytes)


def _is_in(size: int, window: tuple[int, int]) -> bool:
    return window[0] <= size <= window[1]
