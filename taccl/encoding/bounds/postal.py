r"""Broadcast and gossip in a postal model: how fast a chunk can multiply, and how fast what a rank holds can.

Both are recurrences over time, counted in ticks. Durations are rounded down to ticks, so what a table
allows is never less than what a schedule can do, and a moment at which it still allows too little is
a proof.

*Informed.* Let w(u, t) be the most wanting ranks that a chunk can serve within t after it is at rank u,
over the links out of u and onwards. Links of u that share a port take turns, and each serves once:

    w(u, t)    =  [u wants] + sum over ports p of u of V(u, p, t)
    V(u, p, t) =  max over links l of p of  w(dst(l), t - d_l) + V(u, p, t - b_l),
                  and no more than the sum over links l of p of w(dst(l), t - d_l)

where one chunk takes d_l on link l and keeps the port busy for b_l; and no more than there are wanting
ranks within t over shortest paths. With one port and equal links this is the doubling of one-port
broadcast; with alpha as pure latency, the postal model (Bar-Noy and Kipnis 1994).

*Gathered.* Let K(r, t) be the most chunks of a set S that rank r can hold at t. A group of n chunks
cannot leave a rank that holds fewer:

    K(r, t)    =  [start at r] + sum over ports p into r of G(r, p, t - a_p)
    G(r, p, t) =  max over links l of p and n  of  G(r, p, t - b_ln) + min(n, K(src(l), t - b_ln)),
                  and no more than the sum over links l of p of K(src(l), t - b_l1)

where n chunks over link l keep p busy for b_ln, and a_p is the least time, over the links of p, from when
a group leaves p to its end: 0, or alpha if that is not in b_ln (pipelined occupancy), and for a port that is
faster than its link, what one chunk takes longer on the link than on the port. No more come through p
than chunks of S may use it, and no more are at r than could have come by then over shortest paths.

*Backwards.* Where time runs backwards (a problem that sums, as copies on the reversed links), a port is
busy at the end of a send and not at its beginning: the last b of its d. Arrivals through a port are then b
apart, and none is there before d. With a_p as above, for the links of p at u,

    V(u, p, t)    =  V'(u, p, t - a_p)
    V'(u, p, y)   =  max over links l of p of  w(dst(l), y - b_l) + V'(u, p, y - b_l),
    G(r, p, t)    =  max over links l of p and n  of  G(r, p, t - b_ln) + min(n, K(src(l), t - d_ln)),

K being the sum of G(r, p, t) then. Where d - b is the same for all sends through a port, this is the same as
forwards (`LogicalTopology.reads_backwards`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.bounds.ticks import Earlier, ticks, together
from taccl.encoding.bounds.tuning import POSTAL_MOST_CELLS
from taccl.encoding.core.distance import distances_us
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Layer:
    """A set of chunks, looked at as if it were alone on the network.

    Parameters
    ----------
    chunks : their numbers.
    wanted : shape (num_ranks,), the ranks that want some chunk of the set.
    class_of : shape (len(chunks),), the class of each: chunks of a class may go the same routes.
    may_use : shape (num_classes, num_links), where each class may go.
    """

    chunks: IntArray
    wanted: BoolArray
    class_of: IntArray
    may_use: BoolArray

    @staticmethod
    def of(instance: Instance, chunks: IntArray, inside: BoolArray | None = None) -> Layer:
        """The layer of some chunks; with `inside`, shape (num_ranks,), only between these ranks."""
        problem, demand = instance.problem, instance.demand
        topology, limits = problem.topology, problem.limits.may_use
        chosen = np.zeros(problem.num_chunks, dtype=np.bool_)
        chosen[chunks] = True
        wanted = np.zeros(problem.num_ranks, dtype=np.bool_)
        wanted[demand.wants.rank[chosen[demand.wants.chunk]]] = True
        class_of = np.zeros(len(chunks), dtype=np.int64)
        may_use = np.ones((1, topology.num_links), dtype=np.bool_)
        if limits is not None:
            owners, class_of = np.unique(problem.collective.owner[chunks], return_inverse=True)
            class_of, may_use = class_of.ravel(), limits[owners]
        if inside is not None:
            wanted = wanted & inside
            may_use = may_use & (inside[topology.src] & inside[topology.dst])
        return Layer(chunks, wanted, class_of, np.asarray(may_use))

    def restricted(self, region: BoolArray) -> Layer:
        """The same, of which only the ranks of a region count as wanting; shape (num_ranks,)."""
        return replace(self, wanted=self.wanted & region)

    def so_many(self, many: int) -> Layer:
        """As many chunks, each of which may use what some chunk of the layer may."""
        equivalent = np.zeros(many, dtype=np.int64)
        return replace(self, chunks=np.arange(many), class_of=equivalent, may_use=self.uses()[None])

    def uses(self) -> BoolArray:
        """The links that some of the chunks may use, shape (num_links,)."""
        return np.asarray(self.may_use.any(axis=0))

    def many_on(self) -> IntArray:
        """How many of the chunks may use each link, shape (num_links,)."""
        return np.asarray(self.sizes() @ self.may_use.astype(np.int64))

    def many_on_any(self, links: IntArray) -> int:
        """How many of the chunks may use some of these links."""
        return int(self.sizes()[self.may_use[:, links].any(axis=1)].sum())

    def may_use_any(self, links: IntArray) -> BoolArray:
        """Whether each of the chunks may use some of these links, shape (len(chunks),)."""
        usable = np.asarray(self.may_use[:, links].any(axis=1))
        return usable[self.class_of]

    def sizes(self) -> IntArray:
        """How many of the chunks each class has, shape (num_classes,)."""
        return np.bincount(self.class_of, minlength=len(self.may_use))


@dataclass(frozen=True, eq=False)
class _Columns:
    """The usable links of all layers side by side, sorted by the slot in which they take turns.

    A node is a rank of a layer, layer * num_ranks + rank; a slot is a port at one end of a node. `pair` is
    the link with that port, of the topology's `incidence`.
    """

    layer: IntArray
    link: IntArray
    pair: IntArray
    src: IntArray  # node
    dst: IntArray  # node
    slot: IntArray
    node_of_slot: IntArray

    @staticmethod
    def of(problem: Problem, layers: Sequence[Layer], outgoing: bool) -> _Columns:
        topology = problem.topology
        layer, link = np.nonzero(np.array([layer.uses() for layer in layers]))
        at_end = port_at_end(problem, topology.src if outgoing else topology.dst)
        pair, port = at_end[link], topology.incidence[1][at_end]
        src = layer * topology.num_ranks + topology.src[link]
        dst = layer * topology.num_ranks + topology.dst[link]
        node = src if outgoing else dst
        keys, slot = np.unique(node * topology.num_ports + port[link], return_inverse=True)
        order = np.argsort(slot, kind="stable")
        layer, link, pair, src, dst, slot = (column[order] for column in (layer, link, pair, src, dst, slot))
        return _Columns(layer, link, pair, src, dst, slot, keys // topology.num_ports)


def port_at_end(problem: Problem, rank: IntArray) -> IntArray:
    """For each link the port that it shares with most others of its end, as a pair, shape (num_links,).

    `rank` is the rank at that end of each link. Where ports have rates of their own, it is the one that one
    chunk over each of those links keeps busy longest.
    """
    topology = problem.topology
    link, port = topology.incidence
    key = rank[link] * topology.num_ports + port
    inverse = np.unique(key, return_inverse=True)[1].ravel()
    shared = np.bincount(inverse)
    if topology.port_betas is not None:
        shared = np.bincount(inverse, topology.port_busy_us(np.arange(topology.num_pairs), problem.chunk_mb))
    order = np.lexsort((port, -shared[inverse], link))
    first = np.flatnonzero(np.diff(link[order], prepend=-1))
    return np.asarray(order[first])


def _starts(slot: IntArray) -> IntArray:
    """Where each slot begins in a sorted column."""
    return np.flatnonzero(np.diff(slot, prepend=-1))


def max_informed(
    instance: Instance, layers: Sequence[Layer], tick_us: float, rows: int, backwards: bool = False
) -> IntArray:
    """The most ranks that a chunk can have informed: `w`, shape (rows, num_layers, num_ranks).

    The rows are after 0, 1, 2, ... ticks. No link may take less than a tick. `backwards` says that ports are
    busy at the ends of sends.
    """
    problem = instance.problem
    columns = _Columns.of(problem, layers, outgoing=True)
    takes = ticks(problem.topology.duration_us(columns.link, problem.chunk_mb), tick_us)
    busy = ticks(problem.topology.port_busy_us(columns.pair, problem.chunk_mb), tick_us)
    wants = np.concatenate([layer.wanted for layer in layers]).astype(np.int64)
    near = _within(instance, layers, tick_us, rows)
    if not len(columns.link):
        return np.minimum(near, wants).reshape(rows, len(layers), problem.num_ranks)
    before = int(max(takes.max(initial=1), busy.max(initial=1)))
    w = np.zeros((before + rows, len(wants)), dtype=np.int64)
    served = np.zeros((before + rows, len(columns.node_of_slot)), dtype=np.int64)
    starts = _starts(columns.slot)
    no_turns = np.minimum.reduceat(busy, starts) == 0
    lag, slots = np.zeros(len(starts), dtype=np.int64), np.arange(len(starts))
    if backwards:
        lag = np.minimum.reduceat(ticks(after_port_us(problem, columns.link, columns.pair), tick_us), starts)
    node_starts = _starts(columns.node_of_slot)
    nodes = columns.node_of_slot[node_starts]
    arrived = Earlier.of(w, takes, columns.dst)
    freed = Earlier.of(w, busy, columns.dst)
    previous = Earlier.of(served, busy, columns.slot)
    for now in together(before, before + rows, len(columns.link), takes, busy):
        informed = arrived.at(now)
        once = np.add.reduceat(informed, starts, axis=1)
        onward = freed.at(now) if backwards else informed
        turns = np.maximum.reduceat(onward + previous.at(now), starts, axis=1)
        if backwards:
            served[now] = np.where(no_turns, once, turns)
            let_in = np.minimum(once, np.where(no_turns, once, served[now[:, None] - lag, slots]))
        else:
            let_in = served[now] = np.where(no_turns, once, np.minimum(once, turns))
        spread = np.broadcast_to(wants, (len(now), len(wants))).copy()
        spread[:, nodes] += np.add.reduceat(let_in, node_starts, axis=1)
        w[now] = np.minimum(near[now - before], spread)
    return w[before:].reshape(rows, len(layers), problem.num_ranks)


def cells_to_gather(problem: Problem, layer: Layer, rows: int) -> int:
    """How many cells `max_gathered` fills for a layer."""
    cells = int(_group_sizes(problem, [layer], _Columns.of(problem, [layer], outgoing=False)).sum()) * rows
    return cells if cells <= POSTAL_MOST_CELLS else problem.num_ranks * rows


def _group_sizes(problem: Problem, layers: Sequence[Layer], columns: _Columns) -> IntArray:
    """How many chunks can go as a group, for each column."""
    many = np.array([layer.many_on() for layer in layers])[columns.layer, columns.link]
    return np.asarray(np.minimum(many, problem.max_group))


def max_gathered(
    instance: Instance, layers: Sequence[Layer], tick_us: float, rows: int, backwards: bool = False
) -> IntArray:
    """The most chunks that a rank can have gathered: `K`, shape (rows, num_layers, num_ranks).

    The rows are after 0, 1, 2, ... ticks. No link may take less than a tick. `backwards` says that ports are
    busy at the ends of sends. Where the table would be too large, it knows shortest paths only.
    """
    problem = instance.problem
    topology = problem.topology
    by_distance = _at_best(instance, layers, tick_us, rows)
    columns = _Columns.of(problem, layers, outgoing=False)
    many = _group_sizes(problem, layers, columns)
    if many.sum() * rows > POSTAL_MOST_CELLS or not len(many):
        return by_distance.reshape(rows, len(layers), problem.num_ranks)
    row = np.repeat(np.arange(len(many)), many)
    count = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + 1
    pair, src, slot = columns.pair[row], columns.src[row], columns.slot[row]
    busy = ticks(topology.port_busy_us(pair, count * problem.chunk_mb), tick_us)
    single = np.flatnonzero(count == 1)
    starts, single_starts = _starts(slot), _starts(slot[single])
    held = np.concatenate([held_at_start(instance, layer) for layer in layers])
    most_in_slot = _most_through(instance, layers, columns)
    leave, lag = busy, np.zeros(len(columns.node_of_slot), dtype=np.int64)
    if backwards:
        leave = ticks(topology.duration_us(columns.link[row], count * problem.chunk_mb), tick_us)
    else:
        lag = np.minimum.reduceat(
            ticks(after_port_us(problem, columns.link, columns.pair), tick_us), _starts(columns.slot)
        )
    before = int(max(busy.max(initial=1), lag.max(initial=1), leave.max(initial=1)))
    k = np.zeros((before + rows, len(held)), dtype=np.int64)
    came = np.zeros((before + rows, len(lag)), dtype=np.int64)
    no_turns = np.minimum.reduceat(busy, starts) == 0
    slots = np.arange(len(lag))
    node_starts = _starts(columns.node_of_slot)
    nodes = columns.node_of_slot[node_starts]
    held_then, previous = Earlier.of(k, leave, src), Earlier.of(came, busy, slot)
    for now in together(before, before + rows, len(row), leave, busy):
        # A link that keeps its port busy for less than a tick reads this row, which is being filled: not
        # known yet.
        k[now] = by_distance[now - before]
        there = held_then.at(now)
        all_of_each = np.add.reduceat(there[:, single], single_starts, axis=1)
        turns = np.maximum.reduceat(np.minimum(count, there) + previous.at(now), starts, axis=1)
        turns = np.where(no_turns, all_of_each, np.minimum(all_of_each, turns))
        came[now] = np.minimum(turns, most_in_slot)
        arrived = np.broadcast_to(held, (len(now), len(held))).copy()
        arrived[:, nodes] += np.add.reduceat(came[now[:, None] - lag, slots], node_starts, axis=1)
        k[now] = np.minimum(k[now], arrived)
    return k[before:].reshape(rows, len(layers), problem.num_ranks)


def after_port_us(problem: Problem, link: IntArray, pair: IntArray) -> FloatArray:
    """The least time from when a group leaves its port to its end, for each pair: that of one chunk."""
    topology = problem.topology
    later = topology.beta_us_per_mb[link] - topology.pair_betas[pair]
    alpha = 0.0 if topology.is_serial else topology.alpha_us[link]
    return np.asarray(alpha + later * problem.chunk_mb)


def _within(instance: Instance, layers: Sequence[Layer], tick_us: float, rows: int) -> IntArray:
    """How many wanting ranks of its layer are near each node by shortest paths, shape (rows, nodes)."""
    num_ranks = instance.problem.num_ranks
    near = np.zeros((rows + 1, len(layers), num_ranks), dtype=np.int64)
    every = np.arange(num_ranks)[:, None]
    for number, layer in enumerate(layers):
        to_wanted = instance.once(Distances).over(layer.uses())[:, layer.wanted]
        np.add.at(near[:, number], (_rows_of(to_wanted, tick_us, rows), every), 1)
    return near[:-1].cumsum(axis=0).reshape(rows, -1)


class Distances:
    """Least times between ranks over some links, each found once; `instance.once(Distances)`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._over: dict[bytes, FloatArray] = {}

    def over(self, usable: BoolArray) -> FloatArray:
        """Microseconds, shape (num_ranks, num_ranks)."""
        if usable.all():
            return self._instance.distances_us
        key = usable.tobytes()
        if key not in self._over:
            topology, durations_us = self._instance.problem.topology, self._instance.durations_us
            self._over[key] = distances_us(topology, durations_us, usable)
        return self._over[key]


