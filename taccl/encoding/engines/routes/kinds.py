"""What chunks of each kind may use: the links that are not ruled out, to ranks that have room for a chunk."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem


def kinds_of(problem: Problem) -> tuple[BoolArray, IntArray]:
    """The links that chunks of each kind may use, shape (kinds, links), and the kind of each chunk."""
    may_use = problem.limits.may_use
    roomy = leads_to_room(problem)
    if may_use is None:
        return roomy[None], np.zeros(problem.num_chunks, dtype=np.int64)
    usable, kind = np.unique(may_use, axis=0, return_inverse=True)
    return usable & roomy, kind.ravel()[problem.collective.owner]


def leads_to_room(problem: Problem) -> BoolArray:
    """Whether each link ends at a rank whose memory holds the largest chunk, shape (num_links,)."""
    topology = problem.topology
    if topology.memory_mb is None:
        return np.ones(topology.num_links, dtype=np.bool_)
    return np.asarray((topology.memory_mb >= problem.size_mb.max(initial=0.0))[topology.dst])
