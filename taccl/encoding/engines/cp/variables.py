"""The variables of the joint model, and how to find those of an image (`model` says what they are)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.ticks import Ticks
from taccl.encoding.engines.cp.candidates import Candidates
from taccl.encoding.engines.cp.tuning import VARIABLES_WRITTEN_PER_UNIT
from taccl.encoding.symmetry.group import SymmetryGroup, without_shared_ports
from taccl.model.collective import IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US
from taccl.support.budget import Budget

#: More pairs of an item and a send than this take 500 MB, and longer to write down than to search. With so
#: many for each second that is left, writing takes a small part of it.
MOST_PAIRS = 100_000
PAIRS_PER_S = 5_000


@dataclass(frozen=True)
class Slot:
    """One send that several items of a link may share."""

    start: Any
    end: Any
    active: Any
    members: dict[int, Any] = field(default_factory=dict)  # item -> in[i, l, k]


@dataclass(frozen=True)
class Alone:
    """An item's own send over a link."""

    start: Any
    end: Any
    active: Any


def is_written_soon(pairs: int, budget: Budget, pairs_per_s: int = PAIRS_PER_S) -> bool:
    """Whether a model with this many pairs fits, and is written down in a small part of the budget.

    If so, that work is noted.
    """
    if pairs > min(MOST_PAIRS, pairs_per_s * budget.remaining_s()):
        return False
    budget.spend(pairs / VARIABLES_WRITTEN_PER_UNIT)
    return True


