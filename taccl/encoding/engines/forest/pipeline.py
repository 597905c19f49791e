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

Links are full when such a pipeline begins, since leaves of all trees can send at once, and empty when it
ends. What is read backwards in time fills late and ends full. So an AllReduce may be scheduled `again`, from
its end to its beginning: what ended last comes first, and sums take the place of copies (forward-backward
improvement: Li and Willis 1992). Links with nothing to do change the trees of copies when time runs forwards,
and those of sums when it runs backwards; so the trees of a chunk's sums and of its copies may differ.
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
    """The trees of sums and copies as the loops see them.

    Parameters
    ----------
    sums, copies : whether chunks go up, and down.
    of : shape (num_chunks,); the number of each chunk's tree, by its place in the batches.
    root : shape (num_trees,).
    up, down : shape (num_trees, num_ranks); the arc between each rank and its parent, -1 for the root.
    first, children : in trees of copies; those of a rank are from `first[tree, rank]` on; shapes (num_trees,
        num_ranks + 1) and (num_trees, num_ranks).
    """

    sums: bool
    copies: bool
    of: IntArray
    root: IntArray
    up: IntArray
    down: IntArray
    first: IntArray
    children: IntArray


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


@dataclass(frozen=True, eq=False)
class Network:
    """What all pipelines of a search share.

    Parameters
    ----------
    allowed : shape (num_kinds, num_arcs); the arcs that chunks of a kind may use.
    """

    arcs: Arcs
    costs: Costs
    allowed: BoolArray

    def reversed(self) -> Network:
        """The same with time running backwards: what leads up leads down."""
        return Network(self.arcs._replace(up=self.arcs.down, down=self.arcs.up), self.costs, self.allowed)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Chunks on their trees, scheduled.

    Parameters
    ----------
    kind : shape (num_chunks,); of each chunk, by its place in the batches.
    most : chunks in one send.
    """

    network: Network
    batches: Batches
    kind: IntArray
    chunk_mb: float
    most: int
    trees: _Trees
    state: _State

    @property
    def makespan_us(self) -> float:
        """When the last transfer ends."""
        return float(self.state.end.max(initial=0.0))

    def transfers(self) -> Transfers:
        """The rows of the schedule."""
        at = np.nonzero(self.state.start >= 0.0)
        place, way, _ = at
        return Transfers(
            self.batches.chunk[place],
            self.state.via[at],
            self.state.start[at],
            self.state.end[at],
            way == _UP,
            self.state.leader[at],
        )


def scheduled(
    forest: Forest,
    network: Network,
    kind: IntArray,
    batches: Batches,
    chunk_mb: float,
    wave_us: float,
    most: int,
) -> Pipeline:
    """When every chunk passes every link of its tree.

    Parameters
    ----------
    kind : shape (num_batches,); of the chunks of each.
    wave_us : how much later the way of the next chunk may be.
    most : chunks in one send.
    """
    batch_of = np.repeat(np.arange(len(forest.root)), np.diff(batches.first))
    trees = _trees(network.arcs, batch_of, forest.root, forest.arc, forest.arc)
    after = _rest_of_ways(network.arcs, network.costs, chunk_mb * most, trees)
    key = wave_us * np.arange(len(batch_of))[:, None, None] - after[batch_of]
    return _pipeline(network, batches, kind[batch_of], chunk_mb, most, trees, key)


def again(before: Pipeline) -> Pipeline:
    """The same from its end to its beginning, with time running backwards: the last comes first.

    Trees are those on which chunks went, where they left their trees too; sums become copies. So twice again
    has a chunk's sums and copies where they belong, on trees of their own.
    """
    network, trees, state = before.network.reversed(), before.trees, before.state
    down = _arcs_taken(before.network.arcs.down, state.via[:, _DOWN])
    turned = _trees(network.arcs, np.arange(len(down)), trees.root[trees.of], down, trees.up[trees.of])
    key = np.ascontiguousarray((before.makespan_us - state.end)[:, ::-1])
    return _pipeline(network, before.batches, before.kind, before.chunk_mb, before.most, turned, key)


def mirrored(rows: Transfers) -> Transfers:
    """The same backwards in time: copies become sums that go the other way."""
    end_us = rows.end_us.max(initial=0.0)
    return Transfers(
        rows.chunk, rows.link, end_us - rows.end_us, end_us - rows.start_us, ~rows.is_sum, rows.leader
    )


def scheduling_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_run)


def _pipeline(
    network: Network,
    batches: Batches,
    kind: IntArray,
    chunk_mb: float,
    most: int,
    trees: _Trees,
    key: FloatArray,
) -> Pipeline:
    """All transfers by their keys, shape (num_chunks, 2, num_ranks), the least first."""
    arcs, costs, allowed = network.arcs, network.costs, network.allowed
    many, num_ranks = len(batches.chunk), trees.up.shape[1]
    state = _state(many, num_ranks)
    first_open = max(0, many - _MOST_OPEN // len(arcs.child)) if trees.copies else many
    uses = _uses(network, trees, kind[first_open:])
    most_ready = state.start.size + (many - first_open) * len(arcs.child)
    queues = port_queues(costs, uses, most_ready, state.start.size, np.float64)
    ends = np.repeat(batches.first[1:], np.diff(batches.first))
    _run(arcs, costs, queues, trees, allowed, kind, ends, chunk_mb, key, most, first_open, state)
    return Pipeline(network, batches, kind, chunk_mb, most, trees, state)


def _trees(arcs: Arcs, of: IntArray, root: IntArray, up: IntArray, down: IntArray) -> _Trees:
    sums, copies = bool((arcs.up != NO_LINK).all()), bool((arcs.down != NO_LINK).all())
    first, children = _children(arcs, down)
    return _Trees(sums, copies, of, root, up, down, first, children)


def _arcs_taken(links: IntArray, via: IntArray) -> IntArray:
    """The arcs whose links were taken; -1 where none was."""
    arc_of = np.full(int(links.max()) + 2, -1)  # the last for no link
    arc_of[links] = np.arange(len(links))
    return arc_of[via]


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


def _uses(network: Network, trees: _Trees, kind: IntArray) -> IntArray:
    """How many transfers may want each link: those in trees, and the copies of some chunks beside them.

    `kind` : of the chunks that may be copied beside their trees, over any arc that is allowed to them.
    """
    arcs = network.arcs
    chunks = np.bincount(trees.of, minlength=len(trees.root))
    beside = np.bincount(kind, minlength=len(network.allowed)) @ network.allowed
    uses = np.zeros(len(network.costs.alpha_us), dtype=np.int64)
    for links, arc, more in ((arcs.up, trees.up, 0 * beside), (arcs.down, trees.down, beside)):
        tree, rank = np.nonzero(arc >= 0)
        count = np.bincount(arc[tree, rank], chunks[tree], len(links)) + more
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
def _rest_of_ways(arcs: Any, costs: Any, mb: float, trees: Any) -> Any:
    """How long a chunk's way takes from a transfer on, with that one, shape (num_trees, 2, num_ranks).

    Of trees that are the same for sums and for copies.
    """
    sums, copies, root, arc, child_first, children = (
        trees.sums, trees.copies, trees.root, trees.down, trees.first, trees.children,
    )  # fmt: skip
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
    ends_of_batch: Any,
    mb: float,
    key: Any,
    most: int,
    first_open: int,
    state: Any,
) -> None:
    """Fill `state`. Copies of chunks from `first_open` on may go beside their trees, over allowed arcs."""
    of, root, up, down, child_first, children = trees[2:]
    start, end, via, leader, pending, there = state
    sums, copies = trees.sums, trees.copies
    many, num_ranks = len(of), up.shape[1]
    # Numbers of transfers: those in trees by chunk, kind and rank, then copies beside trees by chunk and arc.
    size, total, num_arcs = 2 * num_ranks, many * 2 * num_ranks, len(arcs.child)
    for c in range(many):
        t = of[c]
        there[c, root[t]] = not sums
        for rank in range(num_ranks):
            if sums and up[t, rank] >= 0:
                pending[c, arcs.parent[up[t, rank]]] += 1
        for rank in range(num_ranks):
            kind = _UP if sums else _DOWN
            if rank == root[t] or pending[c, rank] or not (sums or arcs.parent[down[t, rank]] == root[t]):
                continue
            offer(queues, key[c, kind, rank], c * size + kind * num_ranks + rank)
    now = 0.0
    while now < np.inf:
        while any_ready(queues):
            urgency, number = take(queues)
            if number < total:
                c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
                a = up[of[c], rank] if kind == _UP else down[of[c], rank]
            else:
                c, kind, a = first_open + (number - total) // num_arcs, _DOWN, (number - total) % num_arcs
                rank = arcs.child[a]
            link = arcs.up[a] if kind == _UP else arcs.down[a]
            gone = start[c, kind, rank] >= 0.0  # with others of its batch, or another way
            if not may_start(queues, costs, link, now, urgency, number, gone):
                continue
            together = 1
            while (
                together < most
                and c + together < ends_of_batch[c]
                and start[c + together, kind, rank] < 0.0
                and (
                    pending[c + together, rank] == 0 and up[of[c + together], rank] == a
                    if kind == _UP
                    else there[c + together, arcs.parent[a]]
                )
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
            batch_ends = ends_of_batch[c]
            while c < batch_ends and leader[c, kind, rank] == number:
                t, at_rank = of[c], rank
                if kind == _UP:
                    at_rank = arcs.parent[up[t, rank]]
                    pending[c, at_rank] -= 1
                    if pending[c, at_rank] == 0 and at_rank != root[t]:
                        offer(queues, key[c, _UP, at_rank], c * size + _UP * num_ranks + at_rank)
                if copies and (kind == _DOWN or (at_rank == root[t] and pending[c, at_rank] == 0)):
                    there[c, at_rank] = True
                    for place in range(child_first[t, at_rank], child_first[t, at_rank + 1]):
                        below = children[t, place]
                        if start[c, _DOWN, below] < 0.0:
                            turn = c * size + _DOWN * num_ranks + below
                            offer(queues, key[c, _DOWN, below], turn)
                    if c >= first_open:
                        for a in range(arcs.first[at_rank], arcs.first[at_rank + 1]):
                            below = arcs.child[a]
                            if (
                                below != root[t]
                                and allowed[kind_of[c], a]
                                and down[t, below] != a
                                and start[c, _DOWN, below] < 0.0
                            ):
                                later = _LATER_US + key[c, _DOWN, below]
                                offer(queues, later, total + (c - first_open) * num_arcs + a)
                c += 1
            number = next_arrival(queues, now)
