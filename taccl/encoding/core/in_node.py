r"""What happens inside one node, as a model: items on the links between its places.

An *item* i is |i| chunks that travel together. Time is counted in ticks. For a link l:

    alone[i, l]     an optional interval of alpha + |i| cost: i travels over l by itself
    slot[l, k]      an optional interval for two items or more that share a send; in[i, l, k]: i is in it
    at[i, r]        when i is at place r
    late[i, g]      whether i leaves the node in group g

    minimise T with T >= at[i, r] where r wants i, and, if i leaves by place x, T >= at[i, x] + tail(g)

    received once   the routes of i into r: one where r wants i, at most one elsewhere, none where it is from
                    the beginning
    held first      no more of them into r than out of it, and  start >= at[i, src(l)], at[i, dst(l)] >= end
    one way         of i that one place wants and one has, as many leave other ranks as come there
    ports           intervals of a port do not overlap
    groups          the chunks that leave in g, for each shift, are as many as the plan says
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from taccl.encoding.core.cp_sat import events_of
from taccl.encoding.core.node_parts import Around, Decided, Item, Leaving, Placed
from taccl.encoding.core.tuning import IN_NODE_WRITTEN_PER_UNIT
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(eq=False)
class _Way:
    """A send that may be made."""

    link: int
    active: Any
    start: Any
    end: Any
    members: dict[int, Any]


def decide(
    around: Around,
    items: Sequence[Item],
    before_us: float,
    seed: int,
    budget: Budget,
    leaving: Leaving | None = None,
) -> Decided | None:
    """The best that is found of what ends before a moment; None: nothing."""
    model = _Model(around, items, before_us, leaving)
    budget.spend(len(items) * len(around.links) / IN_NODE_WRITTEN_PER_UNIT)
    if not model.build():
        return None
    found: Decided | None = None
    for event in events_of(model.cp, model.read, seed, budget):
        found = event.decisions or found
    return found


def least_us(around: Around, items: Sequence[Item], before_us: float, seed: int, budget: Budget) -> float:
    """A moment before which the items cannot all be where they are wanted; `before_us` at most.

    Each item is one chunk, there from 0 on, and links are serial and have ports. No send is left out: one of
    several items keeps its ports busy for an alpha and two costs, so of these a link has no more than a known
    number before `before_us`; and nothing is gained by a send to a rank that has the item already, nor by one
    more way of a chunk that a single rank wants. Costs are rounded down to ticks, and ends are no later for
    that (`core.ticks`).
    """
    least = min((link.alpha_us + 2 * link.cost_us for link in around.links), default=before_us)
    most = len(items) if least <= 0 else min(len(items), int(before_us / least * (1 + EQUAL)))
    model = _Model(replace(around, most_shared=most), items, before_us, None)
    budget.spend(len(items) * len(around.links) / IN_NODE_WRITTEN_PER_UNIT)
    if not model.build():
        return before_us
    ticks = 0
    for event in events_of(model.cp, model.read, seed, budget):
        if event.impossible:
            return before_us
        ticks = max(ticks, event.bound)
    return min(before_us, ticks * around.ticks.tick_us)


class _Model:
    """The variables, and one rule after another."""

    def __init__(
        self, around: Around, items: Sequence[Item], before_us: float, leaving: Leaving | None
    ) -> None:
        from ortools.sat.python import cp_model  # takes half a second, which other searches need not wait

        self.cp: cp_model.CpModel = cp_model.CpModel()
        self._around, self._items, self._leaving = around, items, leaving
        self._ticks = around.ticks
        #: Nothing begins before this moment, from which ticks are counted.
        self._from_us = min((when for item in items for _, when in item.starts), default=0.0)
        self._last = self._ticks.last_before(before_us) - int(self._ticks.of(self._from_us))
        self._places = sorted({end for link in around.links for end in (link.src, link.dst)})
        self._routes: list[_Way] = []
        self._into: dict[tuple[int, int], list[Any]] = defaultdict(list)
        self._on_port: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
        self._late: dict[tuple[int, int], Any] = {}

    def build(self) -> bool:
        """Write everything down; False if some item cannot be in time."""
        self._head = [self._heads(item) for item in self._items]
        for number in range(len(self._items)):
            if any(
                self._head[number].get(place, self._last + 1) > self._last for place in self._needs(number)
            ):
                return False
        self._finish = self.cp.new_int_var(0, self._last, "T")
        self._at = {
            (number, place): self.cp.new_int_var(min(head.get(place, 0), self._last), self._last, "at")
            for number, head in enumerate(self._head)
            for place in self._places
        }
        for index in range(len(self._around.links)):
            self._alone(index)
            if self._around.shares[index]:
                self._shared(index)
        self._items_come_where_they_are_wanted()
        self._what_is_sent_is_held()
        self._what_one_place_wants_takes_one_way()
        self._ports_serve_one_at_a_time()
        if self._leaving is not None:
            self._items_leave_in_groups(self._leaving)
        self.cp.minimize(self._finish)
        return True

    def _moment(self, us: float) -> int:
        """A moment in ticks, counted from the first."""
        return int(self._ticks.of(us)) - int(self._ticks.of(self._from_us))

    def _heads(self, item: Item) -> dict[int, int]:
        """When an item can be at each place at best, alone in the node."""
        head = {place: self._moment(when) for place, when in item.starts}
        queue = [(when, place) for place, when in head.items()]
        heapq.heapify(queue)
        while queue:
            when, place = heapq.heappop(queue)
            for index, link in enumerate(self._around.links):
                if link.src == place and when == head[place]:
                    alpha, cost = self._costs(index)
                    there = when + alpha + cost * len(item.chunks)
                    if there < head.get(link.dst, self._last + 1):
                        head[link.dst] = there
                        heapq.heappush(queue, (there, link.dst))
        return head

    def _costs(self, index: int) -> tuple[int, int]:
        link = self._around.links[index]
        return int(self._ticks.of(link.alpha_us)), int(self._ticks.of(link.cost_us))

    def _mine(self, index: int) -> list[int]:
        """The items that may go over a link; one that is needed nowhere else stays."""
        dst = self._around.links[index].dst
        return [
            number
            for number, item in enumerate(self._items)
            if self._needs(number)
            and all(place != dst for place, _ in item.starts)
            and dst in self._head[number]
            and self._around.links[index].src in self._head[number]
            and len(item.chunks) <= self._around.max_group
        ]

    def _alone(self, index: int) -> None:
        link, (alpha, cost) = self._around.links[index], self._costs(index)
        for number in self._mine(index):
            active = self.cp.new_bool_var("x")
            start = self.cp.new_int_var(0, self._last, "s")
            body = cost * len(self._items[number].chunks)
            busy = body + alpha * self._around.is_serial
            interval = self.cp.new_optional_fixed_size_interval_var(start, busy, active, "i")
            for port in link.ports:
                self._on_port[port].append((interval, busy * active))
            self._adds(_Way(index, active, start, start + alpha + body, {number: active}))

    def _shared(self, index: int) -> None:
        link, (alpha, cost) = self._around.links[index], self._costs(index)
        mine = self._mine(index)
        before: _Way | None = None
        for _ in range(min(self._around.most_shared, len(mine) // 2)):
            active = self.cp.new_bool_var("a")
            start = self.cp.new_int_var(0, self._last, "S")
            end = self.cp.new_int_var(0, self._last, "E")
            length = self.cp.new_int_var(0, self._last, "n")
            members = {number: self.cp.new_bool_var("in") for number in mine}
            chunks = sum(len(self._items[number].chunks) * each for number, each in members.items())
            self.cp.add(sum(members.values()) >= 2).only_enforce_if(active)
            self.cp.add(sum(members.values()) == 0).only_enforce_if(active.negated())
            self.cp.add(chunks <= self._around.max_group)
            self.cp.add(length == alpha * self._around.is_serial + cost * chunks).only_enforce_if(active)
            tail = 0 if self._around.is_serial else alpha
            interval = self.cp.new_optional_interval_var(start, length, end - tail, active, "g")
            for port in link.ports:
                load = alpha * self._around.is_serial * active + cost * chunks
                self._on_port[port].append((interval, load))
            way = _Way(index, active, start, end, members)
            if before is not None:
                self.cp.add_implication(active, before.active)
                self.cp.add(start >= before.start).only_enforce_if(active)
            before = way
            self._adds(way)

    def _adds(self, way: _Way) -> None:
        link = self._around.links[way.link]
        for number, literal in way.members.items():
            self.cp.add(way.start >= self._at[number, link.src]).only_enforce_if(literal)
            self.cp.add(self._at[number, link.dst] >= way.end).only_enforce_if(literal)
            self._into[number, link.dst].append(literal)
        self._routes.append(way)

    def _needs(self, number: int) -> set[int]:
        """Where an item has to come, from elsewhere."""
        item = self._items[number]
        leaves = {self._leaving.place} if self._leaving is not None and item.shifts else set()
        return (set(item.wanted) | leaves) - {place for place, _ in item.starts}

    def _items_come_where_they_are_wanted(self) -> None:
        for number, item in enumerate(self._items):
            needs = self._needs(number)
            for place in self._places:
                if place in needs:
                    self.cp.add_exactly_one(self._into[number, place])
                else:
                    self.cp.add_at_most_one(self._into[number, place])
            for place in item.wanted:
                self.cp.add(self._finish >= self._at[number, place])

    def _what_is_sent_is_held(self) -> None:
        for number, item in enumerate(self._items):
            held = self._needs(number) | {place for place, _ in item.starts}
            for way in self._routes:
                src = self._around.links[way.link].src
                if number in way.members and src not in held:
                    self.cp.add(way.members[number] <= sum(self._into[number, src]))

    def _what_one_place_wants_takes_one_way(self) -> None:
        """Without this, CP-SAT's linear relaxation copies fractions of it until they add up to one."""
        for number, item in enumerate(self._items):
            needs, starts = self._needs(number), {place for place, _ in item.starts}
            if len(needs) != 1 or len(starts) != 1:
                continue
            out_of: dict[int, list[Any]] = defaultdict(list)
            for way in self._routes:
                if number in way.members:
                    out_of[self._around.links[way.link].src].append(way.members[number])
            for place in self._places:
                if place in needs:
                    self.cp.add(sum(out_of[place]) == 0)
                elif place in starts:
                    self.cp.add(sum(out_of[place]) == 1)
                else:
                    self.cp.add(sum(out_of[place]) == sum(self._into[number, place]))

    def _ports_serve_one_at_a_time(self) -> None:
        for routes in self._on_port.values():
            self.cp.add_no_overlap([interval for interval, _ in routes])
            self.cp.add(sum(load for _, load in routes) <= self._finish)

    def _items_leave_in_groups(self, leaving: Leaving) -> None:
        groups = range(len(leaving.sizes))
        numbers = [number for number, item in enumerate(self._items) if item.shifts]
        for number in numbers:
            late = {group: self.cp.new_bool_var(f"late{number},{group}") for group in groups}
            self.cp.add_exactly_one(late.values())
            for group, literal in late.items():
                self._late[number, group] = literal
                tail = max(leaving.tails_us[group, shift] for shift in self._items[number].shifts)
                there = self._at[number, leaving.place] + int(self._ticks.of(tail))
                self.cp.add(self._finish >= there).only_enforce_if(literal)
        for shift in {shift for number in numbers for shift in self._items[number].shifts}:
            for group in groups:
                of = [
                    len(self._items[n].chunks) * self._late[n, group]
                    for n in numbers
                    if shift in self._items[n].shifts
                ]
                self.cp.add(sum(of) == leaving.sizes[group])

    def read(self, value: Callable[[Any], int]) -> Decided:
        """What a solution says."""
        tick_us, sends = self._ticks.tick_us, []
        for way in self._routes:
            if value(way.active):
                items = tuple(number for number, literal in way.members.items() if value(literal))
                start_us, end_us = (self._from_us + value(when) * tick_us for when in (way.start, way.end))
                sends.append(Placed(way.link, items, start_us, end_us))
        group = {number: group for (number, group), literal in self._late.items() if value(literal)}
        sends.sort(key=lambda send: (send.start_us, send.end_us))
        return Decided(tuple(sends), group, self._from_us + value(self._finish) * tick_us)