def _rows_of(time_us: FloatArray, tick_us: float, rows: int) -> IntArray:
    """The row of each time; `rows` for later ones."""
    return ticks(np.minimum(time_us, rows * tick_us), tick_us)


def _starts_of(instance: Instance, layer: Layer) -> tuple[IntArray, IntArray]:
    """Where chunks of a layer start, as two columns: their place in the layer, and the rank."""
    demand = instance.demand
    place = np.full(demand.num_chunks, -1, dtype=np.int64)
    place[layer.chunks] = np.arange(len(layer.chunks))
    at = place[demand.starts.chunk]
    return at[at >= 0], demand.starts.rank[at >= 0]


def held_at_start(instance: Instance, layer: Layer) -> IntArray:
    """How many chunks of a layer start at each rank, shape (num_ranks,)."""
    return np.bincount(_starts_of(instance, layer)[1], minlength=instance.problem.num_ranks)


def _most_through(instance: Instance, layers: Sequence[Layer], columns: _Columns) -> IntArray:
    """How many chunks that do not start at a node may come to it through each of its slots."""
    ranks = instance.problem.num_ranks
    most = np.zeros(len(columns.node_of_slot), dtype=np.int64)
    absent = []
    for layer in layers:
        place, rank = _starts_of(instance, layer)
        here = np.zeros((len(layer.may_use), ranks), dtype=np.int64)
        np.add.at(here, (layer.class_of[place], rank), 1)
        absent.append(layer.sizes()[:, None] - here)
    bounds = [*_starts(columns.slot).tolist(), len(columns.slot)]
    for slot, (first, end) in enumerate(itertools.pairwise(bounds)):
        number = columns.layer[first]
        comes = layers[number].may_use[:, columns.link[first:end]].any(axis=1)
        most[slot] = absent[number][comes, columns.node_of_slot[slot] % ranks].sum()
    return most


