"""When each output is there, for problems in which inputs come late or something follows an output."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from taccl.model.network import FloatArray
from taccl.model.problem import COMPUTING
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import Holdings, contributors


def arrivals_us(schedule: Transfers) -> FloatArray:
    """When each row of the collective's outputs is there, shape (len(outputs),); inf: never.

    A copy is there when the first transfer of it ends, or its own input is ready; a sum when the last part of
    it is there, and the work on it is done. For a schedule that is not valid, this is anything.
    """
    problem = schedule.problem
    collective, ranks = problem.collective, problem.num_ranks
    there: dict[int, float] = {}  # chunk * ranks + rank -> when
    ready = np.zeros(len(collective.inputs)) if problem.ready_us is None else problem.ready_us
    starts = (collective.inputs.chunk * ranks + collective.inputs.rank).tolist()
    for cell, ready_us in zip(starts, ready.tolist(), strict=True):
        there[cell] = ready_us
    into = (schedule.chunk.astype(np.int64) * ranks + schedule.dst).tolist()
    ends = schedule.end_us.tolist()
    copied: dict[int, float] = {}
    for cell, adds, end_us in zip(into, schedule.reduce.tolist(), ends, strict=True):
        if adds:
            there[cell] = max(there.get(cell, 0.0), end_us)
        else:
            copied[cell] = min(copied.get(cell, np.inf), end_us)
    wanted = (collective.outputs.chunk * ranks + collective.outputs.rank).tolist()
    work_us = np.zeros(collective.num_chunks) if problem.sum_work_us is None else problem.sum_work_us
    arrival = np.array(
        [copied.get(cell, there.get(cell, np.inf) + work_us[cell // ranks]) for cell in wanted],
        dtype=np.float64,
    )
    if schedule.sums is not None:
        summed = np.flatnonzero(collective.reduces[collective.outputs.chunk])
        arrival[summed] = _made_us(schedule)[summed]
    return arrival


def _made_us(schedule: Transfers) -> FloatArray:
    """The same for sums that name their contributions: the first moment at which the whole can be made."""
    problem = schedule.problem
    collective = problem.collective
    whole, holdings = contributors(collective), Holdings(problem)
    moments: dict[tuple[int, int], set[float]] = defaultdict(set)
    for chunk, rank in zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True):
        moments[chunk, rank].add(problem.ready_at.get((chunk, rank), 0.0))
    columns = (schedule.chunk.tolist(), schedule.dst.tolist(), schedule.end_us.tolist())
    sets = sets_of_rows(schedule, whole)
    for row, (chunk, rank, end_us) in enumerate(zip(*columns, strict=True)):
        holdings.receive(chunk, rank, sets[row], row, end_us)
        moments[chunk, rank].add(end_us)
    made = np.full(len(collective.outputs), np.inf)
    wanted = zip(collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True)
    for row, (chunk, rank) in enumerate(wanted):
        for moment in sorted(moments[chunk, rank]):
            if holdings.sources(chunk, rank, whole[chunk], moment) is not None:
                made[row] = moment
                break
    return made


def makespan_us(schedule: Transfers) -> float:
    """The largest end, with what follows an output; 0 if nothing has to move and nothing is late."""
    if schedule.problem.features.isdisjoint(COMPUTING):
        return float(schedule.end_us.max(initial=0.0))
    tail_us = schedule.problem.tail_us
    ends = arrivals_us(schedule) + (0.0 if tail_us is None else tail_us)
    return float(max(schedule.end_us.max(initial=0.0), ends[np.isfinite(ends)].max(initial=0.0)))
