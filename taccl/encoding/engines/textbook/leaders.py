"""Leaders: one rank of each node speaks for the whole node, where only some ranks have a way to other nodes.

A node's data goes up a tree to its leader, leaders exchange what they have, and it goes down a tree again. So
few and large sends cross between nodes, each on one NIC. The leader that sends and the one that receives may
be two ranks. Sums go up as partial sums; the leaders add them up for themselves, and what goes down is the
whole sum.

Sources: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance", IPDPS 2000; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4, for the exchange.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from taccl.encoding.core.distance import ShortestPaths
from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.layouts import by_nodes
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Cut, Parts
from taccl.encoding.engines.textbook.transfer import Steps, Transfer, without_repeats
from taccl.encoding.engines.textbook.tuning import LEADERS_MOST_LEADERS, LEADERS_MOST_RANKS
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class _Team:
    """Leaders, and the way to and from them.

    Parameters
    ----------
    senders, receivers : for each node, the rank that sends to other nodes, and the one that they send to.
    up : rank -> the next on its way to its sender; senders are not in it.
    own_down, down : rank -> from whom it has what comes down from its sender, from its receiver.
    """

    senders: list[int]
    receivers: list[int]
    up: dict[int, int]
    own_down: dict[int, int]
    down: dict[int, int]


def by_leaders(
    problem: Problem, parts: Parts, spreads: tuple[LineAlgorithm, ...], totals: tuple[LineAlgorithm, ...]
) -> Iterator[Algorithm]:
    """For what is spread or summed over several nodes of one size, with routes for the leaders' exchange."""
    ranks = problem.num_ranks
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind == "routed" or ranks > LEADERS_MOST_RANKS:
        return
    for team in _teams(problem, nodes.tolist()):
        # A leader that only receives has nothing of its own to pass on to other nodes.
        alone = team.senders != team.receivers
        if parts.kind == "spread":
            for across in spreads:
                if across.name == "all-pairs" or not alone:
                    way = partial(_spread, team, nodes.tolist(), across)
                    rows = parts.num_parts * ranks
                    moves = 2 * ranks + len(nodes) * across.sends(len(nodes))
                    yield Algorithm(f"leaders, {across.name}", rows, (way,), np.arange(ranks), moves)
        elif not alone:
            for across in totals:
                way = partial(_summed, team, across)
                rows = 2 * parts.num_parts * ranks
                moves = 2 * ranks + len(nodes) * across.adds(len(nodes))
                yield Algorithm(f"leaders, {across.name}", rows, (way,), np.arange(ranks), moves)


def _teams(problem: Problem, nodes: list[list[int]]) -> Iterator[_Team]:
    topology, size = problem.topology, len(nodes[0])
    index, found = topology.link_index, []
    cost = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    for out, into in product(range(size), repeat=2):
        links = [index.get((a[out], b[into]), -1) for a in nodes for b in nodes if a is not b]
        if -1 not in links:
            found.append((float(cost[links].max()), out != into, out, into))
    inside = ShortestPaths(topology, cost, ~topology.internode)
    for *_, out, into in sorted(found)[:LEADERS_MOST_LEADERS]:
        senders, receivers = [node[out] for node in nodes], [node[into] for node in nodes]
        trees = (
            _next_hops(inside, nodes, senders),
            _parents(inside, nodes, senders),
            _parents(inside, nodes, receivers),
        )
        up, own_down, down = trees
        if up is not None and own_down is not None and down is not None:
            yield _Team(senders, receivers, up, own_down, down)


def _next_hops(inside: ShortestPaths, nodes: list[list[int]], leaders: list[int]) -> dict[int, int] | None:
    """For each rank but the leaders, the next on a shortest way inside its node to its leader."""
    hops = {}
    for node, leader in zip(nodes, leaders, strict=True):
        for rank in node:
            way = inside.path(rank, leader)
            if way is None:
                return None
            if way:
                hops[rank] = int(inside.topology.dst[way[0]])
    return hops


