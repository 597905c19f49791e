"""Proofs: times that no schedule of a problem can beat, each with its witness."""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.cuts import cut_bound, simple_cuts
from taccl.encoding.bounds.flow import flow_bound
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.tightest import tightest_cut
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.combine import halves
from taccl.encoding.distance import distances_us
from taccl.problem import FloatArray, Problem

__all__ = ["Bound", "lower_bound", "quick_bound"]


def quick_bound(problem: Problem) -> Bound:
    """The latency bound alone, which is there at once."""
    return latency_bound(problem, _distances_us(problem))


def lower_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The best of the latency, cut, volume and flow bounds (COST_MODEL, lower bounds a to c).

    `time_limit_s` limits each linear program; what is not solved in time says nothing.

    A problem that only sums is bounded by its mirror image. One that sums and then copies also
    computes the sums alone, so their bound holds for it besides its own. It computes the copies too,
    where each starts at a rank that contributes to the sum: all others still lack its part.
    """
    parts = halves(problem)
    if parts.spread is None and parts.sums is not None:
        return _of_one(parts.sums, time_limit_s)
    bounds = [_of_one(problem, time_limit_s)]
    if parts.sums is not None and parts.spread is not None:
        bounds.append(_of_one(parts.sums, time_limit_s))
        if (parts.spread.collective.pre <= problem.collective.pre).all():
            bounds.append(_of_one(parts.spread, time_limit_s))
    return max(bounds, key=lambda bound: bound.value_us)


def _of_one(problem: Problem, time_limit_s: float) -> Bound:
    distance = _distances_us(problem)
    cuts = simple_cuts(problem)
    tightest = tightest_cut(problem)
    if tightest is not None:
        cuts.append(tightest)
    return max(
        latency_bound(problem, distance),
        cut_bound(problem, cuts, distance),
        volume_bound(problem),
        flow_bound(problem, time_limit_s),
        key=lambda bound: bound.value_us,
    )


def _distances_us(problem: Problem) -> FloatArray:
    topology = problem.topology
    return distances_us(topology, topology.duration_us(np.arange(topology.num_links), problem.chunk_mb))
