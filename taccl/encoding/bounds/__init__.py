"""Proofs: times that no schedule of a problem can beat, each with its witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.bounds.alone import holdings_bound, spread_bound
from taccl.encoding.bounds.bound import Bound, Kind
from taccl.encoding.bounds.cuts import Cut, cut_bound, node_cuts, simple_cuts
from taccl.encoding.bounds.entries import entry_bound
from taccl.encoding.bounds.flow import flow_bound
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.meeting import meeting_bound, two_way_bound
from taccl.encoding.bounds.throughput import throughput_bound
from taccl.encoding.bounds.tightest import tightest_cut
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.bounds.whole_flow import whole_flow_bound
from taccl.encoding.combine import halves
from taccl.encoding.distance import distances_us
from taccl.encoding.engine import Budget
from taccl.encoding.symmetry import symmetry_group
from taccl.problem import FloatArray, Problem

__all__ = ["Bound", "Kind", "all_bounds", "lower_bound", "quick_bound"]


def quick_bound(problem: Problem) -> Bound:
    """The latency bound alone, which is there at once."""
    return latency_bound(problem, _distances_us(problem))


def lower_bound(problem: Problem, time_limit_s: float = 10.0) -> Bound:
    """The largest of `all_bounds`."""
    return all_bounds(problem, time_limit_s)[0]


def all_bounds(problem: Problem, time_limit_s: float = 10.0) -> tuple[Bound, ...]:
    """The best bound of each kind, largest first (COST_MODEL, lower bounds a to c, and by decomposition).

    After `time_limit_s` no more kinds are begun; a linear program that is not solved by then says nothing.
    """
    best: dict[Kind, Bound] = {}
    budget = Budget(time_limit_s)
    for each, reads_backwards in _computed(problem):
        for bound in _of_one(each, budget, in_time=reads_backwards):
            if bound.kind not in best or bound.value_us > best[bound.kind].value_us:
                best[bound.kind] = bound
    return tuple(sorted(best.values(), key=lambda bound: -bound.value_us))


def _computed(problem: Problem) -> Iterator[tuple[Problem, bool]]:
    """Problems that every schedule of this one solves too, so that their bounds hold for it.

    With each comes whether a schedule is one of it as it is, moment by moment. Of a mirror image that
    may not be so (`LogicalTopology.reads_backwards`); then bounds by distances and loads hold alone.

    A problem that only sums is bounded by its mirror image. One that sums and then copies also
    computes the sums alone. It computes the copies too, where each starts at a rank that contributes
    to the sum: all others still lack its part.
    """
    parts = halves(problem)
    if parts.spread is None and parts.sums is not None:
        yield parts.sums, problem.topology.reads_backwards
        return
    yield problem, True
    if parts.sums is not None and parts.spread is not None:
        yield parts.sums, problem.topology.reads_backwards
        if (parts.spread.collective.pre <= problem.collective.pre).all():
            yield parts.spread, True


def _of_one(problem: Problem, budget: Budget, in_time: bool) -> Iterator[Bound]:
    distance = _distances_us(problem)
    cuts = simple_cuts(problem)
    tightest = tightest_cut(problem)
    if tightest is not None:
        cuts.append(tightest)
    simple = [
        latency_bound(problem, distance),
        cut_bound(problem, cuts, distance),
        volume_bound(problem),
        flow_bound(problem, budget.remaining_s()),
        throughput_bound(problem, cuts),
    ]
    known_us = max(bound.value_us for bound in simple)
    yield from simple
    yield whole_flow_bound(problem, known_us, budget.remaining_s() / 2)
    for bound in _by_growth(problem, distance, known_us) if known_us and in_time else ():
        yield bound
        if not budget.remaining_s():
            return


def _by_growth(problem: Problem, distance: FloatArray, known_us: float) -> Iterator[Bound]:
    """Bounds that count in ticks how chunks and holdings grow; `known_us` tells them where to look."""
    cuts = _one_of_each_orbit(problem, node_cuts(problem))
    if problem.collective.is_reduction:
        if not problem.topology.reads_backwards:
            return  # they count how contributions come together as a spread, read backwards
        yield meeting_bound(problem, distance, known_us)
        for cut in cuts:
            yield two_way_bound(problem, cut, distance, known_us)
        return
    for cut in cuts:
        yield entry_bound(problem, cut, known_us)
    yield spread_bound(problem, known_us)
    yield holdings_bound(problem, known_us)


def _one_of_each_orbit(problem: Problem, cuts: Sequence[Cut]) -> list[Cut]:
    """Cuts of which no other is the image under a symmetry."""
    elements = symmetry_group(problem).rank_map
    seen: set[frozenset[int]] = set()
    chosen = []
    for cut in cuts:
        if cut.ranks not in seen:
            chosen.append(cut)
            seen |= {frozenset(element[list(cut.ranks)].tolist()) for element in elements}
    return chosen


def _distances_us(problem: Problem) -> FloatArray:
    topology = problem.topology
    return distances_us(topology, topology.duration_us(np.arange(topology.num_links), problem.chunk_mb))
