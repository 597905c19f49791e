r"""Helpers next to the ranks that have to be spanned: with whom each is a part, what enters and leaves it.

A partition inequality of `spanning` counts parts with members only, so a helper that is a part of its own,
or with others like it, proves nothing, and one that is joined to a member m makes the links between the two
free. So each helper is joined to each of its neighbours in turn. With N such *assignments*, a link whose
ends are in one part in n of them is crossed in the N - n others, and each of these may count 1 / (N - n) of
its weight:

    sum over links of w * transfers  >=  sum over assignments of the least tree at weights w / (N - n),

each of the N trees spanning the members with the helpers where the assignment has them. For n members that
reach each other and k helpers all alike, a member's way in or out at the weight 1 and a helper's at (n - 2)
/ n, that is 4 n - 4 for each sum of all for all. With ways of equal speed B no AllReduce of S is faster
than (2 n - 2) S / (n B + k (n - 2) / n B).

*What enters leaves.* Say that a rank knows a contribution once it has anything that it was added to; the
inequalities ask no more than that every wanting rank comes to know all. So leave out, of a program, each
transfer into a helper h that is part of nothing that leaves it; of those that are part of one transfer h ->
r, all from r, and of several from one rank all but the last: who sent it knew by then what it had sent
before. Of transfers out of h that pass on the same part, leave out those to the rank it came from, and all
but the first to each other. All still comes to be known, and with in(h) and out(h) what is left,

    in(h)  <=  sum over h -> r of  k(h, r) transfers,    out(h)  <=  sum over r -> h of  j(h, r) transfers,

where k(h, r) is how many neighbours but r send to h if it may sum, and else 1: then a transfer out of it is
one part. And j(h, r) is how many neighbours but r it sends to, if it copies what it passes on as it is; 1,
if it may not copy: then each part leaves once; and there is no second limit if it may do both, for it can
send many different sums of a few parts. Hence for any price rho >= 0 of the first limit, the weights w +
rho into h and w - k rho out of it prove as much of these transfers as w, as long as none is negative; of
the second likewise. That is what a switch that sums to one rank costs: of n transfers at a sum face that is
next to n ranks one leads out of it at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.tuning import HELPED_MOST_ASSIGNMENTS, HELPED_MOST_LINKS
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology


@dataclass(frozen=True, eq=False)
class Assignment:
    """Each helper with one of its neighbours.

    Parameters
    ----------
    joined : shape (num_ranks,); the rank that each is in one part with: itself, but for helpers.
    share : shape (num_links,); which part of each link's weight counts here, 0 within a part.
    """

    joined: IntArray
    share: FloatArray


def assignments(topology: LogicalTopology, usable: IntArray) -> list[Assignment]:
    """Each helper with each of its neighbours in turn, over usable links; one without helpers.

    On large machines, each with the first alone.
    """
    every = np.arange(topology.num_ranks)
    if topology.is_helper is None:
        return [Assignment(every, np.ones(topology.num_links))]
    neighbours = _neighbours(topology, usable)
    many = max((len(ranks) for ranks in neighbours.values()), default=1)
    many = min(many, HELPED_MOST_ASSIGNMENTS, max(1, HELPED_MOST_LINKS // max(1, len(usable))))
    joined = np.tile(every, (many, 1))
    for helper, ranks in neighbours.items():
        joined[:, helper] = np.resize(ranks, many)
    apart = joined[:, topology.src] != joined[:, topology.dst]
    share = apart / np.maximum(1, apart.sum(axis=0))
    return [Assignment(*each) for each in zip(joined, share, strict=True)]


def _neighbours(topology: LogicalTopology, usable: IntArray) -> dict[int, IntArray]:
    """For each helper the ranks with data that links join it with, ascending."""
    helper = topology.is_helper
    assert helper is not None
    src, dst = topology.src[usable], topology.dst[usable]
    one, other = np.concatenate([src, dst]), np.concatenate([dst, src])
    pairs = np.unique(np.stack([one, other])[:, helper[one] & ~helper[other]], axis=1)
    return {int(rank): pairs[1][pairs[0] == rank] for rank in np.unique(pairs[0])}


@dataclass(frozen=True, eq=False)
class _Limit:
    """No more transfers over the links `most` than `times` as many over the links `least`, by link."""

    most: IntArray
    least: IntArray
    times: FloatArray

    def price(self, weight: FloatArray) -> tuple[float, IntArray, FloatArray]:
        """A price that makes the ways in and out equally dear, with its gradient: links and parts of them.

        As far as no weight becomes negative.
        """
        cheap, dear = weight[self.most], weight[self.least]
        price = (dear.mean() - cheap.mean()) / (1 + self.times.mean())
        if price <= 0:
            return 0.0, self.most[:0], weight[:0]
        tight = int((dear / self.times).argmin())
        most = dear[tight] / self.times[tight]
        if price >= most:
            return float(most), self.least[[tight]], 1 / self.times[[tight]]
        parts = np.concatenate(
            [np.full(len(self.least), 1 / len(self.least)), np.full(len(self.most), -1 / len(self.most))]
        )
        return float(price), np.concatenate([self.least, self.most]), parts / (1 + self.times.mean())


@dataclass(frozen=True, eq=False)
class Balance:
    """Weights of links with the limits of helpers priced, and what a use of links then keeps busy.

    Parameters
    ----------
    weight : shape (num_links,); none is negative.
    priced : the limits with a price, and its gradient.
    """

    weight: FloatArray
    priced: tuple[tuple[_Limit, IntArray, FloatArray], ...] = ()

    def uses(self, links: FloatArray) -> FloatArray:
        """How much of each link, at weights as they were, costs what `links` cost at these; both alike."""
        for limit, of, parts in self.priced:
            over = links[limit.most].sum() - (limit.times * links[limit.least]).sum()
            links = links + np.bincount(of, over * parts, len(links))
        return links


class Limits:
    """What enters and leaves each helper, for chunks that are summed or for those that are copied."""

    def __init__(self, topology: LogicalTopology, usable: IntArray, sums: bool) -> None:
        self._limits = tuple(_limits(topology, usable, sums))

    @property
    def is_helped(self) -> bool:
        """Whether anything passes a helper."""
        return bool(self._limits)

    def balanced(self, weight: FloatArray) -> Balance:
        """Weights, shape (num_links,), with each limit at a price."""
        priced = []
        for limit in self._limits:
            price, of, parts = limit.price(weight)
            if price > 0:
                weight = weight.copy()
                weight[limit.most] += price
                weight[limit.least] = np.maximum(0.0, weight[limit.least] - price * limit.times)
                priced.append((limit, of, parts))
        return Balance(weight, tuple(reversed(priced)))


def _limits(topology: LogicalTopology, usable: IntArray, sums: bool) -> Iterator[_Limit]:
    everyone = np.ones(topology.num_ranks, dtype=np.bool_)
    may_sum, may_copy = (everyone if may is None else may for may in (topology.may_sum, topology.may_copy))
    for helper in range(topology.num_members, topology.num_ranks):
        into, out = (usable[end[usable] == helper] for end in (topology.dst, topology.src))
        if not len(into) or not len(out):
            continue
        adds, copies = sums and bool(may_sum[helper]), bool(may_copy[helper])
        yield _Limit(into, out, _others(topology.src[into], topology.dst[out], adds))
        if not (adds and copies):
            yield _Limit(out, into, _others(topology.dst[out], topology.src[into], copies and not adds))


def _others(ranks: IntArray, ends: IntArray, many: bool) -> FloatArray:
    """For each end how many of the ranks are others, at least 1; or 1."""
    least = np.ones(len(ends))
    return np.maximum(least, len(ranks) - np.isin(ends, ranks)) if many else least
