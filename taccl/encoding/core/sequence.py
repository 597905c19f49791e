"""Schedules of a million rows, from columns: as `timing` makes them, without an object for each send."""

from __future__ import annotations

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import sends_of_rows, starts_in_sequence
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def in_sequence(
    problem: Problem, chunk: IntArray, link: IntArray, reduce: BoolArray, group: IntArray
) -> Schedule:
    """Each send as early as possible after those before it on its ports.

    One row for each chunk of a send; rows of a send stand together and have its number in `group`. The
    sequence must be such that whatever brings a chunk to a rank stands before what takes it on; sums are
    compact: what leaves a rank waits for all that came there before.
    """
    send = np.cumsum(np.diff(group, prepend=group[:1]) != 0)
    sends, _ = sends_of_rows(problem, chunk, link, reduce, send, by_sequence=True)
    start_us = starts_in_sequence(sends, costs_of(problem.topology))
    return of_columns(problem, chunk, link, start_us, reduce, send)


def of_columns(
    problem: Problem,
    chunk: IntArray,
    link: IntArray,
    start_us: FloatArray,
    reduce: BoolArray,
    send: IntArray | None = None,
) -> Schedule:
    """The schedule of rows, one start for each send; `send` is that of each row, None: each row alone."""
    send = np.arange(len(chunk)) if send is None else send
    mb = np.asarray(np.bincount(send, problem.size_mb[chunk], len(start_us)), dtype=np.float64)[send]
    start_us = start_us[send]
    end_us = np.asarray(start_us + problem.topology.duration_us(link, mb))
    return Schedule(problem, chunk, link, start_us, end_us, reduce, send).sorted()
