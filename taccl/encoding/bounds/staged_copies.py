r"""Copies that enter a set of ranks: what is worth how much of what the ranks there want.

Let W be a set of ranks and C the chunks that must enter it (`cuts`). Every rank of W that wants a
chunk of C has it from some last crossing into W, in a group that leaves u at x and arrives at u' at
e. By the end T, one chunk that arrived at u' serves at most w(u', T - e) ranks of W (`steps`, over links
inside W). Cut C into *disjoint sets*, of which no rank of W wants two chunks. A set spreads no faster than
one chunk: put one chunk in the place of all chunks of a set. Every send still happens, with groups that are
no larger; each pair of a chunk of the set and a rank that wants it is then a rank of its own that has the
one chunk. Let

    v         the most ranks of W that want one chunk of C,
    H(u, x)   the most chunks of C, and K(u, x) the most sets with a chunk, that rank u can hold at x.

A group of n chunks then serves at most

    value(n, x, e) = min(n v, min(n, K(u, x)) w(u', T - e)),  where n <= H(u, x).

*Together.* There each chunk of the group serves ranks as if it had the network of W to itself. But the n
chunks share it: rank r of W comes to hold no more than K_n(r, L) of them in what is left, L, K_n being that
of `steps` on the links inside W for n chunks that start at u'. So with want(r) of the chunks wanted at r, the
group serves no more than

    s_n(u', L) = sum over r of min(n, want(r), K_n(r, L)).

*Gathered.* Turned round in time, n chunks that are held at u are n chunks that u spreads to where they start.
So no more than the same sum is held at u by x, on the reversed links, of all chunks that start outside W.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.broadcast_time import may_go_equally
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.entering import Entering, Spreads, Way
from taccl.encoding.bounds.layer import Layer
from taccl.encoding.bounds.port_turns import Turns
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray


class CopiesEntering:
    """The copied chunks that must enter W."""

    def __init__(self, at: Entering) -> None:
        self.at = at
        #: Pairs of a chunk and a rank of W that wants it, and the most of one chunk.
        self.need, self._each = int(at.wanting.sum()), int(at.wanting.max())
        sets = disjoint_sets(at.instance, at.crossing.chunks, at.inside)
        self._sets = Layer.of(at.instance, at.crossing.chunks[np.unique(sets, return_index=True)[1]])
        self._sets_on = self._sets.many_on()

    @cached_property
    def _held_sets(self) -> list[Steps]:
        at = self.at
        return at.held if len(self._sets.chunks) == len(at.every.chunks) else at.gathered(self._sets)

    @cached_property
    def _back(self) -> Spreads:
        starts = self.at.instance.demand.starts
        kept = self.at.chosen[starts.chunk]
        return self.at.back(np.bincount(starts.rank[kept], minlength=len(self.at.inside)))

    def _ways(self, rank: int, link: int, many: int, first_us: float | None) -> Iterator[Way]:
        if first_us is None:
            return
        sets, most = self._held_sets[rank], min(many, int(self._sets_on[link]))
        for time_us in (first_us, *sets.times[bisect_right(sets.times, first_us) :]):
            count = min(most, sets.at(time_us))
            yield Way(time_us, count, 1)
            if count == most:
                return

    def _apart(self, rank: int, link: int, many: int) -> Iterator[Way]:
        """How this many may cross, once the rank can hold them."""
        yield from self._ways(rank, link, many, self.at.held[rank].first(many))

    def _together(self, rank: int, link: int, many: int) -> Iterator[Way]:
        """How this many may cross, once they can have been gathered from where they start."""
        first_us = self.at.held[rank].first(many)
        if first_us:
            later_us = self._back.of(rank, many).first(many)
            first_us = None if later_us is None else max(first_us, later_us)
        yield from self._ways(rank, link, many, first_us)

    def turns(self, shared: bool) -> Turns:
        """Groups that cross; if `shared`, their chunks share the network before and in W."""
        at, crossings = self.at, self._together if shared else self._apart
        ports = at.ports(at.w, crossings, lambda many: many * self._each, self._looks(shared), shared)
        caps = [int(at.wanting[at.every.may_use_any(links)].sum()) for _, links in ports]
        routes = [replace(way, cap=cap) for (way, _), cap in zip(ports, caps, strict=True)]
        return Turns(routes, at.horizon_us, at.budget)

    def _looks(self, shared: bool) -> Callable[[int, int], object]:
        """What tells ranks and their links apart."""
        held, sets, on, looks = self.at.held, self._held_sets, self._sets_on, self.at.looks
        if shared:
            return lambda rank, link: (held[rank].key(), sets[rank].key(), int(on[link]), int(looks[rank]))
        return lambda rank, link: (held[rank].key(), sets[rank].key(), int(on[link]))


def disjoint_sets(instance: Instance, chunks: IntArray, inside: BoolArray) -> IntArray:
    """A number for each chunk, the same for chunks of one set: no rank of W wants two chunks of a set.

    Only chunks that start at the same ranks and may go the same routes come into one set.
    """
    wants = instance.demand.wants
    place = np.full(instance.problem.num_chunks, -1, dtype=np.int64)
    place[chunks] = np.arange(len(chunks))
    kept = (place[wants.chunk] >= 0) & inside[wants.rank]
    chunk, rank = place[wants.chunk[kept]], wants.rank[kept]
    kind = np.unique(may_go_equally(instance)[chunks], return_inverse=True)[1].ravel()
    first = np.searchsorted(chunk, np.arange(len(chunks) + 1))
    number = np.zeros(len(chunks), dtype=np.int64)
    if (np.diff(first) == 1).all():
        # One rank for each chunk: they are counted for each kind and rank.
        key = kind * len(inside) + rank
        order = np.argsort(key, kind="stable")
        begins = np.searchsorted(key[order], key[order])
        number[order] = np.arange(len(chunks)) - begins
    else:
        taken = np.zeros((int(kind.max(initial=0)) + 1, len(inside)), dtype=np.int64)
        for each in range(len(chunks)):
            wanted = rank[first[each] : first[each + 1]]
            number[each] = taken[kind[each], wanted].max(initial=0)
            taken[kind[each], wanted] = number[each] + 1
    return np.unique(np.stack([kind, number]), axis=1, return_inverse=True)[1].ravel()
