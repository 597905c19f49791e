"""Build what is a part of something larger: a Gather of an AllGather, a Broadcast of an AllReduce.

A Gather consists of those sends of an AllGather that carry chunks to the root. A Broadcast consists of those
sends of an AllReduce that carry the root's contribution. All other sends are dropped, and the remaining ones
keep their order, so no send starts later. Scatter and Reduce are built on reversed links and read backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.backwards import read_backwards, turned_round
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import merged
from taccl.encoding.core.sequence import in_sequence
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import AcrossChunks, Run, Verdict, no
from taccl.encoding.engines.tuning import PART_OF_ALL_MOST_CHUNKS, PART_OF_ALL_MOST_ROWS
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


class _Whole(NamedTuple):
    """The AllGather or AllReduce, and its part: the problem, or the problem turned round."""

    all: Instance
    part: Instance


def serves_part_of(served: Callable[[Instance], Verdict]) -> Callable[[Instance], Verdict]:
    """Whether one rank has, or wants, as much of each, or the same of all, and the whole is `served`."""

    def serves(instance: Instance) -> Verdict:
        demand, part = instance.demand, instance.copying
        is_root = part.demand.broadcasts and len(np.unique(part.problem.collective.source)) == 1
        if not (is_root or demand.delivers or demand.gathers):
            return no("it is for what one rank has for the others, or wants of them")
        problem, limits = instance.problem, instance.problem.limits
        is_limited = limits.may_use is not None or limits.own_first is not None
        if problem.sizes is not None or problem.symmetry or is_limited:
            return no("chunks are unequal, or a sketch says who sends for whom, in which order or symmetry")
        each, rest = divmod(problem.num_chunks, problem.num_ranks)
        owners = np.arange(problem.num_chunks) // max(1, each)
        ends = demand.delivers or demand.gathers
        if rest or not each or (ends and not np.array_equal(_ends(instance), owners)):
            return no("ranks have unequal parts")
        if problem.num_chunks * problem.num_ranks > PART_OF_ALL_MOST_ROWS:
            return no("the whole has too many transfers")
        return served(instance.once(_whole).all)

    return serves


def part_of(build: Run) -> Run:
    """The parts of what an engine builds for the whole."""

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        best_us = float("inf") if incumbent is None else incumbent.makespan_us
        for update in build(instance.once(_whole).all, options, budget, None):
            if update.schedule is None:
                continue
            part = _part(instance, update.schedule)
            if part.makespan_us < best_us - TOLERANCE_US:
                best_us = part.makespan_us
                yield Update(f"part of all, {update.stage}", part)

    return run


def across_part_of(served: Callable[[Instance], Verdict], across: AcrossChunks) -> AcrossChunks:
    """The same for several numbers of chunks, of those whose whole is `served`; not of the finest."""
    serves = serves_part_of(served)

    def answers(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
        served = {each.once(_whole).all.problem: each for each in instances if serves(each)}
        wholes = [each.once(_whole).all for each in served.values()]
        coarse = [
            each for each in wholes if each.problem.collective.chunks_per_rank <= PART_OF_ALL_MOST_CHUNKS
        ]
        best_us = float("inf")
        for schedule in across(coarse, budget):
            part = _part(served[schedule.problem], schedule)
            if part.makespan_us < best_us - TOLERANCE_US:
                best_us = part.makespan_us
                yield part

    return answers


def _ends(instance: Instance) -> IntArray:
    """The rank that each chunk is for, or from, other than the root."""
    collective = instance.problem.collective
    return collective.destination if instance.demand.delivers else collective.source


def _whole(instance: Instance) -> _Whole:
    demand, part = instance.demand, instance.copying
    if demand.delivers:
        part = Instance(turned_round(instance.problem))
    name = "allgather" if demand.delivers or demand.gathers else "allreduce"
    problem = part.problem
    collective = make_collective(name, problem.num_ranks, problem.num_chunks // problem.num_ranks)
    return _Whole(Instance(replace(problem, collective=collective)), part)


def _part(instance: Instance, whole: Schedule) -> Schedule:
    """The part of a schedule, as a schedule of the problem that is requested."""
    demand, part = instance.demand, instance.once(_whole).part.problem
    if demand.delivers or demand.gathers:
        gathered = _of_rows(part, whole, _that_end_at_root(part, whole))
        return read_backwards(instance.problem, gathered) if demand.delivers else gathered
    copies = _of_rows(part, whole, _that_leave_root(part, whole))
    return copies if part is instance.problem else merged(instance.problem, copies, None)


def _of_rows(problem: Problem, whole: Schedule, kept: BoolArray) -> Schedule:
    """Some sends of a schedule in their order and groups, as copies, each as early as possible."""
    rows = np.flatnonzero(kept)
    rows = rows[np.lexsort((whole.group[rows], whole.start_us[rows]))]
    adds = np.zeros(len(rows), dtype=np.bool_)
    return in_sequence(problem, whole.chunk[rows], whole.link[rows], adds, whole.group[rows])


def _that_end_at_root(problem: Problem, whole: Schedule) -> BoolArray:
    """The rows that brought each chunk to the root."""
    root = int(problem.collective.destination[0])
    order = np.argsort(whole.start_us, kind="stable")
    came = np.full((problem.num_chunks, problem.num_ranks), -1)
    came[whole.chunk[order[::-1]], whole.dst[order[::-1]]] = order[::-1]  # the first of several
    kept, chunk, src = np.zeros(len(whole), dtype=np.bool_), np.arange(problem.num_chunks), whole.src
    at = np.full(len(chunk), root)
    while len(chunk):
        row = came[chunk, at]
        chunk, row = chunk[row >= 0], row[row >= 0]
        kept[row], at = True, src[row]
    return kept


def _that_leave_root(problem: Problem, whole: Schedule) -> BoolArray:
    """The rows that first brought to each rank something of the root's part in each sum.

    Every other rank's sum has that part, so some row after another carried it there.
    """
    root, kept = int(problem.collective.source[0]), np.zeros(len(whole), dtype=np.bool_)
    there_us = np.full((problem.num_chunks, problem.num_ranks), np.inf)
    there_us[:, root] = -np.inf
    src, dst = whole.src, whole.dst
    late_first, came = np.argsort(-whole.end_us, kind="stable"), np.zeros(there_us.shape, dtype=np.int64)
    while True:
        rows = late_first[(there_us[whole.chunk, src] <= whole.start_us + TOLERANCE_US)[late_first]]
        first = np.full(came.shape, -1)
        first[whole.chunk[rows], dst[rows]] = rows
        first[:, root] = -1
        if np.array_equal(first, came):
            break
        came, is_there = first, first >= 0
        there_us[is_there] = whole.end_us[first[is_there]]
    kept[came[came >= 0]] = True
    return kept
