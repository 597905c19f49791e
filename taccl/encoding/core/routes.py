"""Given routes as schedules: how many chunks travel together, and in what order everything goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import busy_us
from taccl.encoding.core.timing import Decision, Ordering
from taccl.encoding.core.tuning import ROUTES_CHANCES, ROUTES_MOST, ROUTES_ORDERS
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


@dataclass(frozen=True)
class Carried:
    """Chunks that pass a link, in an order in which neighbours may share a send."""

    chunks: tuple[int, ...]
    link: int


@dataclass(frozen=True)
class Grouping:
    """Sends of at most `size` chunks; `tapered`: small ones first and last, so that pipes fill early."""

    size: int
    tapered: bool = False

    def cut(self, chunks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The sends that carry these chunks, in order."""
        first, size = 0, 1 if self.tapered else self.size
        while first < len(chunks):
            left = len(chunks) - first
            if self.tapered and 2 * size > left:
                size = max(1, left // 2)
            yield chunks[first : first + size]
            first += size
            size = min(self.size, 2 * size)


def in_groups(carried: Sequence[Carried], grouping: Grouping) -> list[Decision]:
    """The sends of all that is carried."""
    return [Decision(group, each.link) for each in carried for group in grouping.cut(each.chunks)]


def orders(problem: Problem, carried: Sequence[Carried], seed: int, budget: Budget) -> Iterator[Schedule]:
    """The plain order for the likeliest groupings, then orders by chance; the first even without time."""
    likely = groupings(problem, carried)
    for number in range(ROUTES_ORDERS):
        if number and not budget.remaining_s():
            return
        chance = ROUTES_CHANCES[number // len(likely) % len(ROUTES_CHANCES)]
        ordering = Ordering.of(problem, in_groups(carried, likely[number % len(likely)]))
        tails_us = ordering.tails_us
        noise = (
            np.random.default_rng(seed + number).random(len(tails_us)) * chance * tails_us.max(initial=0.0)
        )
        yield ordering.schedule(ordering.matched(tails_us + noise))


def groupings(problem: Problem, carried: Sequence[Carried]) -> list[Grouping]:
    """The groupings that promise most, the best first."""
    longest = min(problem.max_group, max((len(each.chunks) for each in carried), default=1))
    sizes = sorted({min(longest, 1 << k) for k in range(longest.bit_length() + 1)})
    every = [Grouping(size) for size in sizes] + [Grouping(size, True) for size in sizes if size > 1]
    promise = {each: promised_us(problem, carried, each) for each in every}
    # Of groupings whose estimates differ by rounding only, the one with the smallest groups.
    return sorted(every, key=lambda each: (float(f"{promise[each]:.5g}"), each.size))[:ROUTES_MOST]


def promised_us(problem: Problem, carried: Sequence[Carried], grouping: Grouping) -> float:
    """How long the busiest port is busy, and the longest way of a last send: near what a good order takes."""
    ordering = Ordering.of(problem, in_groups(carried, grouping))
    load_us = busy_us(ordering.graph.sends, costs_of(problem.topology), problem.topology)
    last = np.cumsum([sum(1 for _ in grouping.cut(each.chunks)) for each in carried]) - 1
    return float(load_us.max(initial=0.0) + ordering.tails_us[last].max(initial=0.0))