def nearest_us(instance: Instance, layer: Layer) -> list[list[float]]:
    """For each rank, in order, when each chunk of a layer can be there at best by a shortest path."""
    distances, kind = instance.distances_by_limits
    sets, set_of = instance.demand.source_sets
    near: list[list[float]] = [[] for _ in range(instance.problem.num_ranks)]
    chunk_kind, many = np.unique(kind[layer.chunks] * len(sets) + set_of[layer.chunks], return_counts=True)
    for each, count in zip(chunk_kind.tolist(), many.tolist(), strict=True):
        usable, sources = divmod(each, len(sets))
        least = distances[usable][sets[sources]].min(axis=0, initial=np.inf)
        for rank in np.flatnonzero(np.isfinite(least)).tolist():
            near[rank] += [float(least[rank])] * count
    return [sorted(times) for times in near]


def _at_best(instance: Instance, layers: Sequence[Layer], tick_us: float, rows: int) -> IntArray:
    """How many chunks of each layer can be at each rank by shortest paths, shape (rows, nodes)."""
    distances, kind = instance.distances_by_limits
    sets, set_of = instance.demand.source_sets
    come = np.zeros((rows + 1, len(layers), instance.problem.num_ranks), dtype=np.int64)
    every = np.arange(instance.problem.num_ranks)
    for number, layer in enumerate(layers):
        chunk_kind, many = np.unique(
            kind[layer.chunks] * len(sets) + set_of[layer.chunks], return_counts=True
        )
        for each, count in zip(chunk_kind.tolist(), many.tolist(), strict=True):
            usable, sources = divmod(each, len(sets))
            least = distances[usable][sets[sources]].min(axis=0, initial=np.inf)
            np.add.at(come[:, number], (_rows_of(least, tick_us, rows), every), count)
    return come[:-1].cumsum(axis=0).reshape(rows, -1)
