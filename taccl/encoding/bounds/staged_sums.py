r"""Sums that enter a set of ranks: what is worth how much of them, and what is collected at once.

*Together.* Let X be the ranks outside W, C the sums with contributors in X and wanting ranks in W, |X| and
|D| the fewest contributors and wanting ranks that one of them has there. What a contributor q of a sum gives
comes to a wanting rank r in some last crossing into W, in a group that leaves u at x and arrives at u' at e.
Of n partial sums in it, let g_c be the part of the contributors of chunk c that have come into it, and w_c
the part of its wanting ranks that it still comes to; the group is worth the sum of |X| |D| g_c w_c, and all
of them |C| |X| |D|. With g and w counted by `steps`, |X| g_c is no more than g(u, x) and |X|, and |D| w_c no
more than w(u', T - e) and |D|. The sum of |X| g_c is no more than s', the spread of n chunks from u back to X
(lemma of `staged_cut`), and the sum of |D| w_c no more than s, that of n chunks from u' to those who want
them. So the group is worth at most

    min( min(n g(u, x), s'_n(u, x)) w(u', T - e),  g(u, x) s_n(u', T - e) ).

This holds wherever sums are made, and however often.

*The first of all ports.* Where eight NICs have to begin at once, the first groups of all eight are collected
by then, in the same ranks and through the same ports. Let the ranks outside W contribute to all of C, a >= 2
of them, or to none; and let d ranks of W want each. A pair of a contribution and a rank of W that wants the
sum is served by the crossing by which it came there: one for each pair, so all crossings serve |C| a d pairs.
Call a sum *whole for r* at a crossing that serves r with all a contributions.

Let it take until x to collect m sums (see below). Count each crossing before x as if it served a rank with at
most a - 1 contributions to a sum. A crossing at which a sum is not whole for a rank serves that rank with at
most a - 1 of them, so nothing is left out there. Where it is whole, one is left out of the a that the
crossing serves; and each pair of a contribution and a rank is served by one crossing, so all a pairs of this
sum and this rank are served there, and one is left out for this sum and rank only once. Before x at most m -
1 sums are whole anywhere, each for at most d ranks. So at most (m - 1) d pairs are left out, and by T all
groups are worth

    |C| a d - (m - 1) d    or more.

*Collected.* Let each of m sums be whole at some rank from which it may cross. By the lemma the last transfers
on the way of each are a tree, and read backwards those are copies of m chunks, from where the sums are to all
a ranks, in groups that are no larger. Some contributor r has floor(m / a) of the sums or fewer, and another
rank no more than may cross from there. So r comes to hold all m no sooner than K allows on the reversed links
from such a start, and x is the least of these times over r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.entering import Entering, Spreads, Way
from taccl.encoding.bounds.layer import Distances
from taccl.encoding.bounds.port_turns import Turns
from taccl.encoding.bounds.steps import gathered, informed
from taccl.encoding.bounds.tuning import STAGED_CUT_MOST_FIRST_SUMS
from taccl.model.collective import BoolArray
from taccl.model.tolerance import EQUAL

_Ways = Callable[[int, int, int], Iterator[Way]]


class SumsEntering:
    """The sums that must enter W."""

    def __init__(self, at: Entering) -> None:
        self.at = at
        starts = at.instance.demand.starts
        kept = at.chosen[starts.chunk] & ~at.inside[starts.rank]
        many = np.bincount(starts.chunk[kept], minlength=at.problem.num_chunks)[at.crossing.chunks]
        self._start = np.bincount(starts.rank[kept], minlength=len(at.inside))
        self.contributors, self.wanting = int(many.min()), int(at.wanting.min())
        ranks = int((self._start > 0).sum())
        #: Whether all of them have the same contributors, two or more, and as many wanting ranks.
        self.are_equivalent = bool(
            2 <= self.contributors == int(many.max()) == ranks and self.wanting == int(at.wanting.max())
        )

    @property
    def contributing(self) -> BoolArray:
        """The ranks outside W that contribute to some of them, shape (num_ranks,)."""
        return np.asarray(self._start > 0)

    @property
    def need(self) -> int:
        """What all of them are worth: pairs of a contributor and a rank that wants the sum."""
        return len(self.at.crossing.chunks) * self.contributors * self.wanting

    @cached_property
    def collected(self) -> list[Steps]:
        """For each rank how many contributions to one sum can have come there by a moment, or |X|."""
        at, back = self.at, self.at.turned_round
        layer = replace(at.every, wanted=self.contributing)
        distances = back.once(Distances).over(layer.uses())
        near = at.reach_us(back, layer, at.turned_at_ends)
        g = informed(back.problem, layer, distances, at.horizon_us, at.budget, at.turned_at_ends, near)
        return [steps.capped(self.contributors) for steps in g]

    @cached_property
    def w(self) -> list[Steps]:
        """How many wanting ranks a sum can serve so long after it came to each rank of W, or |D|."""
        return [steps.capped(self.wanting) for steps in self.at.w]

    @cached_property
    def _back(self) -> Spreads:
        return self.at.back(self._start)

    def apart(self, rank: int, _: int, many: int) -> Iterator[Way]:
        """How this many may cross from a rank, if each were collected by itself."""
        one = self.collected[rank]
        for time_us, count in zip(one.times, one.counts, strict=True):
            yield Way(time_us, many * count, count)

    def together(self, rank: int, _: int, many: int) -> Iterator[Way]:
        """How this many may cross from a rank: what they can be sums of, the later the more."""
        one, all_of_them = self.collected[rank], self._back.of(rank, many)
        for time_us in sorted({*one.times, *all_of_them.times}):
            count = one.at(time_us)
            together = min(many * count, all_of_them.at(time_us))
            if together:
                yield Way(time_us, together, count)
            if together == many * self.contributors:
                return

    def turns(self, shared: bool, crossings: _Ways | None = None) -> Turns:
        """Groups of these crossings, by default all; if `shared`, their sums share the network of W."""
        at, worth_of_one = self.at, self.contributors * self.wanting
        crossings = crossings or (self.together if shared else self.apart)
        ports = at.ports(self.w, crossings, lambda many: many * worth_of_one, self._looks(shared), shared)
        caps = [at.every.many_on_any(links) * worth_of_one for _, links in ports]
        routes = [replace(way, cap=cap) for (way, _), cap in zip(ports, caps, strict=True)]
        return Turns(routes, at.horizon_us, at.budget)

    def _looks(self, shared: bool) -> Callable[[int, int], object]:
        """What tells ranks and their links apart."""
        if shared:
            return lambda rank, link: (self.collected[rank].key(), int(self.at.looks[rank]))
        return lambda rank, link: self.collected[rank].key()

    def firsts(self) -> Iterator[First]:
        """Numbers of sums, some times as many as ports, that are not collected as soon as one alone."""
        ports, most = len(np.unique(self.at.port)), len(self.at.crossing.chunks)
        if ports < 2 or not self.are_equivalent:
            return
        whole_us = [steps.first(self.contributors) for steps in self.collected]
        alone_us = min((each_us for each_us in whole_us if each_us is not None), default=self.at.horizon_us)
        times = range(STAGED_CUT_MOST_FIRST_SUMS, 0, -1)
        for many in sorted({min(most, ports * each) for each in times}, reverse=True):
            from_us = self._collected_us(many) * (1 - EQUAL)
            if from_us <= alone_us:
                return  # fewer are not later
            yield First(self, many, from_us)

    def _collected_us(self, many: int) -> float:
        """A moment before which this many sums cannot be there with all contributions from outside W."""
        at, topology = self.at, self.at.problem.topology
        links, layer = at.crossing.links, at.every.so_many(many)
        held = np.zeros(len(at.inside), dtype=np.int64)
        for rank in np.unique(topology.src[links]).tolist():
            held[rank] = min(many, at.every.many_on_any(links[topology.src[links] == rank]))
        back, soonest_us = at.turned_round.problem, at.horizon_us
        for rank in np.unique(at.looks[self.contributing]).tolist():
            own, enough = held.copy(), np.zeros_like(held)
            own[rank], enough[rank] = min(many // self.contributors, int(held[rank])), many
            k = gathered(
                *(back, layer, own, at.horizon_us, at.budget), enough=enough, at_ends=at.turned_at_ends
            )
            first_us = k[rank].first(many)
            soonest_us = min(soonest_us, at.horizon_us if first_us is None else first_us)
        return soonest_us


@dataclass(frozen=True, eq=False)
class First:
    """Sums that enter W, of which this many are not all collected before a moment."""

    sums: SumsEntering
    many: int
    from_us: float

    @property
    def need(self) -> int:
        """What all groups are worth, with a contribution less to those that are collected sooner."""
        return self.sums.need - (self.many - 1) * self.sums.wanting

    def least_end_us(self, known_us: float) -> float:
        """When all sums can have crossed; 0 where that is no later than what is known."""
        return self.sums.turns(True, self._ways).least_end_us(self.need, known_us)

    def _ways(self, rank: int, link: int, many: int) -> Iterator[Way]:
        """From then on, as ever; sooner, with a contribution less to each sum."""
        contributors = self.sums.contributors
        at_first: Way | None = None
        for way in self.sums.together(rank, link, many):
            sooner = Way(
                way.from_us, min(way.many, many * (contributors - 1)), min(way.once, contributors - 1)
            )
            if way.from_us > self.from_us:
                if at_first is not None:
                    yield at_first
                    at_first = None
                yield way
            else:
                at_first = Way(self.from_us, way.many, way.once)
                yield sooner
        if at_first is not None:
            yield at_first
