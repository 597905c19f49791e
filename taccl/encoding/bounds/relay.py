r"""What crosses a cut in sends still has to be passed on behind it: how a pipeline is filled, and empties.

Let W be a set of ranks, V the MB that must enter it, and let d >= 2 ranks of W want all of that. Take a
schedule and a horizon H that is no less than its time. A part of V comes to each of the d ranks by some last
crossing into W. Say that a crossing that ends L before H *serves* R <= d of the ranks with it. So all
crossings, of m MB each, serve sum of m R = V d. For some Y <= H let

    late(t) = max(0, 1 - t / Y).

*Passed on.* Of the ranks that a crossing serves all but its receiver get the part by a later link inside W,
in a group that begins sigma <= L before H. So

    sum over crossings of m (R - 1) late(L)  <=  B  =  sum over what is passed on of m late(sigma).

With R <= d, and as m R - m (R - 1) late(L) is no more than m v(L) with v(L) = 1 + (d - 1) min(1, L / Y),

    V d  <=  B + sum over crossings of m v(L).

*Turns.* Through a port p that takes a_p for the alpha of a group (0 where an alpha is no time of the port)
and beta_p for a MB, groups follow each other. So what is served, and what is passed on, is limited by what
ports have time for. Number groups from the end, the i-th being busy for s_i = a_p + beta_p m_i. Of a cover of
the links into W each port lets through, in the last Y, with the last group ending J before H and Z = Y - J,
what is worth

    sum of (s_i - a) v(J + s_1 + .. + s_(i-1)) / beta,          s_1 + .. + s_K = Z,

and before that no more than d for each 1 / beta of the time: of a group that is busy x before the last Y and
y in them, its s_i - a are no more than x + max(0, y - a), and v <= d. Idle time between two groups is worth
no more than the earlier one made larger. Of a cover of the links inside W to the d ranks each port passes on
at most sum of (s_i - a) late(s_1 + .. + s_i) / beta. In both the s_i make a sum of squares: with
kappa = (d - 1) / Y the first is 1 / beta times

    (1 + kappa J) (Z - K a) + kappa (Z^2 / 2 - q),     q = sum of s_i^2 / 2 + c_i s_i,  c_i = a (K - i),

and the second 1 / beta times Z - K a - (Z^2 / 2 + q) / Y with c_i = -a (K - i + 1). The least q is at s_i = Z
/ K + mean(c) - c_i, and J and Z are where derivatives vanish. There a group is no larger than nothing once
K (K + 1) > 2 Z / a; one group fewer is no worse then, for a group of nothing leaves its alpha to others.

So with rate = sum of 1 / beta_p over the ports into W, and A what they serve in the last Y at most,

    H  >=  Y + (V d - A - B) / (d rate)  =: t(Y).

If t(Y) >= Y, no schedule is faster than t(Y): with a time T below it H = max(T, Y) is less than t(Y), too.

Nothing is assumed of the number of chunks. Few large sends are passed on late, and many small ones pay an
alpha each, before the cut and behind it: of one port before it and d - 1 behind it, a and beta alike, about V
beta + c sqrt(a V beta) remains, c = 1.3 for d = 2, 1.8 for 8 and 1.9 for many, where the best equal chunks
take V beta + 2 sqrt(a V beta).

For what copies only: `views` says why that is enough. Read backwards, where ports are busy at the ends of
sends, turns end when groups do, and groups begin no later than their turns: the same holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.bound import RELAXED, Bound, Proof
from taccl.encoding.bounds.capacity import Cover, Covers, name_ports
from taccl.encoding.bounds.cuts import Crossing, Crossings, Cut, members, narrow_cuts, root_cuts
from taccl.encoding.bounds.tuning import (
    RELAY_FARTHEST,
    RELAY_LOOKS,
    RELAY_MOST_GROUPS,
    RELAY_UNITS,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: Taken off, against float error.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Ports:
    """Some ports of equal costs: microseconds of a port for a group, and for each MB."""

    many: int
    alpha_us: float
    us_per_mb: float

    def served(self, lasting_us: float, ranks: int) -> float:
        """A: pairs of a MB and a rank that what comes through them in the last time of all serves."""
        rise = (ranks - 1) / lasting_us
        groups = self._groups(lasting_us)
        if groups is None:
            return self.many * (lasting_us + rise * lasting_us**2 / 2) / self.us_per_mb
        cost_us = self.alpha_us * (groups - 1) / 2
        idle_us = (lasting_us / groups - groups * self.alpha_us + cost_us - 1 / rise) / (1 + 1 / groups)
        idle_us = np.clip(idle_us, 0.0, lasting_us)
        busy_us = lasting_us - idle_us
        square = busy_us**2 / 2 - self._least_square(groups, busy_us, cost_us)
        value = (1 + rise * idle_us) * (busy_us - groups * self.alpha_us) + rise * square
        return self.many * max(0.0, float(value.max())) / self.us_per_mb

    def passed_on(self, lasting_us: float) -> float:
        """B: the MB that they pass on in the last time of all, each the less the later it begins."""
        groups = self._groups(lasting_us)
        if groups is None:
            return self.many * lasting_us / 2 / self.us_per_mb
        cost_us = -self.alpha_us * (groups + 1) / 2
        busy_us = np.clip((lasting_us - cost_us) / (1 + 1 / groups), 0.0, lasting_us)
        square = busy_us**2 / 2 + self._least_square(groups, busy_us, cost_us)
        value = busy_us - groups * self.alpha_us - square / lasting_us
        return self.many * max(0.0, float(value.max())) / self.us_per_mb

    def _groups(self, lasting_us: float) -> np.ndarray | None:
        """Numbers of groups of which some is best; None where alphas are too short to count."""
        if self.alpha_us <= 0 or lasting_us / self.alpha_us > RELAY_MOST_GROUPS**2 / 2:
            return None
        return np.arange(1, math.isqrt(math.ceil(2 * lasting_us / self.alpha_us)) + 2)

    def _least_square(self, groups: np.ndarray, busy_us: np.ndarray, cost_us: np.ndarray) -> np.ndarray:
        """The least q, with the mean of c."""
        variance = self.alpha_us**2 * (groups**2 - 1) / 12
        return np.asarray(busy_us**2 / (2 * groups) + busy_us * cost_us - groups * variance / 2)


@dataclass(frozen=True)
class Way:
    """What has to come in, and what passes it on.

    Parameters
    ----------
    size_mb : V.
    ranks : d.
    entry, inside : ports of a cover of the links into W, and of the links inside it.
    """

    size_mb: float
    ranks: int
    entry: tuple[Ports, ...]
    inside: tuple[Ports, ...]

    def least_us(self) -> float:
        """The largest t(Y) of those that are looked at and prove something, microseconds."""
        rate = sum(ports.many / ports.us_per_mb for ports in self.entry)
        alone_us = self.size_mb / rate
        low, high, best = alone_us / RELAY_FARTHEST, alone_us * RELAY_FARTHEST, alone_us
        for _ in range(3):
            lasting = np.geomspace(low, high, RELAY_LOOKS).tolist()
            proved = [time_us if (time_us := self._at(each, rate)) >= each else 0.0 for each in lasting]
            top = int(np.argmax(proved))
            best = max(best, proved[top])
            low, high = lasting[max(0, top - 1)], lasting[min(len(lasting) - 1, top + 1)]
        return best * (1 - _ROUNDING)

    def _at(self, lasting_us: float, rate: float) -> float:
        served = sum(ports.served(lasting_us, self.ranks) for ports in self.entry)
        passed_on = sum(ports.passed_on(lasting_us) for ports in self.inside)
        return lasting_us + (self.size_mb * self.ranks - served - passed_on) / (rate * self.ranks)


def _ways(view: View, budget: Budget) -> Iterator[tuple[Way, str]]:
    """What comes into each set of ranks that is worth a look, with its name."""
    instance, problem = view.instance, view.problem
    for cut in [*narrow_cuts(instance), *root_cuts(instance)]:
        if not budget.remaining_s():
            return
        inside = members(problem.num_ranks, cut.ranks)
        for crossing in instance.once(Crossings).of(cut):
            way = _way(view, inside, crossing)
            if way is not None:
                yield way, _named(view, cut, crossing, way)


def _way(view: View, inside: BoolArray, crossing: Crossing) -> Way | None:
    instance, topology = view.instance, view.problem.topology
    wanting = _wanting(instance, inside, crossing)
    links = np.flatnonzero(inside[topology.src] & wanting[topology.dst])
    ranks = int(wanting.sum())
    if ranks < 2 or not len(links) or not view.problem.chunk_mb:
        return None
    covers = instance.once(Covers)
    entry, within = (_ports(instance, covers.narrowest(each)) for each in (crossing.links, links))
    if not entry or not within:
        return None
    units = len(crossing.chunks) if view.units is None else float(view.units[crossing.chunks].sum())
    return Way(units * view.problem.chunk_mb, ranks, entry, within)


def _ports(instance: Instance, cover: Cover) -> tuple[Ports, ...]:
    """The ports of a cover by their costs; none where some take no time for a MB."""
    topology, chunk_mb = instance.problem.topology, instance.problem.chunk_mb
    busy_us = topology.port_busy_us(cover.pair, np.zeros(len(cover.pair)))
    alpha_us = np.full(len(cover.ports), np.inf)
    np.minimum.at(alpha_us, cover.place, busy_us)
    costs, many = np.unique(np.stack([alpha_us, cover.chunk_us / chunk_mb]), axis=1, return_counts=True)
    if not (costs[1] > 0).all():
        return ()
    return tuple(Ports(*each) for each in zip(many.tolist(), *costs.tolist(), strict=True))


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


def _named(view: View, cut: Cut, crossing: Crossing, way: Way) -> str:
    through = name_ports(view.problem, view.instance.once(Covers).narrowest(crossing.links).ports)
    return f"{way.size_mb:g} MB {cut.name} through {through}, passed on to {way.ranks} ranks"


def _prove(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    if view.instance.demand.reduces.any():
        return
    seen: set[Way] = set()
    for way, witness in _ways(view, budget):
        if way not in seen:
            seen.add(way)
            budget.spend(RELAY_UNITS)
            yield RELAY.proof(way.least_us(), witness, any_chunks=True)


def _both_ways(problem: Problem) -> bool:
    """Whether sums are made and spread: both phases share the time, which lines of one of them do not see."""
    collective = problem.collective
    return bool((collective.reduces & (collective.num_wanted > 1)).any())


RELAY = Bound(
    name="relay",
    about="what comes into a set of ranks in groups is passed on there, however it is cut: large groups are "
    "passed on late, and small ones pay an alpha each, on ports before and behind that line",
    remedy="shorter alphas, or more or faster links into those ranks or between them",
    prove=_prove,
    features=RELAXED,
    has_any_chunks=True,
    is_late=_both_ways,
)
