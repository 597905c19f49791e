r"""What comes last through a cut, gathered by each rank beyond it in growing groups.

Let W be a set of ranks, C the chunks that must enter it and D the ranks of W that want all of them. By y at
most N(y) chunks of C can have arrived in W, in groups that take turns on its ports. So q = |C| - N(y) come
after y, and each rank of D gathers these q from what came into W after y.

*Gathered.* That is K of `postal` on the links inside W, counted from y on: at first nobody holds anything,
and over a port into W come groups, of which one may arrive at once, and others no sooner after each other
than a turn of one chunk.

*By whom.* Until T at most 1 + (T - y) / (one turn) such groups arrive through a port. If these are fewer, in
all, than there are ranks in D, none of them comes to some rank of D: it gathers the q chunks from others.

Behind eight NICs that let in one chunk each at the end, each of 16 ranks has to gather 8 chunks. One that has
none of them from a NIC gets 1, 1 or 2, and 2 to 4 of them in its first three groups. So it needs a fourth
group: four alphas and eight bodies, where `staged_cut` sees four rounds of one chunk each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, node_cuts
from taccl.encoding.bounds.first_times import CLOSE, Ends, OutOfBudget, Steps, gathered, is_large
from taccl.encoding.bounds.port_turns import Routes, StepTable, least_end_us
from taccl.encoding.bounds.postal import Layer, held_at_start, nearest_us
from taccl.encoding.bounds.staged_cut import Entries, looks_equivalent, one_of_each_orbit
from taccl.encoding.bounds.tuning import LATE_HORIZON, LATE_SHARE
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.tolerance import EQUAL
from taccl.support.budget import Budget

#: No more cuts than this are looked at, and this many of the last moments at which more can have arrived.
_MOST_CUTS, _MOST_MOMENTS = 8, 6
#: Moments in the first of this many parts of that do not matter.
_FIRST = 1000


@dataclass(frozen=True)
class _Port:
    """A port into W: its links, the most chunks of a group, and the least time between two arrivals."""

    links: IntArray
    most: int
    apart_us: float

    def arrivals(self, lasting_us: float) -> float:
        """How many groups may arrive in so long, at most."""
        if self.apart_us <= 0:
            return math.inf
        return 1 + math.floor(lasting_us / self.apart_us * (1 + EQUAL))


class _Late:
    """The chunks that must enter W over some links."""

    def __init__(
        self, instance: Instance, inside: BoolArray, crossing: Crossing, horizon_us: float, budget: Budget
    ) -> None:
        problem = instance.problem
        self.instance, self.problem, self.crossing, self.inside = instance, problem, crossing, inside
        self.horizon_us, self.budget = horizon_us, budget
        wants = instance.demand.wants
        chosen = np.zeros(problem.num_chunks, dtype=np.bool_)
        chosen[crossing.chunks] = True
        many = np.bincount(wants.rank[chosen[wants.chunk]], minlength=problem.num_ranks)
        self.wanting = inside & (many == len(crossing.chunks))
        self.ports: list[_Port] = []
        self.routes: list[Routes] = []
        if not self.wanting.any():
            return
        self.within = Layer.of(instance, crossing.chunks, inside)
        self.looks = looks_equivalent(instance, inside, chosen)
        every = self.every = Layer.of(instance, crossing.chunks)
        near, held = nearest_us(instance, every), held_at_start(instance, every)
        enough = np.zeros_like(held)
        enough[problem.topology.src[crossing.links]] = len(every.chunks)
        self.held = gathered(problem, every, held, horizon_us, budget, near, enough)
        self.many_on = every.many_on()
        self.pair = instance.once(Covers).narrowest(crossing.links).pair
        self.port = problem.topology.incidence[1][self.pair]
        through = [
            self._through(crossing.links[self.port == port], self.pair[self.port == port])
            for port in np.unique(self.port).tolist()
        ]
        self.ports = [each[0] for each in through if each is not None]
        self.routes = [each[1] for each in through if each is not None]

    def _groups(self, link: int, pair: int) -> Iterator[tuple[float, float, float, int]]:
        """For each size of a group over a link: from when on, how long, how long its port is busy."""
        topology, chunk_mb = self.problem.topology, self.problem.chunk_mb
        held = self.held[int(topology.src[link])]
        for count in range(1, min(held.last, int(self.many_on[link]), self.problem.max_group) + 1):
            first_us, size_mb = held.first(count), np.array([count * chunk_mb])
            takes_us = float(topology.duration_us(np.array([link]), size_mb)[0])
            if first_us is not None:
                yield first_us, takes_us, float(topology.port_busy_us(np.array([pair]), size_mb)[0]), count

    def _through(self, links: IntArray, pairs: IntArray) -> tuple[_Port, Routes] | None:
        """A port by which some links lead into W; None where nothing can come in time."""
        rows = dict.fromkeys(
            row
            for link, pair in zip(links.tolist(), pairs.tolist(), strict=True)
            for row in self._groups(link, pair)
        )
        if not rows:
            return None
        from_us, takes_us, busy_us, most = (np.array(column) for column in zip(*rows, strict=True))
        after = takes_us - busy_us
        port = _Port(links, int(most.max()), float(busy_us.min() + after.min() - after.max()))
        table, none = StepTable.of([Steps([0.0], [1])]), np.zeros_like(most)
        cap = self.every.many_on_any(links)
        return port, Routes(from_us, takes_us, busy_us, most, most, most, none, none, (table, table), cap)

    def _coming(self, many: int) -> list[Steps]:
        """How many of this many late chunks can have come from outside to each rank, counted from y on."""
        usable = np.zeros(self.problem.topology.num_links, dtype=np.bool_)
        usable[self.crossing.links] = True
        ends = Ends.of(self.problem, usable, outgoing=False)
        come = [Steps() for _ in self.inside]
        for rank, places in zip(ends.rank_of_slot, ends.links_of_slot, strict=True):
            link, pair = (np.array([column[place] for place in places]) for column in (ends.link, ends.pair))
            if (through := self._through(link, pair)) is not None:
                come[rank] = _more(come[rank], through[0], many, self.horizon_us)
        return come

    def arrived(self, end_us: float) -> int:
        """N: how many chunks can have arrived by a moment."""
        close, meter = CLOSE * self.horizon_us, self.budget.meter()
        return sum(routes.worth(end_us, routes.cap, close, meter) for routes in self.routes)

    def moments(self) -> Iterator[tuple[float, int]]:
        """The last moments before which this many chunks can have arrived at most, the latest first."""
        many = len(self.crossing.chunks)
        for _ in range(_MOST_MOMENTS):
            moment = least_end_us(self.routes, many, self.horizon_us / _FIRST, self.horizon_us, self.budget)
            if not moment:
                return
            many = self.arrived(moment)
            yield moment, many
            if not many:
                return

    def least_end_us(self) -> float:
        """The best over these moments."""
        best = 0.0
        for moment, many in self.moments():
            best = max(best, moment + self.gathered_us(len(self.crossing.chunks) - many))
        return best

    def gathered_us(self, many: int) -> float:
        """How long it takes the ranks of D to gather this many chunks that come late; 0 if nothing is
        known.
        """
        come = self._coming(many)
        ranks = np.unique(self.looks[self.wanting]).tolist()
        soonest_us = min((self._alone_us(rank, many, come) for rank in ranks), default=0.0)
        groups = sum(port.arrivals(soonest_us) for port in self.ports)
        return soonest_us if groups < int(self.wanting.sum()) else 0.0

    def _alone_us(self, rank: int, many: int, come: list[Steps]) -> float:
        """When a rank to which none of them comes from outside can hold this many."""
        held = np.zeros(len(self.inside), dtype=np.int64)
        others = [Steps() if number == rank else each for number, each in enumerate(come)]
        enough = np.zeros_like(held)
        enough[rank] = many
        layer = self.within.so_many(many)
        k = gathered(self.problem, layer, held, self.horizon_us, self.budget, enough=enough, arrivals=others)
        first = k[rank].first(many)
        return self.horizon_us if first is None else first


def _more(come: Steps, port: _Port, many: int, horizon_us: float) -> Steps:
    """What comes to a rank if a port brings more to it: a group at once, and others apart."""
    if port.apart_us <= 0:
        return Steps([0.0], [many])
    moments = dict.fromkeys(come.times)
    count, turn = port.most, 0
    own = Steps([0.0], [min(many, count)])
    while own.last < many and (turn + 1) * port.apart_us <= horizon_us:
        turn += 1
        own.grow(turn * port.apart_us, min(many, own.last + port.most))
    total = Steps()
    for moment in sorted({*moments, *own.times}):
        both = min(many, come.at(moment) + own.at(moment))
        if both > total.last:
            total.grow(moment, both)
    return total


def _late_bound(view: View, cut: Cut, known_us: float, budget: Budget) -> Proof:
    nothing = LATE.proof(0.0, "nothing comes late")
    crossings = view.instance.once(Crossings).of(cut)
    if not crossings:
        return nothing
    inside, crossing = members(view.problem.num_ranks, cut.ranks), crossings[-1]
    try:
        at = _Late(view.instance, inside, crossing, LATE_HORIZON * known_us, budget)
        if not at.ports:
            return nothing
        value_us = at.least_end_us()
    except OutOfBudget:
        return nothing
    through = name_ports(view.problem, np.unique(at.port))
    return LATE.proof(
        value_us, f"{len(crossing.chunks)} chunks {cut.name} through {through}, the last gathered"
    )


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    yield LATE.proof(0.0, "nothing comes late")
    instance = view.instance
    if not known_us or view.backwards or view.problem.collective.is_reduction or is_large(view.problem):
        return
    for cut in one_of_each_orbit(instance, node_cuts(instance))[:_MOST_CUTS]:
        if not budget.remaining_s():
            return
        if instance.once(Entries).may_come_to(cut, known_us):
            yield _late_bound(view, cut, known_us, budget.share(LATE_SHARE))


LATE = Bound(
    name="late",
    about="a node: what comes last through its narrow links, gathered by each rank there in growing groups",
    remedy="more or faster links there, or shorter alphas inside",
    prove=_prove,
    features=RELAXED,
)
