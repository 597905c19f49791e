"""Pipelines for what one rank has and all want: chunk after chunk, each to where it is lacking.

Several ways of breaking ties are tried for several numbers of chunks, and the best of these again by other
chances. Sums for one rank are the same on the reversed links, read backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import merged
from taccl.encoding.core.sequence import of_columns
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.streams.dissemination import Style, disseminated, net_of
from taccl.encoding.engines.streams.tuning import (
    COMPILING_S,
    LOOK,
    MOST_AGAIN,
    MOST_CASES,
    MOST_IN_VAIN,
    MOST_LOOKS,
    MOST_ROWS,
    PATIENCE,
    ROW,
    SLOWER,
    STYLES,
)
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import UNITS_PER_S, Budget
from taccl.support.jit import is_at_hand

#: The part of all looks that a first schedule is expected to take.
_LOOKS = 0.5


def serves(instance: Instance) -> Verdict:
    """Whether all chunks go from one rank to all, or are sums of all for one rank."""
    copying = _copying(instance)
    problem, source = copying.problem, copying.problem.collective.source
    if not copying.demand.broadcasts or not len(source) or (source != source[0]).any():
        return no("it is for chunks that go from one rank to all, or come from all to one as sums")
    if problem.limits.own_first is not None or instance.problem.symmetry:
        return no("it knows no order in which own chunks leave first, and no symmetry that is requested")
    if problem.num_ranks < 2 or problem.sizes is not None or not _looks(problem):
        return no("there is one rank, no link, or chunks of unequal sizes")
    if not np.isfinite(copying.distances_us[source[0]]).all():
        return no("some rank is out of reach")
    if _looks(problem) > MOST_LOOKS or problem.num_chunks * problem.num_ranks > MOST_ROWS:
        return no("the machine or the number of chunks is too large")
    return YES


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return is_at_hand(disseminated)


def streams(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield pipelines that are better than `incumbent`.

    The first time on a machine its loops have to be compiled; with no time for that it yields a note.
    """
    if not _has_time(budget):
        why = f"pipelines of one root were not tried: compiling takes up to {COMPILING_S:g} s: taccl compile"
        yield Update("streams", note=why)
        return
    best_us = math.inf if incumbent is None else incumbent.makespan_us
    for schedule in _improving([instance], options.seed, budget, best_us):
        yield Update("streams", schedule)


def across_chunks(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Pipelines of the same size cut into different numbers of chunks, each faster than those before."""
    if _has_time(budget):
        yield from _improving([each for each in instances if serves(each)], 0, budget, math.inf)


def _has_time(budget: Budget) -> bool:
    """Whether there is time for its loops to be compiled, or they are."""
    return budget.counts_work or is_compiled() or budget.remaining_s() > COMPILING_S


def _improving(
    instances: Sequence[Instance], seed: int, budget: Budget, best_us: float
) -> Iterator[Schedule]:
    """Schedules of all cuts and styles, each faster than those before."""
    cases = [_Case(each) for each in sorted(instances, key=lambda each: each.problem.num_chunks)]
    for schedule in _trials(cases, seed, budget):
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield schedule


def _trials(cases: Sequence[_Case], seed: int, budget: Budget) -> Iterator[Schedule]:
    """One style of each cut, the coarsest first; then what was fastest by other styles and chances."""
    took_us, slower, effort = dict[_Case, float](), 0, _LOOKS
    for case in cases:
        if took_us and not case.has_time(effort, budget):
            break
        schedule, effort = case.schedule(STYLES[0], seed, budget)
        yield schedule
        slower = slower + 1 if schedule.makespan_us > SLOWER * min(took_us.values(), default=math.inf) else 0
        took_us[case] = schedule.makespan_us
        if slower == PATIENCE:
            break
    best_us, in_vain = min(took_us.values(), default=math.inf), 0
    for number in range(1, MOST_AGAIN + 1):
        style = STYLES[number % len(STYLES)]
        for case in sorted(took_us, key=took_us.__getitem__)[:MOST_CASES]:
            if in_vain == MOST_IN_VAIN or not case.has_time(effort, budget):
                return
            schedule, effort = case.schedule(style, seed + number // len(STYLES), budget)
            yield schedule
            in_vain = 0 if schedule.makespan_us < best_us - TOLERANCE_US else in_vain + 1
            best_us = min(best_us, schedule.makespan_us)
            took_us[case] = min(took_us[case], schedule.makespan_us)


class _Case:
    """One cut of the message, with what all its trials share."""

    def __init__(self, instance: Instance) -> None:
        copying = _copying(instance)
        self._problem, self._copying = instance.problem, copying.problem
        far_us, kind = copying.distances_by_limits
        self._net = net_of(copying.problem, far_us[kind[0]])

    def has_time(self, effort: float, budget: Budget) -> bool:
        """Whether there is time for one schedule more; `effort` as `schedule` found it."""
        return budget.remaining_s() > LOOK * effort * _looks(self._copying) / UNITS_PER_S

    def schedule(self, style: tuple[bool, float], seed: int, budget: Budget) -> tuple[Schedule, float]:
        """The chunks in one style, by one chance, and what part of all looks that there could be it took."""
        problem, root = self._copying, int(self._copying.collective.source[0])
        chunk, link, start_us, looks = disseminated(self._net, problem.num_chunks, root, Style(*style, seed))
        budget.spend(LOOK * looks + ROW * len(chunk))
        copies = of_columns(problem, chunk, link, start_us, np.zeros(len(chunk), np.bool_))
        whole = copies if problem is self._problem else merged(self._problem, copies, None)
        return whole, looks / _looks(problem)


def _looks(problem: Problem) -> int:
    """A look at each chunk over each link for each chunk that goes by: more than there are."""
    return problem.num_chunks**2 * problem.topology.num_links


def _copying(instance: Instance) -> Instance:
    """The instance, or the reversed one where all chunks are sums for one rank."""
    demand = instance.demand
    return instance.reversed if demand.reduces.all() and demand.to_one else instance
