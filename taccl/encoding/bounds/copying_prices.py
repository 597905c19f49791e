"""Prices of port time at which copies of all chunks cost more than there is, found by a linear program.

The program has a variable for each kind of ports and span of time, and a row for each tree that is known: at
the prices no tree costs less than 1 for a MB, and all time of all ports costs as little as can be. The
cheapest trees at its prices are the next rows (column generation: Gilmore and Gomory 1961), until all time
costs less than all chunks do, which proves that there is too little of it, or known trees fit into it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bounds.copying_horizon import Horizon
from taccl.encoding.bounds.copying_loop import Sends, Tables, follow, serve
from taccl.encoding.bounds.tuning import (
    COPYING_KEPT,
    COPYING_MOST_ROWS,
    COPYING_MOST_TREES,
    COPYING_ROUNDS,
    COPYING_UNITS,
    COPYING_UNITS_PER_ENTRY,
)
from taccl.encoding.core.linear import LinearModel, solve
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget

#: So many rows that loops are compiled on any machine, however small: a call takes millions of steps.
_COMPILED = 10**6


class Prices:
    """Prices for one horizon (shape (kinds of ports, spans)), from those of another one on.

    Parameters
    ----------
    horizon : for which.
    before : prices to begin with, of any horizon; None: all the same.
    """

    def __init__(self, horizon: Horizon, before: FloatArray | None) -> None:
        self.horizon, self._rows = horizon, list[FloatArray]()
        self._time = horizon.port_us()
        shape = self._time.shape
        self.best = np.ones(shape) if before is None else _stretched(before, shape[1])
        self._least = np.inf

    def prove(self, budget: Budget) -> bool:
        """Whether it is shown that not all copies can be made by the horizon."""
        size_mb, prices = self.horizon.setting.size_mb, self.best
        for _ in range(COPYING_ROUNDS):
            budget.spend(COPYING_UNITS + COPYING_UNITS_PER_ENTRY * self.horizon.entries)
            if not budget.remaining_s():
                return False
            most_mb = self._look(prices)
            if most_mb < size_mb * (1 - 1e-6):
                return True
            found = self._programmed(budget)
            if found is None or float((self._time * found).sum()) >= size_mb:
                return False
            prices = (1 - COPYING_KEPT) * found + COPYING_KEPT * self.best
        return False

    def _look(self, prices: FloatArray) -> float:
        """How many MB can have been copied at the most, by prices; notes the cheapest trees."""
        sends, chosen = self.horizon.sends(prices)
        setting = self.horizon.setting
        tables = _tables(self.horizon)
        serve(_COMPILED, sends=sends, tables=tables, first=setting.first)
        whole = tables.served[setting.first, :-1, -1, -1]
        least = float(whole.min())
        if not np.isfinite(least):
            return 0.0
        self._rows += [self._use(rows, chosen) for rows in self._trees(sends, tables, whole)]
        most_mb = float((self._time * prices).sum()) / least if least > 0 else np.inf
        if most_mb < self._least:
            self._least, self.best = most_mb, prices / least
        return most_mb

    def _trees(self, sends: Sends, tables: Tables, whole: FloatArray) -> Iterator[IntArray]:
        """The sends of some cheap trees that begin at different times."""
        setting = self.horizon.setting
        ranks = setting.num_ranks
        stack, rows = np.zeros((4 * ranks + 4, 5), np.int64), np.zeros((ranks, 3), np.int64)
        there = np.flatnonzero(np.isfinite(whole))
        others = there[np.append(np.diff(whole[there]) > 1e-9 * whole[there[:-1]], True)]
        for cell in {int(whole.argmin()), *others[:: -(-len(others) // COPYING_MOST_TREES)].tolist()}:
            many = follow(
                _COMPILED, sends=sends, tables=tables, first=setting.first, cell=cell, stack=stack, rows=rows
            )
            yield rows[:many].copy()

    def _use(self, tree: IntArray, chosen: IntArray) -> FloatArray:
        link, size, cell = tree.T
        return self.horizon.use(link, size, cell, chosen[link, size, cell])

    def _programmed(self, budget: Budget) -> FloatArray | None:
        """The cheapest prices at which no known tree costs less than 1 for a MB."""
        rows = np.stack([each.ravel() for each in self._rows])
        model, (row, column) = LinearModel(), np.nonzero(rows)
        model.add_variables(rows.shape[1], cost=self._time.ravel())
        model.add_rows(len(rows), row, column, rows[row, column], lower=1.0)
        found = solve(model, budget=budget).values
        if found is None:
            return None
        if len(rows) > COPYING_MOST_ROWS:  # those that are far from counting go
            near = np.argsort(rows @ found)[: COPYING_MOST_ROWS * 3 // 4]
            self._rows = [self._rows[each] for each in near.tolist()]
        return np.maximum(found, 0.0).reshape(self._time.shape)  # by a solver's tolerance


def _stretched(prices: FloatArray, spans: int) -> FloatArray:
    """The same prices over another number of spans."""
    place = (np.arange(spans) + 0.5) / spans * prices.shape[1] - 0.5
    return np.stack([np.interp(place, np.arange(prices.shape[1]), row) for row in prices])


def _tables(horizon: Horizon) -> Tables:
    setting, cells = horizon.setting, horizon.cells
    shape = 3, cells + 1, setting.ranks, setting.nodes
    return Tables(
        *(np.full(shape, np.inf), np.full(shape, np.inf), np.full((3, cells + 1, setting.nodes), np.inf)),
        np.full((2, setting.ranks + 1, setting.nodes), np.inf),
    )
