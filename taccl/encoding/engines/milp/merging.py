"""Neighbours on the busiest links put into one send each, wherever nothing ends later for it.

It knows the sends of a schedule and what each waits for; it keeps their routes, and leaves the orders to list
scheduling. The program of `contiguity` moves no send past another. Where a group leaves at once that came
bit by bit, or comes at once and is passed on bit by bit, much has to be in another order.

A merge is kept where its link is done sooner and nothing ends later, even if the end is no sooner: nodes that
are alike have their own last groups, and only with those of all of them the end comes sooner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.timing import Decision, decisions_of, list_schedule, predecessors, topological
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

#: Ports that are busy for less than this part of the time end nothing sooner by an alpha less.
_BUSY = 0.9
#: More sends are too many to be placed anew for every merge; so many are placed in a unit of work.
_MOST_SENDS, _PLACED_PER_UNIT = 2_000, 50


def merged(schedule: Schedule, budget: Budget) -> Schedule | None:
    """The same transfers in fewer sends; None if none of the ways that are tried ends sooner.

    Only for compact schedules without mixed groups.
    """
    problem = schedule.problem
    mixed = (schedule.reduce != schedule.sends.reduce[schedule.sends.of_row]).any()
    large = len(schedule.sends) > _MOST_SENDS
    if (
        not len(schedule)
        or large
        or mixed
        or schedule.sums is not None
        or problem.limits.own_first is not None
    ):
        return None
    best = schedule
    for latest_first in (False, True):
        found = _Merging(schedule).merged(latest_first, budget)
        if found is not None and found.makespan_us < best.makespan_us - TOLERANCE_US:
            best = found
    return None if best is schedule else best


class _Merging:
    """The sends of a schedule, some of them merged: None stands where one has gone into another."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._problem = schedule, schedule.problem
        self._sends: list[Decision | None] = [*decisions_of(schedule)]
        self._waits = predecessors(self._problem, decisions_of(schedule))
        #: The send that each has gone into, or itself.
        self._of = list(range(len(self._sends)))
        self._done_us = {link: _done_us(schedule, link) for link in np.unique(schedule.link).tolist()}

    def merged(self, latest_first: bool, budget: Budget) -> Schedule | None:
        """What is left when no two neighbours can be merged, as the last that was placed; None: none was."""
        best_us, best, goes_on = self._schedule.makespan_us, None, True
        while goes_on:
            goes_on = False
            for one, other in self._neighbours(latest_first):
                if self._of[one] != one or self._of[other] != other:
                    continue
                if not budget.remaining_s():
                    return best
                budget.spend(len(self._sends) / _PLACED_PER_UNIT)
                placed = self._placed_with(one, other, best_us)
                if placed is not None:
                    best_us, best, goes_on = min(best_us, placed.makespan_us), placed, True
        return best

    def _neighbours(self, latest_first: bool) -> Iterator[tuple[int, int]]:
        """Sends that follow each other over a link with busy ports; the later goes into the earlier."""
        sends_of: dict[int, list[int]] = defaultdict(list)
        for index, send in enumerate(self._sends):
            if send is not None:
                sends_of[send.link].append(index)
        for link in self._busy_links():
            of_link = sends_of[link]
            for place in reversed(range(1, len(of_link))) if latest_first else range(1, len(of_link)):
                earlier = of_link[place - 1]
                # What has just gone into another takes its neighbours along.
                yield self._of[earlier], of_link[place]

    def _busy_links(self) -> list[int]:
        topology, schedule = self._problem.topology, self._schedule
        busy = schedule.port_busy_us >= _BUSY * schedule.makespan_us
        link, port = topology.incidence
        on_busy = np.zeros(topology.num_links, dtype=np.bool_)
        on_busy[link[busy[port]]] = True
        links: list[int] = np.flatnonzero(on_busy & ~one_by_one(topology)).tolist()
        return links

    def _placed_with(self, one: int, other: int, best_us: float) -> Schedule | None:
        """The schedule with one more merge, which stays if nothing ends later; else None."""
        first, second = self._sends[one], self._sends[other]
        assert first is not None and second is not None
        chunks = tuple(sorted({*first.chunks, *second.chunks}))
        alike = first.reduce == second.reduce and len(chunks) == len(first.chunks) + len(second.chunks)
        if not alike or len(chunks) > self._problem.max_group:
            return None
        before = [one if into == other else into for into in self._of]
        sends = [*self._sends]
        sends[one], sends[other] = Decision(chunks, first.link, first.reduce), None
        left = [index for index, send in enumerate(sends) if send is not None]
        place = {index: number for number, index in enumerate(left)}
        waits: list[set[int]] = [set() for _ in left]
        for index, earlier in enumerate(self._waits):
            waits[place[before[index]]].update(place[before[each]] for each in earlier)
        waiting = [sorted(each) for each in waits]
        if len(topological(waiting)) < len(left):
            return None  # what comes of the one is needed for the other
        decisions = [send for send in sends if send is not None]
        # What most waits for first, or what was first.
        as_before = [float(-number) for number in range(len(left))]
        orders = (list_schedule(self._problem, decisions, order, waiting) for order in (None, as_before))
        no_later = [each for each in orders if each.makespan_us <= best_us + TOLERANCE_US]
        placed = min(no_later, key=lambda each: _done_us(each, first.link), default=None)
        if placed is None or _done_us(placed, first.link) > self._done_us[first.link] - TOLERANCE_US:
            return None
        self._sends, self._of = sends, before
        self._done_us[first.link] = _done_us(placed, first.link)
        return placed


def _done_us(schedule: Schedule, link: int) -> float:
    """When the last send over a link ends."""
    return float(schedule.end_us[schedule.link == link].max())
