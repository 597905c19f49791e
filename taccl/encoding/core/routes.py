"""Given routes as schedules: how many chunks travel together, and in what order everything goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.busiest_first import busiest_first
from taccl.encoding.core.timing import Decision, predecessors, tails_us
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
        decisions = in_groups(carried, likely[number % len(likely)])
        yield busiest_first(problem, decisions, chance, seed + number)


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
    topology = problem.topology
    decisions = in_groups(carried, grouping)
    count = np.array([len(decision.chunks) for decision in decisions], dtype=np.int64)
    link = np.array([decision.link for decision in decisions], dtype=np.int64)
    send, pair = topology.pairs_of(link)
    busy = topology.port_busy_us(pair, count[send] * problem.chunk_mb)
    load = np.bincount(topology.incidence[1][pair], busy)
    last = np.cumsum([sum(1 for _ in grouping.cut(each.chunks)) for each in carried]) - 1
    tails = np.array(tails_us(problem, decisions, predecessors(problem, decisions)))
    return float(load.max(initial=0.0) + tails[last].max(initial=0.0))
