"""A first schedule at any size: each chunk along a tree of its own, the trees of all sources grown at once.

Chunks that many ranks want take a tree that grows by the link that is cheapest to use next: its own time, and
a part of the time at which its sender has the chunk and is free. So a tree crosses to another node once, and
what it brought there spreads inside (between Prim's tree, 1957, and Dijkstra's, 1959; Alpert et al. 1995
weigh the two so). Chunks that one rank wants take a shortest path. Then the transfers are placed on their
ports one after another: by how many links the chunk has passed, then by when it is there, then the one with
the longest way before it. The work is that of sorting the transfers, and one step for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.sequence import of_columns
from taccl.encoding.core.timing import Ports
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.greedy.grown import grown, is_compiled, routes_of
from taccl.encoding.engines.greedy.tuning import (
    ALONG_TREES_LATENESS,
    ALONG_TREES_MANY_ROWS,
    ALONG_TREES_MOST_OFFERS,
    ALONG_TREES_TIE,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

#: A table of more cells (sources x ranks, or ranks x ranks for each kind of limits) is not built.
MOST_CELLS = 2**25


def has_trees(instance: Instance) -> Verdict:
    """Whether nothing is requested that routes of their own cannot keep, and the tables have room."""
    problem = instance.problem
    if problem.symmetry:
        return no("a symmetry is requested, and trees grow without one")
    if problem.limits.own_first is not None:
        return no("a link is to carry its sender's own chunks first")
    limits = problem.limits.may_use
    kinds = 1 if limits is None else len(np.unique(limits, axis=0))
    if kinds * problem.num_ranks**2 > MOST_CELLS:
        return no(f"a table for its ranks would have more than {MOST_CELLS:,} cells")
    return YES


def compile_trees(instance: Instance) -> bool:
    """Make machine code of the loop that grows trees; whether it was there."""
    was_there = is_compiled()
    along_trees(instance)
    return was_there


def along_trees(instance: Instance) -> Schedule | None:
    """The schedule of copies, of the quotient if it is large; None if a rank is not reached."""
    schedule = _copied(instance, ALONG_TREES_MANY_ROWS)
    if schedule is not None:
        return schedule
    quotient, small = instance.quotient, instance.quotient_instance
    part = None if small is None else _copied(small, None)
    return _copied(instance, None) if part is None or quotient is None else quotient.lifted(part)


@dataclass(frozen=True, eq=False)
class _Sources:
    """What chunks have in common that go the same routes: where they start, and what they may use.

    Parameters
    ----------
    of_chunk : shape (num_chunks,); which of the S kinds of sources a chunk has.
    holds : shape (S, num_ranks); where such chunks start.
    limits : shape (S,); which row of `usable` such chunks keep to.
    usable : shape (K, num_links); a row for each kind of `Instance.distances_by_limits`.
    """

    of_chunk: IntArray
    holds: BoolArray
    limits: IntArray
    usable: BoolArray


def _copied(instance: Instance, most_rows: int | None) -> Schedule | None:
    """The schedule of a problem that only copies; None if that takes more than this many rows."""
    problem, topology, collective = instance.problem, instance.problem.topology, instance.problem.collective
    sources = _sources(problem)
    if sources is None:
        return None
    outputs = collective.outputs
    is_there = sources.holds[sources.of_chunk[outputs.chunk], outputs.rank]
    chunk, rank = outputs.chunk[~is_there], outputs.rank[~is_there]
    if most_rows is not None and len(chunk) > most_rows:
        return None
    many = np.bincount(chunk, minlength=collective.num_chunks) > 1
    is_spread = np.bincount(sources.of_chunk, many, len(sources.holds)) > 0
    via = np.full(sources.holds.shape, -1, dtype=np.int64)
    for each, grow in ((is_spread, _trees), (~is_spread, _shortest)):
        if each.any():
            via[each] = grow(instance, sources, np.flatnonzero(each))
    key = _rows(topology, sources, via, chunk, rank, bool(many.any()), most_rows)
    if key is None:
        return None
    return _placed(problem, sources, via, key)


def _sources(problem: Problem) -> _Sources | None:
    topology, collective = problem.topology, problem.collective
    ranks, chunks = topology.num_ranks, collective.num_chunks
    usable, limits_of = np.ones((1, topology.num_links), dtype=np.bool_), np.zeros(ranks, dtype=np.int64)
    if problem.limits.may_use is not None:
        usable, limits_of = np.unique(problem.limits.may_use, axis=0, return_inverse=True)
    inputs = collective.inputs
    if len(inputs) == chunks:  # one source each
        source = np.zeros(chunks, dtype=np.int64)
        source[inputs.chunk] = inputs.rank
        kinds, of_start = np.unique(source, return_inverse=True)
        starts = np.zeros((len(kinds), ranks), dtype=np.bool_)
        starts[np.arange(len(kinds)), kinds] = True
    elif chunks * ranks <= MOST_CELLS:
        starts, of_start = np.unique(collective.pre, axis=0, return_inverse=True)
    else:
        return None
    limits = limits_of.ravel()[collective.owner]
    both, of_chunk = np.unique(of_start.ravel() * len(usable) + limits, return_inverse=True)
    start, kind = np.divmod(both, len(usable))
    if max(len(both), ranks * len(usable)) * ranks > MOST_CELLS:
        return None
    return _Sources(of_chunk, starts[start], kind, usable)


def _turned(topology: LogicalTopology, first: IntArray) -> FloatArray:
    """How far each rank stands from each of `first`, in its node and then by nodes, shape (S, R)."""
    order = np.argsort(topology.node_of, kind="stable")
    _, begins = np.unique(topology.node_of[order], return_index=True)
    node = np.zeros(topology.num_ranks, dtype=np.int64)
    node[order] = np.searchsorted(begins, np.arange(len(order)), side="right") - 1
    local = np.empty_like(node)
    local[order] = np.arange(len(order)) - begins[node[order]]
    places, nodes = int(local.max()) + 1, len(begins)
    by_place = (local[None] - local[first][:, None]) % places
    return np.asarray(by_place * nodes + (node[None] - node[first][:, None]) % nodes, dtype=np.float64)


def _trees(instance: Instance, sources: _Sources, which: IntArray) -> IntArray:
    """For some sources the link by which each rank gets their chunks, -1 at the source, shape (S, R)."""
    topology, duration, holds = instance.problem.topology, instance.durations_us, sources.holds[which]
    turned = _turned(topology, holds.argmax(axis=1))
    tie = ALONG_TREES_TIE * float(duration.max(initial=0.0)) / max(1.0, float(turned.max())) * turned
    busy = topology.slowest_busy_us(np.arange(topology.num_links), instance.problem.chunk_mb)
    routes = routes_of(topology, duration, busy, _shared_ports(topology))
    anew = len(which) * topology.num_ranks**3 <= ALONG_TREES_MOST_OFFERS
    return grown(routes, sources.usable, sources.limits[which], holds, tie, ALONG_TREES_LATENESS, anew)


def _shared_ports(topology: LogicalTopology) -> IntArray:
    """For each rank, a number of its own if its links share a port on their way out, else -1."""
    shares = np.full(topology.num_ranks, -1, dtype=np.int64)
    number = 0
    for rank, links in enumerate(topology.links_from):
        if len(links) > 1 and len({topology.ports[link][0] for link in links}) < len(links):
            shares[rank], number = number, number + 1
    return shares


def _shortest(instance: Instance, sources: _Sources, which: IntArray) -> IntArray:
    """The last links of shortest paths from some sources to all ranks, -1 at the sources, shape (S, R).

    Of several, sources take different ones in turn.
    """
    topology, weight = instance.problem.topology, instance.durations_us
    distances, _ = instance.distances_by_limits
    via = np.full((len(which), topology.num_ranks), -1, dtype=np.int64)
    for kind, usable in enumerate(sources.usable):
        mine = np.flatnonzero(sources.limits[which] == kind)
        if not len(mine):
            continue
        holds = sources.holds[which[mine]]
        reach = np.array([distances[kind][hold].min(axis=0) for hold in holds])
        via[mine] = _last_links(topology, weight, usable, reach, which[mine])
        via[mine] = np.where(holds, -1, via[mine])
    return via


def _last_links(
    topology: LogicalTopology, weight: FloatArray, usable: BoolArray, reach: FloatArray, number: IntArray
) -> IntArray:
    """For each source and rank a usable link on a shortest path, shape (S, R), -1 where there is none."""
    links = np.flatnonzero(usable)
    links = links[np.argsort(topology.dst[links], kind="stable")]
    into = topology.dst[links]
    turn = np.arange(len(links)) - np.searchsorted(into, into)
    most = int(turn.max(initial=-1)) + 1
    best = np.full(reach.shape, -1, dtype=np.int64)
    src, cost = topology.src[links], weight[links]
    for row, near_us in enumerate(reach):
        arrival = near_us[src] + cost
        tight = np.flatnonzero(np.isfinite(arrival) & (arrival <= near_us[into] * (1 + 1e-12)))
        place, to = (turn[tight] - number[row]) % most, into[tight]
        first = np.flatnonzero(np.diff(to, prepend=-1))
        if len(first):
            least = np.repeat(np.minimum.reduceat(place, first), np.diff(first, append=len(to)))
            chosen = place == least
            best[row, to[chosen]] = links[tight[chosen]]
    return best


def _rows(
    topology: LogicalTopology,
    sources: _Sources,
    via: IntArray,
    chunk: IntArray,
    rank: IntArray,
    meet: bool,
    most_rows: int | None,
) -> IntArray | None:
    """The (chunk, receiver) of each transfer, as chunk * R + receiver.

    None if some rank is not reached, or there are more rows than `most_rows`.

    `meet` says whether the routes of one chunk may meet, so that the part before is to count once.
    """
    ranks = topology.num_ranks
    now = chunk * ranks + rank
    every, rows = [now], len(now)
    while len(now):
        if most_rows is not None and rows > most_rows:
            return None
        chunk, rank = np.divmod(now, ranks)
        over = via[sources.of_chunk[chunk], rank]
        if (over < 0).any():
            return None
        before = topology.src[over]
        now = (chunk * ranks + before)[~sources.holds[sources.of_chunk[chunk], before]]
        if meet:
            now = np.setdiff1d(now, np.concatenate(every))
        every.append(now)
        rows += len(now)
    return np.concatenate(every)


def _placed(problem: Problem, sources: _Sources, via: IntArray, key: IntArray) -> Schedule:
    """The transfers into these (chunk, receiver), those on a first link first, each as early as it can be."""
    topology, ranks = problem.topology, problem.num_ranks
    key = np.sort(key)
    chunk, rank = np.divmod(key, ranks)
    link = via[sources.of_chunk[chunk], rank]
    sender = chunk * ranks + topology.src[link]
    before = np.minimum(np.searchsorted(key, sender), max(0, len(key) - 1))
    before = np.where(key[before] == sender, before, -1) if len(key) else before
    depth = _depths(before)
    far = _remaining(before, depth)
    shift = (rank - topology.src[link]) % ranks
    ports, start, end = Ports(problem), np.zeros(len(key)), np.zeros(len(key) + 1)
    by_depth = np.argsort(depth, kind="stable")
    for level in np.split(by_depth, np.cumsum(np.bincount(depth))[:-1]) if len(key) else ():
        ready = end[before[level]]  # the last is 0: what starts there is there
        order = level[np.lexsort((chunk[level], shift[level], -far[level], ready))]
        for row, over, at in zip(
            order.tolist(), link[order].tolist(), end[before[order]].tolist(), strict=True
        ):
            start[row] = begun = max(at, ports.ready(over))
            end[row] = ports.place(over, 1, begun)
    return of_columns(problem, chunk, link, start, np.zeros(len(chunk), dtype=np.bool_))


def _depths(before: IntArray) -> IntArray:
    """How many rows stand before each, one leading to the next, shape (rows,)."""
    depth, at = np.zeros(len(before), dtype=np.int64), before.copy()
    while (at >= 0).any():
        more = at >= 0
        depth[more] += 1
        at[more] = before[at[more]]
    return depth


def _remaining(before: IntArray, depth: IntArray) -> IntArray:
    """How many rows follow each on the longest way on, shape (rows,)."""
    far = np.zeros(len(before), dtype=np.int64)
    order = np.argsort(-depth, kind="stable")
    for level in np.split(order, np.cumsum(np.bincount(depth)[::-1])[:-1]) if len(before) else ():
        inner = level[before[level] >= 0]
        np.maximum.at(far, before[inner], far[inner] + 1)
    return far
