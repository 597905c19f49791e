"""How many transfers a problem takes at least, where every chunk goes from one rank to one."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray
from taccl.model.problem import Problem


def least_transfers(problem: Problem, enough: int) -> int:
    """The links of shortest routes over all chunks that go from one rank to one; no count goes beyond
    `enough`.

    A chunk whose way has h links is counted once for each of 0 .. h - 1 links that do not bring it there; one
    without a way not at all.
    """
    collective, topology, ranks = problem.collective, problem.topology, problem.num_ranks
    moves = ~collective.reduces & (collective.num_sources == 1) & (collective.num_wanted == 1)
    missing = np.zeros((ranks, ranks), dtype=np.int64)
    np.add.at(missing, (collective.source[moves], collective.destination[moves]), 1)
    step = np.eye(ranks, dtype=np.float32)
    step[topology.src, topology.dst] = 1.0
    reached: BoolArray = np.eye(ranks, dtype=np.bool_)
    total, hops = 0, 0
    while total < enough:
        left = int(missing[~reached].sum())
        further = reached.astype(np.float32) @ step > 0
        if not left or (further == reached).all():
            return max(0, total - hops * left)
        reached = further
        total, hops = total + left, hops + 1
    return enough
