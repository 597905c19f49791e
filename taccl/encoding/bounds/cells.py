"""Linear programs with time in cells: their rows, what prices of rows prove, and which horizons are too soon.

A program says how much of all that is wanted can have come by a horizon. All variables of sends are *sums
from the beginning*: entry i is how much has begun in cells 0 to i. What begins in some cells is a difference
of two entries then, and rows stay short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.linear import LinearModel, Solution
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

#: All durations are longer by this part; twice that is taken off in the end, so rounding proves nothing.
STRETCH = 1e-9

#: All that is wanted has come but for this part: that is rounding, and proves nothing.
ALL = 1 - 1e-6

#: Variables (shape (cells,), -1 before the first that is not 0), a coefficient, and how many cells before.
Term = tuple[IntArray, float, int]


class CellProgram:
    """Variables and rows of a program for one horizon.

    Parameters
    ----------
    horizon_us, cell_us : until when, and how long a cell is.
    """

    def __init__(self, horizon_us: float, cell_us: float) -> None:
        self.model = LinearModel()
        self.horizon_us, self.cell_us = horizon_us, cell_us
        self.cells = max(1, math.ceil(horizon_us / cell_us))

    def begun(self, first: int, last: int, most: float) -> IntArray:
        """Variables of what begins in the cells `first` to `last`, up to `most`; shape (cells,)."""
        begun = np.full(self.cells, -1)
        begun[first : last + 1] = self.model.add_variables(last + 1 - first, 0.0, most)
        begun[last:] = begun[last]
        self.row([(begun[first + 1 : last + 1], 1.0, 0), (begun[first:last], -1.0, 0)], lower=0.0)
        return begun

    def row(self, terms: list[Term], lower: float = -np.inf, upper: float = np.inf) -> None:
        """A row for each cell: the sum of the terms there."""
        if not terms:
            return
        rows, columns, values = [], [], []
        for variables, coefficient, before in terms:
            cell = np.arange(len(variables) - before)
            there = variables[cell] >= 0
            rows.append(cell[there] + before)
            columns.append(variables[cell[there]])
            values.append(np.full(int(there.sum()), coefficient))
        self.model.add_rows(
            max(len(variables) for variables, _, _ in terms),
            *(np.concatenate(rows), np.concatenate(columns), np.concatenate(values), lower, upper),
        )

    def row_of(self, terms: list[Term], upper: FloatArray) -> None:
        """A row for each entry: the sum of the terms there, which is no more than that of `upper`."""
        rows = [np.flatnonzero(variables >= 0) for variables, _, _ in terms]
        columns = [variables[row] for (variables, _, _), row in zip(terms, rows, strict=True)]
        values = [np.full(len(row), one) for (_, one, _), row in zip(terms, rows, strict=True)]
        if terms:
            joined = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
            self.model.add_rows(len(upper), *joined, upper=upper)

    def shows(self, solution: Solution) -> float:
        """No more than this part of what is wanted can have come, by the prices of the rows alone.

        For any prices y of the rows, of the sign that their sides have, every solution costs at least what y
        makes of the sides, and for each variable the least that is left of its cost in its own limits.
        """
        if solution.duals is None:
            return math.inf
        lower, upper, cost, _ = self.model.columns()
        starts, column, value, low, high = self.model.matrix()
        price = np.where(np.isfinite(low), np.maximum(solution.duals, 0.0), 0.0)
        price += np.where(np.isfinite(high), np.minimum(solution.duals, 0.0), 0.0)
        row = np.repeat(np.arange(len(price)), np.diff(starts))
        left = cost - np.bincount(column, value * price[row], len(cost))
        sides = np.where(
            price > 0, np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
        )
        terms = np.concatenate([price * sides, np.where(left < 0, left * upper, left * lower)])
        magnitude = np.abs(price * sides).sum() + (np.abs(value * price[row]) * upper[column]).sum()
        return float(-terms.sum() + 1e-12 * (1.0 + magnitude))


def begins(begun: IntArray) -> list[Term]:
    """What begins in each cell."""
    return [(begun, 1.0, 0), (begun, -1.0, 1)]


def times_of(terms: list[Term], factor: float) -> list[Term]:
    """The terms, so many times each."""
    return [(variables, coefficient * factor, before) for variables, coefficient, before in terms]


def cell_us(duration_us: FloatArray, horizon_us: float, most: int) -> float:
    """A cell that durations are nearly multiples of, of which the horizon has no more than `most`.

    What takes longer than the horizon ends within none of it, so it has no say.
    """
    duration_us = np.unique(duration_us)
    duration_us = duration_us[(duration_us > horizon_us / most / 4) & (duration_us <= horizon_us)]
    best, chosen = 0.0, horizon_us / most
    for base_us in duration_us.tolist():
        for parts in range(1, int(most * base_us / horizon_us) + 1):
            cell = base_us / parts
            kept = float((np.floor(duration_us * (1 + STRETCH) / cell) * cell / duration_us).mean())
            kept += 1e-3 * cell / horizon_us  # of cells that keep as much, the longest
            if kept > best:
                best, chosen = kept, cell
    return chosen


class Steps(NamedTuple):
    """How horizons are looked at, as parts of the last that was too soon.

    Parameters
    ----------
    soonest : how much later the first is than what is known.
    step, grows : how much later the next is, and how many times that the one after it.
    close : what is close enough.
    """

    soonest: float
    step: float
    grows: float
    close: float


def too_soon(known_us: float, is_too_soon: Callable[[float], bool], steps: Steps) -> Iterator[float]:
    """Later and later horizons by which not all can have come; none where the soonest is not too soon.

    What is left between the last and one that is not too soon is halved.
    """
    low, high = known_us * (1 + steps.soonest), math.inf
    if not is_too_soon(low):
        return
    yield low
    step = steps.step
    while high > low * (1 + steps.close):
        middle = min(low * (1 + step), (low + high) / 2)
        if is_too_soon(middle):
            low, step = middle, step * steps.grows
            yield low
        else:
            high = middle
