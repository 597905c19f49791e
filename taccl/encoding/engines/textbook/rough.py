"""About how long algorithms take before they are written down: an order in which to write down many.

A stage along an axis of a grid costs each rank its sends, one alpha each, and what it sends; where alphas
keep no port busy, one for each of those sends that wait for each other. Of what is no grid, sends inside
nodes and across are counted. Nothing is said of how stages overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.textbook.grid import GridAlgorithm, Stage, by_nodes
from taccl.encoding.engines.textbook.parts import Parts
from taccl.model.collective import IntArray
from taccl.model.problem import Problem

_ROUNDING = 1e-9


class _Axis(NamedTuple):
    """A send along an axis by all ranks: its alpha and its time per MB, and ways out of a rank, 1 or 2."""

    alpha_us: float
    beta_us_per_mb: float
    ways: int


@dataclass(frozen=True, eq=False)
class Rough:
    """Times of algorithms for one problem, in microseconds.

    Parameters
    ----------
    problem, parts : what they are for.
    """

    problem: Problem
    parts: Parts
    _axes: dict[tuple[object, int], _Axis] = field(default_factory=dict)

    def of_plans(self, plans: Sequence[GridAlgorithm]) -> float:
        """Of plans on grids side by side, each with a part of the data; on one axis they share its ports."""
        on_axis, alone_us = Counter[tuple[object, int]](), 0.0
        for plan in plans:
            along = self._along_axes(plan, len(plans))
            alone_us = max(alone_us, sum(along.values()))
            on_axis.update({(plan.key, axis): us for axis, us in along.items()})
        return max(alone_us, *on_axis.values())

    def of_sends(self, moves: int, rows: int, crossing: int | None, crossers: int | None) -> float:
        """Of sends, some of which cross between nodes, and as many transfers of one part as rows.

        `crossing`, `crossers` : as `Algorithm` has them.
        """
        ranks, nodes = self.problem.num_ranks, by_nodes(self.problem.topology)
        grid = np.arange(ranks)[None] if nodes is None else nodes
        across, inside = (self._axis(GridAlgorithm(grid, ()), axis) for axis in (0, 1))
        if nodes is None or crossing is None:
            crossing = 0 if nodes is None else moves
        many = len(grid) * (crossers or grid.shape[1])
        each_mb = rows * self._part_mb / max(1, moves)
        kinds = ((moves - crossing) / ranks, inside), (crossing / many, across)
        return sum(
            (sends if self.problem.topology.is_serial else min(1, sends)) * cost.alpha_us
            + sends * each_mb * cost.beta_us_per_mb
            for sends, cost in kinds
        )

    @property
    def _part_mb(self) -> float:
        """All chunks of a part."""
        return self.problem.chunk_mb * self.parts.most_pieces

    def _along_axes(self, plan: GridAlgorithm, several: int) -> dict[int, float]:
        """What the sends along each axis take, if the plan has one of several equal parts of the data."""
        shape, kind = plan.grid.shape, self.parts.kind
        every_mb = self.parts.num_parts * self._part_mb / several
        along = dict.fromkeys(range(len(shape)), 0.0)
        if kind == "routed":
            for axis, algorithm in plan.stages:
                mb = every_mb / plan.grid.size * algorithm.mean_hops(shape[axis])
                along[axis] += self._us(plan, (axis, algorithm), algorithm.sends(shape[axis]), mb)
            return along
        shares = prod(shape[axis] for axis, _ in plan.stages)
        held_mb = every_mb / (plan.grid.size if kind == "spread" else shares)
        share_mb, there_and_back = every_mb / shares, 1 if kind == "spread" else 2
        for axis, algorithm in plan.stages if kind == "spread" else plan.stages[::-1]:
            mb = held_mb * (shape[axis] - 1)
            along[axis] += there_and_back * self._us(
                plan, (axis, algorithm), algorithm.sends(shape[axis]), mb
            )
            held_mb *= shape[axis]
        for axis, algorithm in plan.whole:
            adds = algorithm.adds(shape[axis])
            along[axis] += self._us(plan, (axis, algorithm), adds, adds * share_mb)
        return along

    def _us(self, plan: GridAlgorithm, stage: Stage, sends: int, mb: float) -> float:
        """So many sends of each rank with so much in them together; each may have to be cut into several."""
        (axis, algorithm), problem = stage, self.problem
        cost = self._axis(plan, axis)
        if not problem.topology.is_serial:
            steps = sends if algorithm.steps is None else algorithm.steps(plan.grid.shape[axis])
            return steps * cost.alpha_us + mb * cost.beta_us_per_mb / cost.ways
        pieces = ceil(mb / problem.chunk_mb / max(1, sends) / problem.max_group - _ROUNDING)
        return (sends * max(1, pieces) * cost.alpha_us + mb * cost.beta_us_per_mb) / cost.ways

    def _axis(self, plan: GridAlgorithm, axis: int) -> _Axis:
        key = plan.key, axis
        if key not in self._axes:
            self._axes[key] = self._measured(np.moveaxis(plan.grid, axis, 0))
        return self._axes[key]

    def _measured(self, lines: IntArray) -> _Axis:
        """All first ranks of lines send to the next at once, or half a line on: what takes longer."""
        lines = lines.reshape(len(lines), -1)
        near, far = (self._of_sends_to(lines, min(place, len(lines) - 1)) for place in (1, len(lines) // 2))
        return _Axis(max(near[0], far[0]), max(near[1], far[1]), near[2])

    def _of_sends_to(self, lines: IntArray, place: int) -> _Axis:
        """All first ranks of lines send to the one at this place at once: what the busiest port does."""
        topology, index = self.problem.topology, self.problem.topology.link_index
        pairs = zip(lines[0].tolist(), lines[place].tolist(), strict=True)
        links = np.array([index[pair] for pair in pairs if pair in index], dtype=np.int64)
        if not len(links):
            return _Axis(0.0, 0.0, 1)
        at, pair = topology.pairs_of(links)
        port = topology.incidence[1][pair]
        betas = np.bincount(port, topology.pair_betas[pair], topology.num_ports)
        alphas = np.bincount(port, topology.alpha_us[links[at]], topology.num_ports)
        ends = [index.get((int(lines[0, 0]), int(rank)), -1) for rank in (lines[1, 0], lines[-1, 0])]
        is_shared = -1 in ends or not set(topology.ports[ends[0]]).isdisjoint(topology.ports[ends[1]])
        alpha_us = alphas.max() if topology.is_serial else topology.alpha_us[links].max()
        return _Axis(float(alpha_us), float(betas.max()), 1 if is_shared else 2)
