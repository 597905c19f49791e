"""How chunks may cross between nodes: from which place to which, in groups of which sizes.

A *plan* names the places and the sizes, the same for each two nodes. What it takes at least says which plans
to look at first; that is no bound, since chunks may cross in other forms, too.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.engines.gather_cross_scatter.nodes import Nodes
from taccl.encoding.engines.gather_cross_scatter.tuning import (
    CROSSING_FEW_GROUPS,
    CROSSING_MANY_UNITS,
    CROSSING_MOST_GROUPS,
)
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.node_parts import Inside
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True)
class CrossingPlan:
    """A way to cross.

    Parameters
    ----------
    out, into : the places from which and to which the links between nodes lead.
    sizes : the chunks of each group, in the order in which they leave.
    least_us : no schedule of this plan is faster.
    """

    out: int
    into: int
    sizes: tuple[int, ...]
    least_us: float


@dataclass(frozen=True, eq=False)
class Crossing:
    """Which chunks cross: from each node to the one that stands `shift` further, counted round.

    Parameters
    ----------
    chunks : (node, shift) -> the chunks, ascending.
    """

    nodes: Nodes
    chunks: dict[tuple[int, int], IntArray]

    @cached_property
    def many(self) -> int:
        """Chunks from one node to another; 0 if these are not as many everywhere."""
        numbers = {len(chunk) for chunk in self.chunks.values()}
        return numbers.pop() if len(numbers) == 1 else 0


def crossing_of(instance: Instance, nodes: Nodes) -> Crossing:
    """What has to cross in a problem that copies each chunk from one rank."""
    wants, source = instance.demand.wants, nodes.node[instance.problem.collective.source]
    wanted = np.zeros((instance.problem.num_chunks, nodes.num), dtype=np.bool_)
    wanted[wants.chunk, nodes.node[wants.rank]] = True
    return Crossing(
        nodes,
        {
            (node, shift): np.flatnonzero((source == node) & wanted[:, (node + shift) % nodes.num])
            for node in range(nodes.num)
            for shift in range(1, nodes.num)
        },
    )


def plans(instance: Instance, crossing: Crossing) -> list[CrossingPlan]:
    """All plans, those that take least at first."""
    nodes, many = crossing.nodes, crossing.many
    topology, problem = instance.problem.topology, instance.problem
    sources = nodes.place[problem.collective.source[crossing.chunks[0, 1]]]
    counts = np.bincount(sources, minlength=nodes.size)
    unit = int(np.gcd.reduce(counts))
    away = distances_us(nodes)
    to_all = instance.demand.to_all
    gathered = {out: _gathered(nodes, away, out, counts, many) for out in {out for out, _ in nodes.routes}}
    spread = {
        into: _spread(nodes, away, into, many * (nodes.num - 1), to_all)
        for into in {into for _, into in nodes.routes}
    }
    found = []
    most = CROSSING_MOST_GROUPS if many // unit <= CROSSING_MANY_UNITS else CROSSING_FEW_GROUPS
    for (out, into), links in nodes.routes.items():
        link = int(links[0, 1])
        alpha_us = float(topology.alpha_us[link])
        cost_us = float(topology.beta_us_per_mb[link] * problem.chunk_mb)
        for sizes in _compositions(many // unit, most):
            whole = tuple(size * unit for size in sizes)
            if max(whole) <= problem.max_group:
                least_us = _least_us(nodes, whole, alpha_us, cost_us, gathered[out], spread[into])
                found.append(CrossingPlan(out, into, whole, least_us))
    return sorted(found, key=lambda plan: (plan.least_us, len(plan.sizes)))


def _least_us(
    nodes: Nodes,
    sizes: Sequence[int],
    alpha_us: float,
    cost_us: float,
    gathered: FloatArray,
    spread: FloatArray,
) -> float:
    now, least_us = 0.0, 0.0
    come, left = 0, sum(sizes) * (nodes.num - 1)
    for size in sizes:
        come += size
        now = max(now, float(gathered[come]))
        for _ in range(1, nodes.num):
            now += alpha_us + cost_us * size
            least_us = max(least_us, now + float(spread[left]))
            left -= size
    return least_us


def _compositions(total: int, most: int) -> Iterator[tuple[int, ...]]:
    """The ordered sums of at most `most` whole numbers that are `total`."""
    for parts in range(1, min(most, total) + 1):
        for cuts in itertools.combinations(range(1, total), parts - 1):
            ends = (0, *cuts, total)
            yield tuple(end - begin for begin, end in itertools.pairwise(ends))


def distances_us(nodes: Nodes) -> FloatArray:
    """Least times of a chunk between the places of a node, us."""
    away = np.full((nodes.size, nodes.size), np.inf)
    np.fill_diagonal(away, 0.0)
    for link in nodes.inside:
        away[link.src, link.dst] = min(away[link.src, link.dst], link.alpha_us + link.cost_us)
    for between in range(nodes.size):
        away = np.minimum(away, away[:, between, None] + away[None, between, :])
    return away


def _gathered(nodes: Nodes, away: FloatArray, place: int, counts: IntArray, many: int) -> FloatArray:
    """When 0, 1, .. `many` chunks can be at a place at best, shape (many + 1,)."""
    nearest = np.sort(np.repeat(away[:, place], counts))
    own = int(counts[place])
    times = _in_turns([(0.0, link) for link in nodes.inside if link.dst == place], many - own)
    least_us = np.concatenate([np.zeros(own + 1), times])
    return np.asarray(np.maximum(least_us, np.concatenate([[0.0], nearest])))


def _spread(nodes: Nodes, away: FloatArray, place: int, many: int, to_all: bool) -> FloatArray:
    """When 0, 1, .. `many` chunks that come to a place are where they are wanted at best."""
    if not to_all:
        leaving = many - many // nodes.size
        times = _in_turns([(0.0, link) for link in nodes.inside if link.src == place], leaving)
        return np.concatenate([[0.0] * (many - leaving + 1), times])
    latest = np.zeros(many)
    for rank in range(nodes.size):
        if rank != place:
            heads = [(float(away[place, link.src]), link) for link in nodes.inside if link.dst == rank]
            latest = np.maximum(latest, _in_turns(heads, many))
    return np.concatenate([[0.0], latest])


def _in_turns(heads: Sequence[tuple[float, Inside]], many: int) -> FloatArray:
    """When 1, 2, .. `many` chunks can have gone over some links, each from its head on, in one group each."""
    queue = [(head + link.alpha_us + link.cost_us, index) for index, (head, link) in enumerate(heads)]
    heapq.heapify(queue)
    times: list[float] = []
    while queue and len(times) < many:
        now, index = heapq.heappop(queue)
        times.append(now)
        heapq.heappush(queue, (now + heads[index][1].cost_us, index))
    return np.array(times + [np.inf] * (many - len(times)))
