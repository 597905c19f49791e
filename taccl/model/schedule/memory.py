"""How much a helper holds: at no moment more than its memory.

A chunk is there from the end of the transfer that brings it first to the end of the last one that takes it
on, and to the end of the schedule where none does. Contributions to one sum share the room of one chunk where
the helper adds them up; where it may not sum, each part has its own.
"""

from __future__ import annotations

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.facts import NEVER, ScheduleFacts
from taccl.model.tolerance import over_us

#: What sums of sizes are off at most, as a part of the memory.
_ROUNDING = 1e-9


def helpers_hold_no_more_than_their_memory(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """From its first arrival to its last departure a chunk takes memory at a helper."""
    topology = schedule.problem.topology
    if topology.memory_mb is None:
        return None
    for rank in np.flatnonzero(np.isfinite(topology.memory_mb)).tolist():
        when_us, held_mb = _held(schedule, rank)
        over = np.flatnonzero(held_mb > topology.memory_mb[rank] * (1 + _ROUNDING))
        if len(over):
            return (
                f"{topology.rank_name(rank)} holds {held_mb[over[0]]:g} MB at {when_us[over[0]]:.3f} us, "
                f"and has memory for {topology.memory_mb[rank]:g} MB"
            )
    return None


def _held(schedule: Transfers, rank: int) -> tuple[FloatArray, FloatArray]:
    """The moments when what a rank holds changes, and how many MB it holds from then on."""
    problem, topology = schedule.problem, schedule.problem.topology
    comes, goes = np.flatnonzero(schedule.dst == rank), np.flatnonzero(schedule.src == rank)
    may_sum = topology.may_sum is None or bool(topology.may_sum[rank])
    chunks, first_us = _least(schedule.chunk[comes], schedule.end_us[comes])
    left_us = over_us(schedule.end_us[goes], schedule.end_us[goes] - schedule.start_us[goes])
    left, last_us = _least(schedule.chunk[goes], -left_us)
    until_us = np.full(len(chunks), NEVER)
    place = np.minimum(np.searchsorted(left, chunks), max(len(left) - 1, 0))
    if len(left):
        until_us = np.where(left[place] == chunks, -last_us[place], NEVER)
    size_mb = np.full(len(chunks), problem.chunk_mb)
    if problem.sizes is not None:
        size_mb = size_mb * problem.sizes[chunks]
    if not may_sum:
        size_mb = size_mb * np.bincount(schedule.chunk[comes], minlength=problem.num_chunks)[chunks]
    when_us = np.concatenate([first_us, until_us])
    order = np.lexsort((np.repeat([1, 0], len(chunks)), when_us))
    return when_us[order], np.cumsum(np.concatenate([size_mb, -size_mb])[order])


def _least(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Each key once, in order, and the least value that it has."""
    order = np.lexsort((value, key))
    keys, first = np.unique(key[order], return_index=True)
    return keys, value[order][first]