def size_of(
    problem: Problem, ticks: Ticks, horizon: int, candidates: Candidates, num_slots: int | None
) -> int:
    """How many pairs of an item and a send the model has, before symmetry, or a little more."""
    topology = problem.topology
    items = candidates.allowed.sum(axis=0)
    busy = ticks.of(topology.slowest_busy_us(np.arange(topology.num_links), problem.chunk_mb))
    slots = np.minimum(items // 2, np.where(busy > 0, horizon // np.maximum(busy, 1), items))
    if num_slots is not None:
        slots = np.minimum(slots, num_slots)
    shared = ~one_by_one(topology) & (problem.max_group > 1)
    return int((items * (1 + slots * shared)).sum())


class Variables:
    """One of each orbit, made from the pairs (item, link) that `candidates` allows."""

    def __init__(
        self,
        problem: Problem,
        ticks: Ticks,
        lasting: tuple[int, int],
        symmetry: SymmetryGroup,
        candidates: Candidates,
        num_slots: int | None,
    ) -> None:
        topology = problem.topology
        self.problem, self.ticks, self.candidates = problem, ticks, candidates
        least, self.horizon = lasting
        self.num_slots = num_slots
        from ortools.sat.python import cp_model  # only now, since it takes half a second

        self.cp = cp_model.CpModel()
        self.num_chunks = problem.num_chunks
        self.num_items = len(candidates.allowed)
        self.alpha = ticks.of(topology.alpha_us).tolist()
        self.cost = ticks.of(topology.beta_us_per_mb * problem.chunk_mb).tolist()
        self.cost_at: list[int] = ticks.of(
            topology.pair_betas * problem.chunk_mb
        ).tolist()  # per (link, port)
        self.serial = topology.is_serial
        self.one_by_one = one_by_one(topology)
        self.src, self.dst = topology.src.tolist(), topology.dst.tolist()
        self.whole = _of_items(symmetry, self.num_items // self.num_chunks)
        self.group = without_shared_ports(problem.topology, self.whole)
        item, link = np.nonzero(candidates.allowed)
        self.pairs = list(zip(item.tolist(), link.tolist(), strict=True))
        self.used_as = self._names(self.whole, item, link)
        self.timed_as = self._names(self.group, item, link)
        image = self.group.chunk_map[_elements_to_representatives(self.group)[link], item]
        self.image = dict(zip(self.pairs, image.tolist(), strict=True))
        self.alone: dict[tuple[int, int], Alone] = {}
        self.slots: dict[tuple[int, int], list[Slot]] = defaultdict(list)
        self.at: dict[tuple[int, int], Any] = {}
        self.root: dict[tuple[int, int], Any] = {}
        self.finish = self.cp.new_int_var(min(least, self.horizon), self.horizon, "T")
        self.into: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.out_of: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, l in self.pairs:
            self.into[i, self.dst[l]].append(l)
            self.out_of[i, self.src[l]].append(l)
        self._make_cells()
        self._make_own_sends()
        self._make_shared_sends()

    def _names(self, group: SymmetryGroup, item: Any, link: Any) -> dict[tuple[int, int], tuple[int, int]]:
        """The one pair of each orbit that stands for it."""
        least = group.pair_representative(item, link, group.link_map)
        names = (divmod(key, self.problem.topology.num_links) for key in least.tolist())
        return dict(zip(self.pairs, names, strict=True))

    def cells(self, group: SymmetryGroup, num_items: int) -> list[tuple[int, int, int]]:
        """All (item, rank), and the number of each one's orbit."""
        ranks = self.problem.num_ranks
        items, places = np.divmod(np.arange(num_items * ranks), ranks)
        least = group.pair_representative(items, places, group.rank_map)
        return list(zip(items.tolist(), places.tolist(), least.tolist(), strict=True))

    def _make_cells(self) -> None:
        """Arrival times, one per orbit of (item, rank); 0 at the sources of copies."""
        collective = self.problem.collective
        made: dict[int, Any] = {}
        for item, rank, name in self.cells(self.group, self.num_items):
            if name not in made:
                is_source = item < self.num_chunks and not collective.reduces[item]
                if is_source and collective.pre[item, rank]:
                    made[name] = 0
                else:
                    least = min(int(self.candidates.head[item, rank]), self.horizon)
                    made[name] = self.cp.new_int_var(least, self.horizon, f"at{item},{rank}")
            self.at[item, rank] = made[name]

    def _make_own_sends(self) -> None:
        active: dict[tuple[int, int], Any] = {}
        for item, link in sorted(set(self.timed_as.values())):
            used_as = self.used_as[item, link]
            if used_as not in active:
                active[used_as] = self.cp.new_bool_var(f"x{item},{link}")
            duration = self.alpha[link] + self.cost[link]
            start = self._start(item, link, duration, f"s{item},{link}")
            self.alone[item, link] = Alone(start, start + duration, active[used_as])

    def _start(self, item: int, link: int, duration: int, name: str) -> Any:
        first = int(self.candidates.head[item, self.src[link]])
        last = self.horizon - duration - int(self.candidates.tail[item, self.dst[link]])
        return self.cp.new_int_var(first, last, name)

    def _make_shared_sends(self) -> None:
        """Slots belong to one link of each orbit; what uses them is the same for its images."""
        on_link: dict[tuple[int, int], list[int]] = defaultdict(list)
        for item, link in self.pairs:
            on_link[link, item // self.num_chunks].append(item)
        whole, timed = self.whole.link_representative, self.group.link_representative
        to_least = _elements_to_representatives(self.whole)
        chosen: dict[tuple[int, int], list[Slot]] = {}
        for (link, phase), items in sorted(on_link.items()):
            if timed[link] != link:
                continue
            owner = int(whole[link])
            if (owner, phase) not in chosen:
                chosen[owner, phase] = self._choices(owner, on_link[owner, phase])
            image = self.whole.chunk_map[to_least[link]]
            slots = [
                self._timed(link, k, choice, {item: choice.members[int(image[item])] for item in items})
                for k, choice in enumerate(chosen[owner, phase])
            ]
            for one, other in itertools.pairwise(slots):
                self.cp.add(self._port_is_free(link, one) <= other.start).only_enforce_if(other.active)
            if slots:
                self.slots[link, phase] = slots

    def _choices(self, link: int, items: list[int]) -> list[Slot]:
        """Which items share the sends of a link, as yet without times."""
        most = min(len(items), self.problem.max_group)
        if most < 2 or self.one_by_one[link]:
            return []
        choices = []
        for k in range(self._most_slots(link, len(items))):
            active = self.cp.new_bool_var(f"a{link},{k}")
            members = {item: self.cp.new_bool_var(f"in{item},{link},{k}") for item in items}
            count = sum(members.values())
            self.cp.add(count >= 2).only_enforce_if(active)
            self.cp.add(count <= most).only_enforce_if(active)
            self.cp.add(count == 0).only_enforce_if(active.negated())
            choices.append(Slot(None, None, active, members))
        for one, other in itertools.pairwise(choices):
            self.cp.add_implication(other.active, one.active)
        return choices

    def _port_is_free(self, link: int, slot: Slot) -> Any:
        """From when on another send may start over the link of a shared one, which started before it.

        The slowest port of a link is as slow as the link, and with `pipelined` alpha keeps it busy for none
        of it.
        """
        topology = self.problem.topology
        if topology.slowest_busy_us(np.array([link]), self.problem.chunk_mb)[0] <= TOLERANCE_US:
            return slot.start
        return slot.end - (0 if self.serial else self.alpha[link])

    def _most_slots(self, link: int, items: int) -> int:
        """Each shared send takes two items or more, and time on the ports of its link."""
        enough = items // 2
        busy = 2 * self.cost[link] + self.alpha[link] * self.serial
        if busy:
            enough = min(enough, self.horizon // busy)
        return enough if self.num_slots is None else min(self.num_slots, enough)

    def _timed(self, link: int, k: int, choice: Slot, members: dict[int, Any]) -> Slot:
        start = self.cp.new_int_var(0, self.horizon, f"S{link},{k}")
        end = self.cp.new_int_var(0, self.horizon, f"E{link},{k}")
        length = self.alpha[link] + self.cost[link] * sum(members.values())
        self.cp.add(end == start + length).only_enforce_if(choice.active)
        return Slot(start, end, choice.active, members)

    def uses(self, item: int, link: int) -> list[tuple[Any, Any, Any]]:
        """(literal, start, end) of every way in which an item may travel over a link."""
        own = self.alone[self.timed_as[item, link]]
        owner = int(self.group.link_representative[link])
        slots = self.slots.get((owner, item // self.num_chunks), [])
        if not slots:
            return [(own.active, own.start, own.end)]
        image = self.image[item, link]
        return [
            (own.active, own.start, own.end),
            *((slot.members[image], slot.start, slot.end) for slot in slots),
        ]


def _elements_to_representatives(group: SymmetryGroup) -> IntArray:
    """For each link, an element that takes it to the one that stands for its orbit, shape (num_links,)."""
    return np.asarray((group.link_map == group.link_representative).argmax(axis=0))


def _of_items(symmetry: SymmetryGroup, phases: int) -> SymmetryGroup:
    """The group that moves the chunks of each phase in the same way."""
    chunks = symmetry.chunk_map.shape[1]
    moved = np.hstack([symmetry.chunk_map + phase * chunks for phase in range(phases)])
    return SymmetryGroup(symmetry.rank_map, moved, symmetry.link_map)
