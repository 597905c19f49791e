r"""The latency bound: no chunk travels faster than over the cheapest path.

    T >= max over chunks c and ranks r in D(c) of dist(U(c), r),

with the nearest source for a copy and the farthest contribution for a sum (COST_MODEL, lower
bound a).
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.problem import FloatArray, Problem


def latency_bound(problem: Problem, distance_us: FloatArray) -> Bound:
    """The longest of the shortest paths that chunks have to take."""
    collective = problem.collective
    best = Bound(0.0, "nothing has to move", "latency")
    for chunk in range(collective.num_chunks):
        sources, wanting = collective.pre[chunk], collective.post[chunk]
        ways = distance_us[np.ix_(sources, wanting)]
        if not ways.size:
            continue
        longest = ways.max() if collective.reduces[chunk] else ways.min(axis=0).max()
        if longest > best.value_us:
            best = Bound(float(longest), f"latency of {collective.describe_chunk(chunk)}", "latency")
    return best
