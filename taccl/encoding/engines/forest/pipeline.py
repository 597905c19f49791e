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
from taccl.encoding.engines.forest.tree_tables import DOWN, UP, Trees, arcs_taken, rest_of_ways, trees_of
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled, is_at_hand

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
    trees: Trees
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
            way == UP,
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
    trees = trees_of(network.arcs, batch_of, forest.root, forest.arc, forest.arc)
    after = rest_of_ways(network.arcs, network.costs, chunk_mb * most, trees)
    key = wave_us * np.arange(len(batch_of))[:, None, None] - after[batch_of]
    return _pipeline(network, batches, kind[batch_of], chunk_mb, most, trees, key)


def again(before: Pipeline) -> Pipeline:
    """The same from its end to its beginning, with time running backwards: the last comes first.

    Trees are those on which chunks went, where they left their trees too; sums become copies. So twice again
    has a chunk's sums and copies where they belong, on trees of their own.
    """
    network, trees, state = before.network.reversed(), before.trees, before.state
    down = arcs_taken(before.network.arcs.down, state.via[:, DOWN])
    turned = trees_of(network.arcs, np.arange(len(down)), trees.root[trees.of], down, trees.up[trees.of])
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
    trees: Trees,
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


def _uses(network: Network, trees: Trees, kind: IntArray) -> IntArray:
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
            kind = UP if sums else DOWN
            if rank == root[t] or pending[c, rank] or not (sums or arcs.parent[down[t, rank]] == root[t]):
                continue
            offer(queues, key[c, kind, rank], c * size + kind * num_ranks + rank)
    now = 0.0
    while now < np.inf:
        while any_ready(queues):
            urgency, number = take(queues)
            if number < total:
                c, kind, rank = number // size, number % size // num_ranks, number % num_ranks
                a = up[of[c], rank] if kind == UP else down[of[c], rank]
            else:
                c, kind, a = first_open + (number - total) // num_arcs, DOWN, (number - total) % num_arcs
                rank = arcs.child[a]
            link = arcs.up[a] if kind == UP else arcs.down[a]
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
                    if kind == UP
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
                if kind == UP:
                    at_rank = arcs.parent[up[t, rank]]
                    pending[c, at_rank] -= 1
                    if pending[c, at_rank] == 0 and at_rank != root[t]:
                        offer(queues, key[c, UP, at_rank], c * size + UP * num_ranks + at_rank)
                if copies and (kind == DOWN or (at_rank == root[t] and pending[c, at_rank] == 0)):
                    there[c, at_rank] = True
                    for place in range(child_first[t, at_rank], child_first[t, at_rank + 1]):
                        below = children[t, place]
                        if start[c, DOWN, below] < 0.0:
                            turn = c * size + DOWN * num_ranks + below
                            offer(queues, key[c, DOWN, below], turn)
                    if c >= first_open:
                        for a in range(arcs.first[at_rank], arcs.first[at_rank + 1]):
                            below = arcs.child[a]
                            if (
                                below != root[t]
                                and allowed[kind_of[c], a]
                                and down[t, below] != a
                                and start[c, DOWN, below] < 0.0
                            ):
                                later = _LATER_US + key[c, DOWN, below]
                                offer(queues, later, total + (c - first_open) * num_arcs + a)
                c += 1
            number = next_arrival(queues, now)
