r"""All transfers of a forest, scheduled: whatever can go goes, and of several the most urgent.

Chunk c may go up from a rank once it has come up from all of the rank's children, down from the root once it
is summed, and down from a rank once it is there. A transfer starts as soon as all ports of its link are free;
of those that wait for a port, the one with the least

    wave * c  -  (the time that the rest of its way takes)

goes first. A large wave serves chunk after chunk, a wave of 0 what has the longest way before it. In
between, sums of later chunks run beside copies of earlier ones, and both ends of the pipeline stay full.

Links that have nothing to do take copies from others: whoever has a chunk may send it to a neighbour that
waits for it, whatever the tree says. So the last chunks fill all links, not only those that lead outwards.

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
#: How much less urgent a copy beside the tree is than any in it.
_LATER_US = 1e12
#: So many copies beside trees are looked at, those of the last chunks: more would be only memory.
_MOST_OPEN = 20_000_000


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
    forest: Forest,
    arcs: Arcs,
    costs: Costs,
    allowed: BoolArray,
    kind: IntArray,
    batches: Batches,
    chunk_mb: float,
    wave_us: float,
    most: int,
) -> Transfers:
    """When every chunk passes every link of its tree.

    Parameters
    ----------
    allowed, kind : shapes (num_kinds, num_arcs) and (num_batches,); the arcs that batches may use.
    wave_us : how much later the way of the next chunk may be.
    most : chunks in one send.
    """
    num_ranks = forest.arc.shape[1]
    many = len(batches.chunk)
    batch_of = np.repeat(np.arange(len(forest.root)), np.diff(batches.first))
    start = np.full((many, 2, num_ranks), -1.0)
    end = np.zeros((many, 2, num_ranks))
    leader, via = np.full((many, 2, num_ranks), -1), np.full((many, 2, num_ranks), NO_LINK)
    first_open = max(0, many - _MOST_OPEN // len(arcs.child)) if (arcs.down != NO_LINK).all() else many
    _run(
        arcs, costs, forest.root, forest.arc, allowed, kind, batches.first, batch_of, chunk_mb, wave_us, most,
        first_open, start, end, via, leader,
    )  # fmt: skip
    place, kind, rank = np.nonzero(start >= 0.0)
    return Transfers(
        batches.chunk[place],
        via[place, kind, rank],
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
def _queues(
    arcs: Any, costs: Any, arc: Any, batch_of: Any, allowed: Any, kind_of: Any, first_open: int
) -> Any:
    """Where the queue of each port begins, which has room for all transfers that ever use it.

    Copies of chunks from `first_open` on may go over any arc that is allowed to them.
    """
    first = np.zeros(costs.num_ports + 1, np.int64)
    for b in batch_of:
        for a in arc[b]:
            for link in (arcs.up[a], arcs.down[a]):
                if a < 0 or link == NO_LINK:
                    continue
                for pair in range(costs.first[link], costs.first[link + 1]):
                    first[costs.port[pair] + 1] += 1
    for c in range(first_open, len(batch_of)):
        for a in range(len(arcs.child)):
            if allowed[kind_of[batch_of[c]], a]:
                for pair in range(costs.first[arcs.down[a]], costs.first[arcs.down[a] + 1]):
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
    allowed: Any,
    kind_of: Any,
    first_of_batch: Any,
    batch_of: Any,
    mb: float,
    wave: float,
    most: int,
    first_open: int,
    start: Any,
    end: Any,
    via: Any,
    leader: Any,
) -> None:
    """Fill `start`, `end`, `via` and `leader`, shapes (num_chunks, 2, num_ranks)."""
    many, num_ranks = len(batch_of), arc.shape[1]
    sums = len(arcs.up) > 0 and arcs.up[0] != NO_LINK
    copies = len(arcs.down) > 0 and arcs.down[0] != NO_LINK
    child_first, children = _children(arcs, arc)
    after = _rest_of_ways(arcs, costs, arc, mb * most, root, child_first, children, sums, copies)
    # How many children's sums a rank still waits for, and whether it has the chunk itself.
    pending = np.zeros((many, num_ranks), np.int32)
    there = np.zeros((many, num_ranks), np.bool_)
    free = np.zeros(costs.num_ports)
    # A transfer is in one heap at a time: of those that may go now, or of those that wait for a port. Events
    # are the arrivals of sends, by number, and ports that are free again, by -1 - port.
    size, total, num_arcs = 2 * num_ranks, many * 2 * num_ranks, len(arcs.child)
    queue_first = _queues(arcs, costs, arc, batch_of, allowed, kind_of, first_open)
    room = total + (many - first_open) * num_arcs
    keys, items, waiting = np.zeros(room), np.zeros(room, np.int64), 0
    event_keys, event_items = np.zeros(total + costs.num_ports), np.zeros(total + costs.num_ports, np.int64)
    events = 0
    queue_keys, queue_items = np.zeros(queue_first[-1]), np.zeros(queue_first[-1], np.int64)
    queue_size = np.zeros(costs.num_ports, np.int64)
    for c in range(many):
        b = batch_of[c]
        there[c, root[b]] = not sums
        for rank in range(num_ranks):
            pending[c, rank] = child_first[b, rank + 1] - child_first[b, rank] if sums else 0
            kind = _UP if sums else _DOWN
            if arc[b, rank] < 0 or pending[c, rank] or not (sums or arcs.parent[arc[b, rank]] == root[b]):
                continue
            turn = c * size + kind * num_ranks + rank
            push(keys, items, 0, waiting, wave * c - after[b, kind, rank], turn)
            waiting += 1
    now = 0.0
    while True:
        while waiting:
            urgency, number = keys[0], items[0]
            pop(keys, items, 0, waiting)
            waiting -= 1
            if number < total:
                c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
                a = arc[batch_of[c], rank]
            else:
                c, kind, a = first_open + (number - total) // num_arcs, _DOWN, (number - total) % num_arcs
                rank = arcs.child[a]
            b = batch_of[c]
            link = arcs.up[a] if kind == _UP else arcs.down[a]
            gone = start[c, kind, rank] >= 0.0  # with others of its batch, or another way
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
                and start[c + together, kind, rank] < 0.0
                and (pending[c + together, rank] == 0 if kind == _UP else there[c + together, arcs.parent[a]])
            ):
                together += 1
            ends = now + costs.alpha_us[link] + together * mb * costs.beta_us[link]
            number = c * size + kind * num_ranks + rank
            for other in range(c, c + together):
                start[other, kind, rank] = now
                end[other, kind, rank] = ends
                via[other, kind, rank] = link
                leader[other, kind, rank] = number
            push(event_keys, event_items, 0, events, ends, number)
            events += 1
            for pair in range(costs.first[link], costs.first[link + 1]):
                p = costs.port[pair]
                free[p] = now + costs.busy_alpha_us[pair] + together * mb * costs.busy_beta_us[pair]
                if free[p] > now:  # so a port has one event at most
                    push(event_keys, event_items, 0, events, free[p], -1 - p)
                    events += 1
                elif queue_size[p]:
                    at = queue_first[p]
                    push(keys, items, 0, waiting, queue_keys[at], queue_items[at])
                    waiting += 1
                    pop(queue_keys, queue_items, at, queue_size[p])
                    queue_size[p] -= 1
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
                at_rank = rank
                if kind == _UP:
                    at_rank = arcs.parent[arc[b, rank]]
                    pending[c, at_rank] -= 1
                    if pending[c, at_rank] == 0 and at_rank != root[b]:
                        turn = c * size + _UP * num_ranks + at_rank
                        push(keys, items, 0, waiting, wave * c - after[b, _UP, at_rank], turn)
                        waiting += 1
                if copies and (kind == _DOWN or (at_rank == root[b] and pending[c, at_rank] == 0)):
                    there[c, at_rank] = True
                    for place in range(child_first[b, at_rank], child_first[b, at_rank + 1]):
                        below = children[b, place]
                        if start[c, _DOWN, below] < 0.0:
                            turn = c * size + _DOWN * num_ranks + below
                            push(keys, items, 0, waiting, wave * c - after[b, _DOWN, below], turn)
                            waiting += 1
                    if c >= first_open:
                        for a in range(arcs.first[at_rank], arcs.first[at_rank + 1]):
                            below = arcs.child[a]
                            if (
                                below != root[b]
                                and allowed[kind_of[b], a]
                                and arc[b, below] != a
                                and start[c, _DOWN, below] < 0.0
                            ):
                                turn = total + (c - first_open) * num_arcs + a
                                key = _LATER_US + wave * c - after[b, _DOWN, below]
                                push(keys, items, 0, waiting, key, turn)
                                waiting += 1
                c += 1
