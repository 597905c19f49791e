r"""What comes into a node in groups is passed on inside it until the end, so the last groups must be small.

Let W be a set of ranks, C the chunks that must enter it, and let d ranks of W want all of them. Take a
schedule of time T and look back from its end. Of the sends into W number those that first bring some chunk of
C by their ends, the last one first: the j-th ends tau_j before T and first brings n_j, and D_j is the sum of
the first j of them.

*Passing on.* What the first j bring is nowhere in W sooner than tau_j before T, and d ranks want it. All
sends into W bring |C| + x chunks of C, so at least (d - 1) D_j - x of these are brought by links inside W to
ranks that want them, in tau_j: with ports q of a cover of these links, in chunks,

    (d - 1) D_j - x  <=  S(tau_j)  =  sum over q of max(0, tau_j - alpha_q) / (s beta_q).

*Coming in.* Let the links into W have a cover of ports p with R = sum of 1 / (s beta_p), and let a be the
least of what an alpha keeps a port busy, in chunks of that port. In T the ports have time for R T chunks: |C|
of it are for what comes first, a K for the alphas of the K sends that bring it, and what is left, I, is idle,
or busy for x and for what is dearer than the least. In tau_j they were busy for what comes first with no
others than the first j - 1, so

    R tau_j  <=  D_(j-1) + a (j - 1) + I,        R T  =  |C| + a K + I,        x  <=  I.

All of I may lie at the end and be x, too: there one chunk comes again while others are passed on. So D_j
grows no faster than S with all of I, and x = floor(I), allow: few large sends are not passed on in time, and
many small ones pay a each. The least T over K and I is a bound.

NVLink inside of 8 GPUs that is hardly faster than their NICs allows sends to shrink to the end by a tenth of
each other only, so some sixty of them are needed. An alpha that is no time of the port counts as none. For
what copies only: `views` says why that is enough.

The argument looks back from the end, but reverses nothing: it counts what ports carry in the last tau_j of a
schedule that runs forwards. So it needs no machine whose schedules can be read backwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Cover, Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, members, node_cuts
from taccl.encoding.bounds.tuning import RELAY_ONE_BY_ONE, RELAY_UNITS
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: How often what is left is halved to find the least.
_HALVINGS = 40
#: A number that lacks no more than this of a whole one is whole.
_WHOLE = 1e-9
#: Taken off, against float error.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Way:
    """What has to come in, and what passes it on.

    Parameters
    ----------
    chunks : |C|.
    others : d - 1.
    most : chunks in one send.
    rate : R, chunks in a microsecond.
    alpha : a, in chunks.
    inside : how many ports q there are, and alpha_q and s beta_q of each, microseconds.
    """

    chunks: int
    others: int
    most: int
    rate: float
    alpha: float
    inside: tuple[tuple[int, float, float], ...]

    def least_us(self, budget: Budget) -> float:
        """The least T; what is said if the budget is over before all numbers of sends were looked at: 0."""
        best, sends, meter = math.inf, 1, budget.meter()
        while (self.chunks + self.alpha * sends) / self.rate < best:
            until = sends + max(1, sends // RELAY_ONE_BY_ONE)
            if not meter.goes_on(RELAY_UNITS * _HALVINGS * until):
                return 0.0
            best = min(best, (self.chunks + self.alpha * sends + self._least_spare(until - 1)) / self.rate)
            sends = until
        return best

    def _least_spare(self, sends: int) -> float:
        """The least I with which this many sends can bring all, or a little less; infinite: none is."""
        if sends * self.most < self.chunks:
            return math.inf
        low, high = 0.0, 1.0
        while self._brought(sends, high) < self.chunks:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._brought(sends, middle) >= self.chunks else (middle, high)
        return low

    def _brought(self, sends: int, spare: float) -> int:
        """The most that this many sends can bring, with I; 0: not all of them can bring something."""
        brought, again = 0, math.floor(spare + _WHOLE)
        for earlier in range(sends):
            tau_us = (brought + self.alpha * earlier + spare) / self.rate
            passed_on = sum(many * max(0.0, tau_us - alpha) / cost for many, alpha, cost in self.inside)
            now = min(math.floor((passed_on + again) / self.others + _WHOLE), brought + self.most)
            if now >= self.chunks:
                return now
            if now <= earlier:
                return 0
            brought = now
        return brought


def _routes(view: View) -> Iterator[tuple[_Way, str]]:
    """What comes into each node, with its name."""
    instance, problem = view.instance, view.problem
    topology = problem.topology
    for cut in node_cuts(instance):
        inside = members(problem.num_ranks, cut.ranks)
        if len(np.unique(topology.node_of[inside])) > 1:
            continue
        for crossing in instance.once(Crossings).of(cut):
            wanting = _wanting(instance, inside, crossing)
            links = np.flatnonzero(inside[topology.src] & wanting[topology.dst])
            others = int(wanting.sum()) - 1
            if others < 1 or not len(links):
                continue
            within, entry = (instance.once(Covers).narrowest(each) for each in (links, crossing.links))
            if not (within.chunk_us > 0).all() or not (entry.chunk_us > 0).all():
                continue
            alpha = float((_busy_alpha_us(instance, entry) / entry.chunk_us).min())
            if alpha > 0:
                ports = tuple((many, *costs) for costs, many in within.rates.items())
                rate = entry.chunks_per_us
                way = _Way(len(crossing.chunks), others, problem.max_group, rate, alpha, ports)
                through = name_ports(problem, entry.ports)
                yield way, f"{way.chunks} chunks {cut.name} through {through}, passed on to {others} ranks"


def _wanting(instance: Instance, inside: BoolArray, crossing: Crossing) -> BoolArray:
    """The ranks inside that want all chunks of a crossing, shape (num_ranks,)."""
    demand = instance.demand
    if demand.all_wanted_by is not None:
        return inside & members(len(inside), demand.all_wanted_by)
    chosen = np.zeros(demand.num_chunks, dtype=np.bool_)
    chosen[crossing.chunks] = True
    wants = demand.wants
    many = np.bincount(wants.rank[chosen[wants.chunk]], minlength=len(inside))
    wanting: BoolArray = inside & (many == len(crossing.chunks))
    return wanting


def _busy_alpha_us(instance: Instance, entry: Cover) -> FloatArray:
    """The least that an alpha keeps each port of a cover busy, shape (num_ports,)."""
    topology = instance.problem.topology
    busy_us = topology.port_busy_us(entry.pair, np.zeros(len(entry.pair)))
    least = np.full(len(entry.ports), np.inf)
    np.minimum.at(least, np.searchsorted(entry.ports, topology.incidence[1][entry.pair]), busy_us)
    return least


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.instance.demand.reduces.any():
        return
    seen: set[_Way] = set()
    for way, witness in _routes(view):
        if way not in seen:
            seen.add(way)
            yield RELAY.proof(way.least_us(budget) * (1 - _ROUNDING), witness)


RELAY = Bound(
    name="relay",
    about="what comes into a node in groups still has to be passed on inside, so groups shrink to the end, "
    "and the more there are, the more alphas its links pay",
    remedy="more or faster links inside or into that node, or shorter alphas there",
    prove=_prove,
    features=RELAXED,
)
