"""Proofs: times that no schedule of a problem can beat, each with its witness."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.bound import Bound, Kind
from taccl.encoding.bounds.cuts import cut_bound, simple_cuts
from taccl.encoding.bounds.flow import flow_bounds
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.throughput import throughput_bound
from taccl.encoding.bounds.tightest import tightest_cut
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.combine import halves
from taccl.encoding.distance import distances_us
from taccl.problem import FloatArray, Problem

__all__ = ["Bound", "Kind", "all_bounds", "lower_bound", "quick_bound"]


def quick_bound(problem: Problem) -> Bound:
    """The latency bound alone, which is there at once."""
    return latency_bound(problem, _distances_us(problem))


def lower_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The largest of `all_bounds`."""
    return all_bounds(problem, time_limit_s)[0]


def all_bounds(problem: Problem, time_limit_s: float = 10.0) -> tuple[Bound, ...]:
    """The best bound of each kind, largest first (COST_MODEL, lower bounds a to c).

    `time_limit_s` limits each linear program; what is not solved in time says nothing.
    """
    best: dict[Kind, Bound] = {}
    for each in _computed(problem):
        for bound in _of_one(each, time_limit_s):
            if bound.kind not in best or bound.value_us > best[bound.kind].value_us:
                best[bound.kind] = bound
    return tuple(sorted(best.values(), key=lambda bound: -bound.value_us))


def _computed(problem: Problem) -> Iterator[Problem]:
    """Problems that every schedule of this one solves too, so that their bounds hold for it.

    A problem that only sums is bounded by its mirror image. One that sums and then copies also
    computes the sums alone. It computes the copies too, where each starts at a rank that contributes
    to the sum: all others still lack its part.
    """
    parts = halves(problem)
    if parts.spread is None and parts.sums is not None:
        yield parts.sums
        return
    yield problem
    if parts.sums is not None and parts.spread is not None:
        yield parts.sums
        if (parts.spread.collective.pre <= problem.collective.pre).all():
            yield parts.spread


def _of_one(problem: Problem, time_limit_s: float) -> Iterator[Bound]:
    distance = _distances_us(problem)
    cuts = simple_cuts(problem)
    tightest = tightest_cut(problem)
    if tightest is not None:
        cuts.append(tightest)
    yield latency_bound(problem, distance)
    yield cut_bound(problem, cuts, distance)
    yield volume_bound(problem)
    yield from flow_bounds(problem, time_limit_s)
    yield throughput_bound(problem, cuts)


def _distances_us(problem: Problem) -> FloatArray:
    topology = problem.topology
    return distances_us(topology, topology.duration_us(np.arange(topology.num_links), problem.chunk_mb))
