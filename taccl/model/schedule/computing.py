"""What computing a schedule leaves room for: making inputs, working on sums, using outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.facts import ScheduleFacts
from taccl.model.schedule.finish import arrivals_us

#: What a rank does with a chunk, by the numbers in `Computing.what`.
WORDS = ("makes", "works on", "uses")
_MAKES, _WORKS_ON, _USES = range(len(WORDS))


class Computing(NamedTuple):
    """What is computed when, one row for each rank and chunk; columns of equal length.

    `what` is an index into `WORDS`; times are microseconds.
    """

    rank: IntArray
    chunk: IntArray
    what: IntArray
    start_us: FloatArray
    end_us: FloatArray

    def __len__(self) -> int:
        return len(self.rank)


def computing_of(schedule: Transfers) -> Computing:
    """The computing of a valid schedule, by rank and start; empty where nothing is said of computing.

    A rank makes its inputs one after another, so each from when the one before is ready.
    """
    problem = schedule.problem
    inputs, outputs = problem.collective.inputs, problem.collective.outputs
    parts: list[tuple[IntArray, IntArray, int, FloatArray, FloatArray]] = []
    if problem.ready_us is not None:
        late = np.flatnonzero(problem.ready_us > 0)
        rank, ready_us = inputs.rank[late], problem.ready_us[late]
        order = np.lexsort((ready_us, rank))
        begin = np.zeros(len(late))
        same = np.flatnonzero(np.diff(rank[order]) == 0)
        begin[order[same + 1]] = ready_us[order[same]]
        parts.append((rank, inputs.chunk[late], _MAKES, begin, ready_us))
    if problem.sum_work_us is not None:
        facts, chunk = ScheduleFacts.of(schedule), np.flatnonzero(problem.sum_work_us > 0)
        root = facts.root[chunk]
        done_us = np.maximum(facts.partial_ready_us[root], 0.0)
        parts.append((facts.rank_of(root), chunk, _WORKS_ON, done_us, done_us + problem.sum_work_us[chunk]))
    if problem.tail_us is not None:
        used = np.flatnonzero(problem.tail_us > 0)
        there_us = arrivals_us(schedule)[used]
        ends_us = there_us + problem.tail_us[used]
        parts.append((outputs.rank[used], outputs.chunk[used], _USES, there_us, ends_us))
    if not parts:
        none = np.zeros(0, np.int64)
        return Computing(none, none, none, np.zeros(0), np.zeros(0))
    rank, chunk, start_us, end_us = (np.concatenate([part[at] for part in parts]) for at in (0, 1, 3, 4))
    what = np.concatenate([np.full(len(part[0]), part[2]) for part in parts])
    order = np.lexsort((chunk, start_us, rank))
    return Computing(rank[order], chunk[order], what[order], start_us[order], end_us[order])
