r"""Sums through several ports into a node: what leaves first through all of them is collected at once.

`stages` asks of each group by itself how soon it can be collected. Where eight NICs have to begin at once,
the first groups of all eight are collected by then, in the same ranks and through the same ports.

Let W be a set of ranks, C the sums that must enter it, X the ranks outside W, a >= 2 of which contribute to
all of C and the others to none, and d the ranks of W that want each. A pair of a contribution and a rank of
W that wants the sum is served by the crossing by which it came there: one for each pair, so all crossings
serve |C| a d pairs. Call a sum *whole for r* at a crossing that serves r with all a contributions.

*Until x.* Let it take until x to collect m sums (see below). Count each crossing before x as if it served a
rank with at most a - 1 contributions to a sum. A crossing at which a sum is not whole for a rank serves that
rank with at most a - 1 of them, so nothing is left out there. Where it is whole, one is left out of the a
that the crossing serves; and each pair of a contribution and a rank is served by one crossing, so all a
pairs of this sum and this rank are served there, and one is left out for this sum and rank only once. Before
x at most m - 1 sums are whole anywhere, each for at most d ranks. So at most (m - 1) d pairs are left out,
and by T all groups are worth

    |C| a d - (m - 1) d    or more.

Their worth is that of `stages`: groups that leave at x or later as there, and those that leave sooner with
a - 1 contributions to one sum, and n (a - 1) to n sums, where there were more.

*Collected.* Let each of m sums be whole at some rank from which it may cross. By the lemma of `staged_cut`
the last transfers on the way of each are a tree, and read backwards those are copies of m chunks, from where
the sums are to all a ranks, in groups that are no larger. Some contributor r has floor(m / a) of the sums or
fewer, and another rank no more than may cross from there. So r comes to hold all m no sooner than K of
`postal` allows on the reversed links from such a start, and x is the least of these times over r.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, node_cuts
from taccl.encoding.bounds.first_times import OutOfBudget, gathered, is_large
from taccl.encoding.bounds.staged_cut import Entries, in_turn, on_reversed_links
from taccl.encoding.bounds.stages import Entering, SumsEntering, Way
from taccl.encoding.bounds.tuning import (
    ALL_PORTS_HORIZON,
    ALL_PORTS_MOST_COUNTS,
    ALL_PORTS_MOST_CUTS,
    ALL_PORTS_MOST_S,
    ALL_PORTS_SHARE,
)
from taccl.encoding.bounds.views import View
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class _First:
    """Sums that enter W, of which this many are not all collected before a moment."""

    sums: SumsEntering
    many: int
    from_us: float

    def routes(self, rank: int, link: int, many: int) -> Iterator[Way]:
        """How this many may cross: from then on, as ever; sooner, with a contribution less to each sum."""
        contributors = self.sums.contributors
        at_first: Way | None = None
        for way in self.sums.routes(rank, link, many):
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

    def least_end_us(self, known_us: float) -> float:
        """When all sums can have crossed; 0 where that is no later than what is known."""
        return self.sums.least_end_us(self.routes, known_us, (self.many - 1) * self.sums.wanting)


def _firsts(sums: SumsEntering) -> Iterator[_First]:
    """Numbers of sums, some times as many as ports, that are not collected as soon as one alone."""
    at = sums.at
    ports, most = len(np.unique(at.port)), len(at.crossing.chunks)
    whole_us = [steps.first(sums.contributors) for steps in sums.collected]
    alone_us = min((each_us for each_us in whole_us if each_us is not None), default=at.horizon_us)
    for many in sorted(
        {min(most, ports * times) for times in range(1, ALL_PORTS_MOST_COUNTS + 1)}, reverse=True
    ):
        from_us = _collected_us(sums, many) * (1 - EQUAL)
        if from_us <= alone_us:
            return  # fewer are not later
        yield _First(sums, many, from_us)


def _collected_us(sums: SumsEntering, many: int) -> float:
    """A moment before which this many sums cannot be there with all contributions from outside W."""
    at, topology = sums.at, sums.at.problem.topology
    links, layer = at.crossing.links, at.every.so_many(many)
    held = np.zeros(len(at.inside), dtype=np.int64)
    for rank in np.unique(topology.src[links]).tolist():
        held[rank] = min(many, at.every.many_on_any(links[topology.src[links] == rank]))
    soonest_us = at.horizon_us
    for rank in np.unique(at.looks[sums.contributing]).tolist():
        own, enough = held.copy(), np.zeros_like(held)
        own[rank], enough[rank] = min(many // sums.contributors, int(held[rank])), many
        back = at.instance.once(on_reversed_links).problem
        k = gathered(back, layer, own, at.horizon_us, at.budget, enough=enough)
        first_us = k[rank].first(many)
        soonest_us = min(soonest_us, at.horizon_us if first_us is None else first_us)
    return soonest_us


def _all_ports_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof | None:
    """The best over numbers of sums that are collected first; None for nothing beyond what is known."""
    inside = members(view.problem.num_ranks, cut.ranks)
    crossings = view.instance.once(Crossings).of(cut)
    if not crossings:
        return None
    chunks = crossings[-1].chunks
    chunks = chunks[view.problem.collective.reduces[chunks]]
    if not len(chunks):
        return None
    links = crossings[-1].links
    ports = view.instance.once(Covers).narrowest(links).ports
    if len(ports) < 2:
        return None  # `stages` knows what one group by itself needs
    best = None
    try:
        at = Entering(view, inside, Crossing(chunks, links), ALL_PORTS_HORIZON * known_us, budget)
        sums = SumsEntering.of(at)
        if sums is None or not 2 <= sums.contributors == int(sums.contributing.sum()):
            return None
        for first in _firsts(sums):
            end_us = first.least_end_us(known_us)
            if end_us > known_us:
                known_us = end_us
                through = name_ports(view.problem, ports)
                witness = f"{len(chunks)} sums {cut.name} through {through}, {first.many} collected first"
                best = ALL_PORTS.proof(end_us, witness)
    except OutOfBudget:
        pass
    return best


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield ALL_PORTS.proof(0.0, "nothing has to enter")
    instance = view.instance
    if not known_us or view.backwards or is_large(view.problem) or not view.problem.collective.is_reduction:
        return
    budget = budget.at_most(ALL_PORTS_MOST_S)
    for cut, least_us in in_turn(instance, node_cuts(instance), ALL_PORTS_MOST_CUTS, known_us, budget):
        if not instance.once(Entries).may_come_to(cut, least_us):
            continue
        proof = _all_ports_bound(view, cut, least_us, budget.share(ALL_PORTS_SHARE))
        if proof is not None:
            yield proof


ALL_PORTS = Bound(
    name="all-ports",
    about="a node behind several ports: sums that leave first through all of them are collected next to each "
    "other, in the same ranks, before the last of them can leave",
    remedy="more or faster links there, or shorter alphas where sums are collected",
    prove=_prove,
    features=RELAXED,
)
