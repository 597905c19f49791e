"""Proofs: times that no schedule of a problem can beat, each with its witness.

A problem that only copies is bounded as it is. One with sums is bounded by what every program of it does,
however often and wherever it adds (a program that leaves at each output each contribution exactly once):

- It carries each contribution from its rank to every rank that wants the sum: distances, cuts, entries.
- Its transfers cross between the parts of any partition so often (`partitions`): volume.
- It makes each sum at *one* of the ranks that want it, whichever one is looked at. Of a program that does
  only that, keep for each rank and chunk the last transfer from which there is still a way to the chunk's one
  rank, and let each rank add what came before. Then every rank passes its part on once, by a transfer of the
  program and at its time (`entries` has the argument in full), in groups that are no larger. Read backwards
  that is a schedule of copies from the one rank on the reversed links. So bounds of those hold, if they are
  also true where a port is busy at the end of a send; it makes a difference where a machine does not
  read backwards (`LogicalTopology.reads_backwards`).
- It brings *one* contribution of each sum to every rank that wants the sum, whichever one is looked at. The
  rows that first bring to each rank something that it is part of are a schedule of copies. So bounds of
  those hold.

Two such bounds are never added: the programs that they are about may run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.alone import holdings_bound, spread_bound
from taccl.encoding.bounds.bound import Bound, Kind
from taccl.encoding.bounds.cuts import Cut, cut_bound, node_cuts, simple_cuts
from taccl.encoding.bounds.entries import entry_bound, sum_entry_bound
from taccl.encoding.bounds.flow import flow_bound
from taccl.encoding.bounds.latency import latency_bound
from taccl.encoding.bounds.partitions import partitions
from taccl.encoding.bounds.throughput import throughput_bound
from taccl.encoding.bounds.tightest import tightest_cut
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.bounds.whole_flow import whole_flow_bound
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.distance import distances_us
from taccl.encoding.core.phases import phases
from taccl.encoding.symmetry.group import symmetry_group
from taccl.problem import FloatArray, Problem

__all__ = ["Bound", "Kind", "all_bounds", "lower_bound", "quick_bound"]

#: Ways into more sets of ranks than this are not looked at for sums.
_MOST_CUTS = 8


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
    for bound in _all(problem, Budget(time_limit_s)):
        if bound.kind not in best or bound.value_us > best[bound.kind].value_us:
            best[bound.kind] = bound
    return tuple(sorted(best.values(), key=lambda bound: -bound.value_us))


def _all(problem: Problem, budget: Budget) -> Iterator[Bound]:
    """First what is there soon, of all views; then what counts in ticks, where that tells where to look."""
    known_us = 0.0
    views = list(_views(problem))
    for view in views:
        for bound in _of_one(view.problem, budget):
            known_us = max(known_us, bound.value_us)
            yield bound
    for view in views if known_us else ():
        for bound in _by_growth(view, known_us):
            yield bound
            if not budget.remaining_s():
                return


@dataclass(frozen=True, eq=False)
class _View:
    """A problem that every program of the one in question solves too, so that its bounds hold for it.

    `backwards` says that it is read backwards, and that ports are busy at the ends of its sends.
    """

    problem: Problem
    backwards: bool = False


def _views(problem: Problem) -> Iterator[_View]:
    """The problem; its sums, each for one of the ranks that want it; copies, each sum as one contribution."""
    collective = problem.collective
    if not collective.is_reduction:
        yield _View(problem)
        return
    backwards = not problem.topology.reads_backwards
    if collective.reduces.all() and (collective.post.sum(axis=1) == 1).all():
        yield _View(problem.reversed(), backwards)
        return
    if not collective.post.any(axis=1).all() or not collective.pre.any(axis=1).all():
        yield _View(problem)
        return
    far = _distances_us(problem)
    to_all, from_all = (np.where(np.isfinite(each), each, 0.0).sum(axis=1) for each in (far, far.T))
    sums = phases(problem, _one_of(collective.post, collective.home, from_all)).reduce_phase
    spread = phases(problem, _one_of(collective.pre, collective.home, to_all)).broadcast_phase
    assert sums is not None and spread is not None
    yield _View(problem)
    yield _View(sums, backwards)
    yield _View(spread)


def _one_of(ranks: BoolArray, home: IntArray, far: FloatArray) -> IntArray:
    """Of each chunk's ranks the home, or else the one that is farthest from all, shape (num_chunks,).

    `ranks` has shape (num_chunks, num_ranks), `far` (num_ranks,).
    """
    farthest = np.where(ranks, far, -1.0).argmax(axis=1)
    return np.where(ranks[np.arange(len(home)), home], home, farthest)


def _of_one(problem: Problem, budget: Budget) -> Iterator[Bound]:
    """Bounds by distances, loads and flows, for which a port may be busy at either end of a send."""
    distance = _distances_us(problem)
    cuts = simple_cuts(problem)
    tightest = tightest_cut(problem)
    if tightest is not None:
        cuts.append(tightest)
    parts = partitions(problem, cuts)
    simple = [
        latency_bound(problem, distance),
        cut_bound(problem, cuts, distance),
        volume_bound(problem, parts),
        flow_bound(problem, budget.remaining_s()),
        throughput_bound(problem, cuts, parts),
    ]
    yield from simple
    known_us = max(bound.value_us for bound in simple)
    yield whole_flow_bound(problem, known_us, budget.remaining_s() / 2)


def _by_growth(view: _View, known_us: float) -> Iterator[Bound]:
    """Bounds that count in ticks how chunks and holdings grow; `known_us` tells them where to look."""
    problem, backwards = view.problem, view.backwards
    if problem.collective.is_reduction:
        cuts = [*node_cuts(problem), *simple_cuts(problem)]
        for cut in _one_of_each_orbit(problem, cuts)[:_MOST_CUTS]:
            yield sum_entry_bound(problem, cut, known_us)
        return
    for cut in _one_of_each_orbit(problem, node_cuts(problem)):
        yield entry_bound(problem, cut, known_us, backwards)
    yield spread_bound(problem, known_us, backwards)
    yield holdings_bound(problem, known_us, backwards)


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
