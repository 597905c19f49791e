"""Pipelines for what one rank has and all want: few trees at balanced loads carry chunk after chunk.

The number of trees is tried, too: one is a tree of its own kind, such as a chain, two are inner ranks and
leaves by turns, as many as there are ways out of the root (links of a torus, NICs of a node) scatter the
message, and what follows gathers it again. Sums for one rank are the same on the reversed links, read
backwards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import merged
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.streams.periodic import placed
from taccl.encoding.engines.streams.pipelines import Pipeline, trees_of
from taccl.encoding.engines.streams.trees import annealed
from taccl.encoding.engines.streams.tuning import (
    COMPILING_S,
    MOST_ALIKE,
    MOST_LOOKS,
    MOST_ROWS,
    MOST_SENDS,
    MOST_TIMED,
    TREES,
    WORTH,
)
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget
from taccl.support.jit import is_at_hand


def serves(instance: Instance) -> Verdict:
    """Whether all chunks go from one rank to all, or are sums of all for one rank."""
    problem = _copying(instance).problem
    source = problem.collective.source
    if not _copying(instance).demand.broadcasts or not len(source) or (source != source[0]).any():
        return no("it is for chunks that go from one rank to all, or come from all to one as sums")
    if problem.limits.own_first is not None or instance.problem.symmetry:
        return no("it knows no order in which own chunks leave first, and no symmetry that is requested")
    if _numbers_of_trees(problem) == ():
        return no("the machine or the number of chunks is too large for trees that are grown together")
    return YES


def is_compiled() -> bool:
    """Whether its loops are machine code already, here or on disk."""
    return is_at_hand(annealed) and is_at_hand(placed)


def streams(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield pipelines that are better than `incumbent`, by other numbers of trees.

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
        yield from _improving(instances, 0, budget, math.inf)


def _has_time(budget: Budget) -> bool:
    """Whether there is time for its loops to be compiled, or they are."""
    return budget.counts_work or is_compiled() or budget.remaining_s() > COMPILING_S


def _improving(
    instances: Sequence[Instance], seed: int, budget: Budget, best_us: float
) -> Iterator[Schedule]:
    """Schedules of those pipelines that promise most, each faster than those before."""
    copying = {id(_copying(each).problem): each.problem for each in instances}
    problems = [_copying(each).problem for each in instances if serves(each)]
    candidates = _most_promising(_pipelines(problems, seed, budget.share(0.6)))
    for number, pipeline in enumerate(candidates):
        if pipeline.promised_us > WORTH * candidates[0].promised_us or (number and not budget.remaining_s()):
            return
        schedule, problem = pipeline.schedule(seed, budget), copying[id(pipeline.problem)]
        made = schedule if problem is pipeline.problem else merged(problem, schedule, None)
        if len(made) == len(schedule) and made.makespan_us < best_us - TOLERANCE_US:
            best_us = made.makespan_us
            yield made


def _pipelines(problems: Sequence[Problem], seed: int, budget: Budget) -> Iterator[Pipeline]:
    """Every number of trees for every problem; trees are those of the problem with some sixteen periods."""
    most = max((each.num_chunks for each in problems), default=0)
    for number in TREES:
        able = [each for each in problems if number in _numbers_of_trees(each)]
        if not able or (number > 1 and not budget.remaining_s()):
            continue
        typical = min(able, key=lambda each: abs(math.log(each.num_chunks / min(16 * number, most))))
        for into in trees_of(typical, number, seed, budget):
            yield from (Pipeline(each, into) for each in able)


def _most_promising(pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    """The best first, a few of each number of trees: where all ports are full, promises are not kept."""
    alike, chosen = Counter[int](), list[Pipeline]()
    for pipeline in sorted(pipelines, key=lambda each: each.promised_us):
        alike[len(pipeline.into)] += 1
        if alike[len(pipeline.into)] <= MOST_ALIKE:
            chosen.append(pipeline)
    return chosen[:MOST_TIMED]


def _numbers_of_trees(problem: Problem) -> tuple[int, ...]:
    """How many trees are tried for a problem."""
    ranks, chunks = problem.num_ranks, problem.num_chunks
    if ranks < 2 or chunks * ranks > MOST_ROWS or problem.sizes is not None:
        return ()
    looks = ranks * problem.topology.num_links
    few = max(1, min(MOST_SENDS // ranks, MOST_LOOKS // max(1, looks)))
    return tuple(number for number in TREES if number <= min(few, chunks)) if looks <= MOST_LOOKS else ()


def _copying(instance: Instance) -> Instance:
    """The instance, or the reversed one where all chunks are sums for one rank."""
    demand = instance.demand
    return instance.reversed if demand.reduces.all() and demand.to_one else instance
