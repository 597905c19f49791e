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
from typing import Any, NamedTuple

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.compiled import compiled, is_at_hand
from taccl.encoding.core.costs import Costs
from taccl.encoding.core.port_queues import (
    any_ready,
    may_start,
    next_arrival,
    next_us,
    offer,
    port_queues,
    send,
    take,
)
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


class _Trees(NamedTuple):
    """A forest as the loops see it.

    Parameters
    ----------
    sums, copies : whether chunks go up, and down.
    first, children : those of a rank are from `first[tree, rank]` on; shapes (num_trees, num_ranks + 1) and
        (num_trees, num_ranks).
    after : how long a chunk's way takes from a transfer on, with that one, shape (num_trees, 2, num_ranks).
    """

    sums: bool
    copies: bool
    root: IntArray
    arc: IntArray
    first: IntArray
    children: IntArray
    after: FloatArray


class _State(NamedTuple):
    """What became of each chunk, by its place in the batches.

    Parameters
    ----------
    start, end, via, leader : of its transfers, shape (num_chunks, 2, num_ranks); no start yet is negative.
    pending : how many children's sums each rank waits for, shape (num_chunks, num_ranks).
    there : whether each rank has what it is to copy, shape (num_chunks, num_ranks).
    """

    start: FloatArray
    end: FloatArray
    via: IntArray
    leader: IntArray
    pending: IntArray
    there: BoolArray


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
    many, num_ranks = len(batches.chunk), forest.arc.shape[1]
    batch_of = np.repeat(np.arange(len(forest.root)), np.diff(batches.first))
    trees = _trees(forest, arcs, costs, chunk_mb * most)
    state = _state(many, num_ranks)
    key = wave_us * np.arange(many)[:, None, None] - trees.after[batch_of]
    first_open = max(0, many - _MOST_OPEN // len(arcs.child)) if trees.copies else many
    uses = _uses(forest, arcs, len(costs.alpha_us), allowed, kind[batch_of[first_open:]], batch_of)
    most_ready = state.start.size + (many - first_open) * len(arcs.child)
    queues = port_queues(costs, uses, most_ready, state.start.size, np.float64)
    _run(
        arcs, costs, queues, trees, allowed, kind, batches.first, batch_of, chunk_mb, key, most,
        first_open, state,
    )  # fmt: skip
    at = np.nonzero(state.start >= 0.0)
    place, kind, _ = at
    return Transfers(
        batches.chunk[place], state.via[at], state.start[at], state.end[at], kind == _UP, state.leader[at]
    )


def mirrored(rows: Transfers) -> Transfers:
    """The same backwards in time: copies become sums that go the other way."""
    end_us = rows.end_us.max(initial=0.0)
    return Transfers(
        rows.chunk, rows.link, end_us - rows.end_us, end_us - rows.start_us, ~rows.is_sum, rows.leader
    )


def scheduling_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_run)


def _trees(forest: Forest, arcs: Arcs, costs: Costs, mb: float) -> _Trees:
    sums, copies = bool((arcs.up != NO_LINK).all()), bool((arcs.down != NO_LINK).all())
    first, children = _children(arcs, forest.arc)
    after = _rest_of_ways(arcs, costs, forest.arc, mb, forest.root, first, children, sums, copies)
    return _Trees(sums, copies, forest.root, forest.arc, first, children, after)


def _state(many: int, num_ranks: int) -> _State:
    shape = (many, 2, num_ranks)
    return _State(
        np.full(shape, -1.0),
        np.zeros(shape),
        np.full(shape, NO_LINK),
        np.full(shape, -1),
        np.zeros((many, num_ranks), dtype=np.int32),
        np.zeros((many, num_ranks), dtype=np.bool_),
    )


