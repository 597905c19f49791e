r"""All transfers of a forest, scheduled: whatever can go goes, and of several the most urgent.

Chunk c may go up from a rank once it has come up from all of the rank's children, down from the root once it
is summed, and down from a rank once it is there. A transfer starts as soon as all ports of its link are free;
of those that wait for a port, the one with the least

    wave * c  -  (the time that the rest of its way takes)

goes first. A large wave serves chunk after chunk, a wave of 0 what has the longest way before it. In
between, sums of later chunks run next to copies of earlier ones, and both ends of the pipeline stay full.

Links that have nothing to do take copies from others: whoever has a chunk may send it to a neighbour that
waits for it, whatever the tree says. So the last chunks fill all links, not only those that lead outwards.

Chunks of one batch, which share a tree, travel together where several of them wait for the same link, at most
`most` at a time: so alpha is paid less often, and nothing waits for company.

Links are full when such a pipeline begins, since leaves of all trees can send at once, and empty when it
ends. What is read backwards in time fills late and ends full. So an AllReduce may be scheduled `again`, from
its end to its beginning: what ended last comes first, and sums take the place of copies (forward-backward
improvement: Li and Willis 1992). Links with nothing to do change the trees of copies when time runs forwards,
and those of sums when it runs backwards; so the trees of a chunk's sums and of its copies may differ.
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
from taccl.encoding.engines.forest.tree_tables import DOWN, UP, Trees, arcs_taken, rest_of_routes, trees_of
from taccl.encoding.engines.forest.tuning import PIPELINE_LATER_US, PIPELINE_MOST_OPEN
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled, compiled_in_place, is_at_hand


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
    after = rest_of_routes(network.arcs, network.costs, chunk_mb * most, trees)
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
    first_open = max(0, many - PIPELINE_MOST_OPEN // len(arcs.child)) if trees.copies else many
    uses = _uses(network, trees, kind[first_open:])
    most_ready = state.start.size + (many - first_open) * len(arcs.child)
    queues = port_queues(costs, uses, most_ready, state.start.size, np.float64)
    ends = np.repeat(batches.first[1:], np.diff(batches.first))
    inputs = _Inputs(arcs, costs, trees, allowed, kind, ends, key, chunk_mb, most, first_open)
    _run(inputs, queues, state)
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
    """How many transfers may want each link: those in trees, and the copies of some chunks next to them.

    `kind` : of the chunks that may be copied next to their trees, over any arc that is allowed to them.
    """
    arcs = network.arcs
    chunks = np.bincount(trees.of, minlength=len(trees.root))
    alongside = np.bincount(kind, minlength=len(network.allowed)) @ network.allowed
    uses = np.zeros(len(network.costs.alpha_us), dtype=np.int64)
    for links, arc, more in ((arcs.up, trees.up, 0 * alongside), (arcs.down, trees.down, alongside)):
        tree, rank = np.nonzero(arc >= 0)
        count = np.bincount(arc[tree, rank], chunks[tree], len(links)) + more
        used = links != NO_LINK
        np.add.at(uses, links[used], count[used].astype(np.int64))
    return uses


class _Inputs(NamedTuple):
    """What the loop reads.

    Parameters
    ----------
    kind_of, ends_of_batch : of each chunk, and where its batch ends; shape (num_chunks,).
    key : shape (num_chunks, 2, num_ranks); of transfers that wait the least goes first.
    most : chunks in one send.
    first_open : copies of chunks from here on may go next to their trees, over allowed arcs.
    """

    arcs: Arcs
    costs: Costs
    trees: Trees
    allowed: BoolArray
    kind_of: IntArray
    ends_of_batch: IntArray
    key: FloatArray
    chunk_mb: float
    most: int
    first_open: int


@compiled
def _run(inputs: Any, queues: Any, state: Any) -> None:
    """Fill `state`: what can go goes, until nothing moves any more.

    A transfer in a tree has an index by chunk, direction and rank; a copy next to trees, after all of those,
    by chunk and arc.
    """
    _offer_leaves(inputs, queues, state)
    now_us = 0.0
    while now_us < np.inf:
        while any_ready(queues):
            urgency, index = take(queues)
            c, way, rank, a = _decoded(inputs, index)
            link = inputs.arcs.up[a] if way == UP else inputs.arcs.down[a]
            gone = state.start[c, way, rank] >= 0.0  # with others of its batch, or over another arc
            if may_start(queues, inputs.costs, link, now_us, urgency, index, gone):
                _start(inputs, queues, state, now_us, c, way, rank, a)
        now_us = next_us(queues)
        index = next_arrival(queues, now_us)
        while index >= 0:
            c, way, rank, _ = _decoded(inputs, index)
            batch_ends = inputs.ends_of_batch[c]
            while c < batch_ends and state.leader[c, way, rank] == index:
                _arrive(inputs, queues, state, c, way, rank)
                c += 1
            index = next_arrival(queues, now_us)


@compiled_in_place
def _index(inputs: Any, c: int, way: int, rank: int) -> int:
    num_ranks = inputs.trees.up.shape[1]
    return int((2 * c + way) * num_ranks + rank)


@compiled_in_place
def _decoded(inputs: Any, index: int) -> Any:
    """The chunk, direction, rank and arc of a transfer."""
    trees, num_ranks, num_arcs = inputs.trees, inputs.trees.up.shape[1], len(inputs.arcs.child)
    in_trees = len(trees.of) * 2 * num_ranks
    if index >= in_trees:
        a = (index - in_trees) % num_arcs
        return inputs.first_open + (index - in_trees) // num_arcs, DOWN, inputs.arcs.child[a], a
    c, way, rank = index // (2 * num_ranks), index // num_ranks % 2, index % num_ranks
    return c, way, rank, trees.up[trees.of[c], rank] if way == UP else trees.down[trees.of[c], rank]


@compiled
def _offer_leaves(inputs: Any, queues: Any, state: Any) -> None:
    """Offer what can go at once: sums of leaves, or copies that leave the root."""
    arcs, trees, pending = inputs.arcs, inputs.trees, state.pending
    way = UP if trees.sums else DOWN
    for c in range(len(trees.of)):
        t = trees.of[c]
        root, up, down = trees.root[t], trees.up[t], trees.down[t]
        state.there[c, root] = not trees.sums
        if trees.sums:
            for rank in range(len(up)):
                if up[rank] >= 0:
                    pending[c, arcs.parent[up[rank]]] += 1
        for rank in range(len(up)):
            if rank == root or pending[c, rank]:
                continue
            if trees.sums or arcs.parent[down[rank]] == root:
                offer(queues, inputs.key[c, way, rank], _index(inputs, c, way, rank))


@compiled_in_place
def _may_join(inputs: Any, state: Any, c: int, way: int, rank: int, a: int) -> bool:
    """Whether a chunk waits for this arc, too."""
    if state.start[c, way, rank] >= 0.0:
        return False
    if way == UP:
        return bool(state.pending[c, rank] == 0 and inputs.trees.up[inputs.trees.of[c], rank] == a)
    return bool(state.there[c, inputs.arcs.parent[a]])


@compiled_in_place
def _start(inputs: Any, queues: Any, state: Any, now_us: float, c: int, way: int, rank: int, a: int) -> None:
    """Send a chunk over an arc, with those of its batch that wait for it, too."""
    link = inputs.arcs.up[a] if way == UP else inputs.arcs.down[a]
    last = min(c + inputs.most, inputs.ends_of_batch[c])
    together = 1
    while c + together < last and _may_join(inputs, state, c + together, way, rank, a):
        together += 1
    leader = _index(inputs, c, way, rank)
    ends_us = send(queues, inputs.costs, link, now_us, together * inputs.chunk_mb, leader)
    for chunk in range(c, c + together):
        state.start[chunk, way, rank] = now_us
        state.end[chunk, way, rank] = ends_us
        state.via[chunk, way, rank] = link
        state.leader[chunk, way, rank] = leader


@compiled_in_place
def _arrive(inputs: Any, queues: Any, state: Any, c: int, way: int, rank: int) -> None:
    """What can go once a transfer has ended: the sum of a rank that waits for nobody, or its copies."""
    trees, pending, at_rank = inputs.trees, state.pending, rank
    t = trees.of[c]
    if way == UP:
        at_rank = inputs.arcs.parent[trees.up[t, rank]]
        pending[c, at_rank] -= 1
        if pending[c, at_rank] == 0 and at_rank != trees.root[t]:
            offer(queues, inputs.key[c, UP, at_rank], _index(inputs, c, UP, at_rank))
    is_summed = at_rank == trees.root[t] and pending[c, at_rank] == 0
    if trees.copies and (way == DOWN or is_summed):
        state.there[c, at_rank] = True
        _offer_copies(inputs, queues, state, c, at_rank)


@compiled_in_place
def _offer_copies(inputs: Any, queues: Any, state: Any, c: int, rank: int) -> None:
    """Offer the copies of a chunk from a rank: down its tree, and of the last chunks over other arcs."""
    arcs, trees, key = inputs.arcs, inputs.trees, inputs.key
    t = trees.of[c]
    for at in range(trees.first[t, rank], trees.first[t, rank + 1]):
        below = trees.children[t, at]
        if state.start[c, DOWN, below] < 0.0:
            offer(queues, key[c, DOWN, below], _index(inputs, c, DOWN, below))
    if c < inputs.first_open:
        return
    alongside = len(trees.of) * 2 * trees.up.shape[1] + (c - inputs.first_open) * len(arcs.child)
    for a in range(arcs.first[rank], arcs.first[rank + 1]):
        below = arcs.child[a]
        is_open = below != trees.root[t] and inputs.allowed[inputs.kind_of[c], a]
        if is_open and trees.down[t, below] != a and state.start[c, DOWN, below] < 0.0:
            offer(queues, PIPELINE_LATER_US + key[c, DOWN, below], alongside + a)
