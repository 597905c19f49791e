"""Pipelines: one batch is summed inside nodes while another crosses and a third is copied inside.

A batch pays its alphas anew, and what is inside before the first crosses and after the last came is all that
is not hidden. So the first and last batches are small and those between large: each is twice the one before,
up to a limit, and they fall as they rose. Whoever owns a share of a sum has to cross with it, so a batch has
as many owners as there are *doors*, and GPUs behind one door (a NIC that two of them share) take turns: the
door pays one alpha a batch.

Batches have precedence in their order, wherever links are free: no batch waits for a later one.

Sources: Cho et al., "BlueConnect", MLSys 2019 (chunks through the levels of a machine); Barnett et al., IPPS
1993 (hybrids of short and long vector algorithms).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm
from taccl.encoding.engines.textbook.grid import GridAlgorithm, behind_doors, by_nodes, summed
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Cut, Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, together
from taccl.encoding.engines.textbook.tuning import PIPELINES_MOST_BATCHES, PIPELINES_STEEPEST
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pipeline(Algorithm):
    """An AllReduce over nodes in unequal batches.

    Parameters
    ----------
    plan : what each batch does.
    owners : the ranks that own the sums of a batch; batches take these in turn.
    """

    plan: GridAlgorithm
    owners: tuple[IntArray, ...]

    def numbers_of_batches(self, parts: Parts) -> Iterator[int]:
        """2, 3, ... as far as each batch has a chunk for each of its owners."""
        yield from range(2, min(PIPELINES_MOST_BATCHES, len(parts.begin) // len(self.owners[0])) + 1)

    def built(self, parts: Parts, batches: int) -> tuple[Cut, Sends]:
        """What is sent; each batch begins with its copies where the one before begins to cross."""
        each = len(self.owners[0])
        widths = _widths(batches)
        ends = np.round(np.cumsum(widths) / sum(widths) * (len(parts.begin) // each)).astype(np.int64) * each
        ends[-1] = len(parts.begin)
        owner, batch = np.empty_like(parts.begin), np.repeat(np.arange(batches), np.diff(ends, prepend=0))
        for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            owners = self.owners[number % len(self.owners)]
            owner[first:last] = owners[np.arange(last - first) * each // max(1, last - first)]
        unit = np.unique(batch * (int(owner.max()) + 1) + owner, return_inverse=True)[1]
        chunks = Ragged.by_key(unit)
        begin, batch = owner[chunks.values[chunks.first]], batch[chunks.values[chunks.first]]
        streams = list[Sends]()
        for number in range(batches):
            units = np.flatnonzero(batch == number)
            made = summed(self.plan, begin[units], parts.stages).of_units(units)
            streams.append(made.later(number * self._steps_inside))
        return Cut(chunks, begin, begin, batch, np.zeros_like(batch)), together(streams)

    @property
    def plans(self) -> tuple[GridAlgorithm, ...]:
        """What each batch does."""
        return (self.plan,)

    @property
    def _steps_inside(self) -> int:
        axis, inside = self.plan.stages[0]
        moves = inside.spread(self.plan.grid.shape[axis], np.zeros(1, dtype=np.int64))
        return int(moves.step.max()) + 1


def by_pipelines(
    problem: Problem, parts: Parts, inside: tuple[LineAlgorithm, ...], across: tuple[LineAlgorithm, ...]
) -> Iterator[Algorithm]:
    """For sums over nodes of one size: inside, across (in shares, or each for itself), inside."""
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind != "summed":
        return
    every = [GridAlgorithm(nodes, ((1, each), (0, line))) for each, line in product(inside, across)]
    every += [GridAlgorithm(nodes, ((1, each),), ((0, line),)) for each, line in product(inside, across)]
    ranks, members = problem.num_ranks, behind_doors(problem.topology, nodes)
    if not members:
        return
    for plan, by_door in product(every, (False, True) if len(members) > 1 else (False,)):
        steps = (*plan.stages, *plan.whole)
        name = f"pipeline, {steps[0][1].name} inside, {steps[1][1].name} across"
        name += " of whole shares" * bool(plan.whole) + ", a GPU of each NIC in turn" * by_door
        # Of a share that is summed whole, the owners of all nodes are the same.
        owners = tuple(
            nodes[: 1 if plan.whole else None, gpus].ravel()
            for gpus in (members if by_door else [np.sort(np.concatenate(members))])
        )
        sends = 2 * plan.stages[0][1].sends(nodes.shape[1]) + (
            plan.whole[0][1].adds(len(nodes)) if plan.whole else 2 * plan.stages[1][1].sends(len(nodes))
        )
        rows = 2 * parts.num_parts * ranks + sum(ranks * each.adds(len(nodes)) for _, each in plan.whole)
        yield _Pipeline(
            *(name, rows, ranks * sends),
            is_explicit=bool(plan.whole),
            of_libraries=False,
            plan=plan,
            owners=owners,
        )


def _widths(batches: int) -> list[int]:
    """How large batches are, relative to each other: rising and falling by factors of two."""
    return [min(1 << number, 1 << batches - 1 - number, PIPELINES_STEEPEST) for number in range(batches)]
