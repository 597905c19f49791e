r"""What comes last through a cut, gathered by each rank beyond it in growing groups.

Let W be a set of ranks, C the chunks that must enter it and D the ranks of W that want all of them. By y at
most N(y) chunks of C can have arrived in W, in groups that take turns on its ports. So q = |C| - N(y) come
after y, and each rank of D gathers these q from what came into W after y.

*Gathered.* That is K of `steps` on the links inside W, counted from y on: at first nobody holds anything,
and over a port into W come groups, of which one may arrive at once, and others no sooner after each other
than a turn of one chunk.

*By whom.* Until T at most 1 + (T - y) / (one turn) such groups arrive through a port. If these are fewer, in
all, than there are ranks in D, none of them comes to some rank of D: it gathers the q chunks from others.

Behind eight NICs that let in one chunk each at the end, each of 16 ranks has to gather 8 chunks. One that has
none of them from a NIC gets 1, 1 or 2, and 2 to 4 of them in its first three groups. So it needs a fourth
group: four alphas and eight bodies, where each chunk by itself needs four rounds of one chunk each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.entering import Entering
from taccl.encoding.bounds.port_turns import Routes, StepTable, Turns
from taccl.encoding.bounds.steps import gathered, port_at_end
from taccl.model.collective import BoolArray, IntArray
from taccl.model.tolerance import EQUAL

#: This many of the last moments at which more can have arrived are looked at.
_MOST_MOMENTS = 6
#: Moments in the first of this many parts of the horizon do not matter.
_FIRST = 1000


@dataclass(frozen=True)
class _Port:
    """A port into W, or its links to one rank: the most chunks of a group, and the least time between two."""

    most: int
    apart_us: float
    routes: Routes

    def arrivals(self, lasting_us: float) -> float:
        """How many groups may arrive in this time, at most."""
        if self.apart_us <= 0:
            return math.inf
        return 1 + math.floor(lasting_us / self.apart_us * (1 + EQUAL))


def late_us(at: Entering, _: float) -> float:
    """When the ranks that want all chunks can have gathered the last of them; 0 where nothing is known.

    Raises
    ------
    OutOfBudget : before it is known.
    """
    chunks, best = len(at.crossing.chunks), 0.0
    everything: BoolArray = at.want == chunks
    ports = np.unique(at.port).tolist() if everything.any() else []
    each = [_through(at, at.crossing.links[at.port == port], at.pair[at.port == port]) for port in ports]
    there = [port for port in each if port is not None]
    for moment, many in _moments(at, Turns([port.routes for port in there], at.horizon_us, at.budget)):
        late = chunks - many
        come = _coming(at, late)
        ranks = np.unique(at.looks[everything]).tolist()
        soonest_us = min(_alone_us(at, rank, late, come) for rank in ranks)
        if sum(port.arrivals(soonest_us) for port in there) < int(everything.sum()):
            best = max(best, moment + soonest_us)
    return best


def _through(at: Entering, links: IntArray, pairs: IntArray) -> _Port | None:
    """A port by which some links lead into W; None where nothing can come in time."""
    topology, on = at.problem.topology, at.every.many_on()
    rows: dict[tuple[float, float, float, int], None] = {}
    for link, pair in zip(links.tolist(), pairs.tolist(), strict=True):
        held = at.held[int(topology.src[link])]
        count = np.arange(1, min(held.last, int(on[link]), at.problem.max_group) + 1)
        size_mb = count * at.problem.chunk_mb
        takes_us = topology.duration_us(np.full(len(count), link), size_mb).tolist()
        busy_us = topology.port_busy_us(np.full(len(count), pair), size_mb).tolist()
        for many, takes, busy in zip(count.tolist(), takes_us, busy_us, strict=True):
            first_us = held.first(many)
            if first_us is not None:
                rows[first_us, takes, busy, many] = None
    if not rows:
        return None
    from_us, takes, busy, most = (np.array(column) for column in zip(*rows, strict=True))
    after = takes - busy
    table, none = StepTable.of([Steps([0.0], [1])]), np.zeros_like(most)
    cap = at.every.many_on_any(links)
    early = np.zeros_like(takes)
    routes = Routes(from_us, takes, busy, early, most, most, most, none, none, (table, table), cap)
    return _Port(int(most.max()), float(busy.min() + after.min() - after.max()), routes)


def _moments(at: Entering, turns: Turns) -> Iterator[tuple[float, int]]:
    """The last moments before which this many chunks can have arrived at most, the latest first."""
    many = len(at.crossing.chunks)
    for _ in range(_MOST_MOMENTS if turns.ports else 0):
        moment = turns.least_end_us(many, at.horizon_us / _FIRST)
        if not moment:
            return
        many = turns.worth(moment)
        yield moment, many
        if not many:
            return


def _coming(at: Entering, many: int) -> list[Steps]:
    """How many of this many late chunks can have come from outside to each rank, counted from then on."""
    topology, links = at.problem.topology, at.crossing.links
    pair = port_at_end(at.problem, topology.dst)[links]
    port = topology.incidence[1][pair]
    come = [Steps() for _ in at.inside]
    for rank, number in sorted(set(zip(topology.dst[links].tolist(), port.tolist(), strict=True))):
        chosen = (topology.dst[links] == rank) & (port == number)
        through = _through(at, links[chosen], pair[chosen])
        if through is not None:
            come[rank] = _more(come[rank], through, many, at.horizon_us)
    return come


def _alone_us(at: Entering, rank: int, many: int, come: list[Steps]) -> float:
    """When a rank to which none of them comes from outside can hold this many."""
    held: IntArray = np.zeros(len(at.inside), dtype=np.int64)
    others = [Steps() if number == rank else each for number, each in enumerate(come)]
    enough = np.zeros_like(held)
    enough[rank] = many
    layer = at.within.so_many(many)
    k = gathered(at.problem, layer, held, at.horizon_us, at.budget, enough=enough, arrivals=others)
    first = k[rank].first(many)
    return at.horizon_us if first is None else first


def _more(come: Steps, port: _Port, many: int, horizon_us: float) -> Steps:
    """What comes to a rank if a port brings more to it: a group at once, and others apart."""
    if port.apart_us <= 0:
        return Steps([0.0], [many])
    turn, own = 0, Steps([0.0], [min(many, port.most)])
    while own.last < many and (turn + 1) * port.apart_us <= horizon_us:
        turn += 1
        own.grow(turn * port.apart_us, min(many, own.last + port.most))
    total = Steps()
    for moment in sorted({*come.times, *own.times}):
        both = min(many, come.at(moment) + own.at(moment))
        if both > total.last:
            total.grow(moment, both)
    return total
