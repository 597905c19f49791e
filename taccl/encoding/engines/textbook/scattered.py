"""Broadcast by a scatter and an AllGather (van de Geijn): every rank spreads a share of what one rank has.

The root deals its buffer out, each rank gets a share of it, and an AllGather brings the shares to all. Where
ranks have one way in and out, this takes about two buffers' time on a port for any number of ranks, where the
binomial tree takes log2 n. On a grid the root deals out along some axes alone, each share is spread along the
others, and all shares along the first again: fewer alphas, for which shares are larger. Read backwards it is
a Reduce by a ReduceScatter and a Gather.

Sources: Barnett, Shuler, van de Geijn, Gupta, Payne and Watts, "Interprocessor collective communication
library (InterCom)", SHPCC 1994; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4 (long-message
Broadcast).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil, prod

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.grid import GridAlgorithm, routed, spread
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Sends, in_turn
from taccl.encoding.engines.textbook.stages import Stages
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


def by_scattering(
    problem: Problem,
    parts: Parts,
    routes: tuple[LineAlgorithm, ...],
    spreads: tuple[LineAlgorithm, ...],
    on_grids: Iterable[GridAlgorithm],
) -> Iterator[Algorithm]:
    """All combinations of a scatter and an AllGather on a line, and those on grids that go the same way back.

    Parameters
    ----------
    routes, spreads : for all ranks on a line.
    on_grids : Broadcasts along one axis after another.
    """
    if parts.kind != "spread" or not parts.is_from_one:
        return
    line = np.roll(np.arange(problem.num_ranks), -int(parts.begin[0]))
    for route, after in product(routes, spreads):
        plans = GridAlgorithm(line, ((0, route),)), GridAlgorithm(line, ((0, after),))
        yield _scattered(parts, f"scatter ({route.name}) and AllGather ({after.name})", *plans)
    # In one node a scatter along all axes is mostly as good as one on a line.
    fewest = 0 if problem.topology.num_nodes > 1 else 1
    for plan in on_grids:
        for first in range(fewest, len(plan.stages)):
            back = plan.stages[first:][::-1]
            if all(algorithm.route is not None for _, algorithm in back):
                axes = ", ".join(str(axis) for axis, _ in back)
                scatter = replace(plan, stages=back)
                yield _scattered(parts, f"scatter along axis {axes}, then {plan.name}", scatter, plan)


def _scattered(parts: Parts, name: str, scatter: GridAlgorithm, gather: GridAlgorithm) -> Algorithm:
    """A scatter along some axes, and what brings the shares to all."""
    shape, ranks = scatter.grid.shape, scatter.grid.size
    dealt = prod(shape[axis] for axis, _ in scatter.stages)
    hops = sum(algorithm.mean_hops(shape[axis]) for axis, algorithm in scatter.stages)
    moves = dealt + ranks * sum(algorithm.sends(shape[axis]) for axis, algorithm in gather.stages)
    return InVariants(
        name,
        ranks + ceil(hops),
        moves,
        shares=dealt,
        routes=(partial(_way, scatter, gather, parts.stages),),
        first=np.arange(ranks),
        of_libraries=scatter.grid.ndim == 1,
    )


def _way(
    scatter: GridAlgorithm, gather: GridAlgorithm, stages: Stages, begin: IntArray, end: IntArray
) -> Sends:
    """The units dealt out to ranks, and from there to all who lack them."""
    plane = gather.sharing(gather.stages[: -len(scatter.stages)])
    ranks = scatter.grid.ravel()
    owner = np.resize(ranks[plane[ranks] == plane[begin[0]]], len(begin))
    out, back = routed(scatter, begin, owner, stages), spread(gather, owner, stages)
    return in_turn([out, back]).without_repeats(begin, scatter.grid.size)
