"""Gateways: what goes between nodes crosses in few sends, next to what moves inside nodes.

On rails each GPU sends to every other node, so each NIC pays an alpha for each. Where a GPU is a *gateway*
to some nodes only, what is for those is gathered at it inside the node, crosses as one send, and is dealt out
on the other side. With `sends` sends from each GPU, every node is served by  sends * GPUs / (nodes - 1)
gateways, rounded down; with nodes - 1 these are rails.

What crosses first should not have to be gathered, and what crosses last should not have to be dealt out: then
links inside and across nodes are busy side by side. A gateway's own chunks can cross apart before the others,
and those for the GPU on the other side after them. On rails, some nodes' chunks cross where they begin, and
are dealt out; the others go inside to the rail of their end, while those cross.

Between the two, other nodes are served in *turns*: of seven four by two gateways each, then two by four, then
one by all eight, three sends of four, two and one GPUs' data. While one turn crosses, what is for the next is
gathered, and what came in the one before is dealt out.

Sources: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance", IPDPS 2000 (one rank for its node); Bruck et al., IEEE TPDS 8 (1997) (fewer and larger sends).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.textbook.algorithm import THERE_AND_BACK, Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import (
    GridAlgorithm,
    are_nodes,
    cubes_turned,
    gate_of_team,
    gated_nodes,
    one_of,
)
from taccl.encoding.engines.textbook.line import LineAlgorithm, Lines, hops, joined
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, there_and_back, together
from taccl.encoding.engines.textbook.tuning import (
    GATEWAYS_MOST_SENDS,
    GATEWAYS_MOST_TURNS,
    GATEWAYS_OF_SO_MANY_TURNS,
    GATEWAYS_TURNS,
)
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem

#: What crosses apart from the rest.
_APART = ("nothing apart", "own first", "own first, last apart")


class _Turn(NamedTuple):
    """Other nodes that are served at once, and the gateways of a node to each of them."""

    served: int
    many: int


@dataclass(frozen=True, eq=False)
class _Gateways:
    """Which GPUs send to which node, and what happens inside.

    Parameters
    ----------
    grid : nodes on axis 0, their ranks on axis 1, with the algorithm inside nodes along axis 1.
    gates : the places in a node that may be gateways.
    to : a node or a door, in its name.
    turns : how many of the other nodes are served one turn after another.
    near : how many of the nodes that follow are served by gateways next to where chunks begin, the others
        by those next to where they end; with rails, these follow on those. -1: half of each node's chunks.
    apart : what crosses apart, as in `_APART`; not on rails.
    """

    grid: GridAlgorithm
    gates: IntArray
    to: str
    turns: tuple[_Turn, ...]
    near: int
    apart: int = 0

    @property
    def name(self) -> str:
        sides = {0: "by end", self.grid.grid.shape[0] - 1: "by source"}
        side, inside = sides.get(self.near, "by source, then by end"), self.grid.stages[0][1].name
        many = ", then ".join(f"{turn.many}" for turn in self.turns)
        words = [f"{many} of {len(self.gates)} gateways to {self.to}", side, f"{inside} inside"]
        return ", ".join((*words, _APART[self.apart]) if self.apart else words)

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """Inside to the gateway, across, and inside from there, from these ranks to those."""
        grid, (axis, inside) = self.grid, self.grid.stages[0]
        nodes, gpus = grid.grid.shape
        (node, gpu), (to_node, to_gpu) = grid.position[begin].T, grid.position[end].T
        distance, units = (to_node - node) % nodes, np.arange(len(begin))
        is_near = distance <= self.near if self.near >= 0 else (gpu + to_gpu) % 2 == 0
        served, many = np.array(self.turns).T
        # What stays in its node may come last.
        turn = np.where(distance > 0, np.searchsorted(np.cumsum(served), distance), len(served) - 1)
        after = (distance - 1 - (np.cumsum(served) - served)[turn]).clip(0)
        team = np.where(is_near, gpu, to_gpu) * many[turn] // gpus
        gate = gate_of_team(self.gates, team, many[turn], after, served[turn])
        gateway = np.where(distance > 0, gate, to_gpu)
        assert inside.route is not None
        gather = grid.on_lines(axis, inside.route(gpus, gpu, gateway), begin)
        steps = int(gather.step.max(initial=-1)) + 1
        gather = gather._replace(step=gather.step + steps * turn[gather.block])
        step = self._steps(steps, gpu == gateway, gateway == to_gpu, is_near) + steps * turn
        order = np.lexsort((distance, step))
        order = order[distance[order] > 0]
        src, dst = (grid.grid[side[order], gateway[order]] for side in (node, to_node))
        across = hops(step[order], src, dst, units[order])
        deal = grid.on_lines(axis, inside.route(gpus, gateway, to_gpu), end)
        # What crosses last is not dealt out: the others are while it crosses.
        waits = steps * (1 + turn) + (self.turns[0].many < gpus)
        deal = deal._replace(step=deal.step + waits[deal.block])
        return Sends.of(joined(gather, across, deal), Ragged.one_each(units), grid.grid.size)

    def _steps(self, steps: int, is_own: BoolArray, is_last: BoolArray, is_near: BoolArray) -> IntArray:
        """The step in which each unit of the first turn crosses; `steps` : those of the gathering."""
        if self.turns[0].many == self.grid.grid.shape[1]:
            return np.where(is_near, 0, steps)
        step = (
            np.where(is_last & ~is_own, steps + 1, steps) if self.apart > 1 else np.full(len(is_own), steps)
        )
        return np.where(is_own, 0, step) if self.apart else step


@dataclass(frozen=True, eq=False)
class _CopyGateways:
    """An AllGather in which each node's data crosses to another one from a few GPUs: each has a team's part.

    It crosses once the team has gathered it, while teams go on gathering from each other. Other nodes are
    served in turns: what came in one of them is spread inside while the next one crosses.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    gates : the places in a node that may be gateways.
    turns : how many of the other nodes are served one turn after another.
    inside : nodes on axis 0, and the algorithm inside nodes along axis 1.
    """

    nodes: IntArray
    gates: IntArray
    turns: tuple[_Turn, ...]
    inside: GridAlgorithm

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """All over the node, from its gateways across, and from there all over the other nodes.

        Each turn crosses next to what the one before is spread by.
        """
        made, first = [self._copies(begin, np.arange(len(begin)))], 1
        step = made[0].num_steps
        for turn in self.turns:
            across, copies = self._crossed(begin, first, turn)
            made += [across.later(step), copies.later(step + 1)]
            first, step = first + turn.served, step + copies.num_steps
        return together(made)

    def summed(self, begin: IntArray, end: IntArray) -> Sends:
        """The same backwards, as sums, and then copies of these."""
        return there_and_back(self.way(begin, end))

    def _crossed(self, begin: IntArray, first: int, turn: _Turn) -> tuple[Sends, Sends]:
        """To the nodes of a turn, the first of them so many on, and all over these."""
        nodes, gpus = self.nodes.shape
        node, gpu = np.divmod(np.argsort(self.nodes.ravel())[begin], gpus)
        after, unit = np.indices((turn.served, len(begin))).reshape(2, -1)
        team = gpu[unit] * turn.many // gpus
        gateway = gate_of_team(self.gates, team, turn.many, after, turn.served)
        out = self.nodes[node[unit], gateway]
        into = self.nodes[(node[unit] + first + after) % nodes, gateway]
        across = Sends.of(hops(0, out, into, np.arange(len(unit))), Ragged.one_each(unit), self.nodes.size)
        return across, self._copies(into, unit)

    def _copies(self, at: IntArray, units: IntArray) -> Sends:
        """From these ranks to all of their nodes."""
        (axis, algorithm), *_ = self.inside.stages
        spread = algorithm.spread(self.nodes.shape[1], self.inside.position[at, axis])
        return Sends.of(self.inside.on_lines(axis, spread, at), Ragged.one_each(units), self.nodes.size)


def in_turns(others: int, gates: int, gpus: int) -> Iterator[tuple[_Turn, ...]]:
    """How so many other nodes are served: at once, or in several turns in which each gate crosses once."""
    sends = -(-others // gates)  # the fewest with which all nodes are served at once
    if (many := gates * sends // others) < gpus:
        yield (_Turn(others, many),)
    fewest = max(2, sends)
    for count in range(fewest, fewest + GATEWAYS_TURNS) if fewest <= GATEWAYS_MOST_TURNS else ():
        some = [each for each in _in_so_many(count, others, gates) if each[0].many < gpus]
        some.sort(key=lambda each: sum(1 / turn.many for turn in each))  # what a gate carries
        yield from some[:GATEWAYS_OF_SO_MANY_TURNS]


def _in_so_many(count: int, others: int, gates: int) -> list[tuple[_Turn, ...]]:
    """Turns of which all but one keep all gates busy; the last has least, for that is to be spread soon."""
    full = [each for each in range(1, gates + 1) if gates % each == 0]
    found = dict[tuple[int, ...], None]()
    for served in combinations_with_replacement(full, count - 1):
        if 0 < (left := others - sum(served)) <= gates:
            found[tuple(sorted((*served, left), reverse=True))] = None
    return [tuple(_Turn(each, gates // each) for each in served) for served in found]


def by_copy_gateways(
    problem: Problem, parts: Parts, spreads: Lines, cube: LineAlgorithm
) -> Iterator[Algorithm]:
    """For what is spread from all over several nodes of one size, and for sums of all for all.

    `spreads` : algorithms for this many ranks; `cube` : one along the axes of a cube.
    """
    if parts.kind == "routed" or not parts.is_between_all(problem.num_ranks):
        return
    for nodes, gates in gated_nodes(problem.topology):
        gpus, to = nodes.shape[1], one_of(problem.topology, nodes)
        plans: list[tuple[GridAlgorithm, ...]] = [
            (GridAlgorithm(nodes, ((1, inside),)),) for inside in spreads(gpus)
        ]
        for orders in cubes_turned(gpus):
            plans.append(tuple(GridAlgorithm(nodes[:, order], ((1, cube),)) for order in orders))
        # In several turns only what was fastest in some cell of the plane: each takes time from the others.
        for turns, insides in product(in_turns(len(nodes) - 1, len(gates), gpus), plans):
            if len(turns) == 1 or not insides[0].stages[0][1].is_variant:
                yield _of_copies([_CopyGateways(nodes, gates, turns, each) for each in insides], parts, to)


def _of_copies(routes: list[_CopyGateways], parts: Parts, to: str) -> Algorithm:
    """The algorithm of such routes; `to` : a node or a door, in its name."""
    gates, turns, inside = len(routes[0].gates), routes[0].turns, routes[0].inside.stages[0][1]
    several = f"{len(routes)} routes: " if len(routes) > 1 else ""
    numbers = ", then ".join(f"{turn.many}" for turn in turns)
    ranks, gpus = routes[0].nodes.size, routes[0].nodes.shape[1]
    crossing = ranks * sum(-(-turn.served * turn.many // gates) for turn in turns)
    moves, is_summed = ranks * (1 + len(turns)) * inside.sends(gpus) + crossing, parts.kind == "summed"
    return InVariants(
        f"{several}{THERE_AND_BACK * is_summed}{numbers} of {gates} gateways to {to}, {inside.name} inside",
        rows=parts.num_parts * ranks * (1 + is_summed),
        moves=moves * (1 + is_summed),
        crossing=crossing * (1 + is_summed),
        routes=tuple(each.summed if is_summed else each.way for each in routes),
        first=np.arange(ranks),
        is_combined=len(routes) > 1,
        of_libraries=False,
    )


def by_gateways(problem: Problem, parts: Parts, routes: Lines) -> Iterator[Algorithm]:
    """For what goes from rank to rank of several nodes of one size; `routes` : algorithms for this many."""
    if parts.kind != "routed":
        return
    for nodes, gates in gated_nodes(problem.topology):
        for inside in routes(nodes.shape[1]):
            yield from _routed(problem, parts, GridAlgorithm(nodes, ((1, inside),)), gates)


def _routed(problem: Problem, parts: Parts, grid: GridAlgorithm, gates: IntArray) -> Iterator[Algorithm]:
    """With some algorithm inside and some gates: with few sends each, and on rails."""
    (nodes, gpus), inside = grid.grid.shape, grid.stages[0][1]
    others, all_gpus, to = nodes - 1, len(gates) == gpus, one_of(problem.topology, grid.grid)
    rails = (_Turn(others, gpus),)
    some = [(others, _Gateways(grid, gates, to, rails, others // 2 or -1))] if all_gpus else []
    fewest = -(-others // len(gates))  # with which all nodes are served
    # Doors may have several sizes, so each is tried with the fewest sends only.
    is_of_nodes = are_nodes(problem.topology, grid.grid)
    more = range(1, min(others, GATEWAYS_MOST_SENDS) + 1) if is_of_nodes else ()
    for sends in sorted({fewest, *more}):
        many = len(gates) * sends // others
        if 0 < many < gpus:
            nears = (0, others // 2, others) if many > 1 else (0,)
            kinds = product(nears, range(3) if more else (0,))
            at_once = (_Turn(others, many),)
            some += [(sends, _Gateways(grid, gates, to, at_once, *each)) for each in kinds]
    for turns in (each for each in in_turns(others, len(gates), gpus) if len(each) > 1):
        # What is from one rank is dealt out, what is for one is gathered; else the last turn is for its ends.
        near = 0 if parts.is_from_one else others - (0 if parts.is_for_one else turns[-1].served)
        some.append((len(turns), _Gateways(grid, gates, to, turns, near)))
    for sends, gateways in some:
        moves = problem.num_ranks * (2 * inside.sends(gpus) + sends * (gateways.apart + 1))
        rows, first = 3 * parts.num_parts, np.arange(problem.num_ranks)
        yield InVariants(
            *(gateways.name, rows, moves, problem.num_ranks * sends * (gateways.apart + 1)),
            routes=(gateways.way,),
            first=first,
            of_libraries=False,
        )
