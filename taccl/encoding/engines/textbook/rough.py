"""About how long algorithms take before they are written down: an order in which to write down many.

A stage along an axis of a grid costs each rank its sends, one alpha each, and what it sends. Of what is no
grid, sends inside nodes and across are counted. Nothing is said of how stages overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from taccl.encoding.engines.textbook.grid import GridAlgorithm, by_nodes
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Parts
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


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
        """Of plans on grids side by side, each with its part of the data."""
        return max(self._of_plan(plan, len(plans)) for plan in plans)

    def of_sends(self, moves: int, crossing: int, rows: int) -> float:
        """Of sends of which some cross between nodes, and as many transfers of one part as rows."""
        ranks = self.problem.num_ranks
        nodes = by_nodes(self.problem.topology)
        if nodes is None:
            inside = across = self._axis(GridAlgorithm(np.arange(ranks), ()), 0)
        else:
            across, inside = (self._axis(GridAlgorithm(nodes, ()), axis) for axis in (0, 1))
        mb = rows * self._part_mb / ranks / max(1, moves)
        of_inside = (moves - crossing) / ranks * inside.alpha_us
        of_inside += (moves - crossing) * mb * inside.beta_us_per_mb
        return of_inside + crossing / ranks * across.alpha_us + crossing * mb * across.beta_us_per_mb

    @property
    def _part_mb(self) -> float:
        """All chunks of a part."""
        return self.problem.chunk_mb * self.parts.most_pieces

    def _of_plan(self, plan: GridAlgorithm, several: int) -> float:
        mb = self.parts.num_parts * self._part_mb / plan.grid.size / several
        kind, total_us = self.parts.kind, 0.0
        if kind == "routed":
            for axis, algorithm in plan.stages:
                total_us += self._along(
                    plan, axis, algorithm, mb * algorithm.mean_hops(plan.grid.shape[axis])
                )
            return total_us
        stages = plan.stages if kind == "spread" else plan.stages[::-1]
        shares = int(np.prod([plan.grid.shape[axis] for axis, _ in plan.stages]))
        held_mb = mb if kind == "spread" else self.parts.num_parts * self._part_mb / shares / several
        for axis, algorithm in stages:
            size = plan.grid.shape[axis]
            there_and_back = 1 if kind == "spread" else 2
            total_us += there_and_back * self._along(plan, axis, algorithm, held_mb * (size - 1))
            held_mb *= size
        for axis, algorithm in plan.whole:
            adds, cost = algorithm.adds(plan.grid.shape[axis]), self._axis(plan, axis)
            each_mb = self.parts.num_parts * self._part_mb / shares / several
            total_us += adds * (cost.alpha_us + each_mb * cost.beta_us_per_mb) / cost.ways
        return total_us

    def _along(self, plan: GridAlgorithm, axis: int, algorithm: LineAlgorithm, mb: float) -> float:
        """A stage in which each rank sends so much."""
        cost = self._axis(plan, axis)
        sends_us = algorithm.sends(plan.grid.shape[axis]) * cost.alpha_us
        return (sends_us + mb * cost.beta_us_per_mb) / cost.ways

    def _axis(self, plan: GridAlgorithm, axis: int) -> _Axis:
        key = plan.key, axis
        if key not in self._axes:
            self._axes[key] = self._measured(np.moveaxis(plan.grid, axis, 0))
        return self._axes[key]

    def _measured(self, lines: IntArray) -> _Axis:
        """All first ranks of lines send to the next at once, or half a line on: what takes longer."""
        lines = lines.reshape(len(lines), -1)
        near, far = (self._of_sends_to(lines, place) for place in (1, len(lines) // 2))
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
