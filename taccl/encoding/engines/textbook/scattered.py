"""Broadcast by a scatter and an AllGather (van de Geijn): every rank spreads a share of what one rank has.

The root deals its buffer out, each rank gets a share of it, and an AllGather brings the shares to all. Where
ranks have one way in and out, this takes about two buffers' time on a port for any number of ranks, where the
binomial tree takes log2 n. Read backwards it is a Reduce by a ReduceScatter and a Gather.

Sources: Barnett, Shuler, van de Geijn, Gupta, Payne and Watts, "Interprocessor collective communication
library (InterCom)", SHPCC 1994; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4 (long-message
Broadcast).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

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
) -> Iterator[Algorithm]:
    """All combinations of a scatter and an AllGather, where one rank has at least two pieces for all."""
    ranks = problem.num_ranks
    if parts.kind != "spread" or not parts.is_from_one or parts.most_pieces < 2:
        return
    line = np.roll(np.arange(ranks), -int(parts.begin[0]))
    shares = min(ranks, parts.most_pieces)
    for route, after in product(routes, spreads):
        plans = GridAlgorithm(line, ((0, route),)), GridAlgorithm(line, ((0, after),))
        name = f"scatter ({route.name}) and AllGather ({after.name})"
        way, first = partial(_way, *plans, parts.stages), np.arange(ranks)
        yield InVariants(name, 2 * ranks, ranks * ranks, shares=shares, routes=(way,), first=first)


def _way(
    scatter: GridAlgorithm, gather: GridAlgorithm, stages: Stages, begin: IntArray, end: IntArray
) -> Sends:
    """The units dealt out to ranks, and from there to all who lack them."""
    owner = np.resize(scatter.grid, len(begin))
    out, back = routed(scatter, begin, owner, stages), spread(gather, owner, stages)
    return in_turn([out, back]).without_repeats(begin, scatter.grid.size)