def _parents(inside: ShortestPaths, nodes: list[list[int]], leaders: list[int]) -> dict[int, int] | None:
    """For each rank but the leaders, the one before it on a shortest way inside its node from its leader."""
    parents = {}
    for node, leader in zip(nodes, leaders, strict=True):
        for rank in node:
            way = inside.path(leader, rank)
            if way is None:
                return None
            if way:
                parents[rank] = int(inside.topology.src[way[-1]])
    return parents


def _spread(
    team: _Team, nodes: list[list[int]], across: LineAlgorithm, cut: Cut, units: list[int]
) -> Steps | None:
    """Up to the senders, across, and down from the receivers; what a node has of its own down at once."""
    moves = across.spread(len(nodes))
    if moves is None:
        return None
    held: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for unit in units:
        held[cut.begin[unit]] += (unit,)
    blocks = [tuple(unit for rank in node for unit in held[rank]) for node in nodes]
    up = _upwards(team.up, dict(held))
    exchange: Steps = [
        [
            Transfer(team.senders[src], team.receivers[dst], some)
            for src, dst, carried in step
            if (some := tuple(unit for block in carried for unit in blocks[block]))
        ]
        for step in moves
    ]
    own = _downwards(
        team.own_down, {rank: block for node, block in zip(nodes, blocks, strict=True) for rank in node}
    )
    others = {
        rank: tuple(unit for other, block in enumerate(blocks) if other != number for unit in block)
        for number, node in enumerate(nodes)
        for rank in node
    }
    steps = up + exchange
    for number, step in enumerate(own, len(up)):
        if number < len(steps):
            steps[number] += step
        else:
            steps.append(step)
    return without_repeats(steps + _downwards(team.down, others), held)


def _summed(team: _Team, across: LineAlgorithm, cut: Cut, units: list[int]) -> Steps | None:
    """Partial sums up, the sum at every leader by itself, and copies of it down."""
    moves = across.total(len(team.senders))
    if moves is None:
        return None
    every = tuple(units)
    sets = {rank: 1 << rank for rank in (*team.up, *team.senders)}
    steps: Steps = []
    for level in _levels(team.up)[::-1]:
        steps.append([])
        for rank in level:
            steps[-1].append(Transfer(rank, team.up[rank], every, True, (sets[rank],) * len(every)))
            sets[team.up[rank]] |= sets[rank]
    history = [[sets[leader] for leader in team.senders]]
    for step in moves:
        now = list(history[-1])
        steps.append([])
        for src, dst, age in step:
            now[dst] |= history[age][src]
            carries = (history[age][src],) * len(every)
            steps[-1].append(Transfer(team.senders[src], team.senders[dst], every, True, carries))
        history.append(now)
    down = _downwards(team.down, dict.fromkeys(team.down, every))
    return steps + [[each._replace(carries=(0,) * len(every)) for each in step] for step in down]


def _levels(parents: dict[int, int]) -> list[list[int]]:
    """The ranks by their distance from the top, nearest first."""
    levels: dict[int, list[int]] = defaultdict(list)
    for rank in sorted(parents):
        depth, at = 0, rank
        while at in parents:
            at, depth = parents[at], depth + 1
        levels[depth].append(rank)
    return [levels[depth] for depth in sorted(levels)]


def _upwards(up: dict[int, int], held: dict[int, tuple[int, ...]]) -> Steps:
    """Each rank passes on what it has, once all that comes through it has come."""
    steps: Steps = []
    for level in _levels(up)[::-1]:
        steps.append([Transfer(rank, up[rank], held[rank]) for rank in level if held.get(rank)])
        for rank in level:
            held[up[rank]] = held.get(up[rank], ()) + held.get(rank, ())
    return steps


def _downwards(parents: dict[int, int], wanted: dict[int, tuple[int, ...]]) -> Steps:
    """Each rank gets what it wants from the one above it, which wants it too."""
    return [
        [Transfer(parents[rank], rank, wanted[rank]) for rank in level if wanted.get(rank)]
        for level in _levels(parents)
    ]
