"""Leaders: one rank of each node speaks for the whole node, where only some ranks have a way to other nodes.

A node's data goes up a tree to its leader, leaders exchange what they have, and it goes down a tree again. So
few and large sends cross between nodes, each on one NIC. The leader that sends and the one that receives may
be two ranks. Sums go up as partial sums; the leaders add them up for themselves, and what goes down is the
whole sum.

Sources: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance", IPDPS 2000; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4, for the exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from taccl.encoding.core.distance import ShortestPaths
from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import by_nodes
from taccl.encoding.engines.textbook.line import Hops, LineAlgorithm, hops, joined
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.encoding.engines.textbook.trees import depths, down_tree
from taccl.encoding.engines.textbook.tuning import LEADERS_MOST_LEADERS, LEADERS_MOST_RANKS
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class _Team:
    """Leaders, and the way to and from them.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    senders, receivers : for each node, the rank that sends to other nodes, and the one that they send to.
    up, own_down, down : shape (num_ranks,); in a tree inside each node the rank above, -1 at the top: to its
        sender, from its sender, from its receiver.
    """

    nodes: IntArray
    senders: IntArray
    receivers: IntArray
    up: IntArray
    own_down: IntArray
    down: IntArray


def by_leaders(
    problem: Problem, parts: Parts, spreads: tuple[LineAlgorithm, ...], totals: tuple[LineAlgorithm, ...]
) -> Iterator[Algorithm]:
    """For what is spread or summed over several nodes of one size, with algorithms for leaders."""
    ranks, first = problem.num_ranks, np.arange(problem.num_ranks)
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind == "routed" or ranks > LEADERS_MOST_RANKS:
        return
    for team in _teams(problem, nodes):
        # A leader that only receives has nothing of its own to pass on to other nodes.
        alone = not np.array_equal(team.senders, team.receivers)
        if parts.kind == "spread":
            for across in spreads:
                if across.name == "all-pairs" or not alone:
                    moves = 2 * ranks + len(nodes) * across.sends(len(nodes))
                    way = partial(_spread, team, across)
                    name, rows = f"leaders, {across.name}", parts.num_parts * ranks
                    crossing = moves - 2 * ranks
                    yield InVariants(name, rows, moves, crossing, 1, routes=(way,), first=first)
        elif not alone:
            for across in totals:
                moves = 2 * ranks + len(nodes) * across.adds(len(nodes))
                way, rows = partial(_summed, team, across), 2 * parts.num_parts * ranks
                name = f"leaders, {across.name}"
                yield InVariants(
                    *(name, rows, moves, moves - 2 * ranks, 1),
                    routes=(way,),
                    first=first,
                    labels=1,
                    unit_labels=(np.zeros_like,),
                    is_explicit=True,
                )


def _teams(problem: Problem, nodes: IntArray) -> Iterator[_Team]:
    topology, found = problem.topology, []
    cost = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    index = topology.link_index
    for out, into in product(range(nodes.shape[1]), repeat=2):
        pairs = product(nodes[:, out].tolist(), nodes[:, into].tolist())
        across = [pair for pair in pairs if topology.node_of[pair[0]] != topology.node_of[pair[1]]]
        links = [index.get(pair, -1) for pair in across]
        if -1 not in links:
            found.append((float(cost[links].max()), out != into, out, into))
    inside = ShortestPaths(topology, cost, ~topology.internode)
    for *_, out, into in sorted(found)[:LEADERS_MOST_LEADERS]:
        senders, receivers = nodes[:, out], nodes[:, into]
        up = _tree(inside, nodes, senders, upwards=True)
        own_down, down = _tree(inside, nodes, senders), _tree(inside, nodes, receivers)
        if up is not None and own_down is not None and down is not None:
            yield _Team(nodes, senders, receivers, up, own_down, down)


def _tree(
    inside: ShortestPaths, nodes: IntArray, leaders: IntArray, upwards: bool = False
) -> IntArray | None:
    """For each rank the next one on a shortest way inside its node to (`upwards`) or from its leader."""
    above = np.full(nodes.size, -1)
    for node, leader in zip(nodes.tolist(), leaders.tolist(), strict=True):
        for rank in node:
            way = inside.path(rank, leader) if upwards else inside.path(leader, rank)
            if way is None:
                return None
            if way:
                above[rank] = inside.topology.dst[way[0]] if upwards else inside.topology.src[way[-1]]
    return above


def _up(above: IntArray) -> Hops:
    """What each rank has to the top, past all that stand between, once all that comes by has come."""
    depth, block = depths(above), np.flatnonzero(above >= 0)
    at, made = block, [hops(0, block[:0], block[:0], block[:0])]
    while len(block):
        made.append(hops(int(depth.max()) - depth[at], at, above[at], block))
        lower = above[above[at]] >= 0
        at, block = above[at][lower], block[lower]
    return joined(*made)


def _spread(team: _Team, across: LineAlgorithm, begin: IntArray, end: IntArray) -> Sends:
    """Up to the senders, across, and down from the receivers; what a node has of its own down at once."""
    moves = across.spread(len(team.nodes), np.arange(len(team.nodes)))
    up, height, last = _up(team.up), int(depths(team.up).max()), int(moves.step.max()) + 1
    src, dst = team.senders[moves.src], team.receivers[moves.dst]
    exchange = hops(height + moves.step, src, dst, team.nodes[moves.block].T)
    ranks = team.nodes.size
    node_of = np.argsort(team.nodes.ravel()) // team.nodes.shape[1]
    rank, block = np.indices((ranks, ranks)).reshape(2, -1)
    is_own = node_of[rank] == node_of[block]

    def down(above: IntArray, first: int, some: BoolArray) -> Hops:
        below = some & (above[rank] >= 0)
        depth = depths(above)[rank]
        return hops(first + depth - 1, above[rank], rank, block).where(below)

    every = joined(up, exchange, down(team.own_down, height, is_own), down(team.down, height + last, ~is_own))
    return Sends.of(every, Ragged.by_key(begin, ranks), ranks).without_repeats(begin, ranks)


def _summed(team: _Team, across: LineAlgorithm, begin: IntArray, end: IntArray) -> Sends:
    """Partial sums up, the sum at every leader by itself, and copies of it down."""
    assert across.total is not None
    units = np.arange(len(begin))
    totals, carried = across.total(len(team.nodes))
    moves = hops(totals.step, team.senders[totals.src], team.senders[totals.dst], 0)
    exchange = Sends.of(moves, Ragged(units, np.array([len(units)])), team.nodes.size).adding(carried)
    return in_turn([down_tree(team.up, units).backwards(), exchange, down_tree(team.down, units)])
