"""Rounds between nodes: the GPUs of a node cross to as many other nodes at once, so few alphas follow.

Nodes are numbered by digits of some radices. In a round of radix r each node exchanges with the r - 1 others
that differ in one digit, each by another of its GPUs, and then its GPUs share what came. A NIC pays one alpha
for a round, where recursive doubling pays log2 r: 64 nodes of eight GPUs take two rounds, and not six steps.
What is summed is whole buffers, or shares of blocks of GPUs; what is gathered is all that a node has.

Sources: Bruck et al., IEEE TPDS 8 (1997) (k ports of a node at once); Karonis et al., "Exploiting hierarchy
in parallel computer networks to optimize collective operation performance", IPDPS 2000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from taccl.encoding.engines.textbook.algorithm import THERE_AND_BACK, Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import (
    GridAlgorithm,
    factors,
    gate_of_team,
    gated_nodes,
    totals_on,
)
from taccl.encoding.engines.textbook.line import AS_IT_IS, LineAlgorithm, Lines, hops
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn, there_and_back, together
from taccl.encoding.engines.textbook.tuning import NODE_ROUNDS_MOST, NODE_ROUNDS_RADICES
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class _SumRounds:
    """An AllReduce in rounds between nodes.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    radices : of the digits of a node's number, whose product is the number of nodes.
    blocks : shape (num_blocks, GPUs of a block); places in a node. Radices divide the GPUs of a block.
    stage : how blocks spread their shares; None: there is one block, which sums whole buffers.
    inside : how those of a node with one share sum up.
    between : for each round, how those that heard from different nodes do.
    """

    nodes: IntArray
    radices: tuple[int, ...]
    blocks: IntArray
    stage: LineAlgorithm | None
    inside: LineAlgorithm
    between: tuple[LineAlgorithm, ...]

    def share(self, begin: IntArray) -> IntArray:
        """The share that each unit is of."""
        gpus = self.nodes.shape[1]
        place = np.argsort(self.nodes.ravel())[begin] % gpus
        return np.asarray(place * len(self.blocks) // gpus)

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums between blocks, in nodes and in rounds, and copies to all others."""
        share, shares, ranks = self.share(begin), len(self.blocks), self.nodes.size
        held, places = Ragged.by_key(share, shares), self.nodes[:, self.blocks]
        lines = self.nodes[:, None] if self.stage is None else places
        sums = [totals_on(lines, self.inside, held, ranks)]
        sums += self._rounds(places, held, sums[0].num_steps)
        summed = together(sums)
        if self.stage is None:
            rest = np.setdiff1d(np.arange(self.nodes.shape[1]), self.blocks)
            above = self.blocks.ravel()[np.arange(len(rest)) % self.blocks.size]
            others = hops(0, self.nodes[:, above], self.nodes[:, rest], 0)
            return in_turn([summed, Sends.of(others, held, ranks)])
        node, number, unit = np.indices((*places[:, 0].shape, len(begin))).reshape(3, -1)
        plan, at = GridAlgorithm(places, ((1, self.stage),)), places[node, share[unit], number]
        spread = plan.on_lines(1, self.stage.spread(shares, share[unit]), at)
        copies = Sends.of(spread, Ragged.one_each(unit), ranks)
        return in_turn([copies.backwards(), summed, copies])

    def _rounds(self, places: IntArray, held: Ragged, first: int) -> Iterator[Sends]:
        """The rounds from a step on.

        Who hears from another node passes on that alone, and not its own node's sum, for which the first of
        each group stands. `since` : the step from which on what came to a rank is the sum of its node so far.
        """
        (nodes, shares, gpus), ranks = places.shape, self.nodes.size
        since, step = np.full(ranks, -1), first
        for digit, (radix, between) in enumerate(zip(self.radices, self.between, strict=True)):
            groups = places.reshape(nodes, shares, gpus // radix, radix).transpose(0, 2, 1, 3)
            stands = groups[..., 0].ravel()
            number = np.arange(1, radix)
            src = groups[..., number]
            to = _partners(self.radices, digit)[:, 1:]
            dst = groups[
                to[:, None, None], np.arange(gpus // radix)[:, None, None], np.arange(shares)[:, None], number
            ]
            moves = hops(0, src, dst, np.arange(shares)[:, None])
            across = Sends.of(moves, held, ranks).adding(AS_IT_IS).later(step)
            yield replace(across, after=since[across.src])
            shared = totals_on(groups.reshape(nodes, -1, radix), between, held, ranks).later(step + 1)
            is_own = np.isin(shared.src, stands)
            yield replace(shared, after=np.where(is_own, since[shared.src], step))
            since[np.setdiff1d(groups.ravel(), stands)] = step
            step = shared.num_steps


def _partners(radices: tuple[int, ...], digit: int) -> IntArray:
    """Shape (num_nodes, radix); the node whose digit is 0, 1, ... more, round its radix."""
    numbers = np.arange(prod(radices)).reshape(radices)
    rolled = [np.roll(numbers, -more, axis=digit).ravel() for more in range(radices[digit])]
    return np.stack(rolled, axis=1)


@dataclass(frozen=True, eq=False)
class _CopyRounds:
    """An AllGather in rounds between nodes.

    Parameters
    ----------
    nodes : shape (num_nodes, ranks of a node).
    radices : as of `_SumRounds`.
    gates : the places in a node whose GPUs cross.
    inside : nodes on axis 0, and the algorithm inside nodes along axis 1.
    """

    nodes: IntArray
    radices: tuple[int, ...]
    gates: IntArray
    inside: GridAlgorithm

    def way(self, begin: IntArray, end: IntArray) -> Sends:
        """All over the node; then across all that nodes have by then, and all over theirs."""
        gpus, units = self.nodes.shape[1], np.arange(len(begin))
        node, gpu = np.divmod(np.argsort(self.nodes.ravel())[begin], gpus)
        made, unit, holder = [self._copies(begin, units)], units, node
        for digit, radix in enumerate(self.radices):
            many = len(self.gates) // (radix - 1)
            more, row = np.indices((radix - 1, len(unit))).reshape(2, -1)
            gate = gate_of_team(self.gates, gpu[unit[row]] * many // gpus, many, more, radix - 1)
            to = _partners(self.radices, digit)[holder[row], more + 1]
            moves = hops(0, self.nodes[holder[row], gate], self.nodes[to, gate], unit[row])
            made.append(Sends.of(moves, Ragged.one_each(units), self.nodes.size))
            made.append(self._copies(self.nodes[to, gate], unit[row]))
            unit, holder = np.append(unit, unit[row]), np.append(holder, to)
        return in_turn(made)

    def summed(self, begin: IntArray, end: IntArray) -> Sends:
        """The same backwards, as sums, and then copies of these."""
        return there_and_back(self.way(begin, end))

    def _copies(self, at: IntArray, units: IntArray) -> Sends:
        """From these ranks to all of their nodes."""
        (axis, algorithm), *_ = self.inside.stages
        spread = algorithm.spread(self.nodes.shape[1], self.inside.position[at, axis])
        return Sends.of(self.inside.on_lines(axis, spread, at), Ragged.one_each(units), self.nodes.size)


def _divides(block: int, radix: int) -> bool:
    return block % radix == 0


def _are_enough(gates: int, radix: int) -> bool:
    return radix - 1 <= gates


def _radices(nodes: int, fits: Callable[[int], bool]) -> Iterator[tuple[int, ...]]:
    """Radices that fit, the fewest first, and of as many the most even."""
    found = 0
    for count in range(2, NODE_ROUNDS_MOST + 1):
        some = [each for each in factors(nodes, count) if all(1 < radix and fits(radix) for radix in each)]
        for radices in sorted(some, key=lambda each: (max(each), each))[:NODE_ROUNDS_RADICES]:
            found += 1
            yield radices
        if found:
            return


def by_sum_rounds(problem: Problem, parts: Parts, totals: Lines) -> Iterator[Algorithm]:
    """For sums over nodes of one size; `totals` : algorithms for this many ranks."""
    if parts.kind != "summed":
        return
    ranks = problem.num_ranks
    for nodes, gates in gated_nodes(problem.topology, fewest=4):
        gpus = nodes.shape[1]
        for shares in (each for each in range(1, len(gates) // 2 + 1) if len(gates) % each == 0):
            if shares > 1 and len(gates) < gpus:
                continue
            block = len(gates) // shares
            stages: list[LineAlgorithm | None] = [None] if shares == 1 else [*totals(shares)]
            for radices in _radices(len(nodes), partial(_divides, block)):
                kinds = (tuple(totals(radix)[kind] for radix in radices) for kind in (0, -1))
                for stage, inside, between in product(stages, totals(gpus // shares), dict.fromkeys(kinds)):
                    yield _of_sums(
                        _SumRounds(nodes, radices, gates.reshape(shares, block), stage, inside, between),
                        parts,
                        ranks,
                    )


def _of_sums(rounds: _SumRounds, parts: Parts, ranks: int) -> Algorithm:
    shares, gpus = len(rounds.blocks), rounds.nodes.shape[1]
    adds = rounds.inside.adds(gpus // shares) + len(rounds.radices)
    adds += sum(each.adds(radix) for each, radix in zip(rounds.between, rounds.radices, strict=True))
    moves = ranks * (adds + (0 if rounds.stage is None else 2 * rounds.stage.sends(shares)))
    digits = "x".join(map(str, rounds.radices))
    name = f"rounds of {digits} nodes by {rounds.blocks.size} GPUs, {rounds.inside.name} inside, "
    name += f"{rounds.between[int(np.argmax(rounds.radices))].name} between them"
    return InVariants(
        name if rounds.stage is None else f"{name}, {rounds.stage.name} of {shares} shares",
        rows=parts.num_parts * moves // shares,
        moves=moves,
        crossing=ranks * len(rounds.radices),
        routes=(rounds.way,),
        first=np.arange(ranks),
        labels=shares,
        unit_labels=(rounds.share,),
        is_explicit=True,
        of_libraries=False,
    )


def by_copy_rounds(problem: Problem, parts: Parts, spreads: Lines) -> Iterator[Algorithm]:
    """For what is spread from all over nodes of one size, and for sums of all for all.

    `spreads` : algorithms for this many ranks.
    """
    if parts.kind == "routed" or not parts.is_between_all(problem.num_ranks):
        return
    ranks, is_summed = problem.num_ranks, parts.kind == "summed"
    for nodes, gates in gated_nodes(problem.topology):
        gpus = nodes.shape[1]
        for radices in _radices(len(nodes), partial(_are_enough, len(gates))):
            for inside in spreads(gpus):
                plan = GridAlgorithm(nodes, ((1, inside),))
                rounds = _CopyRounds(nodes, radices, gates, plan)
                digits = "x".join(map(str, radices))
                yield InVariants(
                    f"{THERE_AND_BACK * is_summed}rounds of {digits} nodes by {len(gates)} GPUs, "
                    f"{inside.name} inside",
                    rows=parts.num_parts * ranks * (1 + is_summed),
                    moves=ranks * ((len(radices) + 1) * inside.sends(gpus) + len(radices)) * (1 + is_summed),
                    crossing=ranks * len(radices) * (1 + is_summed),
                    routes=(rounds.summed if is_summed else rounds.way,),
                    first=np.arange(ranks),
                    of_libraries=False,
                )
