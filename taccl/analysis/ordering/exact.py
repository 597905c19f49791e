"""The best order of few hosts, proved: all orders are compared.

Of few hosts every order is bounded from below by the loads of its ports and timed unless that is already more
than the best. Of orders that differ by hosts that can change places without the machine noticing, or by an
automorphism of the plan, only one is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations

import numpy as np

from taccl.analysis.ordering.automorphisms import are_first, automorphisms
from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.analysis.ordering.tuning import ORDERS_AT_ONCE, SENDS_OF_ORDERS, SENDS_PER_UNIT
from taccl.model.automorphism import broken_by
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
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


def different_orders(traffic: Traffic) -> Iterator[IntArray]:
    """All orders in blocks, shape (orders, hosts): of those in which the plan does the same, the first."""
    plan, equal = automorphisms(traffic), equal_hosts(traffic)
    every, sends = permutations(traffic.own_order), max(1, len(traffic.sends.link))
    at_once = max(1, min(ORDERS_AT_ONCE, SENDS_OF_ORDERS // sends))
    while block := list(islice(every, at_once)):
        orders = np.array(block)
        first = are_first(orders, plan, equal)
        if first.any():
            yield orders[first]


def fastest_of_all(traffic: Traffic, best: tuple[float, Order], budget: Budget) -> tuple[float, Order, bool]:
    """The fastest order and its time; and whether all were compared, or the time was over before."""
    meter = budget.meter()
    for orders in different_orders(traffic):
        least_us = bounds_us(traffic, orders)
        for place in np.argsort(least_us, kind="stable").tolist():
            if least_us[place] >= best[0]:
                break
            if not meter.goes_on(len(traffic.sends.link) / SENDS_PER_UNIT):
                return (*best, False)
            order = tuple(orders[place].tolist())
            best = min(best, (traffic.time_us(order), order), key=lambda each: each[0])
    return (*best, True)


def bounds_us(traffic: Traffic, orders: IntArray) -> FloatArray:
    """What each order takes at least, shape (orders,): its busiest port, and its longest chain of sends that
    wait for each other; inf where a link is missing.
    """
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
    least_us = np.maximum(load.max(axis=1), _chains_us(traffic, link))
    return np.where((link < 0).any(axis=1), np.inf, least_us)


def _chains_us(traffic: Traffic, link: IntArray) -> FloatArray:
    """The longest chain of each order, shape (orders,); `link` : of each order and pair."""
    sends, costs, ranks = traffic.sends, traffic.costs, traffic.problem.num_ranks
    pair = np.searchsorted(traffic.pairs.src * ranks + traffic.pairs.dst, traffic.src * ranks + traffic.dst)
    ends_us: list[FloatArray] = []
    for send, before in enumerate(traffic.before):
        if before and max(before) >= send:  # not in a sequence in which they can happen
            return np.zeros(len(link))
        over = link[:, pair[send]]
        start_us = np.full(len(link), sends.ready_us[send])
        for each in before:
            np.maximum(start_us, ends_us[each], out=start_us)
        ends_us.append(start_us + costs.alpha_us[over] + costs.beta_us[over] * sends.mb[send])
    return np.asarray(np.max(ends_us, axis=0))
