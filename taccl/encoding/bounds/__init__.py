"""Proofs: times that no schedule of a problem can beat, each with its witness."""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.cuts import cut_bound, simple_cuts
from taccl.encoding.bounds.flow import flow_bound
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.tightest import tightest_cut
from taccl.encoding.combine import halves
from taccl.encoding.distance import distances_us
from taccl.problem import Problem

__all__ = ["Bound", "lower_bound"]


def lower_bound(problem: Problem) -> Bound:
    """The best of the latency, cut and flow bounds (COST_MODEL, lower bounds a to c).

    A problem that only sums is bounded by its mirror image. One that sums and then copies computes
    either half as well, so the bounds of both halves hold for it, besides its own.
    """
    parts = halves(problem)
    if parts.spread is None and parts.sums is not None:
        return _of_one(parts.sums)
    bounds = [_of_one(problem)]
    if parts.sums is not None and parts.spread is not None:
        bounds += [_of_one(parts.sums), _of_one(parts.spread)]
    return max(bounds, key=lambda bound: bound.value_us)


def _of_one(problem: Problem) -> Bound:
    topology = problem.topology
    distance = distances_us(topology, topology.duration_us(np.arange(topology.num_links), problem.chunk_mb))
    cuts = simple_cuts(problem)
    tightest = tightest_cut(problem)
    if tightest is not None:
        cuts.append(tightest)
    return max(
        latency_bound(problem, distance),
        cut_bound(problem, cuts, distance),
        flow_bound(problem),
        key=lambda bound: bound.value_us,
    )
