"""The recurrences of `postal` as the moments at which they step up: no ticks, so nothing is lost by rounding.

Both count something that only grows, by whole steps, and seldom: up to the ranks that want a chunk, or to the
chunks of a set. So what is kept is when each count is first reached, and what follows from each such moment
(one transfer later something else may grow) is worked through in the order of time. That is exact, and cheap
where counts are small; for large ones there are the tables of `postal`.

Ports are busy at the beginnings of sends here, so it is for machines that read backwards, too
(`LogicalTopology.reads_backwards`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from taccl.encoding.bounds.postal import Layer, after_port_us, port_at_end
from taccl.encoding.bounds.tuning import (
    FIRST_TIMES_MOST_PAIRS,
    FIRST_TIMES_UNITS,
    FIRST_TIMES_UNITS_PER_LINK,
    FIRST_TIMES_UNITS_PER_LOOK,
)
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget, Meter

#: Moments this close, as a part of the horizon, are the same: far above float error, far below what counts.
CLOSE = 1e-12


class OutOfBudget(Exception):
    """What was left of the budget did not do."""


def is_large(problem: Problem) -> bool:
    """Whether there are more steps than anybody should work through one by one."""
    return problem.num_chunks * problem.topology.num_links > FIRST_TIMES_MOST_PAIRS


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

    def key(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Equal for equal counts."""
        return tuple(self.times), tuple(self.counts)


