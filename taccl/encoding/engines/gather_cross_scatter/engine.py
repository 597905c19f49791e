"""Plans tried one after another: the node's way out, the groups, the spread, and what stays in the node.

For each plan (`crossing`) CP-SAT decides in each node (`sending_model.in_node`)

1. how what leaves comes to the way out, and in which group each chunk leaves, for the earliest end of all;
2. when what came from other nodes is where it is wanted: chunks that want the same travel in few parts first,
   in more parts later;
3. how the node's own chunks come to the rest of its ranks, next to these.

Nodes in which all is equivalent are decided once. Only what ends before the best schedule is searched, so
most plans are soon refuted.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.core.timing import Decision, Ports, in_order, without_dead_ends
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.gather_cross_scatter.crossing import (
    Crossing,
    CrossingPlan,
    crossing_of,
    distances_us,
    plans,
)
from taccl.encoding.engines.gather_cross_scatter.fill import filled
from taccl.encoding.engines.gather_cross_scatter.nodes import Nodes, equal_nodes
from taccl.encoding.engines.gather_cross_scatter.nodes import serves as has_equal_nodes
from taccl.encoding.engines.gather_cross_scatter.tuning import (
    LATER,
    LEAST_S,
    MOST_PLACES,
    MOST_ROUTES,
    MOST_S,
    PARTS,
    SHARE,
)
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.in_node import decide
from taccl.encoding.sending_model.node_parts import Around, Decided, Item, Leaving, Placed, backwards
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether as many chunks cross between any two of few small equal nodes."""
    verdict = has_equal_nodes(instance)
    if not verdict:
        return verdict
    crossing, nodes = _crossing(instance), _nodes(instance)
    if not crossing.many:
        return no("not as many chunks cross from each node to each other")
    items = len(np.unique(instance.problem.collective.source[crossing.chunks[0, 1]]))
    if items * len(nodes.inside) > MOST_ROUTES or len(nodes.routes) > MOST_PLACES:
        return no("there are too many links in a node, or too many between nodes")
    if not _stays_inside(instance, nodes):
        return no("some rank does not reach another one of its node, which wants its chunks, inside the node")
    return YES


def _stays_inside(instance: Instance, nodes: Nodes) -> bool:
    """Whether links inside lead from where each chunk starts to all in its node who want it."""
    wants, source = instance.demand.wants, instance.problem.collective.source
    source, rank = source[wants.chunk], wants.rank
    away_us = distances_us(nodes)[nodes.place[source], nodes.place[rank]]
    return bool(np.isfinite(away_us[nodes.node[source] == nodes.node[rank]]).all())


def _nodes(instance: Instance) -> Nodes:
    nodes = instance.once(equal_nodes)
    assert nodes is not None
    return nodes


def _crossed_in(instance: Instance) -> Crossing:
    return crossing_of(instance, _nodes(instance))


def _crossing(instance: Instance) -> Crossing:
    return instance.once(_crossed_in)


def gather_cross_scatter(
    instance: Instance, options: SearchOptions, budget: Budget, best: Schedule
) -> Iterator[Update]:
    """Yield better and better schedules until all plans are tried, or the budget is over."""
    if not serves(instance) or not budget.remaining_s():
        return
    search = _Search(instance, options.seed, best.makespan_us)
    for plan, parts in _in_turns(search.plans):
        if not budget.remaining_s() or instance.bound_us >= search.best_us - TOLERANCE_US:
            return
        if plan.least_us >= search.best_us - TOLERANCE_US:
            continue
        schedule = search.tried(plan, parts, budget)
        if schedule is not None and schedule.makespan_us < search.best_us - TOLERANCE_US:
            search.best_us = schedule.makespan_us
            yield Update("gather-cross-scatter", schedule)


