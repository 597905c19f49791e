"""Starts for sends in a given sequence, as columns: for schedules of a million rows.

What `timing.in_order` does for sends of any kind, without an object for each of them.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.core.timing import Ports
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.numbering import different


def in_sequence(
    problem: Problem, chunk: IntArray, link: IntArray, reduce: BoolArray, group: IntArray
) -> Schedule:
    """Each send as early as possible after those before it on its ports.

    One row for each chunk of a send; rows of a send stand together and have its number in `group`. The
    sequence must be such that whatever brings a chunk to a rank stands before what takes it on; sums are
    compact: what leaves a rank waits for all that came there before.
    """
    topology, ports = problem.topology, Ports(problem)
    cells, place = different(
        np.concatenate([chunk * topology.num_ranks + rank[link] for rank in (topology.src, topology.dst)])
    )
    there = [0.0] * len(cells)
    senders, receivers = place[: len(chunk)].tolist(), place[len(chunk) :].tolist()
    is_first = np.diff(group, prepend=-1) != 0
    first = np.flatnonzero(is_first)
    count = np.diff(first, append=len(group))
    starts: list[float] = []
    for row, size, over in zip(first.tolist(), count.tolist(), link[first].tolist(), strict=True):
        start = ports.ready(over)
        for cell in senders[row : row + size]:
            if there[cell] > start:
                start = there[cell]
        end = ports.place(over, size, start)
        for cell in receivers[row : row + size]:
            if end > there[cell]:
                there[cell] = end
        starts.append(start)
    return of_columns(problem, chunk, link, np.array(starts), reduce, count)


def of_columns(
    problem: Problem,
    chunk: IntArray,
    link: IntArray,
    start_us: FloatArray,
    reduce: BoolArray,
    count: IntArray | None = None,
) -> Schedule:
    """The schedule of rows in groups of `count` rows each, one start for a group; None: each row alone."""
    if count is None:
        count = np.ones(len(chunk), dtype=np.int64)
    first = np.cumsum(count) - count
    end_us = start_us + problem.topology.duration_us(link[first], count * problem.chunk_mb)
    return Schedule(
        problem=problem,
        chunk=chunk,
        link=link,
        start_us=np.repeat(start_us, count),
        end_us=np.repeat(end_us, count),
        reduce=reduce,
        group=np.repeat(np.arange(len(count)), count),
    ).sorted()
