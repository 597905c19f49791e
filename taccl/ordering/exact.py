"""The best order, proved: all orders of few hosts; the least bottleneck and the least sum of a ring.

Of few hosts every order is bounded from below by the loads of its ports and timed unless that is already more
than the best. Hosts that can change places without the machine noticing keep their order, so only one of such
orders is looked at.

A ring is a tour: CP-SAT (`AddCircuit`) finds the tour whose slowest hop is fastest, and the one with the
least sum of hops. Both are bounds of the plan in any order, and tours to be timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, permutations

import numpy as np
from ortools.sat.python import cp_model

from taccl.model.automorphism import broken_by
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.ordering.traffic import Order, Traffic
from taccl.ordering.tuning import CP_SAT_SECONDS, ORDERS_AT_ONCE, SENDS_PER_UNIT
from taccl.support.budget import Budget

#: Costs are whole numbers for CP-SAT: this many for the largest, so rounding down loses one part of as many.
_STEPS = 10**6


def equal_hosts(traffic: Traffic) -> list[list[int]]:
    """Hosts in classes within which any two can change places, as an automorphism of the machine."""
    classes: list[list[int]] = []
    own = traffic.own_order
    for host in own:
        for known in classes:
            swapped = list(own)
            swapped[host], swapped[known[0]] = known[0], host
            ranks = traffic.rank_map(tuple(swapped))
            if broken_by(ranks, traffic.problem.topology, traffic.problem.limits) is None:
                known.append(host)
                break
        else:
            classes.append([host])
    return classes


def different_orders(traffic: Traffic) -> Iterator[Order]:
    """Every order, but one of those in which equal hosts have changed places."""
    before = {b: a for known in equal_hosts(traffic) for a, b in pairwise(known)}
    for order in permutations(traffic.own_order):
        place = {host: position for position, host in enumerate(order)} if before else {}
        if all(place[a] < place[b] for b, a in before.items()):
            yield order


def fastest_of_all(traffic: Traffic, best: tuple[float, Order], budget: Budget) -> tuple[float, Order, bool]:
    """The fastest order and its time; and whether all were compared, or the time was over before."""
    every, meter = different_orders(traffic), budget.meter()
    while orders := list(islice(every, ORDERS_AT_ONCE)):
        least_us = load_bounds_us(traffic, np.array(orders))
        for place in np.argsort(least_us, kind="stable").tolist():
            if least_us[place] >= best[0]:
                break
            if not meter.goes_on(len(traffic.sends.link) / SENDS_PER_UNIT):
                return (*best, False)
            time_us = traffic.time_us(orders[place])
            best = min(best, (time_us, orders[place]), key=lambda each: each[0])
    return (*best, True)


def load_bounds_us(traffic: Traffic, orders: IntArray) -> FloatArray:
    """What the busiest port of each order is busy at least, shape (orders,); inf where a link is missing."""
    pairs, costs = traffic.pairs, traffic.costs
    ranks = np.empty((len(orders), traffic.hosts.size), dtype=np.int64)
    ranks[:, traffic.hosts.ravel()] = traffic.hosts[orders].reshape(len(orders), -1)
    link = traffic.link_table[ranks[:, pairs.src], ranks[:, pairs.dst]]
    load = np.zeros((len(orders), costs.num_ports))
    many = np.diff(costs.first)
    for each in range(int(many.max(initial=0))):  # the each-th port of every link
        has = many > each
        row = np.minimum(costs.first[:-1] + each, len(costs.port) - 1)
        busy = np.where(has[link], costs.busy_alpha_us[row][link] * pairs.count, 0.0)
        busy += np.where(has[link], costs.busy_beta_us[row][link] * pairs.mb, 0.0)
        np.add.at(load, (np.arange(len(orders))[:, None], costs.port[row][link]), busy)
    return np.where((link < 0).any(axis=1), np.inf, load.max(axis=1))


@dataclass(frozen=True, eq=False)
class Ring:
    """A plan in which each position sends to one other, all around, as much as all others do.

    Parameters
    ----------
    tour : the positions in the order of the ring.
    hop_us : what all sends of a hop take on the link between two hosts, shape (hosts, hosts).
    """

    tour: IntArray
    hop_us: FloatArray

    @staticmethod
    def of(traffic: Traffic) -> Ring | None:
        """The ring that a plan is; None if it is none, or hosts have several GPUs."""
        pairs, hosts = traffic.pairs, traffic.num_hosts
        if traffic.hosts.shape[1] > 1 or len(pairs.src) != hosts or len(np.unique(pairs.src)) < hosts:
            return None
        if not (np.allclose(pairs.mb, pairs.mb[0]) and (pairs.count == pairs.count[0]).all()):
            return None
        after, tour = dict(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True)), [0]
        while (following := after[tour[-1]]) != 0:
            if len(tour) == hosts:
                return None
            tour.append(following)
        if len(tour) < hosts:
            return None
        costs, table = traffic.costs, traffic.link_table
        hop = pairs.count[0] * costs.alpha_us + pairs.mb[0] * costs.beta_us
        return Ring(np.array(tour), np.where(table >= 0, np.append(hop, 0.0)[table], np.inf))

    def order_of(self, hosts: list[int]) -> Order:
        """The order that puts these hosts around the ring."""
        order = np.empty(len(hosts), dtype=np.int64)
        order[self.tour] = hosts
        return tuple(order.tolist())


@dataclass(frozen=True)
class Tour:
    """A tour of hosts, and what no tour is below: microseconds of its slowest hop, or of all its hops."""

    hosts: list[int]
    bound_us: float


def least_bottleneck(ring: Ring, busy_us: FloatArray) -> Tour | None:
    """The tour whose slowest hop is as fast as can be; `busy_us` : of each hop, shape (hosts, hosts)."""
    model = _Circuit(busy_us)
    slowest = model.model.new_int_var(0, _STEPS, "slowest")
    for cost, literal in zip(model.costs, model.literals, strict=True):
        model.model.add(slowest >= cost).only_enforce_if(literal)
    model.model.minimize(slowest)
    return model.solved()


def least_sum(ring: Ring, slowest_us: float) -> Tour | None:
    """The tour with the least sum of hops, of those without a hop slower than `slowest_us`."""
    model = _Circuit(np.where(ring.hop_us <= slowest_us, ring.hop_us, np.inf))
    model.model.minimize(sum(c * l for c, l in zip(model.costs, model.literals, strict=True)))
    return model.solved()


class _Circuit:
    """A tour through all hosts over hops of finite cost."""

    def __init__(self, cost_us: FloatArray) -> None:
        self.model, self._hosts = cp_model.CpModel(), len(cost_us)
        src, dst = np.nonzero(np.isfinite(cost_us) & ~np.eye(self._hosts, dtype=bool))
        self._ends = list(zip(src.tolist(), dst.tolist(), strict=True))
        largest = float(cost_us[src, dst].max(initial=0.0))
        self._step_us = largest / _STEPS if largest > 0 else 1.0
        self.costs = np.floor(cost_us[src, dst] / self._step_us).astype(np.int64).tolist()
        self.literals = [self.model.new_bool_var("") for _ in self._ends]
        arcs = [(*ends, literal) for ends, literal in zip(self._ends, self.literals, strict=True)]
        self.model.add_circuit(arcs)

    def solved(self) -> Tour | None:
        """The best tour that was found, with the bound that was proved."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = CP_SAT_SECONDS
        if solver.solve(self.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        after = {a: b for (a, b), l in zip(self._ends, self.literals, strict=True) if solver.value(l)}
        tour = [0]
        while len(tour) < self._hosts:
            tour.append(after[tour[-1]])
        return Tour(tour, max(0.0, solver.best_objective_bound) * self._step_us)