def _in_turns(plans: Sequence[CrossingPlan]) -> Iterator[tuple[CrossingPlan, int]]:
    """Each plan with each number of parts: the better a plan and the fewer parts, the sooner.

    Many plans may be worth as much as the first, so all of them before its second number of parts, or all
    numbers of parts before the second plan, would use up the time on one of the two. There may be tens of
    thousands, so none is looked at before its turn.
    """

    def turns_of(turn: int, parts: int) -> Iterator[tuple[float, int, CrossingPlan, int]]:
        for rank, plan in enumerate(plans):
            yield (rank + 1) ** LATER * (turn + 1), turn, plan, parts

    each_number = (turns_of(turn, parts) for turn, parts in enumerate(PARTS))
    for _, _, plan, parts in heapq.merge(*each_number, key=lambda each: each[:2]):
        yield plan, parts


@dataclass(frozen=True)
class _Group:
    """A group that crosses, and when it is there."""

    decision: Decision
    node: int
    start_us: float
    end_us: float


class _Search:
    """One problem, and what was decided for its nodes so far."""

    def __init__(self, instance: Instance, seed: int, best_us: float) -> None:
        self._instance, self._problem, self._seed = instance, instance.problem, seed
        self._nodes, self._crossing = _nodes(instance), _crossing(instance)
        self.plans, self.best_us = plans(instance, self._crossing), best_us
        shares = ~one_by_one(self._problem.topology)
        self._around = Around(
            self._nodes.inside,
            self._problem.topology.is_serial,
            [bool(shares[link]) for link in self._nodes.links[0]],
            self._problem.max_group,
            ticks_of(self._problem, best_us),
        )
        self._wanted: dict[tuple[int, int], set[int]] = defaultdict(set)  # places, by chunk and node
        wants, nodes = instance.demand.wants, self._nodes
        columns = wants.chunk, nodes.node[wants.rank], nodes.place[wants.rank]
        for chunk, node, place in zip(*(column.tolist() for column in columns), strict=True):
            self._wanted[chunk, node].add(place)
        self._back, self._turned = backwards(self._around)
        self._known: dict[object, tuple[float, Decided | None]] = {}
        self._best_gathered: dict[object, tuple[list[Item], Decided]] = {}

    def tried(self, plan: CrossingPlan, parts: int, budget: Budget) -> Schedule | None:
        """The schedule of a plan; None if none is found that is faster than the best."""
        self._budget = budget
        gathered = []
        for node in range(self._nodes.num):
            each = self._gathered(node, plan, parts)
            if each is None:
                return None
            gathered.append(each)
        groups = self._crossed(plan, gathered)
        if max(group.end_us for group in groups) >= self.best_us:
            return None
        decisions = [(group.start_us, group.end_us, group.decision) for group in groups]
        for node, (leave, gather) in enumerate(gathered):
            come = self._items_that_came(groups, node, plan, parts)
            spread = self._decided(come, self.best_us)
            if spread is None:
                return None
            stay = self._items_that_stay(node, leave, gather)
            local = Decided(filled(self._around, stay, gather.sends + spread.sends), {}, 0.0)
            for items, decided in ((leave, gather), (come, spread), (stay, local)):
                decisions += self._decisions(node, items, decided)
        decisions.sort(key=lambda each: each[:2])
        return without_dead_ends(in_order(self._problem, [decision for _, _, decision in decisions]))

    def _gathered(self, node: int, plan: CrossingPlan, parts: int) -> tuple[list[Item], Decided] | None:
        """How what leaves a node comes to its way out: the best so far, in this many parts or in fewer."""
        key = node, plan.out, plan.sizes
        items, best = self._items_that_leave(node, parts), self._best_gathered.get(key)
        before_us = self.best_us if best is None else min(best[1].end_us, self.best_us)
        decided = self._decided(items, before_us, self._leaving(plan))
        if decided is not None:
            self._best_gathered[key] = best = items, decided
        return best if best is not None and best[1].end_us < self.best_us - TOLERANCE_US else None

    def _decided(
        self, items: Sequence[Item], before_us: float, leaving: Leaving | None = None
    ) -> Decided | None:
        """What CP-SAT finds that ends before a moment, once for all nodes that have the same to do."""
        if not items:
            return Decided((), {}, 0.0)
        if leaving is None or len(leaving.sizes) > 1 or not self._around.is_serial:
            return self._decided_once(self._around, items, before_us, leaving)
        # One group: read backwards, what it gathers is a spread from where it leaves, and CP-SAT, which
        # decides what is early first, finds better ones.
        tail_us = max(leaving.tails_us.values())
        moving = [number for number, item in enumerate(items) if item.starts[0][0] != leaving.place]
        turned = [
            Item(item.chunks, ((leaving.place, 0.0),), frozenset(place for place, _ in item.starts))
            for item in (items[number] for number in moving)
        ]
        found = self._decided_once(self._back, turned, before_us - tail_us)
        if found is None:
            return None
        sends = tuple(
            Placed(
                self._turned[send.link],
                tuple(moving[number] for number in send.items),
                found.end_us - send.end_us,
                found.end_us - send.start_us,
            )
            for send in reversed(found.sends)
        )
        return Decided(sends, dict.fromkeys(range(len(items)), 0), found.end_us + tail_us)

    def _decided_once(
        self, around: Around, items: Sequence[Item], before_us: float, leaving: Leaving | None = None
    ) -> Decided | None:
        """The same, of whatever is equivalent up to the moment at which it begins."""
        if len(items) * len(self._nodes.inside) > MOST_ROUTES:
            return None
        from_us = min((when for item in items for _, when in item.starts), default=0.0)
        items = [item.later(-from_us) for item in items]
        room_us = before_us - from_us
        key = (
            around is self._around,
            tuple((len(item.chunks), item.starts, item.wanted, item.shifts) for item in items),
            None if leaving is None else (leaving.place, *leaving.sizes),
        )
        looked_us, decided = self._known.get(key, (0.0, None))
        if looked_us < room_us - TOLERANCE_US and (decided is None or decided.end_us >= room_us):
            seconds = min(MOST_S, max(LEAST_S, SHARE * self._budget.remaining_s()))
            budget = self._budget.at_most(seconds)
            decided = decide(around, items, room_us, self._seed, budget, leaving)
            self._known[key] = room_us, decided
        if decided is None or decided.end_us >= room_us - TOLERANCE_US:
            return None
        return decided.later(from_us)

    def _leaving(self, plan: CrossingPlan) -> Leaving:
        """How chunks leave every node: what follows each group on its way out."""
        turns = [(group, shift) for group in range(len(plan.sizes)) for shift in range(1, self._nodes.num)]
        link = int(self._nodes.routes[plan.out, plan.into][0, 1])
        topology = self._problem.topology
        tails, tail = {}, 0.0
        for group, shift in reversed(turns):
            body = float(topology.beta_us_per_mb[link] * self._problem.chunk_mb) * plan.sizes[group]
            tail += body + float(topology.alpha_us[link])
            tails[group, shift] = tail
        return Leaving(plan.out, plan.sizes, tails)

    def _items_that_leave(self, node: int, parts: int) -> list[Item]:
        """The chunks that cross; those that start at a rank and go to the same nodes are in a few parts."""
        shifts: dict[int, set[int]] = defaultdict(set)
        for shift in range(1, self._nodes.num):
            for chunk in self._crossing.chunks[node, shift].tolist():
                shifts[chunk].add(shift)
        equivalent: dict[tuple[int, frozenset[int]], list[int]] = defaultdict(list)
        for chunk, to in shifts.items():
            equivalent[self._source(chunk), frozenset(to)].append(chunk)
        return [
            Item(part, ((place, 0.0),), frozenset(), to)
            for (place, to), chunks in sorted(
                equivalent.items(), key=lambda each: (each[0][0], sorted(each[0][1]))
            )
            for part in _in_parts(chunks, parts)
        ]

    def _source(self, chunk: int) -> int:
        return int(self._nodes.place[self._problem.collective.source[chunk]])

    def _crossed(self, plan: CrossingPlan, gathered: list[tuple[list[Item], Decided]]) -> list[_Group]:
        """The groups of all nodes, each as soon as its chunks and its ports are there."""
        ports, links = Ports(self._problem), self._nodes.routes[plan.out, plan.into]
        found = []
        for number, size in enumerate(plan.sizes):
            for shift in range(1, self._nodes.num):
                for node, (items, decided) in enumerate(gathered):
                    chosen = [
                        index
                        for index, item in enumerate(items)
                        if shift in item.shifts and decided.group[index] == number
                    ]
                    ready = _there_us(items, decided, self._nodes, plan.out)
                    link = int(links[node, (node + shift) % self._nodes.num])
                    start = max(ports.ready(link), *(ready[index] for index in chosen))
                    chunks = tuple(sorted(chunk for index in chosen for chunk in items[index].chunks))
                    end = ports.place(link, size, start)
                    to = (node + shift) % self._nodes.num
                    found.append(_Group(Decision(chunks, link), to, start, end))
        return found

    def _items_that_came(self, groups: list[_Group], node: int, plan: CrossingPlan, parts: int) -> list[Item]:
        """What came to a node, in a few parts each of what came together and wants the same."""
        items = []
        for group in groups:
            if group.node != node:
                continue
            equivalent: dict[frozenset[int], list[int]] = defaultdict(list)
            for chunk in group.decision.chunks:
                equivalent[self._wanted_in(chunk, node)].append(chunk)
            for wanted, chunks in sorted(equivalent.items(), key=lambda each: sorted(each[0])):
                if wanted - {plan.into}:
                    starts = ((plan.into, group.end_us),)
                    items += [Item(part, starts, wanted) for part in _in_parts(chunks, parts)]
        return items

    def _wanted_in(self, chunk: int, node: int) -> frozenset[int]:
        return frozenset(self._wanted.get((chunk, node), ()))

    def _items_that_stay(self, node: int, leave: list[Item], gather: Decided) -> list[Item]:
        """The node's own chunks that are still wanted inside; they start wherever they already came."""
        starts: dict[int, dict[int, float]] = {}
        for chunk in np.flatnonzero(
            np.isin(self._problem.collective.source, self._nodes.ranks[node])
        ).tolist():
            starts[chunk] = {self._source(chunk): 0.0}
        for send in gather.sends:
            for index in send.items:
                for chunk in leave[index].chunks:
                    starts[chunk][self._nodes.inside[send.link].dst] = send.end_us
        equivalent: dict[tuple[tuple[tuple[int, float], ...], frozenset[int]], list[int]] = defaultdict(list)
        for chunk, places in starts.items():
            wanted = self._wanted_in(chunk, node) - set(places)
            if wanted:
                equivalent[tuple(sorted(places.items())), wanted].append(chunk)
        return [
            Item(part, places, wanted)
            for (places, wanted), chunks in equivalent.items()
            for part in _in_parts(chunks, -(-len(chunks) // self._problem.max_group))
        ]

    def _decisions(
        self, node: int, items: list[Item], decided: Decided
    ) -> Iterator[tuple[float, float, Decision]]:
        for send in decided.sends:
            chunks = tuple(sorted(chunk for index in send.items for chunk in items[index].chunks))
            yield send.start_us, send.end_us, Decision(chunks, int(self._nodes.links[node, send.link]))


def _in_parts(chunks: list[int], parts: int) -> list[tuple[int, ...]]:
    """The chunks in this many parts of about one size, or each alone."""
    return [tuple(part.tolist()) for part in np.array_split(chunks, min(parts, len(chunks)))]


def _there_us(items: list[Item], decided: Decided, nodes: Nodes, place: int) -> list[float]:
    """When each item is at a place, by what was decided."""
    ready = [min((when for at, when in item.starts if at == place), default=0.0) for item in items]
    for send in decided.sends:
        if nodes.inside[send.link].dst == place:
            for index in send.items:
                ready[index] = send.end_us
    return ready
