"""The best order of few hosts, proved: all orders are compared.

Of few hosts every order is bounded from below by the loads of its ports and timed unless that is already more
than the best. Hosts that can change places without the machine noticing keep their order, so only one of such
orders is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise, permutations

import numpy as np

from taccl.model.automorphism import broken_by
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.ordering.traffic import Order, Traffic
from taccl.ordering.tuning import ORDERS_AT_ONCE, SENDS_PER_UNIT
from taccl.support.budget import Budget


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
