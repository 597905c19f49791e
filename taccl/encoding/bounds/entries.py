r"""Entering a node and spreading there: what comes late through a narrow cut is worth little.

Let W be a set of ranks and C the chunks that must enter it (`cuts`). Every rank of W that wants a
chunk of C has it from some last crossing into W, in a group that leaves u at x and arrives at u' at
e. By the end T, one chunk that arrived at u' serves at most w(u', T - e) ranks of W (`growth`, over links
inside W). Cut C into *disjoint sets*, of which no rank of W wants two chunks: such a set spreads no faster
than one chunk. Let

    v         the most ranks of W that want one chunk of C,
    H(u, x)   the most chunks of C, and K(u, x) the most sets with a chunk, that rank u can hold at x.

A group of n chunks then serves at most

    value(n, x, e) = min(n v, min(n, K(u, x)) w(u', T - e)),  where n <= H(u, x).

Groups through one port take turns, so what all that use port p serve is at most A(p, T), with

    A(p, y) = max over links l of p into W, and n, of  A(p, y - b_ln) + value(n, y - b_ln, y - b_ln + d_ln),

and T is possible only if the sum of A(p, T) over the ports into W is no less than the number of pairs
of a chunk of C and a rank of W that wants it. The least such T is a bound by decomposition: the time
before the cut (H, K), on it (turns, over all ways of grouping) and after it (w).

*Sums.* Let X be the ranks outside W, C the sums with contributors in X and wanting ranks in W, and for one
of them let (q, r) be a pair of such a contributor and such a rank. What q contributes comes to r in some
last crossing into W, in a group that leaves u at x and arrives at u' at e. What leaves u then was added up
from no more than g(u, x) contributions of X, g counting what one rank can have collected by then: a spread
on the reversed links. And it comes to no more than w(u', T - e) ranks of W. So n chunks are worth, in whole
sums, at most

    n min(1, g(u, x) / |X|) min(1, w(u', T - e) / |W|),

|X| and |W| being the fewest contributors and wanting ranks there, and all groups must be worth |C|. This
holds wherever sums are made, and however often. (That g is right: of a program, keep for one chunk and one
rank u only the last transfer out of each rank from which there is still a way to u by x. They are a tree,
since that way begins with a transfer no later than the next rank's own last one; each rank adds what came
to it before, and all that could be known at u is in its sum. Read backwards, that is a spread.)

*Backwards* (see `growth`), A(p, y) = max of A(p, y - b_ln) + value(n, y - d_ln, y).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.capacity import port_cover
from taccl.encoding.bounds.cuts import Cut, crossings, members, name_ports
from taccl.encoding.bounds.growth import Layer, holdings, reach
from taccl.encoding.bounds.ticks import in_ticks, ticks
from taccl.problem import FloatArray, Problem

#: Crossings that differ in their links, beyond this many, are only looked at together.
_MOST_CLASSES = 4


@dataclass(frozen=True, eq=False)
class Ways:
    """All groups that can cross: a row for a number of chunks over links that cost the same, by port.

    Links of one port and one cost, their own and at the port, are one row: what one of them allows, all
    are allowed.

    Parameters
    ----------
    links : shape (num_links,), row after row; `first`, shape (num_kinds,), is where each kind of them begins.
    kind, count, slot : shape (num_rows,); which links, how many chunks, and which of `ports`.
    pair : shape (len(links),); each link with its port, of the topology's `incidence`.
    """

    links: IntArray
    first: IntArray
    kind: IntArray
    count: IntArray
    slot: IntArray
    ports: tuple[int, ...]
    pair: IntArray

    @staticmethod
    def over(problem: Problem, links: IntArray, most: IntArray) -> Ways:
        """Groups of up to `most` chunks, shape (len(links),), over each link."""
        topology, cover = problem.topology, port_cover(problem, links)
        port = np.array([cover[int(link)] for link in links], dtype=np.int64)
        pair = np.array(
            [topology.first_pair[link] + topology.ports[link].index(cover[link]) for link in links.tolist()],
            dtype=np.int64,
        )
        betas = topology.beta_us_per_mb[links], topology.pair_betas[pair]
        costs = np.stack([port, topology.alpha_us[links], *betas])
        order = np.lexsort(costs[::-1])
        first = np.flatnonzero((np.diff(costs[:, order], prepend=-1) != 0).any(axis=0))
        many = np.minimum(np.maximum.reduceat(most[order], first), problem.max_group)
        kind = np.repeat(np.arange(len(first)), many)
        count = np.arange(len(kind)) - np.repeat(np.cumsum(many) - many, many) + 1
        ports, slot = np.unique(port[order][first][kind], return_inverse=True)
        return Ways(links[order], first, kind, count, slot, tuple(ports.tolist()), pair[order])

    def links_of(self, slot: int) -> IntArray:
        """The links that use a port."""
        kinds = np.unique(self.kind[self.slot == slot])
        ends = np.append(self.first, len(self.links))
        return np.concatenate([self.links[ends[kind] : ends[kind + 1]] for kind in kinds])

    def best_of(self, table: IntArray) -> IntArray:
        """The best of what a table, shape (..., num_links), has for the links of each row."""
        return np.asarray(np.maximum.reduceat(table, self.first, axis=-1)[..., self.kind])

    def ticks(self, problem: Problem, tick_us: float) -> tuple[IntArray, IntArray]:
        """How long each row takes, and how long it keeps its port busy, in ticks."""
        link, size_mb = self.links[self.first][self.kind], self.count * problem.chunk_mb
        topology, pair = problem.topology, self.pair[self.first][self.kind]
        return ticks(topology.duration_us(link, size_mb), tick_us), ticks(
            topology.port_busy_us(pair, size_mb), tick_us
        )


def entry_bound(problem: Problem, cut: Cut, known_us: float, backwards: bool = False) -> Bound:
    """The best bound over the sets of copied chunks that must enter.

    `known_us` is another bound, as a yardstick; `backwards` as in `growth`.
    """
    best = Bound(0.0, "nothing has to enter", "entry")
    inside = members(problem, cut)
    classes = list(crossings(problem, cut))
    for chunks, links in classes if len(classes) <= _MOST_CLASSES else classes[-1:]:
        entry = _Entry(problem, inside, chunks, links, backwards)
        value_us = in_ticks(problem, known_us, len(entry.ways.kind), entry.least_ticks)
        if value_us > best.value_us:
            through = name_ports(problem, entry.ways.ports)
            witness = f"{len(chunks)} chunks {cut.name} through {through}, gathered before and spread after"
            best = Bound(value_us, witness, "entry")
    return best


def sum_entry_bound(problem: Problem, cut: Cut, known_us: float) -> Bound:
    """When all sums that have contributors outside a set can have come to all who want them inside.

    `known_us` is another bound, as a yardstick.
    """
    nothing = Bound(0.0, "no sum has to enter", "entry")
    inside, reduces = members(problem, cut), problem.collective.reduces
    chunks, links = next(reversed(list(crossings(problem, cut))), (np.zeros(0, dtype=np.int64),) * 2)
    chunks = chunks[reduces[chunks]]
    if not len(chunks):
        return nothing
    entry = _SumEntry(problem, inside, chunks, links)
    value_us = in_ticks(problem, known_us, len(entry.ways.kind), entry.least_ticks)
    through = name_ports(problem, entry.ways.ports)
    witness = f"{len(chunks)} sums {cut.name} through {through}, collected before and spread after"
    return Bound(value_us, witness, "entry")


class _Entry:
    """One set of chunks that must enter W, and the links by which it may."""

    def __init__(
        self, problem: Problem, inside: BoolArray, chunks: IntArray, links: IntArray, backwards: bool
    ) -> None:
        wanted = problem.collective.post[chunks] & inside
        self.problem, self.backwards = problem, backwards
        self.need = int(wanted.sum())
        self.each = int(wanted.sum(axis=1).max())
        self.all = Layer.of(problem, chunks)
        self.within = Layer.of(problem, chunks, inside)
        sets = disjoint_sets(problem, chunks, inside)
        one_of_each = chunks[np.unique(sets, return_index=True)[1]]
        self.sets = Layer.of(problem, one_of_each)
        self.ways = Ways.over(problem, links, self.all.may_use[:, links].sum(axis=0))
        self.sets_on = self.ways.best_of(self.sets.may_use.sum(axis=0)[self.ways.links])
        self.cap = np.array([self._most_through(wanted, slot) for slot in range(len(self.ways.ports))])

    def _most_through(self, wanted: BoolArray, slot: int) -> int:
        """What all chunks that may use a port serve together."""
        links = self.ways.links_of(slot)
        return int(wanted[self.all.may_use[:, links].any(axis=1)].sum())

    def least_ticks(self, tick_us: float, rows: int) -> int | None:
        """The least T in ticks; None if it is not below `rows`."""
        ways, problem, backwards = self.ways, self.problem, self.backwards
        takes, busy = ways.ticks(problem, tick_us)
        src, dst = problem.topology.src[ways.links], problem.topology.dst[ways.links]
        w = ways.best_of(reach(problem, [self.within], tick_us, rows, backwards)[:, 0, dst])
        held = sets = ways.best_of(holdings(problem, [self.all], tick_us, rows, backwards)[:, 0, src])
        if len(self.sets.chunks) < len(self.all.chunks):
            sets = ways.best_of(holdings(problem, [self.sets], tick_us, rows, backwards)[:, 0, src])
        leaves = ways.count <= held
        spreads = np.minimum(np.minimum(ways.count, self.sets_on), sets)
        every = np.arange(len(ways.count))

        def values(end: int) -> IntArray:
            left = end - np.arange(end + 1)[:, None] - takes
            served = spreads[: end + 1] * w[np.maximum(left, 0), every]
            return np.where(leaves[: end + 1] & (left >= 0), np.minimum(ways.count * self.each, served), 0)

        turns = _Turns(ways, busy, takes if backwards else busy)
        return turns.least_end(values, self.cap, self.need, rows)


class _SumEntry:
    """Sums with contributors outside W and wanting ranks inside, and the links into W."""

    def __init__(self, problem: Problem, inside: BoolArray, chunks: IntArray, links: IntArray) -> None:
        pre, post = problem.collective.pre[chunks], problem.collective.post[chunks]
        self.problem, self.num_sums = problem, len(chunks)
        self.back = replace(problem, topology=problem.topology.reversed())
        self.within = Layer.of(problem, chunks, inside)
        every = Layer.of(problem, chunks)
        self.outside = replace(every, wanted=pre.any(axis=0) & ~inside)
        self.contributors = int((pre & ~inside).sum(axis=1).min())
        self.wanting = int((post & inside).sum(axis=1).min())
        self.ways = Ways.over(problem, links, every.may_use[:, links].sum(axis=0))
        slots = range(len(self.ways.ports))
        self.cap = np.array([every.may_use[:, self.ways.links_of(slot)].any(axis=1).sum() for slot in slots])

    def least_ticks(self, tick_us: float, rows: int) -> int | None:
        """The least T in ticks; None if it is not below `rows`."""
        ways, topology = self.ways, self.problem.topology
        takes, busy = ways.ticks(self.problem, tick_us)
        src, dst = topology.src[ways.links], topology.dst[ways.links]
        backwards = not topology.reads_backwards
        g = ways.best_of(reach(self.back, [self.outside], tick_us, rows, backwards)[:, 0, src])
        w = ways.best_of(reach(self.problem, [self.within], tick_us, rows)[:, 0, dst])
        collected = ways.count * np.minimum(1.0, g / self.contributors)
        spread = np.minimum(1.0, w / self.wanting)
        every = np.arange(len(ways.count))

        def values(end: int) -> FloatArray:
            left = end - np.arange(end + 1)[:, None] - takes
            worth = collected[: end + 1] * spread[np.maximum(left, 0), every]
            return np.where(left >= 0, worth, 0.0)

        return _Turns(ways, busy, busy).least_end(values, self.cap, self.num_sums, rows)


def disjoint_sets(problem: Problem, chunks: IntArray, inside: BoolArray) -> IntArray:
    """A number for each chunk, the same for chunks of one set: no rank of W wants two chunks of a set.

    Only chunks that start at the same ranks and may go the same ways come into one set.
    """
    collective = problem.collective
    kinds = [collective.pre[chunks]]
    if problem.limits.may_use is not None:
        kinds.append(problem.limits.may_use[collective.home[chunks]])
    kind = np.unique(np.concatenate(kinds, axis=1), axis=0, return_inverse=True)[1].ravel()
    taken = np.zeros((kind.max() + 1, problem.num_ranks), dtype=np.int64)
    number = np.zeros(len(chunks), dtype=np.int64)
    for row, wanted in enumerate(collective.post[chunks] & inside):
        number[row] = taken[kind[row], wanted].max(initial=0)
        taken[kind[row], wanted] = number[row] + 1
    return np.unique(np.stack([kind, number]), axis=1, return_inverse=True)[1].ravel()


@dataclass(frozen=True, eq=False)
class _Turns:
    """Groups that take turns on their ports.

    `busy` is how long each row keeps its port busy, and `left` how long before the end of that it left, in
    ticks.
    """

    ways: Ways
    busy: IntArray
    left: IntArray

    def least_end(
        self,
        values: Callable[[int], FloatArray | IntArray],
        cap: FloatArray | IntArray,
        need: float,
        rows: int,
    ) -> int | None:
        """The least T, in ticks, at which groups that take turns can be worth `need`; None from `rows` on.

        `values(T)` has shape (T + 1, num_rows): what a group that leaves at x is worth. Groups through
        a port are worth no more than `cap`, shape (num_ports,). More time never makes anything worth less.
        """
        if self._worth(values(rows - 1), cap) < need - 1e-6:
            return None
        low, high = -1, rows - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._worth(values(middle), cap) >= need - 1e-6:
                high = middle
            else:
                low = middle
        return high

    def _worth(self, value: FloatArray | IntArray, cap: FloatArray | IntArray) -> float:
        """The sum of A(p, T) over ports; a port that some group keeps busy for no tick has no turns."""
        busy, slot = self.busy, self.ways.slot
        starts = np.flatnonzero(np.diff(slot, prepend=-1))
        no_turns = np.minimum.reduceat(busy, starts) == 0
        before = int(max(busy.max(initial=1), self.left.max(initial=1)))
        rows, every = len(value), np.arange(len(busy))
        most = np.zeros((before + rows, len(starts)))
        value = np.concatenate([np.zeros((before, len(busy))), value])
        for now in range(before, before + rows):
            last = np.maximum.reduceat(most[now - busy, slot] + value[now - self.left, every], starts)
            most[now] = np.minimum(cap, np.maximum(most[now - 1], last))
        unlimited = np.where(np.maximum.reduceat(value.max(axis=0), starts) > 0, cap, 0)
        return float(np.where(no_turns, unlimited, most[-1]).sum())
