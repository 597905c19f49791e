r"""All transfers of a forest, scheduled: whatever can go goes, and of several the most urgent.

Chunk c may go up from a rank once it has come up from all of the rank's children, down from the root once it
is summed, and down from a rank once it is there. A transfer starts as soon as all ports of its link are free;
of those that wait for a port, the one with the least

    wave * c  -  (the time that the rest of its way takes)

goes first. A large wave serves chunk after chunk, a wave of 0 what has the longest way before it. In
between, sums of later chunks run beside copies of earlier ones, and both ends of the pipeline stay full.

Chunks of one batch, which share a tree, travel together where several of them wait for the same link, at most
`most` at a time: so alpha is paid less often, and nothing waits for company.
It knows trees and costs; it must not know how the trees were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.compiled import compiled, is_at_hand
from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.forest.arcs import NO_LINK, Arcs
from taccl.encoding.engines.forest.choose import Forest
from taccl.network import FloatArray

#: Kinds of transfers: what a rank sends to its parent, and what it gets from there.
_UP, _DOWN = 0, 1


@dataclass(frozen=True, eq=False)
class Batches:
    """Chunks in batches: those of batch b are places `first[b]` to `first[b + 1]` of `chunk`."""

    first: IntArray
    chunk: IntArray


@dataclass(frozen=True, eq=False)
class Transfers:
    """Rows of a schedule: columns of equal length; `leader` is the same for those that travel together."""

    chunk: IntArray
    link: IntArray
    start_us: FloatArray
    end_us: FloatArray
    is_sum: BoolArray
    leader: IntArray


def scheduled(
    forest: Forest, arcs: Arcs, costs: Costs, batches: Batches, chunk_mb: float, wave_us: float, most: int
) -> Transfers:
    """When every chunk passes every link of its tree.

    Parameters
    ----------
    wave_us : how much later the way of the next chunk may be.
    most : chunks in one send.
    """
    num_ranks = forest.arc.shape[1]
    many = len(batches.chunk)
    batch_of = np.repeat(np.arange(len(forest.root)), np.diff(batches.first))
    start = np.full((many, 2, num_ranks), -1.0)
    end, leader = np.zeros((many, 2, num_ranks)), np.full((many, 2, num_ranks), -1)
    _run(
        arcs, costs, forest.root, forest.arc, batches.first, batch_of, chunk_mb, wave_us, most,
        start, end, leader,
    )  # fmt: skip
    place, kind, rank = np.nonzero(start >= 0.0)
    arc = forest.arc[batch_of[place], rank]
    return Transfers(
        batches.chunk[place],
        np.where(kind == _UP, arcs.up[arc], arcs.down[arc]),
        start[place, kind, rank],
        end[place, kind, rank],
        kind == _UP,
        leader[place, kind, rank],
    )


def scheduling_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_run)


@compiled
def _children(arcs: Any, arc: Any) -> Any:
    """The children of each rank in each tree: those of a rank are from `first[tree, rank]` on."""
    many, num_ranks = arc.shape
    first = np.zeros((many, num_ranks + 1), np.int32)
    children = np.zeros((many, num_ranks), np.int32)
    for b in range(many):
        for rank in range(num_ranks):
            if arc[b, rank] >= 0:
                first[b, arcs.parent[arc[b, rank]] + 1] += 1
        for rank in range(num_ranks):
            first[b, rank + 1] += first[b, rank]
        filled = first[b, :-1].copy()
        for rank in range(num_ranks):
            if arc[b, rank] >= 0:
                above = arcs.parent[arc[b, rank]]
                children[b, filled[above]] = rank
                filled[above] += 1
    return first, children


@compiled
def _rest_of_ways(
    arcs: Any,
    costs: Any,
    arc: Any,
    mb: float,
    root: Any,
    child_first: Any,
    children: Any,
    sums: bool,
    copies: bool,
) -> Any:
    """How long a chunk's way takes from a transfer on, with that one, shape (num_trees, 2, num_ranks)."""
    many, num_ranks = arc.shape
    after = np.zeros((many, 2, num_ranks))
    order = np.zeros(num_ranks, np.int64)
    for b in range(many):
        order[0] = root[b]
        known = 1
        for at in range(num_ranks):  # parents before children
            rank = order[at]
            for place in range(child_first[b, rank], child_first[b, rank + 1]):
                order[known] = children[b, place]
                known += 1
        longest = 0.0
        if copies:
            below = np.zeros(num_ranks)
            for at in range(num_ranks - 1, 0, -1):
                rank = order[at]
                a = arc[b, rank]
                after[b, _DOWN, rank] = (
                    costs.alpha_us[arcs.down[a]] + mb * costs.beta_us[arcs.down[a]] + below[rank]
                )
                below[arcs.parent[a]] = max(below[arcs.parent[a]], after[b, _DOWN, rank])
            longest = below[root[b]]
        if sums:
            for at in range(1, num_ranks):
                rank = order[at]
                a = arc[b, rank]
                above = longest if arcs.parent[a] == root[b] else after[b, _UP, arcs.parent[a]]
                after[b, _UP, rank] = costs.alpha_us[arcs.up[a]] + mb * costs.beta_us[arcs.up[a]] + above
    return after


@compiled
def _queues(arcs: Any, costs: Any, arc: Any, batch_of: Any) -> Any:
    """Where the queue of each port begins, which has room for all transfers that ever use it."""
    first = np.zeros(costs.num_ports + 1, np.int64)
    for b in batch_of:
        for a in arc[b]:
            for link in (arcs.up[a], arcs.down[a]):
                if a < 0 or link == NO_LINK:
                    continue
                for pair in range(costs.first[link], costs.first[link + 1]):
                    first[costs.port[pair] + 1] += 1
    for p in range(costs.num_ports):
        first[p + 1] += first[p]
    return first


