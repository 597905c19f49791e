"""Times counted in ticks: how long a tick should be, and how far to look.

A bound that comes from a table over time rounds every duration down to ticks. So the finer the tick, the
less is lost, and the longer the table takes to fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.encoding.bounds.tuning import (
    TICKS_CELLS_AT_ONCE,
    TICKS_COARSE,
    TICKS_FEWEST_ROWS,
    TICKS_LOOKS,
    TICKS_MOST_CELLS,
    TICKS_MOST_ROWS,
    TICKS_MOST_UNITS,
    TICKS_UNITS,
    TICKS_UNITS_PER_CELL,
    TICKS_UNITS_PER_ROW,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import UNITS_PER_S, Budget

#: So a table may have no more columns than this.
MOST_COLUMNS = TICKS_MOST_CELLS // TICKS_FEWEST_ROWS


def ticks(time_us: FloatArray, tick_us: float | FloatArray) -> IntArray:
    """How many whole ticks each time has."""
    return np.asarray(np.floor(time_us / tick_us * (1 + 1e-12)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Earlier:
    """Cells of a table over time that is being filled: of each column, the one this many rows before the
    last.

    `table` has shape (rows, columns), `delay` and `column` one value for each cell that is read.
    """

    cells: NDArray[Any]
    first: IntArray
    columns: int

    @staticmethod
    def of(table: NDArray[Any], delay: IntArray, column: IntArray) -> Earlier:
        columns = table.shape[1]
        return Earlier(table.reshape(-1), column - delay * columns, columns)

    def at(self, rows: IntArray) -> NDArray[Any]:
        """The cells at `row - delay` for each of some rows, a row of cells for each; none may be below 0."""
        cells: NDArray[Any] = self.cells.take(self.first + rows[:, None] * self.columns)
        return cells


def together(first: int, end: int, width: int, *delays: IntArray) -> Iterator[IntArray]:
    """The rows from `first` up to `end`, this many at once that none of them is a delay before another.

    So what they are made of is there before they are. Delays of 0 do not count: they read a row itself.
    `width` says how many cells a row reads.
    """
    shortest = min((int(delay[delay > 0].min(initial=end)) for delay in delays), default=end)
    many = max(1, min(shortest, TICKS_CELLS_AT_ONCE // max(1, width)))
    for begin in range(first, end, many):
        yield np.arange(begin, min(end, begin + many))


def in_ticks(
    problem: Problem,
    known_us: float,
    width: int,
    least: Callable[[float, int], int | None],
    budget: Budget,
    cells: Callable[[int], int],
) -> float:
    """A time in microseconds that is found in ticks: coarse ones, to see how long it is, then fine ones.

    `least` gets a tick and the number of ticks to look at, and gives the time in ticks, or None if it is
    longer than that. The search begins at `known_us`, and what stays well below it is left coarse. `width`
    is the number of columns of the widest table. The result is 0 where tables would be too large, or the
    costs of links differ too widely; where the budget is over, it is what the ticks so far have shown.
    `cells` says what filling the tables takes, for this many rows: that of this many cells of one recurrence.
    """
    rows = min(TICKS_MOST_ROWS, TICKS_MOST_CELLS // max(1, width))
    if rows < TICKS_FEWEST_ROWS:
        return 0.0

    def found(horizon_us: float, rows: int) -> float | None:
        tick_us = _tick_near(problem, horizon_us / rows)
        if tick_us is None or horizon_us / tick_us > 5 * TICKS_MOST_ROWS:
            return 0.0
        rows = math.ceil(horizon_us / tick_us) + 1
        if not _pays(budget, rows, cells(rows)):
            return 0.0
        ticks_needed = least(tick_us, rows)
        return None if ticks_needed is None else ticks_needed * tick_us

    horizon_us = 2 * known_us
    for _ in range(TICKS_LOOKS):
        coarse_us = found(horizon_us, math.ceil(rows / 4))
        if coarse_us is not None and coarse_us * TICKS_COARSE < known_us:
            return coarse_us
        if coarse_us is not None:
            fine_us = found(1.1 * coarse_us, rows) if coarse_us else None
            return max(coarse_us, fine_us or 0.0)
        horizon_us *= 3
    return 0.0


def _pays(budget: Budget, rows: int, cells: int) -> bool:
    """Whether tables of that size can be filled in what is left; the work is spent if so."""
    units = TICKS_UNITS + TICKS_UNITS_PER_ROW * rows + TICKS_UNITS_PER_CELL * cells
    if units > min(TICKS_MOST_UNITS, budget.remaining_s() * UNITS_PER_S):
        return False
    budget.spend(units)
    return True


def _tick_near(problem: Problem, about_us: float) -> float | None:
    """A tick of about this length into which the costs divide well; None if some link takes no time.

    It is no longer than the shortest transfer, which must take a tick at least.
    """
    topology = problem.topology
    single = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
    about_us = min(about_us, float(single.min(initial=np.inf)))
    if not 0 < about_us < np.inf:
        return None
    body = topology.beta_us_per_mb * problem.chunk_mb
    costs = np.unique(np.concatenate([single, topology.alpha_us, body]))
    costs = costs[costs >= about_us]
    tries = np.concatenate([costs / np.ceil(costs / about_us), np.linspace(0.8, 1.0, 201) * about_us])
    parts = np.array_split(tries, 1 + tries.size * costs.size // TICKS_CELLS_AT_ONCE)
    lost = [(costs / tick - ticks(costs, tick)).max(axis=1) for tick in (part[:, None] for part in parts)]
    return float(tries[int(np.argmin(np.concatenate(lost)))])
