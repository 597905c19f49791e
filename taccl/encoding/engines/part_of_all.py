"""Build a Gather as the part of an AllGather that ends at the root, and a Scatter as the same backwards.

An engine that composes an AllGather (gather in nodes, cross in few sends, in batches) serves a Gather, too.
Sends that carry nothing to the root are left out, and the others keep their order, so none starts later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.backwards import read_backwards, turned_round
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.sequence import in_sequence
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Run, Verdict, no
from taccl.encoding.engines.tuning import PART_OF_ALL_MOST_ROWS
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


class _Whole(NamedTuple):
    """The AllGather, and the Gather that is a part of it: the problem, or the problem turned round."""

    all: Instance
    part: Problem


def serves_part_of(served: Callable[[Instance], Verdict]) -> Callable[[Instance], Verdict]:
    """Whether one rank has, or wants, as much of each, and the AllGather is `served`."""

    def serves(instance: Instance) -> Verdict:
        problem = instance.problem
        if not (instance.demand.delivers or instance.demand.gathers):
            return no("it is for what one rank has for each of the others, or wants of each")
        limits = problem.limits
        if problem.sizes is not None or problem.symmetry or limits.may_use is not None or limits.own_first:
            return no("chunks are unequal, or a sketch says who sends for whom, in which order or symmetry")
        each, rest = divmod(problem.num_chunks, problem.num_ranks)
        owners = np.arange(problem.num_chunks) // max(1, each)
        collective = problem.collective
        ends = collective.destination if instance.demand.delivers else collective.source
        if rest or not np.array_equal(ends, owners):
            return no("ranks have unequal parts")
        if problem.num_chunks * problem.num_ranks > PART_OF_ALL_MOST_ROWS:
            return no("the AllGather has too many transfers")
        return served(instance.once(_whole).all)

    return serves


def part_of(build: Run) -> Run:
    """The parts of what an engine builds for the AllGather."""

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        whole = instance.once(_whole)
        best_us = float("inf") if incumbent is None else incumbent.makespan_us
        for update in build(whole.all, options, budget, None):
            if update.schedule is None:
                continue
            part = _that_ends_at_root(whole.part, update.schedule)
            if whole.part is not instance.problem:
                part = read_backwards(instance.problem, part)
            if part.makespan_us < best_us - TOLERANCE_US:
                best_us = part.makespan_us
                yield Update(f"part of an AllGather, {update.stage}", part)

    return run


def _whole(instance: Instance) -> _Whole:
    problem = instance.problem
    part = turned_round(problem) if instance.demand.delivers else problem
    each = problem.num_chunks // problem.num_ranks
    every = replace(part, collective=make_collective("allgather", problem.num_ranks, each))
    return _Whole(Instance(every), part)


def _that_ends_at_root(problem: Problem, whole: Schedule) -> Schedule:
    """The sends that brought each chunk to the root, in their order and groups, each as early as possible."""
    root = int(problem.collective.destination[0])
    order = np.argsort(whole.start_us, kind="stable")
    came = np.full((problem.num_chunks, problem.num_ranks), -1)
    came[whole.chunk[order[::-1]], whole.dst[order[::-1]]] = order[::-1]  # the first of several
    kept, chunk = np.zeros(len(whole), dtype=np.bool_), np.arange(problem.num_chunks)
    at = np.full(len(chunk), root)
    while len(chunk):
        row = came[chunk, at]
        chunk, row = chunk[row >= 0], row[row >= 0]
        kept[row], at = True, whole.src[row]
    rows = np.flatnonzero(kept)
    rows = rows[np.lexsort((whole.group[rows], whole.start_us[rows]))]
    adds = np.zeros(len(rows), dtype=np.bool_)
    return in_sequence(problem, whole.chunk[rows], whole.link[rows], adds, whole.group[rows])
