"""The variables of the model of all programs: what a rank can have, and what a link can carry.

`sums_model` says what they mean, and how many sends of a link are enough.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.ticks import NEVER, Ticks
from taccl.encoding.engines.cp.sums_parts import Item, is_own, sum_candidates
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem

#: (chunk, part, rank)
Cell = tuple[int, int, int]


@dataclass(frozen=True)
class Sending:
    """One send over a link, if it is made: which items it carries, how many, and when."""

    link: int
    active: Any
    start: Any
    end: Any
    count: Any
    members: dict[Item, Any]


def port_costs(problem: Problem, ticks: Ticks) -> dict[tuple[int, int], int]:
    """For each (link, port) the ticks that a chunk keeps the port busy, next to alpha."""
    topology = problem.topology
    link, port = topology.incidence
    cost: list[int] = ticks.of(topology.pair_betas * problem.chunk_mb).tolist()
    return dict(zip(zip(link.tolist(), port.tolist(), strict=True), cost, strict=True))


def size_of(problem: Problem, ticks: Ticks, horizon: int) -> int:
    """How many items in sends the model would have, or a little more."""
    topology, collective = problem.topology, problem.collective
    contributors = np.where(collective.reduces, collective.num_sources, 1)
    items = int((2**contributors - 1).sum())
    links = np.arange(topology.num_links)
    busy = ticks.of(topology.slowest_busy_us(links, problem.chunk_mb))
    sends = np.where(one_by_one(topology), 1, horizon // np.maximum(busy, 1))
    shared = problem.max_group > 1 and problem.num_chunks > 1
    return int((items * np.minimum(sends, items)).sum()) if shared else items * topology.num_links


class Variables:
    """Made from the items that may travel over each link (`sums_parts`), in ticks."""

    def __init__(self, instance: Instance, ticks: Ticks, lasting: tuple[int, int]) -> None:
        problem = instance.problem
        topology, collective = problem.topology, problem.collective
        self.problem, self.ticks = problem, ticks
        least, self.horizon = lasting
        self.candidates = sum_candidates(instance, ticks, self.horizon)
        from ortools.sat.python import cp_model  # only now, since it takes half a second

        self.cp = cp_model.CpModel()
        self.alpha: list[int] = ticks.of(topology.alpha_us).tolist()
        self.cost: list[int] = ticks.of(topology.beta_us_per_mb * problem.chunk_mb).tolist()
        self.port_cost = port_costs(problem, ticks)
        self.serial = topology.is_serial
        self.one_by_one = one_by_one(topology)
        self.src, self.dst = topology.src.tolist(), topology.dst.tolist()
        self.into, self.out_of = topology.links_into, topology.links_from
        self.pre, self.post = collective.pre.tolist(), collective.post.tolist()
        self.ranks, self.chunks = range(problem.num_ranks), range(problem.num_chunks)
        self.finish = self.cp.new_int_var(min(least, self.horizon), self.horizon, "T")
        self.got: dict[Cell, Any] = {}
        self.at: dict[Cell, Any] = {}
        #: (chunk, the piece that came at once, what is made, rank)
        self.made: dict[tuple[int, int, int, int], Any] = {}
        self.sends: list[list[Sending]] = [[] for _ in range(topology.num_links)]
        #: For each chunk, whether each part of it is used on each link: (part, link, use).
        self.uses: list[list[tuple[int, int, Any]]] = [[] for _ in self.chunks]
        self._make_cells()
        for link in range(topology.num_links):
            self._make_sends(link)

    def _make_cells(self) -> None:
        """Whether a rank has a part, and from when on: 0 for what is its own."""
        for chunk in self.chunks:
            for part, rank in itertools.product(self.candidates.parts[chunk], self.ranks):
                cell = chunk, part, rank
                head = self.candidates.head[cell]
                wanted = part == self.candidates.whole[chunk] and self.post[chunk][rank]
                if is_own(self.problem, chunk, part, rank):
                    self.got[cell], self.at[cell] = 1, 0
                elif wanted or head <= self.horizon:
                    # What is wanted and cannot come in time has no source: then there is no solution.
                    self.got[cell] = 1 if wanted else self.cp.new_bool_var(f"got{cell}")
                    self.at[cell] = self.cp.new_int_var(min(head, self.horizon), self.horizon, f"at{cell}")
                    if wanted:
                        self.cp.add(self.finish >= self.at[cell])

    def _make_sends(self, link: int) -> None:
        items = self.candidates.on_link[link]
        if self._goes_piece_by_piece(link):
            for item in items:
                self._own_send(link, item)
        else:
            for k in range(self._most_sends(link)):
                self._shared_send(link, k)
            for one, other in itertools.pairwise(self.sends[link]):
                self.cp.add_implication(other.active, one.active)
                self.cp.add(other.start >= one.start + self._apart(link)).only_enforce_if(other.active)
        for chunk, part in items:
            members = (send.members.get((chunk, part), 0) for send in self.sends[link])
            self.uses[chunk].append((part, link, sum(members)))

    def _goes_piece_by_piece(self, link: int) -> bool:
        """Whether no send of several items is of any use."""
        several = len({chunk for chunk, _ in self.candidates.on_link[link]}) > 1
        return not several or self.problem.max_group < 2 or bool(self.one_by_one[link])

    def _most_sends(self, link: int) -> int:
        items = self.candidates.on_link[link]
        room = self.last_start(link, items) - self.first_start(link, items)
        apart = self._apart(link)
        return 0 if room < 0 else min(len(items), room // apart + 1) if apart else len(items)

    def _apart(self, link: int) -> int:
        """Ticks between the starts of two sends over a link, for which its slowest port is busy."""
        ports = self.problem.topology.ports[link]
        busy = (self.alpha[link] * self.serial + self.port_cost[link, port] for port in ports)
        return max(busy) if all(self.serves(link, port) for port in ports) else 0

    def first_start(self, link: int, items: list[Item]) -> int:
        """The least tick at which any of some items can be where a link begins."""
        return min((self.candidates.head[chunk, part, self.src[link]] for chunk, part in items), default=0)

    def last_start(self, link: int, items: list[Item]) -> int:
        """The last tick at which any of some items is of use on a link."""
        tail = min((int(self.candidates.tail[chunk, self.dst[link]]) for chunk, _ in items), default=NEVER)
        return self.horizon - self.alpha[link] - self.cost[link] - tail

    def _own_send(self, link: int, item: Item) -> None:
        name = f"{item},{link}"
        active = self.cp.new_bool_var(f"x{name}")
        first, last = self.first_start(link, [item]), self.last_start(link, [item])
        start = self.cp.new_int_var(first, last, f"s{name}")
        end = start + self.alpha[link] + self.cost[link]
        self.sends[link].append(Sending(link, active, start, end, 1, {item: active}))

    def _shared_send(self, link: int, k: int) -> None:
        items, name = self.candidates.on_link[link], f"{link},{k}"
        active = self.cp.new_bool_var(f"a{name}")
        members = {item: self.cp.new_bool_var(f"in{item},{name}") for item in items}
        of_chunk: dict[int, list[Any]] = defaultdict(list)
        for (chunk, _), member in members.items():
            of_chunk[chunk].append(member)
        for several in of_chunk.values():
            self.cp.add_at_most_one(several)
        most = min(len(of_chunk), self.problem.max_group)
        count = self.cp.new_int_var(0, most, f"n{name}")
        self.cp.add(count == sum(members.values()))
        self.cp.add(count >= 1).only_enforce_if(active)
        for member in members.values():
            self.cp.add_implication(member, active)
        start = self.cp.new_int_var(self.first_start(link, items), self.last_start(link, items), f"S{name}")
        end = self.cp.new_int_var(0, self.horizon, f"E{name}")
        self.cp.add(end == start + self.alpha[link] + self.cost[link] * count).only_enforce_if(active)
        self.sends[link].append(Sending(link, active, start, end, count, members))

    def serves(self, link: int, port: int) -> bool:
        """Whether a send keeps a port of its link busy: what takes no time is in nobody's way."""
        return self.alpha[link] * self.serial + self.port_cost[link, port] > 0

    def interval(self, send: Sending, cost: int) -> Any:
        """When a port is busy that takes so long for one chunk."""
        size = self.alpha[send.link] * self.serial + cost * send.count
        if isinstance(size, int):
            return self.cp.new_optional_fixed_size_interval_var(send.start, size, send.active, "i")
        end = self.cp.new_int_var(0, self.horizon, "e")
        return self.cp.new_optional_interval_var(send.start, size, end, send.active, "i")

    def received(self, chunk: int, part: int, rank: int) -> list[Any]:
        """Whether each send into a rank brings a part."""
        item = (chunk, part)
        sends = (send for link in self.into[rank] for send in self.sends[link])
        return [send.members[item] for send in sends if item in send.members]
