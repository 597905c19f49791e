r"""Routes, orders and groups decided at once, as optional intervals.

Time is counted in ticks. For a chunk c and a link l that it may use, and each orbit of such pairs:

    alone[c, l]     an optional interval of alpha_l + s beta_l: c travels over l by itself
    slot[l, k]      for k < K: an optional interval of alpha_l + n s beta_l for the n chunks that share it
    in[c, l, k]     c travels over l in slot k
    use[c, l]       = alone[c, l] + sum over k of in[c, l, k]
    at[c, r]        when c is at rank r

    minimise T with T >= at[c, r] where r wants c, and

    received once   sum over l into r of use[c, l] = 1 where r wants c, <= 1 elsewhere
    held first      use[c, l] <= sum over links k into src(l) of use[c, k]
    presence        use[c, l]  =>  start >= at[c, src(l)]  and  at[c, dst(l)] >= end
    ports           the intervals of a port's links do not overlap (without alpha if occupancy is pipelined)
    own first       the sender's own chunks end before any other starts, where the sketch says so

Durations are rounded down to ticks: the optimum of the model is no later than the true one, and true
times are computed from its decisions afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from taccl.collectives import BoolArray
from taccl.encoding.symmetry import SymmetryGroup
from taccl.encoding.timing import Decision
from taccl.problem import Problem
from taccl.schedule import Schedule

#: The time of the known schedule in ticks: fine enough for 1 part in 10**5 of the shortest transfer.
_TICKS = 10_000_000


@dataclass(frozen=True)
class Slot:
    """One send that several chunks of a link may share."""

    start: Any
    end: Any
    active: Any
    members: dict[int, Any] = field(default_factory=dict)  # chunk -> in[c, l, k]


@dataclass(frozen=True)
class Alone:
    """A chunk's own send over a link."""

    start: Any
    end: Any
    active: Any


@dataclass(frozen=True, eq=False)
class JointModel:
    """The model and the keys to read it by; `alone` is keyed by one (chunk, link) of each orbit."""

    problem: Problem
    symmetry: SymmetryGroup
    cp: cp_model.CpModel
    tick_us: float
    finish: Any
    alone: dict[tuple[int, int], Alone]
    slots: dict[int, list[Slot]]  # by deciding link
    at: dict[tuple[int, int], Any]


def build(known: Schedule, symmetry: SymmetryGroup, allowed: BoolArray, num_slots: int) -> JointModel:
    """The model of `known.problem` with `num_slots` shared sends per link, no later than `known`.

    `allowed`, shape (num_chunks, num_links), says where chunks may go; it must be symmetric. A link
    that takes longer than all of `known` is left out.
    """
    return _Builder(known, symmetry, allowed, num_slots).build()


