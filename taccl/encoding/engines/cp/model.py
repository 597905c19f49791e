r"""Routes, orders and groups decided at once, as optional intervals.

Time is counted in ticks. For an item i (a chunk as a copy, or as a partial sum) and a link l that it may use,
one of each orbit of such pairs:

    alone[i, l]     an optional interval of alpha_l + s beta_l: i travels over l by itself
    slot[l, k]      for k < K: an optional interval of alpha_l + n s beta_l for the n items that share it
    in[i, l, k]     i travels over l in slot k
    use[i, l]       = alone[i, l] + sum over k of in[i, l, k]
    at[i, r]        when i is at rank r; for a partial sum, when all that comes there has come
    root[c, r]      whether the sum of chunk c is made at rank r

    minimise T with T >= at[c, r] where r wants c, and

    received once   sum over l into r of use[c, l] = 1 - root[c, r] where r wants c, <= 1 elsewhere
    passed on once  sum over l out of r of use[sum of c, l] = 1 - root[c, r]
    one root        sum over r of root[c, r] = 1, and root[c, r]  =>  at[c, r] >= at[sum of c, r]
    held first      use[c, l] <= sum over links k into src(l) of use[c, k]
    presence        use[i, l]  =>  start >= at[i, src(l)]  and  at[i, dst(l)] >= end
    ports           the intervals of a port's links do not overlap (without alpha if occupancy is pipelined,
                    and shorter where the port is faster than a link)
    own first       the sender's own chunks end before any other starts, where the sketch says so

Images of a send that share a port with it cannot start together. So what is used is decided for an orbit of
the whole group, and when, for an orbit of the part of the group that has no such images.

Durations are rounded down to ticks: the optimum of the model is no later than the true one, and true
times are computed from its decisions afterwards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.cp.candidates import Candidates
from taccl.encoding.engines.cp.variables import Alone, Slot, Variables
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class JointModel:
    """The model and the keys to read it by: one (item, link), or (link, phase), of each orbit in time.

    A solution lasts `last` ticks at most. The phase is 0 for copies and 1 for partial sums. `group` moves
    items, and is the part of the problem's symmetry whose images start together.
    """

    problem: Problem
    group: SymmetryGroup
    cp: cp_model.CpModel
    ticks: Ticks
    last: int
    alone: dict[tuple[int, int], Alone]
    slots: dict[tuple[int, int], list[Slot]]
    at: dict[tuple[int, int], Any]
    root: dict[tuple[int, int], Any]


def build(
    problem: Problem,
    ticks: Ticks,
    lasting: tuple[int, int],
    symmetry: SymmetryGroup,
    candidates: Candidates,
    num_slots: int | None,
    minimise: bool = True,
) -> JointModel:
    """The model of schedules that last from `lasting[0]` to `lasting[1]` ticks: the fastest, or any.

    `num_slots` is the number of shared sends per link; None: as many as any schedule can have.
    `candidates` must be symmetric.

    With no symmetry, `every_candidate`, all slots and no own-first rule, the optimum of the model is no later
    than any schedule of the problem, if no schedule lasts less than `lasting[0]` and one lasts no more than
    `lasting[1]`. (With sums that are copied on: than any in which each sum is made at one rank, each other
    rank passes its part on once, and no send mixes partial sums and copies.) For take a fastest schedule. Of
    the copies of a chunk that come to a rank, all but the first can be left out, and so can what nobody uses
    and what comes back to a source: groups get smaller, nothing gets later. What is left passes every rule of
    the model, except that starts are no whole ticks. Rounded down, with durations rounded down, they are, and
    the rules still hold (see `ticks`).

    Over a link where a group can go piece by piece (`core.grouping` has the proof) nothing gets later if
    every chunk goes by itself, so such links have no shared sends.
    """
    return _Rules(problem, ticks, lasting, symmetry, candidates, num_slots).build(minimise)


class _Rules(Variables):
    """The variables, and one rule after another."""

    def build(self, minimise: bool) -> JointModel:
        self._each_sum_is_made_at_one_rank()
        self._each_wanted_chunk_is_received_once()
        self._each_contribution_is_passed_on_once()
        self._a_chunk_is_held_before_it_is_sent()
        self._a_chunk_that_one_rank_wants_takes_one_path()
        self._presence()
        self._ports_serve_one_at_a_time()
        self._own_chunks_go_first()
        self._everything_ends_in_time()
        if minimise:
            self.cp.minimize(self.finish)
        return JointModel(
            self.problem,
            self.group,
            self.cp,
            self.ticks,
            self.horizon,
            self.alone,
            self.slots,
            self.at,
            self.root,
        )

    def _each_sum_is_made_at_one_rank(self) -> None:
        if self.num_items == self.num_chunks:
            return
        made: dict[int, Any] = {}
        for chunk, rank, name in self.cells(self.whole, self.num_chunks):
            if name not in made:
                made[name] = self.cp.new_bool_var(f"root{chunk},{rank}")
                if self.candidates.root is not None:
                    self.cp.add(made[name] == int(self.candidates.root[chunk] == rank))
            root = self.root[chunk, rank] = made[name]
            self.cp.add(self.at[chunk, rank] >= self.at[self.num_chunks + chunk, rank]).only_enforce_if(root)
        for chunk in np.unique(self.whole.chunk_representative[: self.num_chunks]).tolist():
            self.cp.add_exactly_one(self.root[chunk, rank] for rank in range(self.problem.num_ranks))

    def _each_wanted_chunk_is_received_once(self) -> None:
        collective = self.problem.collective
        for chunk, rank, name in self.cells(self.whole, self.num_chunks):
            if name != chunk * self.problem.num_ranks + rank:
                continue
            literals = [use[0] for link in self.into[chunk, rank] for use in self.uses(chunk, link)]
            if (chunk, rank) in self.root:
                literals.append(self.root[chunk, rank])
            elif collective.pre[chunk, rank]:
                continue
            if collective.post[chunk, rank]:
                self.cp.add_exactly_one(literals)
            else:
                self.cp.add_at_most_one(literals)

    def _each_contribution_is_passed_on_once(self) -> None:
        for chunk, rank, name in self.cells(self.whole, self.num_chunks):
            if (chunk, rank) in self.root and name == chunk * self.problem.num_ranks + rank:
                item = self.num_chunks + chunk
                literals = [use[0] for link in self.out_of[item, rank] for use in self.uses(item, link)]
                self.cp.add_exactly_one([*literals, self.root[chunk, rank]])

    def _a_chunk_is_held_before_it_is_sent(self) -> None:
        collective = self.problem.collective
        for chunk, link in sorted(set(self.used_as.values())):
            sender = self.src[link]
            if chunk >= self.num_chunks or collective.pre[chunk, sender] or collective.post[chunk, sender]:
                continue
            feeding = [use[0] for k in self.into[chunk, sender] for use in self.uses(chunk, k)]
            self.cp.add(sum(use[0] for use in self.uses(chunk, link)) <= sum(feeding))

    def _a_chunk_that_one_rank_wants_takes_one_path(self) -> None:
        """Without this, CP-SAT's linear relaxation copies fractions of it until they add up to one."""
        collective = self.problem.collective
        wanting = (collective.post & ~collective.pre).sum(axis=1)
        for chunk, rank, name in self.cells(self.whole, self.num_chunks):
            if (
                name != chunk * self.problem.num_ranks + rank
                or collective.reduces[chunk]
                or wanting[chunk] != 1
            ):
                continue
            out = [use[0] for link in self.out_of[chunk, rank] for use in self.uses(chunk, link)]
            into = [use[0] for link in self.into[chunk, rank] for use in self.uses(chunk, link)]
            if collective.pre[chunk, rank]:
                self.cp.add_at_most_one(out)
            elif out:
                self.cp.add(sum(out) <= (0 if collective.post[chunk, rank] else sum(into)))

    def _presence(self) -> None:
        for item, link in self.alone:
            there, then = self.at[item, self.src[link]], self.at[item, self.dst[link]]
            for literal, start, end in self.uses(item, link):
                self.cp.add(start >= there).only_enforce_if(literal)
                self.cp.add(then >= end).only_enforce_if(literal)

    def _ports_serve_one_at_a_time(self) -> None:
        topology = self.problem.topology
        busy_us = topology.port_busy_us(np.arange(topology.num_pairs), self.problem.chunk_mb)
        items_on: dict[int, list[int]] = defaultdict(list)
        for item, link in self.pairs:
            items_on[link].append(item)
        seen: set[frozenset[tuple[str, int, int, int, int]]] = set()
        for links, pairs in zip(topology.port_links, topology.port_pairs, strict=True):
            cost = {
                link: self.cost_at[pair]
                for link, pair in zip(links, pairs.tolist(), strict=True)
                if busy_us[pair] > TOLERANCE_US and self._busy(link, self.cost_at[pair])
            }
            intervals, loads = {}, {}
            for link, each in cost.items():
                owner = int(self.group.link_representative[link])
                for item in items_on[link]:
                    one, over = self.timed_as[item, link]
                    name = "alone", one, over, 0, each
                    if name not in intervals:
                        intervals[name] = self._own_interval(one, over, each)
                        loads[name] = self._busy(over, each) * self.alone[one, over].active
                    phase = item // self.num_chunks
                    for k, slot in enumerate(self.slots.get((owner, phase), [])):
                        name = "slot", owner, phase, k, each
                        if name not in intervals:
                            intervals[name] = self._slot_interval(slot, owner, each)
                            loads[name] = self._slot_load(slot, owner, each)
            signature = frozenset(intervals)
            if signature not in seen and len(intervals) > 1:
                seen.add(signature)
                self.cp.add_no_overlap(intervals.values())
                self.cp.add(sum(loads.values()) <= self.finish)
                self._whole_items_fit(items_on, cost)

    def _whole_items_fit(self, items_on: dict[int, list[int]], cost: dict[int, int]) -> None:
        """How many items a port has time for: a whole number, which CP-SAT does not see by itself.

        `cost` says for how many ticks an item on each of its links keeps it busy.
        """
        used = [(item, link) for link in cost for item in items_on[link]]
        unit = math.gcd(*(cost[link] for _, link in used))
        if not unit:
            return
        head = min(int(self.candidates.head[item, self.src[link]]) for item, link in used)
        tail = min(int(self.candidates.tail[item, self.dst[link]]) for item, link in used)
        alpha = min(self.alpha[link] for _, link in used)
        # With `pipelined`, the port is free during alpha, but the last send still needs its alpha before the
        # end.
        room = max(0, self.horizon - head - tail - alpha) // unit
        counted = [cost[link] // unit * use[0] for item, link in used for use in self.uses(item, link)]
        if sum(cost[link] // unit for _, link in used) > room:
            self.cp.add(sum(counted) <= room)

    def _busy(self, link: int, cost: int) -> int:
        """Ticks for which an item on a link keeps a port busy, at its cost there: with none, it is in
        nobody's way.
        """
        return int(cost + (self.alpha[link] if self.serial else 0))

    def _slot_load(self, slot: Slot, link: int, cost: int) -> Any:
        """Ticks for which a shared send keeps a port busy, if it is made."""
        alpha = self.alpha[link] if self.serial else 0
        return alpha * slot.active + cost * sum(slot.members.values())

    def _own_interval(self, item: int, link: int, cost: int) -> Any:
        own = self.alone[item, link]
        return self.cp.new_optional_fixed_size_interval_var(
            own.start, self._busy(link, cost), own.active, "i"
        )

    def _slot_interval(self, slot: Slot, link: int, cost: int) -> Any:
        size = self.cp.new_int_var(0, self.horizon, "n")
        if cost == self.cost[link]:
            alpha = 0 if self.serial else self.alpha[link]
            return self.cp.new_optional_interval_var(slot.start, size, slot.end - alpha, slot.active, "g")
        self.cp.add(size == self._slot_load(slot, link, cost)).only_enforce_if(slot.active)
        end = self.cp.new_int_var(0, self.horizon, "e")
        return self.cp.new_optional_interval_var(slot.start, size, end, slot.active, "g")

    def _own_chunks_go_first(self) -> None:
        own_first, owner = self.problem.limits.own_first, self.problem.collective.owner
        if own_first is None:
            return
        own_end: dict[int, Any] = {}
        copies = [(chunk, link) for chunk, link in self.pairs if chunk < self.num_chunks and own_first[link]]
        for chunk, link in copies:
            if owner[chunk] == self.src[link]:
                last = own_end.setdefault(link, self.cp.new_int_var(0, self.horizon, f"own{link}"))
                for literal, _, end in self.uses(chunk, link):
                    self.cp.add(last >= end).only_enforce_if(literal)
        for chunk, link in copies:
            if link in own_end and owner[chunk] != self.src[link]:
                for literal, start, _ in self.uses(chunk, link):
                    self.cp.add(start >= own_end[link]).only_enforce_if(literal)

    def _everything_ends_in_time(self) -> None:
        collective = self.problem.collective
        wanted = collective.post & (collective.reduces[:, None] | ~collective.pre)
        cells = [self.at[int(chunk), int(rank)] for chunk, rank in zip(*np.nonzero(wanted), strict=True)]
        for end in {cell.index: cell for cell in cells}.values():
            self.cp.add(self.finish >= end)


def decisions(model: JointModel, value: Any) -> list[Decision]:
    """The sends that a solution says, in order; `value` gives the value of an expression."""
    timed: list[tuple[int, Decision]] = []
    for (item, link), own in model.alone.items():
        if value(own.active):
            timed += [(value(own.start), decision) for decision in _images(model, (item,), link)]
    for (link, _), slots in model.slots.items():
        for slot in slots:
            if value(slot.active):
                items = tuple(item for item, member in slot.members.items() if value(member))
                timed += [(value(slot.start), decision) for decision in _images(model, items, link)]
    return [decision for _, decision in sorted(timed, key=lambda pair: pair[0])]


def _images(model: JointModel, items: tuple[int, ...], link: int) -> list[Decision]:
    group, chunks = model.group, model.problem.num_chunks
    images = {
        (tuple(item_map[list(items)].tolist()), int(link_map[link]))
        for item_map, link_map in zip(group.chunk_map, group.link_map, strict=True)
    }
    return [
        Decision(tuple(item % chunks for item in moved), over, reduce=moved[0] >= chunks)
        for moved, over in sorted(images)
    ]
