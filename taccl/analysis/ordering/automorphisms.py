"""Orders in which a plan does the same: permutations of its positions that leave its sends as they are.

A permutation of positions takes the sends of each host, in their sequence, to those of another. It is an
automorphism if that takes every send to one of the same size between the right GPUs, which waits for the
images of what the send waits for, and keeps the sequence of what comes into each host as well. Where no port
serves links out of several hosts and into several hosts, sends that compete for a port are out of one host or
into one host, so their sequence is the same and the plan takes as long in both orders. A ring of n hosts that
starts a chunk at each has n of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.analysis.ordering.tuning import MOST_AUTOMORPHISMS, MOST_CANDIDATES
from taccl.model.collective import BoolArray, IntArray


def automorphisms(traffic: Traffic) -> list[Order]:
    """Some of them, the identity first: alone where ports are shared by several hosts on both sides."""
    if not len(traffic.sends.link) or not _ports_are_of_hosts(traffic):
        return [traffic.own_order]
    sends = _Sends(traffic)
    kept = (each for each in islice(_of_amounts(traffic), MOST_CANDIDATES) if sends.are_kept_by(each))
    return list(islice(kept, MOST_AUTOMORPHISMS))


def are_first(orders: IntArray, plan: list[Order], equal: list[list[int]]) -> BoolArray:
    """Which orders are the first of those that do the same, shape (orders,). Of a part of the automorphisms
    several may be the first.

    Parameters
    ----------
    orders : shape (orders, hosts). plan : automorphisms of the plan.
    equal : hosts in classes within which any two can change places.
    """
    hosts = orders.shape[1]
    weight = hosts ** np.arange(hosts - 1, -1, -1, dtype=np.int64)
    own = orders @ weight
    first = np.ones(len(orders), dtype=np.bool_)
    classes = [sorted(each) for each in equal if len(each) > 1]
    for places in plan:
        image = orders[:, places]  # a copy
        for members in classes:
            image[np.isin(image, members)] = np.tile(members, len(orders))
        first &= own <= image @ weight
    return first


def _ports_are_of_hosts(traffic: Traffic) -> bool:
    """Whether each port is on links out of one host alone, or into one host alone."""
    topology, (link, port) = traffic.problem.topology, traffic.problem.topology.incidence
    is_of_one = np.zeros(topology.num_ports, dtype=np.bool_)
    for end in (topology.src, topology.dst):
        host = traffic.host_of[end[link]]
        least = np.full(topology.num_ports, traffic.num_hosts)
        most = np.full(topology.num_ports, -1)
        np.minimum.at(least, port, host)
        np.maximum.at(most, port, host)
        is_of_one |= least >= most
    return bool(is_of_one.all())


def _of_amounts(traffic: Traffic) -> Iterator[Order]:
    """Permutations of positions that keep how much goes between GPUs: one position more at a time."""
    pairs, table = traffic.pairs, traffic.hosts
    many, per = table.shape
    amount = np.zeros((table.size, table.size, 2))
    amount[pairs.src, pairs.dst] = np.stack([pairs.count, pairs.mb.round(9)], axis=1)
    between = amount[table[:, None, :, None], table[None, :, None, :]].reshape(many, many, per * per * 2)
    _, kind = np.unique(between.reshape(many * many, -1), axis=0, return_inverse=True)
    kinds: list[list[int]] = kind.reshape(many, many).tolist()

    def grown(image: list[int]) -> Iterator[Order]:
        place = len(image)
        if place == many:
            yield tuple(image)
            return
        for at in range(many):
            moved = [*image, at]
            if at not in image and all(
                kinds[place][other] == kinds[at][moved[other]]
                and kinds[other][place] == kinds[moved[other]][at]
                for other in range(place + 1)
            ):
                yield from grown(moved)

    return grown([])


class _Sends:
    """The sends of a plan by the hosts that they leave and reach."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        ends = traffic.host_of[traffic.src], traffic.host_of[traffic.dst]
        self._out, self._into = (
            [np.flatnonzero(each == host) for host in traffic.own_order] for each in ends
        )

    def are_kept_by(self, places: Order) -> bool:
        """Whether a permutation of positions takes sends to sends, in the sequence of each host."""
        traffic, sends = self._traffic, self._traffic.sends
        image = np.full(len(sends.link), -1)
        for place, at in enumerate(places):
            if len(self._out[place]) != len(self._out[at]) or len(self._into[place]) != len(self._into[at]):
                return False
            image[self._out[place]] = self._out[at]
        rank = traffic.rank_map(places)
        is_same = (rank[traffic.src] == traffic.src[image]) & (rank[traffic.dst] == traffic.dst[image])
        is_same &= np.isclose(sends.mb, sends.mb[image]) & (sends.ready_us == sends.ready_us[image])
        if not is_same.all():
            return False
        if any((image[self._into[place]] != self._into[at]).any() for place, at in enumerate(places)):
            return False
        to, waits = image.tolist(), traffic.before
        return all(
            waits[after] == {to[send] for send in before} for after, before in zip(to, waits, strict=True)
        )
