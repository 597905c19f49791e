"""What the model decides about: which item may travel over which link, and between which times.

An *item* is a chunk in one of its phases. Items 0 .. n - 1 are copies of the chunks. In a problem that sums
and then copies (AllReduce), items n .. 2n - 1 are their partial sums on the way to a root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.ticks import NEVER, Ticks
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where items may go, and the time that lies at least before and after.

    Parameters
    ----------
    allowed : shape (num_items, num_links).
    head : shape (num_items, num_ranks), ticks; no item is at a rank that it came to any earlier.
    tail : shape (num_items, num_ranks), ticks; when an item has come to a rank, so much still remains.
    root : shape (num_chunks,); where each sum is made. None: copies only, or to be decided.
    """

    allowed: BoolArray
    head: IntArray
    tail: IntArray
    root: IntArray | None = None


def near_candidates(instance: Instance, ticks: Ticks, horizon: int, slack: float) -> Candidates:
    """Transfers on paths up to `slack` times the shortest, and sums made at their owners."""
    parts = instance.phases
    assert parts.broadcast_phase is not None
    allowed = parts.broadcast_phase.path_sets(slack)
    if parts.reduce_phase is None:
        return _in_time(instance, ticks, horizon, allowed, None)
    owner = parts.reduce_phase.problem.collective.source
    allowed = np.vstack([allowed, parts.reduce_phase.path_sets(slack)])
    return _in_time(instance, ticks, horizon, allowed, owner)


def candidates_alongside(
    instance: Instance, best: Schedule, ticks: Ticks, horizon: int, slack: float
) -> Candidates:
    """Between nodes the links of a schedule, inside them also paths up to `slack` times the shortest.

    What a good schedule sends through the narrow links is mostly right, and how it brings it there and
    spreads it is what can be improved. For problems that only copy.
    """
    problem, symmetry = instance.problem, instance.group
    allowed = instance.path_sets(slack).copy()
    allowed[:, problem.topology.internode] = False
    for chunks, links in zip(symmetry.chunk_map, symmetry.link_map, strict=True):
        allowed[chunks[best.chunk], links[best.link]] = True
    return _in_time(instance, ticks, horizon, allowed, None)


def every_candidate(instance: Instance, ticks: Ticks, horizon: int) -> Candidates:
    """All transfers that a schedule of at most `horizon` ticks can need, and sums made anywhere.

    Left out is only what some fastest schedule does without: a chunk back to where it starts, a link that the
    designer ruled out, and a transfer that comes too late, because before it the chunk has to come
    there, and after it has to go on to someone who wants it.
    """
    problem = instance.problem
    usable = np.array([problem.usable(chunk) for chunk in range(problem.num_chunks)], dtype=np.bool_)
    if problem.collective.is_reduction:
        return _in_time(instance, ticks, horizon, np.vstack([usable, usable]), None)
    return _in_time(instance, ticks, horizon, usable & ~problem.collective.pre[:, problem.topology.dst], None)


def _in_time(
    instance: Instance, ticks: Ticks, horizon: int, allowed: BoolArray, root: IntArray | None
) -> Candidates:
    problem, topology = instance.problem, instance.problem.topology
    head, tail = _heads_and_tails(instance, ticks)
    item, link = np.nonzero(allowed)
    shortest = ticks.of(problem.duration_us(link, item % problem.num_chunks))
    least = head[item, topology.src[link]] + shortest + tail[item, topology.dst[link]]
    in_time = np.zeros_like(allowed)
    in_time[item, link] = least <= horizon
    return Candidates(in_time, head, tail, root)


def _heads_and_tails(instance: Instance, ticks: Ticks) -> tuple[IntArray, IntArray]:
    """Least times before an item is at each rank, and after it came there."""
    problem, collective = instance.problem, instance.problem.collective
    distances, kind, _ = instance.chunk_kinds
    away = ticks.of(distances)
    ready, follows = (
        _table(moments, (problem.num_chunks, problem.num_ranks), ticks)
        for moments in (problem.ready_at, problem.tail_at)
    )
    sums, copies = [], []
    for chunk in range(problem.num_chunks):
        sources, wanting = collective.pre[chunk], collective.post[chunk]
        come = ready[chunk, sources][:, None] + away[kind[chunk]][sources]
        left = away[kind[chunk]][:, wanting] + follows[chunk, wanting]
        nearest = left.min(axis=1, initial=NEVER)
        if collective.reduces[chunk]:
            # Every contribution is in a sum, and what a rank adds has to come to all who want it.
            copies.append((come.max(axis=0, initial=0), nearest))
            sums.append((np.where(sources, ready[chunk], 0), left.max(axis=1, initial=0)))
        else:
            copies.append((come.min(axis=0, initial=NEVER), nearest))
    head, tail = zip(*copies, *sums, strict=True)
    return np.minimum(head, NEVER), np.minimum(tail, NEVER)


def _table(moments: Mapping[tuple[int, int], float], shape: tuple[int, int], ticks: Ticks) -> IntArray:
    """Moments by chunk and rank, shape (num_chunks, num_ranks); 0 where there is none."""
    table = np.zeros(shape, dtype=np.int64)
    for cell, moment_us in moments.items():
        table[cell] = int(ticks.of(moment_us))
    return table
