r"""Sums that many ranks want: first all contributions meet at one rank, then the sum spreads.

A sum is finished first at one rank q, its *root*. Until then no copy of it moves, and no other rank keeps
any of it. So these two times follow each other, and their sum is a bound:

    T  >=  min over q of  collect(q) + spread(q),

where collect(q), for all contributions to come to q, is a spread from q on the reversed links.

Let W be a set of ranks and C the sums with contributors and wanting ranks both in W and outside, X. A sum
with its root in W enters W as partial sums, one with its root in X as copies. With w from `growth`
inside W, and g(u, x) the most contributions of X that rank u of X can have collected by x, a group of n
chunks that leaves u at x and arrives at u' at e is worth, counted in whole sums, at most

    n min(1, g(u, x) / |X|)      as partial sums, if e <= T - min over q in W of spread(q),
    n min(1, w(u', T - e) / |W|) as copies, if x >= min over q in X of collect(q),

with |X| and |W| the fewest contributors and wanting ranks there. Groups through one port take turns as in
`entries`, and all together must be worth |C|.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.alone import alike, served
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.cuts import Cut, crossings, members, name_ports
from taccl.encoding.bounds.entries import Ways, least_end
from taccl.encoding.bounds.growth import Layer, reach
from taccl.encoding.bounds.ticks import in_ticks, ticks
from taccl.problem import FloatArray, Problem


def meeting_bound(problem: Problem, distance_us: FloatArray, known_us: float) -> Bound:
    """The longest that one sum takes to be made and to spread.

    `distance_us` has shape (num_ranks, num_ranks); `known_us` is another bound, as a yardstick.
    """
    best = Bound(0.0, "nothing is summed", "meeting")
    for chunks in alike(problem):
        if not problem.collective.reduces[chunks].any():
            continue

        def least(tick_us: float, rows: int, chunks: IntArray = chunks) -> int | None:
            end = int(_collect_and_spread(problem, chunks, distance_us, tick_us, rows).sum(axis=0).min())
            return end if end < rows else None

        by_distance_us = float(_farthest_us(problem, chunks, distance_us).sum(axis=0).min())
        value_us = max(in_ticks(problem, known_us, problem.topology.num_links, least), by_distance_us)
        if value_us > best.value_us:
            what = problem.collective.describe_chunk(int(chunks[0]))
            best = Bound(value_us, f"the contributions to {what} meet, then the sum spreads", "meeting")
    return best


def _collect_and_spread(
    problem: Problem, chunks: IntArray, distance_us: FloatArray, tick_us: float, rows: int
) -> IntArray:
    """For sums that are alike, collect(q) and spread(q) in ticks, shape (2, num_ranks).

    `rows` stands for that or more.
    """
    back = replace(problem, topology=problem.topology.reversed())
    layer, every = Layer.of(problem, chunks), np.eye(problem.num_ranks, dtype=np.bool_)
    pre = np.asarray(problem.collective.pre[chunks].all(axis=0))
    post = np.asarray(problem.collective.post[chunks].all(axis=0))
    collect = served(back, layer, pre, every, tick_us, rows)
    spread = served(problem, layer, post, every, tick_us, rows)
    far_us = _farthest_us(problem, chunks, distance_us)
    far = ticks(np.minimum(far_us, rows * tick_us), tick_us)
    return np.maximum(np.stack([collect, spread]), far)


def _farthest_us(problem: Problem, chunks: IntArray, distance_us: FloatArray) -> FloatArray:
    """From the farthest contributor to each rank, and on to the farthest that wants, shape (2, num_ranks)."""
    pre = problem.collective.pre[chunks].all(axis=0)
    post = problem.collective.post[chunks].all(axis=0)
    return np.stack([distance_us[pre].max(axis=0), distance_us[:, post].max(axis=1)])


def two_way_bound(problem: Problem, cut: Cut, distance_us: FloatArray, known_us: float) -> Bound:
    """When all sums can have crossed into W, as partial sums or as copies."""
    nothing = Bound(0.0, "no sum is made and wanted on both sides", "two-way")
    inside, collective = members(problem, cut), problem.collective
    both_sides = np.ones(problem.num_chunks, dtype=np.bool_)
    for placed in (collective.pre, collective.post):
        both_sides &= (placed & inside).any(axis=1) & (placed & ~inside).any(axis=1)
    chunks, links = next(reversed(list(crossings(problem, cut))), (np.zeros(0, dtype=np.int64),) * 2)
    chunks = chunks[(both_sides & collective.reduces)[chunks]]
    if not len(chunks):
        return nothing
    crossing = _TwoWay(problem, inside, chunks, links, distance_us)
    value_us = in_ticks(problem, known_us, len(crossing.ways.kind), crossing.least_ticks)
    through = name_ports(problem, crossing.ways.ports)
    return Bound(value_us, f"{len(chunks)} sums {cut.name} and out of it through {through}", "two-way")


class _TwoWay:
    """The sums that are made and wanted on both sides of a cut, and the links into W."""

    def __init__(
        self, problem: Problem, inside: BoolArray, chunks: IntArray, links: IntArray, distance_us: FloatArray
    ) -> None:
        pre, post = problem.collective.pre[chunks], problem.collective.post[chunks]
        self.problem, self.chunks, self.inside, self.distance_us = problem, chunks, inside, distance_us
        self.back = replace(problem, topology=problem.topology.reversed())
        self.within = Layer.of(problem, chunks, inside)
        outside = Layer.of(problem, chunks, ~inside)
        self.without = replace(outside, wanted=pre.any(axis=0) & ~inside)
        self.contributors = int((pre & ~inside).sum(axis=1).min())
        self.wanting = int((post & inside).sum(axis=1).min())
        may_use = Layer.of(problem, chunks).may_use
        self.ways = Ways.over(problem, links, may_use[:, links].sum(axis=0))
        slots = range(len(self.ways.ports))
        self.cap = np.array([may_use[:, self.ways.links_of(slot)].any(axis=1).sum() for slot in slots])

    def least_ticks(self, tick_us: float, rows: int) -> int | None:
        """The least T in ticks; None if it is not below `rows`."""
        ways, topology = self.ways, self.problem.topology
        takes, busy = ways.ticks(self.problem, tick_us)
        src, dst = topology.src[ways.links], topology.dst[ways.links]
        # Contributions of X, counted by a spread from u on the reversed links between ranks of X.
        g = ways.best_of(reach(self.back, [self.without], tick_us, rows)[:, 0, src])
        w = ways.best_of(reach(self.problem, [self.within], tick_us, rows)[:, 0, dst])
        collect, spread = _collect_and_spread(self.problem, self.chunks, self.distance_us, tick_us, rows)
        head, tail = collect[~self.inside].min(), spread[self.inside].min()
        partial = ways.count * np.minimum(1.0, g / self.contributors)
        every = np.arange(len(ways.count))

        def values(end: int) -> FloatArray:
            leaves = np.arange(end + 1)[:, None]
            left = end - leaves - takes
            served = np.minimum(1.0, w[np.maximum(left, 0), every] / self.wanting)
            as_copies = np.where((leaves >= head) & (left >= 0), ways.count * served, 0.0)
            return np.maximum(as_copies, np.where(left >= tail, partial[: end + 1], 0.0))

        return least_end(ways, busy, values, self.cap, len(self.chunks), rows)