@compiled
def _run(
    arcs: Any,
    costs: Any,
    root: Any,
    arc: Any,
    first_of_batch: Any,
    batch_of: Any,
    mb: float,
    wave: float,
    most: int,
    start: Any,
    end: Any,
    leader: Any,
) -> None:
    """Fill `start`, `end` and `leader`, shapes (num_chunks, 2, num_ranks)."""
    many, num_ranks = len(batch_of), arc.shape[1]
    sums = len(arcs.up) > 0 and arcs.up[0] != NO_LINK
    copies = len(arcs.down) > 0 and arcs.down[0] != NO_LINK
    child_first, children = _children(arcs, arc)
    after = _rest_of_ways(arcs, costs, arc, mb, root, child_first, children, sums, copies)
    # How many children's sums a rank still waits for.
    pending = np.zeros((many, num_ranks), np.int32)
    ready = np.zeros((many, 2, num_ranks), np.bool_)
    free = np.zeros(costs.num_ports)
    # A transfer is in one heap at a time: of those that may go now, or of those that wait for a port. Events
    # are the arrivals of sends, by number, and ports that are free again, by -1 - port.
    size, total = 2 * num_ranks, many * 2 * num_ranks
    keys, items, waiting = np.zeros(total), np.zeros(total, np.int64), 0
    event_keys, event_items = np.zeros(total + costs.num_ports), np.zeros(total + costs.num_ports, np.int64)
    events = 0
    queue_first = _queues(arcs, costs, arc, batch_of)
    queue_keys, queue_items = np.zeros(queue_first[-1]), np.zeros(queue_first[-1], np.int64)
    queue_size = np.zeros(costs.num_ports, np.int64)
    for c in range(many):
        b = batch_of[c]
        for rank in range(num_ranks):
            pending[c, rank] = child_first[b, rank + 1] - child_first[b, rank]
            kind = _UP if sums else _DOWN
            if (
                arc[b, rank] < 0
                or (sums and pending[c, rank])
                or not (sums or arcs.parent[arc[b, rank]] == root[b])
            ):
                continue
            ready[c, kind, rank] = True
            push(keys, items, 0, waiting, wave * c - after[b, kind, rank], c * size + kind * num_ranks + rank)
            waiting += 1
    now = 0.0
    while True:
        while waiting:
            urgency, number = keys[0], items[0]
            pop(keys, items, 0, waiting)
            waiting -= 1
            c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
            b = batch_of[c]
            a = arc[b, rank]
            link = arcs.up[a] if kind == _UP else arcs.down[a]
            gone = start[c, kind, rank] >= 0.0  # with others of its batch
            blocked = -1
            for pair in range(costs.first[link], costs.first[link + 1]):
                if free[costs.port[pair]] > now:
                    blocked = costs.port[pair]
                    break
            if blocked >= 0 and not gone:
                push(queue_keys, queue_items, queue_first[blocked], queue_size[blocked], urgency, number)
                queue_size[blocked] += 1
            if blocked >= 0 or gone:
                # A port that was kept for this one is for the next.
                for pair in range(costs.first[link], costs.first[link + 1]):
                    p = costs.port[pair]
                    if free[p] <= now and queue_size[p]:
                        at = queue_first[p]
                        push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                        waiting += 1
                        pop(queue_keys, queue_items, at, queue_size[p])
                        queue_size[p] -= 1
                continue
            together = 1
            while (
                together < most
                and c + together < first_of_batch[b + 1]
                and ready[c + together, kind, rank]
                and start[c + together, kind, rank] < 0.0
            ):
                together += 1
            ends = now + costs.alpha_us[link] + together * mb * costs.beta_us[link]
            for other in range(c, c + together):
                start[other, kind, rank] = now
                end[other, kind, rank] = ends
                leader[other, kind, rank] = number
            push(event_keys, event_items, 0, events, ends, number)
            events += 1
            for pair in range(costs.first[link], costs.first[link + 1]):
                p = costs.port[pair]
                free[p] = now + costs.busy_alpha_us[pair] + together * mb * costs.busy_beta_us[pair]
                push(event_keys, event_items, 0, events, free[p], -1 - p)
                events += 1
        if not events:
            return
        now = event_keys[0]
        while events and event_keys[0] <= now:
            number = event_items[0]
            pop(event_keys, event_items, 0, events)
            events -= 1
            if number < 0:
                p = -1 - number
                if free[p] <= now and queue_size[p]:
                    at = queue_first[p]
                    push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                    waiting += 1
                    pop(queue_keys, queue_items, at, queue_size[p])
                    queue_size[p] -= 1
                continue
            c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
            b = batch_of[c]
            while c < first_of_batch[b + 1] and leader[c, kind, rank] == number:
                there = rank
                if kind == _UP:
                    there = arcs.parent[arc[b, rank]]
                    pending[c, there] -= 1
                    if pending[c, there] == 0 and there != root[b]:
                        ready[c, _UP, there] = True
                        turn = c * size + _UP * num_ranks + there
                        push(keys, items, 0, waiting, wave * c - after[b, _UP, there], turn)
                        waiting += 1
                if copies and (kind == _DOWN or (there == root[b] and pending[c, there] == 0)):
                    for place in range(child_first[b, there], child_first[b, there + 1]):
                        below = children[b, place]
                        ready[c, _DOWN, below] = True
                        turn = c * size + _DOWN * num_ranks + below
                        push(keys, items, 0, waiting, wave * c - after[b, _DOWN, below], turn)
                        waiting += 1
                c += 1
