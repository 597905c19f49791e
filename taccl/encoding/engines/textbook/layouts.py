"""How ranks can be laid out as a grid: as nodes, as the sides of a torus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.engines.textbook.tuning import LAYOUTS_MOST_GRIDS
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology


def by_nodes(topology: LogicalTopology) -> IntArray | None:
    """Nodes on axis 0, their ranks on axis 1; None for one node, nodes of one rank, or unequal nodes."""
    nodes = topology.equal_nodes
    return None if nodes is None or nodes.shape[1] == 1 else nodes


def sides(num_ranks: int) -> Iterator[IntArray]:
    """Grids of two and three axes, the most even first: the tori that ranks may be numbered along."""
    shapes = [
        shape for count in (2, 3) for shape in _factors(num_ranks, count) if all(side > 1 for side in shape)
    ]
    shapes.sort(key=lambda shape: (max(shape) / min(shape), len(shape)))
    for shape in shapes[:LAYOUTS_MOST_GRIDS]:
        yield np.arange(num_ranks).reshape(shape)


def _factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (number,)
        return
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            for rest in _factors(number // first, count - 1):
                yield (first, *rest)