class _Builder:
    """Makes the variables, then one rule after another."""

    def __init__(self, known: Schedule, symmetry: SymmetryGroup, allowed: BoolArray, num_slots: int) -> None:
        self.problem, self.symmetry, self.num_slots = known.problem, symmetry, num_slots
        topology = self.problem.topology
        self.tick_us = known.makespan_us / _TICKS
        self.horizon = _TICKS + 1
        self.cp = cp_model.CpModel()
        self.alpha = np.floor(topology.alpha_us / self.tick_us).astype(np.int64).tolist()
        cost = topology.beta_us_per_mb * self.problem.chunk_mb
        self.cost = np.floor(cost / self.tick_us).astype(np.int64).tolist()
        self.serial = topology.occupancy == "serial"
        self.src, self.dst = topology.src.tolist(), topology.dst.tolist()
        duration = topology.duration_us(np.arange(topology.num_links), self.problem.chunk_mb)
        chunk, link = np.nonzero(allowed & (duration <= known.makespan_us))
        least = symmetry.pair_representative(chunk, link, symmetry.link_map)
        self.pairs = list(zip(chunk.tolist(), link.tolist(), strict=True))
        keys = (divmod(key, topology.num_links) for key in least.tolist())
        self.key = dict(zip(self.pairs, keys, strict=True))
        self.deciding = sorted(set(self.key.values()))
        self.alone: dict[tuple[int, int], Alone] = {}
        self.slots: dict[int, list[Slot]] = defaultdict(list)
        self.at: dict[tuple[int, int], Any] = {}
        self.finish = self.cp.new_int_var(0, self.horizon, "T")
        # Slots belong to one link of each orbit; a chunk joins them by its image on that link.
        self.home_of_link = symmetry.link_representative.tolist()

    def build(self) -> JointModel:
        self._make_cells()
        self._make_sends()
        self._each_wanted_chunk_is_received_once()
        self._a_chunk_is_held_before_it_is_sent()
        self._presence()
        self._ports_serve_one_at_a_time()
        self._own_chunks_go_first()
        self._everything_ends_in_time()
        self.cp.minimize(self.finish)
        return JointModel(
            self.problem, self.symmetry, self.cp, self.tick_us, self.finish, self.alone, self.slots, self.at
        )

    def _make_cells(self) -> None:
        """Arrival times, one per orbit of (chunk, rank); 0 at sources."""
        collective, ranks = self.problem.collective, self.problem.num_ranks
        chunks, places = np.divmod(np.arange(collective.num_chunks * ranks), ranks)
        least = self.symmetry.pair_representative(chunks, places, self.symmetry.rank_map)
        made: dict[int, Any] = {}
        for chunk, rank, key in zip(chunks.tolist(), places.tolist(), least.tolist(), strict=True):
            if key not in made:
                is_source = collective.pre[chunk, rank]
                made[key] = 0 if is_source else self.cp.new_int_var(0, self.horizon, f"at{chunk},{rank}")
            self.at[chunk, rank] = made[key]

    def _make_sends(self) -> None:
        """Own sends for every orbit of (chunk, link), and shared ones for every orbit of links."""
        on_home: dict[int, list[int]] = defaultdict(list)
        for chunk, link in self.pairs:
            if self.home_of_link[link] == link:
                on_home[link].append(chunk)
        for chunk, link in self.deciding:
            duration = self.alpha[link] + self.cost[link]
            start = self.cp.new_int_var(0, self.horizon - duration, f"s{chunk},{link}")
            self.alone[chunk, link] = Alone(start, start + duration, self.cp.new_bool_var(f"x{chunk},{link}"))
        for link, chunks in on_home.items():
            most = min(len(chunks), self.problem.max_group)
            if most < 2 or self.alpha[link] == 0:
                continue
            for k in range(min(self.num_slots, most // 2)):
                self.slots[link].append(self._slot(link, k, chunks, most))
            for one, other in zip(self.slots[link], self.slots[link][1:], strict=False):
                self.cp.add(one.end <= other.start).only_enforce_if(other.active)
                self.cp.add_implication(other.active, one.active)

    def _slot(self, link: int, k: int, chunks: list[int], most: int) -> Slot:
        start = self.cp.new_int_var(0, self.horizon, f"S{link},{k}")
        end = self.cp.new_int_var(0, self.horizon, f"E{link},{k}")
        active = self.cp.new_bool_var(f"a{link},{k}")
        members = {chunk: self.cp.new_bool_var(f"in{chunk},{link},{k}") for chunk in chunks}
        count = sum(members.values())
        self.cp.add(count >= 2).only_enforce_if(active)
        self.cp.add(count <= most).only_enforce_if(active)
        self.cp.add(count == 0).only_enforce_if(active.negated())
        self.cp.add(end == start + self.alpha[link] + self.cost[link] * count).only_enforce_if(active)
        return Slot(start, end, active, members)

    def _uses(self, chunk: int, link: int) -> list[tuple[Any, Any, Any]]:
        """(literal, start, end) of every way in which a chunk may travel over a link."""
        own = self.alone[self.key[chunk, link]]
        return [(own.active, own.start, own.end), *self._shared(chunk, link)]

    def _shared(self, chunk: int, link: int) -> list[tuple[Any, Any, Any]]:
        home = self.home_of_link[link]
        if home not in self.slots:
            return []
        element = int(np.flatnonzero(self.symmetry.link_map[:, link] == home)[0])
        image = int(self.symmetry.chunk_map[element, chunk])
        return [(s.members[image], s.start, s.end) for s in self.slots[home] if image in s.members]

    def _into(self) -> dict[tuple[int, int], list[int]]:
        into: dict[tuple[int, int], list[int]] = defaultdict(list)
        for chunk, link in self.pairs:
            into[chunk, self.dst[link]].append(link)
        return into

    def _each_wanted_chunk_is_received_once(self) -> None:
        collective, into = self.problem.collective, self._into()
        done: set[int] = set()
        for (chunk, rank), links in into.items():
            cell = self.at[chunk, rank]
            if id(cell) in done:
                continue
            done.add(id(cell))
            literals = [use[0] for link in links for use in self._uses(chunk, link)]
            if collective.post[chunk, rank]:
                self.cp.add_exactly_one(literals)
            else:
                self.cp.add_at_most_one(literals)

    def _a_chunk_is_held_before_it_is_sent(self) -> None:
        collective, into = self.problem.collective, self._into()
        for chunk, link in self.deciding:
            sender = self.src[link]
            if collective.pre[chunk, sender] or collective.post[chunk, sender]:
                continue
            feeding = [use[0] for k in into[chunk, sender] for use in self._uses(chunk, k)]
            for literal, _, _ in self._uses(chunk, link):
                self.cp.add_bool_or([*feeding, literal.negated()])

    def _presence(self) -> None:
        for chunk, link in self.deciding:
            there, then = self.at[chunk, self.src[link]], self.at[chunk, self.dst[link]]
            for literal, start, end in self._uses(chunk, link):
                self.cp.add(start >= there).only_enforce_if(literal)
                self.cp.add(then >= end).only_enforce_if(literal)

    def _ports_serve_one_at_a_time(self) -> None:
        topology = self.problem.topology
        chunks_on: dict[int, list[int]] = defaultdict(list)
        for chunk, link in self.pairs:
            chunks_on[link].append(chunk)
        seen: set[frozenset[tuple[str, int, int]]] = set()
        for links in topology.port_links:
            intervals, names = [], []
            for link in links:
                intervals += [self._own_interval(chunk, link) for chunk in chunks_on[link]]
                names += [("alone", *self.key[chunk, link]) for chunk in chunks_on[link]]
                home = self.home_of_link[link]
                for k, slot in enumerate(self.slots.get(home, [])):
                    intervals.append(self._slot_interval(slot, home))
                    names.append(("slot", home, k))
            signature = frozenset(names)
            if signature not in seen and len(intervals) > 1:
                seen.add(signature)
                self.cp.add_no_overlap(intervals)

    def _own_interval(self, chunk: int, link: int) -> Any:
        own = self.alone[self.key[chunk, link]]
        busy = self.cost[link] + (self.alpha[link] if self.serial else 0)
        return self.cp.new_optional_fixed_size_interval_var(own.start, busy, own.active, "i")

    def _slot_interval(self, slot: Slot, link: int) -> Any:
        alpha = 0 if self.serial else self.alpha[link]
        size = self.cp.new_int_var(0, self.horizon, "n")
        return self.cp.new_optional_interval_var(slot.start, size, slot.end - alpha, slot.active, "g")

    def _own_chunks_go_first(self) -> None:
        own_first, home = self.problem.limits.own_first, self.problem.collective.home
        if own_first is None:
            return
        own_end: dict[int, Any] = {}
        for chunk, link in self.deciding:
            if own_first[link] and home[chunk] == self.src[link]:
                last = own_end.setdefault(link, self.cp.new_int_var(0, self.horizon, f"own{link}"))
                for literal, _, end in self._uses(chunk, link):
                    self.cp.add(last >= end).only_enforce_if(literal)
        for chunk, link in self.pairs:
            if link in own_end and home[chunk] != self.src[link]:
                for literal, start, _ in self._uses(chunk, link):
                    self.cp.add(start >= own_end[link]).only_enforce_if(literal)

    def _everything_ends_in_time(self) -> None:
        collective = self.problem.collective
        for chunk, rank in zip(*np.nonzero(collective.post & ~collective.pre), strict=True):
            self.cp.add(self.finish >= self.at[int(chunk), int(rank)])


def decisions(model: JointModel, value: Any) -> list[Decision]:
    """The sends that a solution says, in order; `value` gives the value of an expression."""
    timed: list[tuple[int, Decision]] = []
    for (chunk, link), own in model.alone.items():
        if value(own.active):
            timed += [(value(own.start), decision) for decision in _images(model, (chunk,), link)]
    for link, slots in model.slots.items():
        for slot in slots:
            if value(slot.active):
                chunks = tuple(chunk for chunk, member in slot.members.items() if value(member))
                timed += [(value(slot.start), decision) for decision in _images(model, chunks, link)]
    return [decision for _, decision in sorted(timed, key=lambda pair: pair[0])]


def _images(model: JointModel, chunks: tuple[int, ...], link: int) -> list[Decision]:
    symmetry = model.symmetry
    images = {
        (tuple(chunk_map[list(chunks)].tolist()), int(link_map[link]))
        for chunk_map, link_map in zip(symmetry.chunk_map, symmetry.link_map, strict=True)
    }
    return [Decision(group, over) for group, over in sorted(images)]
