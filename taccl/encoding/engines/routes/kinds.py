"""What chunks of each kind may use."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem


def kinds_of(problem: Problem) -> tuple[BoolArray, IntArray]:
    """The links that chunks of each kind may use, shape (kinds, links), and the kind of each chunk."""
    may_use = problem.limits.may_use
    if may_use is None:
        links = problem.topology.num_links
        return np.ones((1, links), dtype=np.bool_), np.zeros(problem.num_chunks, dtype=np.int64)
    usable, kind = np.unique(may_use, axis=0, return_inverse=True)
    return usable, kind.ravel()[problem.collective.owner]
