"""What the model decides about: which item may travel over which link, and between which times.

An *item* is a chunk in one of its phases. Items 0 .. n - 1 are copies of the chunks. In a problem that sums
and then copies (AllReduce), items n .. 2n - 1 are their partial sums on the way to a root.
"""

from __future__ import annotations

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
    topology = instance.problem.topology
    head, tail = _heads_and_tails(instance, ticks)
    shortest = ticks.of(instance.durations_us)
    item, link = np.nonzero(allowed)
    least = head[item, topology.src[link]] + shortest[link] + tail[item, topology.dst[link]]
    in_time = np.zeros_like(allowed)
    in_time[item, link] = least <= horizon
    return Candidates(in_time, head, tail, root)


def _heads_and_tails(instance: Instance, ticks: Ticks) -> tuple[IntArray, IntArray]:
    """Least times before an item is at each rank, and after it came there."""
    problem, collective = instance.problem, instance.problem.collective
    distances, kind = instance.distances_by_limits
    away = ticks.of(distances)
    sums, copies = [], []
    for chunk in range(problem.num_chunks):
        between = away[kind[chunk]]
        sources, wanting = collective.pre[chunk], collective.post[chunk]
        nearest = between[:, wanting].min(axis=1, initial=NEVER)
        if collective.reduces[chunk]:
            # Every contribution is in a sum, and what a rank adds has to come to all who want it.
            copies.append((between[sources].max(axis=0, initial=0), nearest))
            sums.append((np.zeros_like(nearest), between[:, wanting].max(axis=1, initial=0)))
        else:
            copies.append((between[sources].min(axis=0, initial=NEVER), nearest))
    head, tail = zip(*copies, *sums, strict=True)
    return np.array(head), np.array(tail)
