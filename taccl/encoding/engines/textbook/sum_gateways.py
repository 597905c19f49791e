"""Gateways for sums: what a node has summed up crosses in few sends, as of copies (`gateways`).

Either each node makes the sum of a share, at one GPU for each node's part, and the sums cross back; or all
GPUs sum up their node, each sends that to one other node, and all sum up what came. The first has less to
send, the second fewer alphas.

Sources: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance", IPDPS 2000; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4, for the exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import GridAlgorithm, by_nodes, gated_nodes, totals_on
from taccl.encoding.engines.textbook.line import AS_IT_IS, Carried, LineAlgorithm, Lines, hops
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class _SumGateways:
    """An AllReduce in which each node sums up a share at as many GPUs as nodes, one for each node's sum.

    Parameters
    ----------
    grid : nodes on axis 0, their ranks on axis 1, with the algorithm inside nodes along axis 1.
    exchange : how the GPUs of a node sum up what came to them.
    """

    grid: GridAlgorithm
    exchange: LineAlgorithm

    def share(self, begin: IntArray) -> IntArray:
        """What has the gateways of one node, and one team of them, travels together."""
        (nodes, gpus), (to_node, place) = self.grid.grid.shape, self.grid.position[begin].T
        each = max(1, gpus // nodes)
        return np.asarray(to_node * each + place * each // gpus)

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums inside to the gateways, across, from there all over, across and inside back."""
        grid, (axis, inside) = self.grid, self.grid.stages[0]
        nodes, gpus = grid.grid.shape
        to_node, place = grid.position[begin].T
        each = max(1, gpus // nodes)
        node, unit = np.indices((nodes, len(begin))).reshape(2, -1)
        team = place * each // gpus
        gateway = ((to_node[unit] - node) % nodes * each + team[unit]) % gpus
        units, ranks = Ragged.one_each(unit), grid.grid.size
        at = grid.grid[node, gateway]
        spread = grid.on_lines(axis, inside.spread(gpus, gateway), at)
        copies = Sends.of(spread, units, ranks)
        crosses = np.flatnonzero(node != to_node[unit])
        out, into = at[crosses], grid.grid[to_node[unit], gateway][crosses]
        assert self.exchange.total is not None
        totals, carried = self.exchange.total(min(nodes, gpus))
        src, dst = (
            grid.grid[to_node, position[:, None] * each + team] for position in (totals.src, totals.dst)
        )
        whole = hops(totals.step[:, None], src, dst, np.arange(len(begin)))
        return in_turn(
            [
                copies.backwards(),
                Sends.of(hops(0, out, into, crosses), units, ranks).adding(
                    Carried(np.zeros(1, dtype=np.int64))
                ),
                Sends.of(whole, Ragged.one_each(unit[: len(begin)]), ranks).adding(carried),
                Sends.of(hops(0, into, out, crosses), units, ranks),
                copies,
            ]
        )


@dataclass(frozen=True, eq=False)
class _NodeSumGateways:
    """An AllReduce in which each node's sum crosses once to each other node.

    A *block* has as many gateways of a node as there are nodes. Each block has a share of the data, by a
    ReduceScatter between blocks, or all of it. All that have a share sum up what their node has of it. Then
    each of a block hears from one other node, but for the first, which stands for its own; what came, they
    sum up. So a NIC pays an alpha for a node, and not for each doubling.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    blocks : shape (num_blocks, at most num_nodes); places in a node.
    stage : how blocks spread their shares; None: each has all.
    inside, between : how those of a node with one share sum up, and those of a block.
    """

    nodes: IntArray
    blocks: IntArray
    stage: LineAlgorithm | None
    inside: LineAlgorithm
    between: LineAlgorithm

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums between blocks, in nodes, across, in blocks, and copies to all others."""
        share, shares = self.share(begin), self.shares
        held, of_block = Ragged.by_key(share, shares), np.arange(len(self.blocks)) % shares
        places = self.nodes[:, self.blocks]
        lines, ranks = self.nodes[:, None] if self.stage is None else places, self.nodes.size
        inside = totals_on(lines, self.inside, held, ranks)
        crossing = in_turn([self._across(of_block, held), totals_on(places, self.between, held, ranks)])
        # Who hears from another node passes on that alone, and not its own node's sum.
        stands_for_own = (crossing.step == 0) | np.isin(crossing.src, places[..., 0])
        crossing = replace(crossing, after=np.where(stands_for_own, -1, 0))
        if self.stage is None:
            rest = np.setdiff1d(np.arange(self.nodes.shape[1]), self.blocks)
            above = self.blocks.ravel()[np.arange(len(rest)) % self.blocks.size]
            others = hops(0, self.nodes[:, above], self.nodes[:, rest], 0)
            return in_turn([inside, crossing, Sends.of(others, held, self.nodes.size)])
        node, number, unit = np.indices((*places[:, 0].shape, len(begin))).reshape(3, -1)
        plan, at = GridAlgorithm(places, ((1, self.stage),)), places[node, share[unit], number]
        spread = plan.on_lines(1, self.stage.spread(shares, share[unit]), at)
        copies = Sends.of(spread, Ragged.one_each(unit), self.nodes.size)
        return in_turn([copies.backwards(), inside, crossing, copies])

    @property
    def shares(self) -> int:
        """How many shares there are of the data."""
        return 1 if self.stage is None else len(self.blocks)

    def share(self, begin: IntArray) -> IntArray:
        """The share that each unit is of."""
        gpus = self.nodes.shape[1]
        return np.asarray(np.argsort(self.nodes.ravel())[begin] % gpus * self.shares // gpus)

    def _across(self, of_block: IntArray, held: Ragged) -> Sends:
        """Each node's sums to each other node, from and to the same place; `of_block` : the share of each."""
        nodes = len(self.nodes)
        node, block, number, before = np.indices((nodes, *self.blocks.shape, nodes - 1)).reshape(4, -1)
        hears = (before + 1 - number) % self.blocks.shape[1] == 0
        node, block, number, before = (each[hears] for each in (node, block, number, before))
        place, to = self.blocks[block, number], (node + before + 1) % nodes
        moves = hops(0, self.nodes[node, place], self.nodes[to, place], of_block[block])
        return Sends.of(moves, held, self.nodes.size).adding(AS_IT_IS)


def by_node_sums(problem: Problem, parts: Parts, totals: Lines) -> Iterator[Algorithm]:
    """For sums over three nodes of one size or more; `totals` : algorithms for this many ranks."""
    if parts.kind != "summed":
        return
    ranks = problem.num_ranks
    for nodes, gates in gated_nodes(problem.topology, fewest=3):
        gpus = nodes.shape[1]
        size = min(len(nodes), len(gates))
        blocks = gates[: len(gates) // size * size].reshape(-1, size)
        stages: list[LineAlgorithm | None] = [None]
        if len(blocks) > 1 and blocks.size == gpus:
            stages += totals(len(blocks))
        for stage, between in product(stages, totals(size)):
            shares = 1 if stage is None else len(blocks)
            for inside in totals(gpus // shares):
                adds = inside.adds(gpus // shares) + between.adds(size)
                copies = 0 if stage is None else 2 * stage.sends(shares)
                moves = ranks * (adds + -(-len(nodes) // size) + copies)
                name = (
                    f"{len(gates)} gateways for node sums, {inside.name} inside, {between.name} between them"
                )
                gateways = _NodeSumGateways(nodes, blocks, stage, inside, between)
                yield InVariants(
                    name if stage is None else f"{name}, {stage.name} of shares",
                    rows=parts.num_parts * moves // shares,
                    moves=moves,
                    crossing=ranks * -(-len(nodes) // size),
                    routes=(gateways.way,),
                    first=np.arange(ranks),
                    labels=shares,
                    unit_labels=(gateways.share,),
                    is_explicit=True,
                    of_libraries=False,
                )


def by_sum_gateways(
    problem: Problem, parts: Parts, spreads: tuple[LineAlgorithm, ...], totals: tuple[LineAlgorithm, ...]
) -> Iterator[Algorithm]:
    """For sums over several nodes of one size; `spreads`, `totals` : algorithms inside nodes."""
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind != "summed" or len(nodes) < 3:
        return
    gpus, ranks = nodes.shape[1], problem.num_ranks
    if max(len(nodes), gpus) % min(len(nodes), gpus):
        return
    for inside, exchange in product(spreads, totals):
        if not exchange.fits(min(len(nodes), gpus)):
            continue
        gateways = _SumGateways(GridAlgorithm(nodes, ((1, inside),)), exchange)
        crossing = -(-len(nodes) // gpus)
        moves = ranks * (2 * inside.sends(gpus) + 2 * crossing + exchange.adds(gpus))
        rows = parts.num_parts * (2 * ranks + 2 * len(nodes) + exchange.adds(gpus) * gpus)
        name = f"gateways for sums, {inside.name} inside, {exchange.name} between them"
        yield InVariants(
            *(name, rows, moves, 2 * ranks * crossing),
            routes=(gateways.way,),
            first=np.arange(ranks),
            labels=max(nodes.shape),
            unit_labels=(gateways.share,),
            is_explicit=True,
            of_libraries=False,
        )