@dataclass(frozen=True, eq=False)
class Ends:
    """The usable links, and at one end of each the slot, a port of a rank there, in which they take turns.

    All lists but the last three are one entry for each link of `link`; those are one for each slot: its rank,
    its links as places in `link`, and the least time from when a group leaves the port to its end.
    """

    link: list[int]
    pair: list[int]
    src: list[int]
    dst: list[int]
    slot: list[int]
    rank_of_slot: list[int]
    links_of_slot: list[list[int]]
    lag_us: list[float]

    @staticmethod
    def of(problem: Problem, usable: BoolArray, outgoing: bool) -> Ends:
        topology = problem.topology
        link = np.flatnonzero(usable)
        rank = topology.src if outgoing else topology.dst
        pair = port_at_end(problem, rank)[link]
        keys = rank[link] * topology.num_ports + topology.incidence[1][pair]
        keys, slot = np.unique(keys, return_inverse=True)
        links_of_slot: list[list[int]] = [[] for _ in keys]
        for place, number in enumerate(slot.tolist()):
            links_of_slot[number].append(place)
        lag = np.full(len(keys), np.inf)
        np.minimum.at(lag, slot, after_port_us(problem, link, pair))
        return Ends(
            *(link.tolist(), pair.tolist(), topology.src[link].tolist(), topology.dst[link].tolist()),
            *(slot.tolist(), (keys // topology.num_ports).tolist(), links_of_slot, lag.tolist()),
        )


def informed(
    problem: Problem, layer: Layer, distance_us: np.ndarray, horizon_us: float, budget: Budget
) -> list[Steps]:
    """W of `postal`: how many wanting ranks a chunk can have reached so long after it came to each rank.

    Parameters
    ----------
    distance_us : shape (num_ranks, num_ranks), between ranks over the links of the layer.
    horizon_us : later steps are not looked for.

    Raises
    ------
    OutOfBudget : before all steps up to the horizon are known.
    """
    ends = Ends.of(problem, layer.uses(), outgoing=True)
    meter = _begin(budget, len(ends.link))
    near = [sorted(row[row <= horizon_us].tolist()) for row in np.asarray(distance_us)[:, layer.wanted]]
    reach = _Reach(problem, layer, ends, near, horizon_us)
    done: tuple[float, int] | None = None
    while reach.events:
        now_us, which = event = heapq.heappop(reach.events)
        if event == done:
            continue
        done = event
        if which < 0:
            _go_on(
                meter, FIRST_TIMES_UNITS + FIRST_TIMES_UNITS_PER_LOOK * len(ends.links_of_slot[-1 - which])
            )
            reach.step_slot(-1 - which, now_us)
        else:
            _go_on(meter, FIRST_TIMES_UNITS)
            reach.step_rank(which, now_us)
    return reach.of_rank


class _Reach:
    """How many wanting ranks a chunk can have reached, from each rank and from each slot.

    `events` : moments at which the count of a rank, or that of a slot (written as -1 - slot), may step up.
    """

    def __init__(
        self, problem: Problem, layer: Layer, ends: Ends, near: Sequence[Sequence[float]], horizon_us: float
    ) -> None:
        topology, chunk_mb = problem.topology, problem.chunk_mb
        self._layer, self._ends, self._near, self._horizon_us = layer, ends, near, horizon_us
        self._takes_us = topology.duration_us(np.array(ends.link, dtype=np.int64), chunk_mb).tolist()
        self._busy_us = topology.port_busy_us(np.array(ends.pair, dtype=np.int64), chunk_mb).tolist()
        self._close_us = CLOSE * horizon_us
        self._links_into, self._slots_of = (
            defaultdict[int, list[int]](list),
            defaultdict[int, list[int]](list),
        )
        for index, rank in enumerate(ends.dst):
            self._links_into[rank].append(index)
        for slot, rank in enumerate(ends.rank_of_slot):
            self._slots_of[rank].append(slot)
        self.of_rank = [Steps() for _ in range(problem.num_ranks)]
        self._of_slot = [Steps() for _ in ends.rank_of_slot]
        self.events = [(time_us, rank) for rank, times in enumerate(near) for time_us in set(times)]
        heapq.heapify(self.events)

    def step_slot(self, slot: int, now_us: float) -> None:
        """What links of a slot bring by now: all at once, but for those that take turns at the port."""
        ends, served = self._ends, self._of_slot[slot]
        once, turns, free = 0, 0, False
        for index in ends.links_of_slot[slot]:
            onward = self.of_rank[ends.dst[index]].at(now_us - self._takes_us[index] + self._close_us)
            once += onward
            busy_us = self._busy_us[index]
            if busy_us:
                turns = max(turns, onward + served.at(now_us - busy_us + self._close_us))
            else:
                free = True
        count = once if free else min(once, turns)
        if count <= served.last:
            return
        served.grow(now_us, count)
        for index in ends.links_of_slot[slot]:
            if self._busy_us[index]:
                self._look_again(now_us + self._busy_us[index], -1 - slot)
        heapq.heappush(self.events, (now_us, ends.rank_of_slot[slot]))

    def step_rank(self, rank: int, now_us: float) -> None:
        """What a rank reaches by now: over its slots, and no more ranks than are near enough."""
        slots = self._slots_of[rank]
        spread = int(self._layer.wanted[rank]) + sum(self._of_slot[slot].last for slot in slots)
        count = min(bisect_right(self._near[rank], now_us + self._close_us), spread)
        if count > self.of_rank[rank].last:
            self.of_rank[rank].grow(now_us, count)
            for index in self._links_into[rank]:
                self._look_again(now_us + self._takes_us[index], -1 - self._ends.slot[index])

    def _look_again(self, at_us: float, which: int) -> None:
        if at_us <= self._horizon_us:
            heapq.heappush(self.events, (at_us, which))


def gathered(
    problem: Problem,
    layer: Layer,
    held: IntArray,
    horizon_us: float,
    budget: Budget,
    near: Sequence[Sequence[float]] | None = None,
    enough: IntArray | None = None,
    arrivals: Sequence[Steps] | None = None,
) -> list[Steps]:
    """K of `postal`: how many chunks of the layer each rank can hold by a moment.

    Parameters
    ----------
    held : shape (num_ranks,), how many of them each rank holds at 0.
    near : for each rank the moments, in order, at which another chunk can be there by a shortest path; None:
        they say nothing beyond what the recurrence does.
    horizon_us : later steps are not looked for.
    enough : shape (num_ranks,); once each rank holds this many, no later steps are looked for; None: never.
    arrivals : how many come to each rank next to those that the links of the layer bring; None: none.

    Raises
    ------
    OutOfBudget : before all these steps are known.
    """
    return _Gathering(problem, layer, held, horizon_us, budget, near, enough, arrivals).steps()


class _Gathering:
    def __init__(
        self,
        problem: Problem,
        layer: Layer,
        held: IntArray,
        horizon_us: float,
        budget: Budget,
        near: Sequence[Sequence[float]] | None,
        enough: IntArray | None,
        arrivals: Sequence[Steps] | None,
    ) -> None:
        ends = self.ends = Ends.of(problem, layer.uses(), outgoing=False)
        self.meter = _begin(budget, len(ends.link))
        self.horizon_us, self.close = horizon_us, CLOSE * horizon_us
        self.held, self.near, self.arrivals = held.tolist(), near, arrivals
        many = layer.many_on()[ends.link]
        self.many = many.tolist()
        #: For each link how long groups of 1, 2, ... chunks keep its port busy; equal lists are one.
        self.busy = _busy_of_groups(problem, ends.pair, np.minimum(many, problem.max_group))
        #: The links of each slot, those that cost the same together.
        self.equivalent: list[list[list[int]]] = []
        for places in ends.links_of_slot:
            kinds: dict[int, list[int]] = defaultdict(list)
            for place in places:
                kinds[id(self.busy[place])].append(place)
            self.equivalent.append(list(kinds.values()))
        total = len(layer.chunks)
        #: Through each slot come no more than the chunks that may use it and do not start at its rank.
        self.most = [
            min(most, total - self.held[rank])
            for most, rank in zip(_many_on_slots(layer, ends), ends.rank_of_slot, strict=True)
        ]
        self.total = total
        self.slots_of: dict[int, list[int]] = defaultdict(list)
        for slot, rank in enumerate(ends.rank_of_slot):
            self.slots_of[rank].append(slot)
        self.out_of: dict[int, list[int]] = defaultdict(list)
        for place, rank in enumerate(ends.src):
            self.out_of[rank].append(place)
        self.k = [Steps() for _ in self.held]
        #: The ranks that do not hold enough yet, and what is enough.
        self.enough = [self.total] * len(self.held) if enough is None else enough.tolist()
        self.lacking = {rank for rank, count in enumerate(self.enough) if count > 0}
        self.came = [Steps() for _ in ends.rank_of_slot]
        #: What turns alone allow: a slot may be held back by what its senders hold.
        self.turns = [0] * len(self.came)
        for slot, places in enumerate(ends.links_of_slot):
            if any(self.busy[place] and not self.busy[place][0] for place in places):
                self.turns[slot] = self.most[slot]
        #: For each slot and each count that turns may allow, the soonest that they are known to.
        self.soonest: list[dict[int, float]] = [{} for _ in self.came]
        #: (moment, rank or else -1 - slot, what turns then allow).
        self.todo: list[tuple[float, int, int]] = []

    def steps(self) -> list[Steps]:
        for rank in range(len(self.k)):
            moments = {0.0} if self.near is None else {0.0, *self.near[rank]}
            moments |= set() if self.arrivals is None else set(self.arrivals[rank].times)
            self.todo += [(time_us, rank, 0) for time_us in moments if time_us <= self.horizon_us]
        heapq.heapify(self.todo)
        done: tuple[float, int, int] | None = None
        while self.todo and self.lacking:
            event = heapq.heappop(self.todo)
            if event == done:
                continue
            done = now, which, allowed = event
            if which < 0:
                self._at_slot(now, -1 - which, allowed)
            else:
                self._at_rank(now, which)
        return self.k

    def _later(self, time_us: float, which: int, allowed: int = 0) -> None:
        if time_us <= self.horizon_us:
            heapq.heappush(self.todo, (time_us, which, allowed))

    def _at_slot(self, now: float, slot: int, allowed: int) -> None:
        """Another group has come through a slot, or its senders hold more."""
        self.turns[slot] = max(self.turns[slot], allowed)
        came, places = self.came[slot], self.ends.links_of_slot[slot]
        _go_on(self.meter, FIRST_TIMES_UNITS + FIRST_TIMES_UNITS_PER_LOOK * len(places))
        count = min(self.turns[slot], self.most[slot])
        if count <= came.last:
            return
        there = sum(
            min(self.many[place], self.k[self.ends.src[place]].at(now - self.busy[place][0] + self.close))
            for place in places
            if self.busy[place]
        )
        count = min(count, there)
        if count <= came.last:
            return
        came.grow(now, count)
        self._later(now + self.ends.lag_us[slot], self.ends.rank_of_slot[slot])
        # Of links that cost the same, what the sender that holds most may send is all that they may.
        for equivalent in self.equivalent[slot]:
            place = max(equivalent, key=lambda each: self.k[self.ends.src[each]].last)
            most = min(self.k[self.ends.src[place]].last, len(self.busy[place]))
            self._groups(now, place, 0, most)

    def _at_rank(self, now: float, rank: int) -> None:
        """Something has come to a rank, or is near enough by now."""
        _go_on(self.meter, FIRST_TIMES_UNITS)
        held, k = self.held[rank], self.k[rank]
        count = held + sum(
            self.came[slot].at(now - self.ends.lag_us[slot] + self.close) for slot in self.slots_of[rank]
        )
        if self.arrivals is not None:
            count += self.arrivals[rank].at(now + self.close)
        count = min(count, self.total)
        if self.near is not None:
            count = min(count, bisect_right(self.near[rank], now + self.close))
        before = k.last
        if count <= before:
            return
        k.grow(now, count)
        if count >= self.enough[rank]:
            self.lacking.discard(rank)
        for place in self.out_of[rank]:
            self._groups(now, place, before, min(count, len(self.busy[place])))
            if self.busy[place]:
                self._later(now + self.busy[place][0], -1 - self.ends.slot[place])

    def _groups(self, now: float, place: int, before: int, most: int) -> None:
        """Groups of more than `before` and up to `most` chunks may leave over a link."""
        slot, busy = self.ends.slot[place], self.busy[place]
        came, turns = self.came[slot].last, self.turns[slot]
        _go_on(self.meter, FIRST_TIMES_UNITS_PER_LOOK * max(0, most - before))
        soonest, todo, horizon_us = self.soonest[slot], self.todo, self.horizon_us
        for count in range(max(before, turns - came) + 1, min(most, self.most[slot] - came) + 1):
            time_us = now + busy[count - 1]
            if time_us >= horizon_us:  # and larger groups take longer
                break
            if time_us < soonest.get(came + count, horizon_us):
                soonest[came + count] = time_us
                heapq.heappush(todo, (time_us, -1 - slot, came + count))


def _busy_of_groups(problem: Problem, pairs: list[int], most: IntArray) -> list[list[float]]:
    """How long groups of 1, 2, ... and up to `most` chunks keep the port of each pair busy, microseconds."""
    topology, pair = problem.topology, np.array(pairs, dtype=np.int64)
    costs = np.stack([topology.alpha_us[topology.incidence[0][pair]], topology.pair_betas[pair], most])
    _, first, kind = np.unique(costs, axis=1, return_index=True, return_inverse=True)
    rows = [
        topology.port_busy_us(pair[one], np.arange(1, most[one] + 1) * problem.chunk_mb).tolist()
        for one in first.tolist()
    ]
    # Links of different costs may keep their ports busy equally long: alphas may be no part of it.
    equal: dict[tuple[float, ...], list[float]] = {}
    rows = [equal.setdefault(tuple(row), row) for row in rows]
    return [rows[number] for number in kind.ravel().tolist()]


def _many_on_slots(layer: Layer, ends: Ends) -> list[int]:
    """How many chunks of a layer may use some link of each slot."""
    if not ends.links_of_slot:
        return []
    link = np.array(ends.link, dtype=np.int64)[np.concatenate(ends.links_of_slot)]
    many = [len(places) for places in ends.links_of_slot]
    usable = np.logical_or.reduceat(layer.may_use[:, link], np.cumsum([0, *many[:-1]]), axis=1)
    return [int(count) for count in layer.sizes() @ usable.astype(np.int64)]


def _begin(budget: Budget, links: int) -> Meter:
    meter = budget.meter()
    _go_on(meter, FIRST_TIMES_UNITS_PER_LINK * links)
    return meter


def _go_on(meter: Meter, units: float) -> None:
    if not meter.goes_on(units):
        raise OutOfBudget
