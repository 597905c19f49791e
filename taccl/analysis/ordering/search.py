"""The search for an order: exact where hosts are few, else annealed estimates whose best are timed.

Starts are the machine's own order, one by the machine's costs (spectral), and for a ring a tour of OR-tools'
routing. Each round anneals from the best so far or from a start, and times what it found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from taccl.analysis.ordering.bound import PlanBound, plan_bound
from taccl.analysis.ordering.estimate import Estimator
from taccl.analysis.ordering.exact import fastest_of_all
from taccl.analysis.ordering.tours import Ring, least_bottleneck, least_sum, routed_tour
from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.analysis.ordering.tuning import (
    CLIMB_MOVES,
    CLIMB_SENDS,
    COLDEST,
    FOR_ROUTING,
    HOTTEST,
    MOST_EXHAUSTIVE,
    MOST_RING_PROVED,
    PORTS_PER_UNIT,
    PROPOSALS_PER_HOST,
    ROUNDS_IN_VAIN,
    SENDS_PER_UNIT,
    TIMED_PER_ROUND,
)
from taccl.model.network import FloatArray
from taccl.support.budget import MAX_TIME_LIMIT_S, UNITS_PER_S, Budget
from taccl.support.jit import ahead_of_time


@dataclass(frozen=True)
class FoundOrder:
    """The best order of a search.

    Parameters
    ----------
    time_us, before_us : of the plan in this order, and in the machine's own.
    bound : of the plan in any order.
    is_exact : whether all orders were compared.
    """

    order: Order
    time_us: float
    before_us: float
    bound: PlanBound
    is_exact: bool


def find_order(
    traffic: Traffic, budget: Budget, seed: int = 0, most_exhaustive: int = MOST_EXHAUSTIVE
) -> FoundOrder:
    """The fastest order that is found within the budget; the machine's own in any case.

    Parameters
    ----------
    budget : with work to count, the answer does not depend on how busy the computer is.
    most_exhaustive : up to this many hosts every order is compared.
    """
    with ahead_of_time():
        before_us = traffic.time_us(traffic.own_order)
        search = _Search(traffic, budget, seed, (before_us, traffic.own_order))
        bound = plan_bound(traffic)
        if traffic.num_hosts <= most_exhaustive:
            time_us, order, is_exact = fastest_of_all(traffic, search.best, budget)
            if is_exact:
                bound = PlanBound(time_us, "every order was compared")
            return FoundOrder(order, time_us, before_us, bound, is_exact)
        bound = max(bound, search.ring_proved(), key=lambda each: each.value_us)
        search.run(bound.value_us)
    time_us, order = search.best
    return FoundOrder(order, time_us, before_us, bound, is_exact=False)


class _Search:
    """The best so far, and what finds better ones."""

    def __init__(self, traffic: Traffic, budget: Budget, seed: int, best: tuple[float, Order]) -> None:
        self.best = best
        self._traffic, self._budget = traffic, budget
        self._ring = Ring.of(traffic)
        self._rng = np.random.default_rng(seed)
        self._estimator = Estimator.of(traffic)
        self._timed = {best[1]: best[0]}

    def _time(self, order: Order) -> float:
        """The exact time of an order, which becomes the best if it is."""
        if order not in self._timed:
            self._budget.spend(len(self._traffic.sends.link) / SENDS_PER_UNIT)
            time_us = self._timed[order] = self._traffic.time_us(order)
            if time_us < self.best[0]:
                self.best = (time_us, order)
        return self._timed[order]

    def ring_proved(self) -> PlanBound:
        """What CP-SAT proves of a ring of few hosts; its tours are timed."""
        ring, none = self._ring, PlanBound(0.0, "")
        if ring is None or self._traffic.num_hosts > MOST_RING_PROVED:
            return none
        bottleneck = least_bottleneck(ring, self._seconds_left())
        if bottleneck is None:
            return none
        self._time(ring.order_of(bottleneck.hosts))
        tour = least_sum(ring, bottleneck.bound_us * 1.001, self._seconds_left())
        if tour is not None:
            self._time(ring.order_of(tour.hosts))
        return PlanBound(bottleneck.bound_us, "the slowest hop of any tour")

    def _seconds_left(self) -> float:
        """For a solver that counts work of its own; where work is counted here, it has no other limit."""
        return MAX_TIME_LIMIT_S if self._budget.counts_work else max(0.0, self._budget.remaining_s())

    def run(self, bound_us: float) -> None:
        """Anneal until the time is over, the bound is reached, or round after round is in vain."""
        starts = [self._spectral()]
        if self._ring is not None:
            limit_s = MAX_TIME_LIMIT_S if self._budget.counts_work else self._seconds_left() * FOR_ROUTING
            starts.append(self._ring.order_of(routed_tour(self._ring.hop_us, limit_s)))
        for start in starts:
            self._time(start)
        in_vain, turn = 0, 0
        while self._budget.remaining_s() > 0 and self.best[0] > bound_us * (1 + 1e-9):
            if in_vain >= ROUNDS_IN_VAIN:
                return
            before_us = self.best[0]
            self._round(starts[turn % len(starts)] if turn < len(starts) else self._begin(turn))
            in_vain = 0 if self.best[0] < before_us * (1 - 1e-6) else in_vain + 1
            turn += 1

    def _begin(self, turn: int) -> Order:
        """The best, or every third time any order."""
        return self._any_order() if turn % 3 == 2 else self.best[1]

    def _any_order(self) -> Order:
        return tuple(self._rng.permutation(self._traffic.num_hosts).tolist())

    def _round(self, order: Order) -> None:
        """Anneal, colder each time, and time what comes out of each."""
        proposals = PROPOSALS_PER_HOST * self._traffic.num_hosts
        hottest = HOTTEST
        for _ in range(TIMED_PER_ROUND):
            if self._budget.remaining_s() <= 0:
                return
            units = proposals * self._estimator.ports_of_a_look / PORTS_PER_UNIT
            if not self._budget.counts_work:  # one run is no longer than what is left
                part = min(1.0, self._budget.remaining_s() * UNITS_PER_S / units)
                proposals = max(1, int(proposals * part))
            self._budget.spend(units)
            order, _ = self._estimator.annealed(order, proposals, hottest, COLDEST, self._rng)
            self._time(order)
            hottest /= 10
        self._climb(order)
        if self.best[1] != order:
            self._climb(self.best[1])
        self._climb(self._any_order())  # what is annealed ends in one valley of the estimate

    def _climb(self, order: Order) -> None:
        """Random moves from an order on, by exact times: of small plans many, of large ones few."""
        hosts, sends, meter = self._traffic.num_hosts, len(self._traffic.sends.link), self._budget.meter()
        now_us = self._time(order)
        for _ in range(min(CLIMB_MOVES * hosts, CLIMB_SENDS // sends)):
            if not meter.goes_on(sends / SENDS_PER_UNIT):
                return
            moved = self._moved(order)
            time_us = self._time(moved)
            if time_us <= now_us:
                order, now_us = moved, time_us

    def _moved(self, order: Order) -> Order:
        """The order after a random swap, insertion or reversal."""
        hosts = list(order)
        a, b = sorted(self._rng.integers(0, len(hosts), 2).tolist())
        kind = int(self._rng.integers(0, 3))
        if kind == 0:
            hosts[a], hosts[b] = hosts[b], hosts[a]
        elif kind == 1:
            hosts.insert(a, hosts.pop(b))
        else:
            hosts[a : b + 1] = reversed(hosts[a : b + 1])
        return tuple(hosts)

    def _spectral(self) -> Order:
        """Hosts that are near each other at positions that talk to each other: both by Fiedler's vector."""
        traffic = self._traffic
        topology, hosts = traffic.problem.topology, traffic.num_hosts
        host_of = traffic.host_of
        near = np.zeros((hosts, hosts))
        mb = float(traffic.pairs.mb.mean() / traffic.pairs.count.mean())
        work = traffic.costs.alpha_us + mb * np.bincount(
            topology.incidence[0], topology.pair_betas, topology.num_links
        )
        np.add.at(near, (host_of[topology.src], host_of[topology.dst]), 1 / np.maximum(work, 1e-9))
        talk = np.zeros((hosts, hosts))
        np.add.at(talk, (host_of[traffic.pairs.src], host_of[traffic.pairs.dst]), traffic.pairs.mb)
        by_host, by_position = _fiedler_order(near**4), _fiedler_order(talk)
        order = np.empty(hosts, dtype=np.int64)
        order[by_position] = by_host
        return tuple(order.tolist())


def _fiedler_order(weight: FloatArray) -> list[int]:
    """Rows by their entry in the second eigenvector of the Laplacian."""
    both = weight + weight.T
    np.fill_diagonal(both, 0.0)
    both = both / max(float(both.max()), 1e-300)
    vectors = eigh(np.diag(both.sum(axis=1)) - both, subset_by_index=(1, 1))[1]
    order: list[int] = np.argsort(vectors[:, 0], kind="stable").tolist()
    return order
