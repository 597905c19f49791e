r"""What happens inside one node, as a joint model: items of several chunks on the links between its places.

An item is a chunk of a small problem, as large as the chunks that it is. It is there late where it comes from
elsewhere. Where items leave the node,

    late[i, g]      whether i leaves in group g, with late[i, g]  =>  T >= at[i, x] + tail(g) at the place x
                    by which it leaves
    groups          the chunks that leave in g, for each shift, are as many as the plan says
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taccl.encoding.core.cp_sat import events_of
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.candidates import every_candidate
from taccl.encoding.sending_model.joint import JointModel, build
from taccl.encoding.sending_model.node_parts import Around, Decided, Item, Leaving, Placed
from taccl.encoding.sending_model.tuning import IN_NODE_WRITTEN_PER_UNIT
from taccl.model.collective import Collective, Placement
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget

#: Of a chunk of size 1: with a power of two costs stay what they are, and all are in the range of a beta.
_CHUNK_MB = 2.0**20


def decide(
    around: Around,
    items: Sequence[Item],
    before_us: float,
    seed: int,
    budget: Budget,
    leaving: Leaving | None = None,
) -> Decided | None:
    """The best that is found of what ends before a moment; None: nothing."""
    if not any(_needs(item, leaving) or item.shifts for item in items):
        return Decided((), {}, 0.0)
    node = _Node(around, items, before_us, leaving)
    budget.spend(len(items) * len(around.links) / IN_NODE_WRITTEN_PER_UNIT)
    found: Decided | None = None
    for event in events_of(node.model.cp, node.read, seed, budget):
        found = event.decisions or found
    return found


def least_us(around: Around, items: Sequence[Item], before_us: float, seed: int, budget: Budget) -> float:
    """A moment before which the items cannot all be where they are wanted; `before_us` at most.

    Each item is one chunk, there from 0 on, and links are serial and have ports. No send is left out: one of
    several items keeps its ports busy for an alpha and two costs, so of these a link has no more than a known
    number before `before_us`. Costs are rounded down to ticks, and ends are no later for that (`core.ticks`).
    """
    least = min((link.alpha_us + 2 * link.cost_us for link in around.links), default=before_us)
    most = len(items) if least <= 0 else min(len(items), int(before_us / least * (1 + EQUAL)))
    node = _Node(replace(around, most_shared=most), items, before_us, None)
    budget.spend(len(items) * len(around.links) / IN_NODE_WRITTEN_PER_UNIT)
    ticks = 0
    for event in events_of(node.model.cp, node.read, seed, budget):
        if event.impossible:
            return before_us
        ticks = max(ticks, event.bound)
    return min(before_us, ticks * around.ticks.tick_us)


class _Node:
    """The model, and the keys to read it by: its chunks are those items that have to come somewhere."""

    def __init__(
        self, around: Around, items: Sequence[Item], before_us: float, leaving: Leaving | None
    ) -> None:
        self._around, self._items = around, items
        #: Nothing begins before this moment, from which ticks are counted.
        self._from_us = min((when for item in items for _, when in item.starts), default=0.0)
        ends = {end for link in around.links for end in (link.src, link.dst)}
        starts = {place for item in items for place, _ in item.starts}
        self._rank = {place: rank for rank, place in enumerate(sorted(ends | starts))}
        self._moving = [number for number, item in enumerate(items) if _needs(item, leaving) or item.shifts]
        moving = [items[number] for number in self._moving]
        problem = _problem(around, moving, self._rank, self._from_us, leaving)
        last = around.ticks.last_before(before_us - self._from_us)
        instance = Instance(problem)
        self.model: JointModel = build(
            problem,
            around.ticks,
            (0, last),
            instance.group,
            every_candidate(instance, around.ticks, last),
            around.most_shared,
            chunks_in=[len(item.chunks) for item in moving],
        )
        self._late: dict[tuple[int, int], Any] = {}
        if leaving is not None:
            self._items_leave_in_groups(leaving)

    def _items_leave_in_groups(self, leaving: Leaving) -> None:
        cp, sending = self.model.cp, self.model.sending
        groups = range(len(leaving.sizes))
        of_shift: dict[tuple[int, int], list[Any]] = {}
        for chunk, number in enumerate(self._moving):
            item = self._items[number]
            if not item.shifts:
                continue
            late = {group: cp.new_bool_var(f"late{number},{group}") for group in groups}
            cp.add_exactly_one(late.values())
            for group, literal in late.items():
                self._late[number, group] = literal
                tail = int(
                    self._around.ticks.of(max(leaving.tails_us[group, shift] for shift in item.shifts))
                )
                there = sending.at[chunk, self._rank[leaving.place]] + tail
                cp.add(sending.finish >= there).only_enforce_if(literal)
                for shift in item.shifts:
                    of_shift.setdefault((shift, group), []).append(len(item.chunks) * literal)
        for (_, group), chunks in of_shift.items():
            cp.add(sum(chunks) == leaving.sizes[group])

    def read(self, value: Callable[[Any], int]) -> Decided:
        """What a solution says."""
        tick_us, sends = self._around.ticks.tick_us, []
        for send in self.model.sends:
            if value(send.active):
                items = tuple(
                    self._moving[chunk] for chunk, literal in send.members.items() if value(literal)
                )
                start_us, end_us = (self._from_us + value(when) * tick_us for when in (send.start, send.end))
                sends.append(Placed(send.link, items, start_us, end_us))
        group = {number: group for (number, group), literal in self._late.items() if value(literal)}
        sends.sort(key=lambda send: (send.start_us, send.end_us))
        return Decided(tuple(sends), group, self._from_us + value(self.model.sending.finish) * tick_us)


def _needs(item: Item, leaving: Leaving | None) -> set[int]:
    """Where an item has to come, from elsewhere."""
    leaves = {leaving.place} if leaving is not None and item.shifts else set()
    return (set(item.wanted) | leaves) - {place for place, _ in item.starts}


def _problem(
    around: Around, items: Sequence[Item], rank: Mapping[int, int], from_us: float, leaving: Leaving | None
) -> Problem:
    """The items as chunks of a problem on the node's links; a chunk of size 1 takes a link's cost."""
    links, ranks = around.links, len(rank)
    ports = 1 + max((port for link in links for port in link.ports), default=-1)
    starts = [
        (chunk, rank[place], when - from_us)
        for chunk, item in enumerate(items)
        for place, when in item.starts
    ]
    wanted = [
        (chunk, rank[place])
        for chunk, item in enumerate(items)
        for place in sorted(_needs(item, leaving)) or [item.starts[0][0]]
    ]
    topology = LogicalTopology(
        name="node",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=np.array([rank[link.src] for link in links], dtype=np.int64),
        dst=np.array([rank[link.dst] for link in links], dtype=np.int64),
        alpha_us=np.array([link.alpha_us for link in links]),
        beta_us_per_mb=np.array([link.cost_us for link in links]) / _CHUNK_MB,
        ports=tuple(link.ports for link in links),
        port_names=tuple(f"port {port}" for port in range(ports)),
        occupancy="serial" if around.is_serial else "pipelined",
    )
    collective = Collective(
        name="node",
        num_ranks=ranks,
        chunks_per_rank=1,
        chunks_per_size=max(1, len(items)),
        inputs=_placed([(chunk, at) for chunk, at, _ in starts]),
        outputs=_placed(wanted),
        reduces=np.zeros(len(items), dtype=np.bool_),
        owner=np.array([rank[item.starts[0][0]] for item in items], dtype=np.int64),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )
    return Problem(
        topology,
        collective,
        _CHUNK_MB,
        max_group=around.max_group,
        sizes=np.array([float(len(item.chunks)) for item in items]),
        ready_us=np.array([when for _, _, when in starts]),
    )


def _placed(cells: Sequence[tuple[int, int]]) -> Placement:
    chunk, place = np.array(cells, dtype=np.int64).reshape(-1, 2).T
    return Placement(chunk, place, chunk)
