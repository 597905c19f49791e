r"""Prices of ports at which the least trees are the heaviest, by cutting planes.

With y >= 0 and sum 1 over the ports, f(y) is what the least trees of all kinds of chunks cost when each link
weighs the sum of beta_lp y_p over its ports. Its maximum is the optimum of the linear program over trees,

    minimise    T
    subject to  sum over trees t of mix_t * (how long t keeps port p busy)  <=  T    for all p
                sum of mix_t = 1,  mix >= 0

and the prices are the rows' duals. The program begins with trees chosen one after another at prices that rise
with what they keep busy (multiplicative weights: Plotkin, Shmoys and Tardos 1995), which are near the optimum
already. Then trees join it that are lighter at the prices of the program (Kelley 1960), on the way there from
the best prices so far, which keeps it from swinging, and at prices that rise with the load of its mix. Each
tree comes with one that uses both directions of its pairs equivalent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.cuts import rank_looks
from taccl.encoding.bounds.spanning import Kind, Tree
from taccl.encoding.bounds.tuning import (
    TREE_PRICES_FIRST_TREES,
    TREE_PRICES_GAP,
    TREE_PRICES_LOOKS_GAP,
    TREE_PRICES_LOOKS_TREES,
    TREE_PRICES_MIX_TREES,
    TREE_PRICES_MORE_TREES,
    TREE_PRICES_MOST_TREES,
    TREE_PRICES_ROUTES,
    TREE_PRICES_UNITS,
    TREE_PRICES_UNITS_PER_PAIR,
)
from taccl.encoding.core.linear import LinearModel, solve
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.budget import Budget

#: What is better by less than this part is not stated.
_BETTER = 1e-6
#: What differs by less than this part is equal.
_EQUAL = 1e-12
#: The exponent from which a price is as good as none.
_LEAST = -30.0
#: Sums of looks that agree to this many digits are the same.
_DIGITS = 9
#: How many programs are solved at most.
_MOST_STEPS = 30


@dataclass(frozen=True, eq=False)
class Priced:
    """Prices of the ports, shape (num_ports,), of sum 1; the least tree of each kind at them; their cost."""

    price: FloatArray
    trees: list[Tree]
    value_us: float


def at_prices(topology: LogicalTopology, kinds: list[Kind], price: FloatArray) -> Priced:
    """The least trees at prices of ports, shape (num_ports,)."""
    link, port = topology.incidence
    weight = np.asarray(
        np.bincount(link, topology.pair_betas * price[port], topology.num_links), dtype=np.float64
    )
    trees = [kind.pairs.tree(weight, kind.members) for kind in kinds]
    value_us = sum(kind.mb * tree.weight for kind, tree in zip(kinds, trees, strict=True))
    return Priced(price, trees, value_us)


class _Search:
    """The least trees of some kinds of chunks at prices of ports, equal ones for the ports of an orbit.

    `size` has how many ports each orbit has, and `busy` how long a port of each is busy with each tree.
    """

    def __init__(self, instance: Instance, kinds: list[Kind], orbit: IntArray, budget: Budget) -> None:
        self._topology, self._kinds, self.budget = instance.problem.topology, kinds, budget
        self._orbit = orbit
        self.size = np.bincount(self._orbit).astype(np.float64)
        self.busy: list[FloatArray] = []
        self.best: Priced | None = None

    def mean(self, price: FloatArray) -> FloatArray:
        """Prices of orbits for prices of ports: their mean over a symmetry is as good as they are."""
        return np.asarray(np.bincount(self._orbit, price) / self.size)

    def better(self, prices: Iterable[FloatArray]) -> Iterator[Priced]:
        """Look at the trees at prices of orbits, and tell those that are better than all before.

        What they keep busy joins `busy`.
        """
        for of_orbit in prices:
            if not self.budget.remaining_s():
                return
            self.budget.spend(
                TREE_PRICES_UNITS + TREE_PRICES_UNITS_PER_PAIR * self._topology.num_pairs * len(self._kinds)
            )
            priced = at_prices(self._topology, self._kinds, of_orbit[self._orbit])
            self.busy.extend(self.mean(load) for load in self._busy(priced))
            if self.best is None or priced.value_us > self.best.value_us * (1 + _BETTER):
                self.best = priced
                yield priced

    def rising(self, load: FloatArray, before: int, many: int) -> Iterator[FloatArray]:
        """Prices that rise with the load of `before` trees and of each of `many` that are chosen at them."""
        for number in range(before, before + many):
            most = load.max() or 1.0
            price = np.exp(np.maximum((load - most) * (number + 1) / most, _LEAST))
            yield price / (price * self.size).sum()
            load = load + self.busy[-1]
            # The mean of the trees so far is a mix, so no prices come to more than its busiest port.
            if self.best is not None and load.max() <= (number + 1) * self.best.value_us * (1 + _EQUAL):
                return

    def forget(self, mix: FloatArray) -> None:
        """Leave out the oldest trees that are not in a mix, shape (num_trees,), beyond those to be kept."""
        idle = np.flatnonzero(mix == 0)[: max(0, len(mix) - TREE_PRICES_MOST_TREES)]
        self.busy = [self.busy[each] for each in np.setdiff1d(np.arange(len(mix)), idle).tolist()]

    def _busy(self, priced: Priced) -> list[FloatArray]:
        """How long each port is busy with the trees, shape (num_ports,), in two forms."""
        topology = self._topology
        link, port = topology.incidence
        one, either = np.zeros((2, topology.num_links))
        for kind, tree in zip(self._kinds, priced.trees, strict=True):
            one += kind.mb * tree.links
            either += kind.mb * tree.either_way
        routes = (one,) if np.array_equal(one, either) else (either, one)
        return [
            np.asarray(
                np.bincount(port, topology.pair_betas * way[link], topology.num_ports), dtype=np.float64
            )
            for way in routes
        ]


def best_prices(
    instance: Instance,
    kinds: list[Kind],
    first: Iterable[FloatArray],
    budget: Budget,
    enough_us: float = 0.0,
) -> Iterator[Priced]:
    """Better and better prices, until the budget is over or no more can be got: little, or than `enough_us`.

    `first` has prices to begin with, each of shape (num_ports,) and sum 1. Symmetries are of ranks
    that all move, so where there are helpers, ports that look the same have one price first.
    """
    orbit, best = port_orbits(instance, budget), None
    if any(kind.pairs.is_helped for kind in kinds):
        few = _Search(instance, kinds, instance.once(port_looks), budget)
        for best in _best_of_orbits(few, first, 0.0, TREE_PRICES_LOOKS_TREES, TREE_PRICES_LOOKS_GAP):
            yield best
        first = () if best is None else (best.price,)
    for other in _best_of_orbits(_Search(instance, kinds, orbit, budget), first, enough_us):
        if best is None or other.value_us > best.value_us * (1 + _BETTER):
            yield (best := other)


def _best_of_orbits(
    search: _Search,
    first: Iterable[FloatArray],
    enough_us: float,
    first_trees: int = TREE_PRICES_FIRST_TREES,
    gap: float = TREE_PRICES_GAP,
) -> Iterator[Priced]:
    """The same for ports of one orbit at one price."""
    budget = search.budget
    yield from search.better(search.mean(price) for price in first)
    yield from search.better(search.rising(np.zeros_like(search.size), 0, first_trees))
    for _ in range(_MOST_STEPS):
        mixed = _mixed(search.busy, budget) if budget.remaining_s() else None
        if mixed is None or search.best is None:
            return
        if mixed.most_us <= max(search.best.value_us * (1 + gap), enough_us):
            return
        load = mixed.mix @ np.array(search.busy) * TREE_PRICES_MIX_TREES
        search.forget(mixed.mix)
        price, best = mixed.price / search.size, search.mean(search.best.price)
        yield from search.better(best + way * (price - best) for way in TREE_PRICES_ROUTES)
        yield from search.better(search.rising(load, TREE_PRICES_MIX_TREES, TREE_PRICES_MORE_TREES))


def port_orbits(instance: Instance, budget: Budget) -> IntArray:
    """A number for each port, shape (num_ports,): equal where a symmetry takes one to the other."""
    topology = instance.problem.topology
    orbit = np.arange(topology.num_ports)
    if instance.quotient_takes_s <= budget.remaining_s() and instance.quotient is not None:
        for ports, orbits in zip(topology.ports, instance.quotient.problem.topology.ports, strict=True):
            orbit[list(ports)] = topology.num_ports + np.array(orbits)
    return np.asarray(np.unique(orbit, return_inverse=True)[1].ravel())


def port_looks(instance: Instance) -> IntArray:
    """A number for each port, shape (num_ports,): equal where as many links of the same looks use them."""
    topology = instance.problem.topology
    link, port = topology.incidence
    looks = instance.once(rank_looks)
    columns = (looks[topology.src[link]], looks[topology.dst[link]], topology.pair_betas)
    numbers = [np.unique(column, return_inverse=True)[1].ravel() for column in columns]
    kind = np.unique(
        np.ravel_multi_index(numbers, [int(n.max(initial=0)) + 1 for n in numbers]), return_inverse=True
    )[1]
    # Each use counts as a number that no sum of others is likely to be.
    counted = np.bincount(port, np.sqrt(2.0 + kind.ravel()), topology.num_ports)
    return np.asarray(np.unique([f"{each:.{_DIGITS}g}" for each in counted.tolist()], return_inverse=True)[1])


@dataclass(frozen=True, eq=False)
class _Mixed:
    """A mix of trees, shape (num_trees,), how long the busiest port is busy, and the price of each orbit."""

    most_us: float
    price: FloatArray
    mix: FloatArray


def _mixed(busy: list[FloatArray], budget: Budget) -> _Mixed | None:
    """The best mix of trees, by how long each keeps a port of an orbit busy; None if that takes too long."""
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
    if solution.values is None or not price.sum():
        return None
    return _Mixed(solution.objective * scale, price / price.sum(), np.maximum(solution.values[:many], 0.0))
