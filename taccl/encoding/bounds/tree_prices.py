r"""Prices of ports at which the least trees are the heaviest, by cutting planes.

It knows which ports trees keep busy, and prices; it must not know what they prove.

With y >= 0 and sum 1 over the ports, f(y) is what the least trees of all kinds of chunks cost when each link
weighs the sum of beta_lp y_p over its ports. Its maximum is the optimum of the linear program over trees,

    minimise T  subject to  sum of mix_t * (busy time of port p by tree t)  <=  T  for all p,  sum of mix_t = 1,

and the prices are the rows' duals. The program begins with trees chosen one after another at prices that rise
with what they keep busy (multiplicative weights: Plotkin, Shmoys and Tardos 1995), which are near the optimum
already. Then a tree that is lighter at the prices of the program joins it (Kelley 1960), and prices half way to
the best so far keep it from swinging. Each tree comes with one that uses both directions of its pairs alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from taccl.collective import IntArray
from taccl.encoding.bounds.spanning import Kind, Tree
from taccl.encoding.core.budget import Budget
from taccl.encoding.core.linear import LinearModel, solve
from taccl.encoding.instance import Instance
from taccl.network import FloatArray

#: Good enough: within this part of the optimum.
_GAP = 1e-3
#: What is better by less than this part is not told.
_BETTER = 1e-6
#: How many trees the program begins with, and the exponent from which a price is as good as none.
_FIRST_TREES, _LEAST = 128, -30.0
#: How many programs are solved at most.
_MOST_STEPS = 200
#: Units of work for a tree, and for each pair of a link and a port.
_UNITS, _UNITS_PER_PAIR = 0.3, 3e-4


@dataclass(frozen=True, eq=False)
class Priced:
    """Prices of the ports, shape (num_ports,), of sum 1; the least tree of each kind at them; what these cost."""

    price: FloatArray
    trees: list[Tree]
    value_us: float


class _Search:
    """The least trees of some kinds of chunks at prices of ports, equal ones for the ports of an orbit.

    `size` has how many ports each orbit has, and `busy` how long a port of each is busy with each tree so far.
    """

    def __init__(self, instance: Instance, kinds: list[Kind], budget: Budget) -> None:
        self._topology, self._kinds, self.budget = instance.problem.topology, kinds, budget
        self._orbit = port_orbits(instance, budget)
        self.size = np.bincount(self._orbit).astype(np.float64)
        self.busy: list[FloatArray] = []

    def mean(self, price: FloatArray) -> FloatArray:
        """Prices of orbits for prices of ports: their mean over a symmetry is as good as they are."""
        return np.asarray(np.bincount(self._orbit, price) / self.size)

    def look(self, of_orbit: FloatArray) -> Priced:
        """The trees at prices of orbits; what they keep busy joins `busy`."""
        self.budget.spend(_UNITS + _UNITS_PER_PAIR * self._topology.num_pairs * len(self._kinds))
        priced = self._at(of_orbit[self._orbit])
        self.busy.extend(self.mean(load) for load in self._busy(priced))
        return priced

    def _at(self, price: FloatArray) -> Priced:
        topology = self._topology
        link, port = topology.incidence
        weight = np.bincount(link, topology.pair_betas * price[port], topology.num_links)
        trees = [kind.pairs.tree(weight, kind.members) for kind in self._kinds]
        value_us = sum(kind.mb * tree.weight for kind, tree in zip(self._kinds, trees, strict=True))
        return Priced(price, trees, value_us)

    def _busy(self, priced: Priced) -> list[FloatArray]:
        """How long each port is busy with the trees, shape (num_ports,), in two ways."""
        topology = self._topology
        link, port = topology.incidence
        one, either = np.zeros((2, topology.num_links))
        for kind, tree in zip(self._kinds, priced.trees, strict=True):
            one += kind.mb * tree.links
            either += kind.mb * tree.either_way
        ways = (one,) if np.array_equal(one, either) else (one, either)
        return [np.bincount(port, topology.pair_betas * way[link], topology.num_ports) for way in ways]


def best_prices(
    instance: Instance,
    kinds: list[Kind],
    first: Iterable[FloatArray],
    budget: Budget,
    enough_us: float = 0.0,
) -> Iterator[Priced]:
    """Better and better prices, until the budget is over, or little more can be got, or no more than `enough_us`.

    `first` has prices to begin with, each of shape (num_ports,) and sum 1.
    """
    search = _Search(instance, kinds, budget)
    best: Priced | None = None
    for price in _promising(search, first):
        priced = search.look(price)
        best = priced if best is None or priced.value_us > best.value_us * (1 + _BETTER) else best
    if best is None:
        return
    yield best
    for step in range(_MOST_STEPS):
        mixed = _mixed(search.busy, budget) if budget.remaining_s() else None
        if mixed is None or mixed[0] <= max(best.value_us * (1 + _GAP), enough_us):
            return
        price = mixed[1] / search.size
        priced = search.look(price if step % 3 == 0 else (price + search.mean(best.price)) / 2)
        if priced.value_us > best.value_us * (1 + _BETTER):
            best = priced
            yield best


def _promising(search: _Search, first: Iterable[FloatArray]) -> Iterator[FloatArray]:
    """Prices to begin with, of each orbit; then prices that rise with what each tree keeps busy."""
    for price in first:
        if not search.budget.remaining_s():
            return
        yield search.mean(price)
    begun = len(search.busy)
    load = np.zeros(len(search.size))
    for number in range(_FIRST_TREES):
        if not search.budget.remaining_s():
            return
        most = load.max() or 1.0
        price = np.exp(np.maximum((load - most) * (number + 1) / most, _LEAST))
        yield price / (price * search.size).sum()
        load += search.busy[-1]


def port_orbits(instance: Instance, budget: Budget) -> IntArray:
    """A number for each port, shape (num_ports,): equal where a symmetry takes one to the other."""
    topology = instance.problem.topology
    orbit = np.arange(topology.num_ports)
    if instance.quotient_takes_s <= budget.remaining_s() and instance.quotient is not None:
        for ports, orbits in zip(topology.ports, instance.quotient.problem.topology.ports, strict=True):
            orbit[list(ports)] = topology.num_ports + np.array(orbits)
    return np.asarray(np.unique(orbit, return_inverse=True)[1].ravel())


def _mixed(busy: list[FloatArray], budget: Budget) -> tuple[float, FloatArray] | None:
    """How long the busiest port is busy at best, by a mix of trees, and the prices; None if that takes too long.

    `busy` has how long each port, or one of each orbit, is busy with each tree.
    """
    table = np.array(busy).T
    rows, many = table.shape
    scale = float(table.max()) or 1.0
    model = LinearModel()
    mix = model.add_variables(many)
    finish = model.add_variables(1, cost=1.0)
    row, column = np.nonzero(table)
    every = np.arange(rows)
    model.add_rows(
        rows,
        np.concatenate([row, every]),
        np.concatenate([mix[column], np.repeat(finish, rows)]),
        np.concatenate([table[row, column] / scale, np.full(rows, -1.0)]),
        upper=0.0,
    )
    model.add_rows(1, np.zeros(many, dtype=np.int64), mix, 1.0, lower=1.0, upper=1.0)
    solution = solve(model, budget=budget)
    if solution.status != "optimal" or solution.duals is None:
        return None
    price = np.maximum(-solution.duals[:rows], 0.0)
    return (solution.objective * scale, price / price.sum()) if price.sum() else None