def _uses(
    forest: Forest, arcs: Arcs, num_links: int, allowed: BoolArray, kind_of: IntArray, batch_of: IntArray
) -> IntArray:
    """How many transfers may want each link: those in trees, and the copies of some chunks beside them.

    `kind_of` : of the chunks that may be copied beside their trees, over any arc that is allowed to them.
    """
    chunks = np.bincount(batch_of, minlength=len(forest.root))
    batch, rank = np.nonzero(forest.arc >= 0)
    in_trees = np.bincount(forest.arc[batch, rank], chunks[batch], len(arcs.child))
    beside = np.bincount(kind_of, minlength=len(allowed)) @ allowed
    uses = np.zeros(num_links, dtype=np.int64)
    for links, count in ((arcs.up, in_trees), (arcs.down, in_trees + beside)):
        used = links != NO_LINK
        np.add.at(uses, links[used], count[used].astype(np.int64))
    return uses


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
def _run(
    arcs: Any,
    costs: Any,
    queues: Any,
    trees: Any,
    allowed: Any,
    kind_of: Any,
    first_of_batch: Any,
    batch_of: Any,
    mb: float,
    key: Any,
    most: int,
    first_open: int,
    state: Any,
) -> None:
    """Fill `state`. Copies of chunks from `first_open` on may go beside their trees, over allowed arcs."""
    root, arc, child_first, children = trees[2:6]
    start, end, via, leader, pending, there = state
    sums, copies = trees.sums, trees.copies
    many, num_ranks = len(batch_of), arc.shape[1]
    # Numbers of transfers: those in trees by chunk, kind and rank, then copies beside trees by chunk and arc.
    size, total, num_arcs = 2 * num_ranks, many * 2 * num_ranks, len(arcs.child)
    for c in range(many):
        b = batch_of[c]
        there[c, root[b]] = not sums
        for rank in range(num_ranks):
            pending[c, rank] = child_first[b, rank + 1] - child_first[b, rank] if sums else 0
            kind = _UP if sums else _DOWN
            if arc[b, rank] < 0 or pending[c, rank] or not (sums or arcs.parent[arc[b, rank]] == root[b]):
                continue
            offer(queues, key[c, kind, rank], c * size + kind * num_ranks + rank)
    now = 0.0
    while now < np.inf:
        while any_ready(queues):
            urgency, number = take(queues)
            if number < total:
                c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
                a = arc[batch_of[c], rank]
            else:
                c, kind, a = first_open + (number - total) // num_arcs, _DOWN, (number - total) % num_arcs
                rank = arcs.child[a]
            b = batch_of[c]
            link = arcs.up[a] if kind == _UP else arcs.down[a]
            gone = start[c, kind, rank] >= 0.0  # with others of its batch, or another way
            if not may_start(queues, costs, link, now, urgency, number, gone):
                continue
            together = 1
            while (
                together < most
                and c + together < first_of_batch[b + 1]
                and start[c + together, kind, rank] < 0.0
                and (pending[c + together, rank] == 0 if kind == _UP else there[c + together, arcs.parent[a]])
            ):
                together += 1
            number = c * size + kind * num_ranks + rank
            ends = send(queues, costs, link, now, together * mb, number)
            for other in range(c, c + together):
                start[other, kind, rank] = now
                end[other, kind, rank] = ends
                via[other, kind, rank] = link
                leader[other, kind, rank] = number
        now = next_us(queues)
        number = next_arrival(queues, now)
        while number >= 0:
            c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
            b = batch_of[c]
            while c < first_of_batch[b + 1] and leader[c, kind, rank] == number:
                at_rank = rank
                if kind == _UP:
                    at_rank = arcs.parent[arc[b, rank]]
                    pending[c, at_rank] -= 1
                    if pending[c, at_rank] == 0 and at_rank != root[b]:
                        offer(queues, key[c, _UP, at_rank], c * size + _UP * num_ranks + at_rank)
                if copies and (kind == _DOWN or (at_rank == root[b] and pending[c, at_rank] == 0)):
                    there[c, at_rank] = True
                    for place in range(child_first[b, at_rank], child_first[b, at_rank + 1]):
                        below = children[b, place]
                        if start[c, _DOWN, below] < 0.0:
                            turn = c * size + _DOWN * num_ranks + below
                            offer(queues, key[c, _DOWN, below], turn)
                    if c >= first_open:
                        for a in range(arcs.first[at_rank], arcs.first[at_rank + 1]):
                            below = arcs.child[a]
                            if (
                                below != root[b]
                                and allowed[kind_of[b], a]
                                and arc[b, below] != a
                                and start[c, _DOWN, below] < 0.0
                            ):
                                later = _LATER_US + key[c, _DOWN, below]
                                offer(queues, later, total + (c - first_open) * num_arcs + a)
                c += 1
            number = next_arrival(queues, now)
