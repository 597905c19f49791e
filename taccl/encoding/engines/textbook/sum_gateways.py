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
from taccl.encoding.engines.textbook.grid import GridAlgorithm, by_nodes, gates_of
from taccl.encoding.engines.textbook.line import Hops, LineAlgorithm, hops
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn, together
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
        totals, since = self.exchange.total(min(nodes, gpus))
        src, dst = (
            grid.grid[to_node, position[:, None] * each + team] for position in (totals.src, totals.dst)
        )
        whole = hops(totals.step[:, None], src, dst, np.arange(len(begin)))
        return in_turn(
            [
                copies.backwards(),
                Sends.of(hops(0, out, into, crosses), units, ranks).adding(np.zeros(1, dtype=np.int64)),
                Sends.of(whole, Ragged.one_each(unit[: len(begin)]), ranks).adding(since),
                Sends.of(hops(0, into, out, crosses), units, ranks),
                copies,
            ]
        )


@dataclass(frozen=True, eq=False)
class _WholeGateways:
    """An AllReduce of whole buffers in which each node's sum crosses once to each other node.

    All GPUs of a node sum it up. Those of a *block*, as many gateways as there are nodes, hear from one other
    node each, but for the first, which stands for its own; what came, they sum up. So a NIC pays an alpha for
    a node, and not for each doubling.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    gates : the places in a node that may be gateways.
    inside, between : how all GPUs of a node sum up, and those of a block.
    """

    nodes: IntArray
    gates: IntArray
    inside: LineAlgorithm
    between: LineAlgorithm

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums in nodes, across, in blocks, and from there to GPUs that are in no block."""
        nodes, gpus = self.nodes.shape
        block = min(nodes, len(self.gates))
        blocks = self.gates[: len(self.gates) // block * block].reshape(-1, block)
        rest = np.setdiff1d(np.arange(gpus), blocks)
        node, number, before = np.indices((nodes, blocks.size, nodes - 1)).reshape(3, -1)
        hears = (before + 1 - number) % block == 0
        node, gpu, to = (each[hears] for each in (node, blocks.ravel()[number], (node + before + 1) % nodes))
        at_once = np.zeros(1, dtype=np.int64)
        inside = self._totals(self.inside, self.nodes[:, None])
        across = hops(0, self.nodes[node, gpu], self.nodes[to, gpu], 0)
        above = blocks.ravel()[np.arange(len(rest)) % blocks.size]
        spread = hops(0, self.nodes[:, above], self.nodes[:, rest], 0)
        phases = (
            inside,
            (across, at_once),
            self._totals(self.between, self.nodes[:, blocks]),
            (spread, at_once),
        )
        first, made = 0, list[Sends]()
        for moves, since in phases:
            whole = Ragged(np.arange(len(begin)), np.array([len(begin)]))
            made.append(Sends.of(moves, whole, self.nodes.size).adding(since).later(first))
            first += len(since)
        # Who hears from another node passes on that alone.
        crossing, is_first = len(inside[1]), np.isin(made[2].src, self.nodes[:, blocks[:, 0]])
        made[2] = replace(made[2], after=np.where(is_first, -1, crossing))
        return together(made)

    @staticmethod
    def _totals(algorithm: LineAlgorithm, lines: IntArray) -> tuple[Hops, IntArray]:
        """Sums of whole buffers at once along the last axis of these ranks."""
        assert algorithm.total is not None
        moves, since = algorithm.total(lines.shape[-1])
        step = np.broadcast_to(moves.step, (*lines.shape[:-1], len(moves.step)))
        return hops(step, lines[..., moves.src], lines[..., moves.dst], 0), since


def by_sum_gateways(
    problem: Problem, parts: Parts, spreads: tuple[LineAlgorithm, ...], totals: tuple[LineAlgorithm, ...]
) -> Iterator[Algorithm]:
    """For sums over several nodes of one size; `spreads`, `totals` : algorithms inside nodes."""
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind != "summed" or len(nodes) < 3:
        return
    gpus, ranks = nodes.shape[1], problem.num_ranks
    for gates, inside, between in product(gates_of(problem.topology, nodes), totals, totals):
        block = min(len(nodes), len(gates))
        if inside.fits(gpus) and between.fits(block):
            moves = ranks * (inside.adds(gpus) + -(-len(nodes) // block) + between.adds(block))
            name = (
                f"{len(gates)} gateways for whole buffers, {inside.name} inside, {between.name} between them"
            )
            yield InVariants(
                *(name, parts.num_parts * moves, moves),
                routes=(_WholeGateways(nodes, gates, inside, between).way,),
                first=np.arange(ranks),
                is_explicit=True,
                of_libraries=False,
            )
    if max(len(nodes), gpus) % min(len(nodes), gpus):
        return
    for inside, exchange in product(spreads, totals):
        if not exchange.fits(min(len(nodes), gpus)):
            continue
        way = _SumGateways(GridAlgorithm(nodes, ((1, inside),)), exchange).way
        crossing = -(-len(nodes) // gpus)
        moves = ranks * (2 * inside.sends(gpus) + 2 * crossing + exchange.adds(gpus))
        rows = parts.num_parts * (2 * ranks + 2 * len(nodes) + exchange.adds(gpus) * gpus)
        name = f"gateways for sums, {inside.name} inside, {exchange.name} between them"
        yield InVariants(
            *(name, rows, moves),
            routes=(way,),
            first=np.arange(ranks),
            is_explicit=True,
            of_libraries=False,
        )
