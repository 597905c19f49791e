"""Positive parameters of any model of times, by least relative deviation from measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from taccl.model.network import FloatArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: Times of the rows requested, microseconds, where the parameters have these values.
Predict = Callable[[FloatArray, IntArray], FloatArray]

#: A relative deviation above this counts by its size, below it by its square.
SOFT = 0.02
#: Predictions are pieces of straight lines, so differences are taken over more than rounding.
_STEP = 0.01
#: Evaluations of the search on all rows with the rough model, then with the fine one, and of each short one.
_ROUGH, _FINE, _SHORT = 10, 4, 8
#: Other starts: how many, and how far in logarithms; the best of them is followed.
_OTHER_STARTS, _SPREAD = 8, 0.5
_RESAMPLES = 400
#: A bootstrap of fewer groups than this says too little, so curvature has its say: the least that the model
#: is then taken to be off in a whole group.
_FEW_GROUPS, _USUAL = 6, 0.03
#: A parameter whose standard error is more than this factor is not in the data.
_UNTOLD = np.log(2.0)


@dataclass(frozen=True)
class Unknown:
    """A positive number that is to be fitted.

    Parameters
    ----------
    start, least, most : where the search begins, and its limits.
    acts_on : shape (rows,), the measured times that it can change.
    is_added : whether these times are so much longer as it is larger, and no more.
    anchor : a value that is a factor e from `held_at` counts as much as one row that is this far off: so what
        the data cannot tell stays there.
    held_at : None: where the search begins.
    """

    start: float
    least: float
    most: float
    acts_on: BoolArray
    is_added: bool = False
    anchor: float = 0.01
    held_at: float | None = None


@dataclass(frozen=True, eq=False)
class LeastDeviation:
    """What was found.

    Parameters
    ----------
    values, low, high : shape (unknowns,): each with its 90% interval.
    is_told : shape (unknowns,): whether the measured times can tell it; if not, it is near its start.
    predicted_us : shape (rows,), at `values`.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    is_reported: BoolArray
    predicted_us: FloatArray


def least_deviation(
    unknowns: Sequence[Unknown],
    predict: Predict,
    measured_us: FloatArray,
    groups: IntArray,
    begin: FloatArray,
    *,
    seed: int = 0,
) -> LeastDeviation:
    """Fit the unknowns to the measured times.

    Minimised is the sum over rows of the soft-L1 loss of log(predicted / measured), over the logarithms of
    the unknowns, by SciPy's trust-region least squares. Intervals are a bootstrap over groups of rows
    (files): 400 resamples of the model made linear at the optimum; of fewer than 6 groups they are no
    narrower than curvature says where the rows of a group are off together.

    Parameters
    ----------
    predict : called with values of shape (unknowns,) and the rows wanted.
    measured_us : shape (rows,), positive.
    groups : shape (rows,), which rows were measured together and are drawn together.
    begin : shape (unknowns,), such as `search` finds.
    """
    everything = np.arange(len(measured_us))
    problem = _Problem(unknowns, predict, measured_us)
    found = problem.solve(np.log(begin), everything, _FINE)
    rows, slope = problem.residuals(found, everything), problem.jacobian(found, everything)
    low, high = _bootstrap(problem, found, rows, slope, groups, np.random.default_rng(seed))
    deviations = rows[: len(measured_us)]
    if (number := len(np.unique(groups))) < _FEW_GROUPS:
        half = 1.645 * _errors(deviations, slope, rows_each=len(deviations) / number)
        low = np.maximum(np.minimum(low, found - half), problem.least)
        high = np.minimum(np.maximum(high, found + half), problem.most)
    return LeastDeviation(
        values=np.exp(found),
        low=np.exp(low),
        high=np.exp(high),
        is_reported=_reported(deviations, slope[: len(measured_us)]),
        predicted_us=np.exp(deviations) * measured_us,
    )


def search(
    unknowns: Sequence[Unknown],
    rough: Predict,
    measured_us: FloatArray,
    begin: FloatArray,
    *,
    seed: int | None = None,
) -> FloatArray:
    """Near the optimum of a model that is quicker and less exact: where `least_deviation` may begin.

    With a seed, from `begin` or from the end of a short search on every third row that the best of a few
    random starts begins, whichever is better.
    """
    problem = _Problem(unknowns, rough, measured_us)
    start = np.log(begin)
    if seed is not None:
        start = _better_start(problem, start, np.random.default_rng(seed))
    return np.exp(problem.solve(start, np.arange(len(measured_us)), _ROUGH))


def short_search(
    unknowns: Sequence[Unknown], rough: Predict, measured_us: FloatArray
) -> tuple[FloatArray, float]:
    """Values after a short search on every third row, and how far they are off: less is better."""
    problem = _Problem(unknowns, rough, measured_us)
    rows = problem.every_third
    found = problem.solve(problem.start, rows, _SHORT)
    return np.exp(found), problem.cost(found, rows)


class _Problem:
    """Residuals in logarithms, and their slopes by differences, which predict only rows that can change."""

    def __init__(self, unknowns: Sequence[Unknown], predict: Predict, measured_us: FloatArray) -> None:
        self.least = np.log([unknown.least for unknown in unknowns])
        self.most = np.log([unknown.most for unknown in unknowns])
        self.start = np.clip(
            np.log([unknown.start for unknown in unknowns]), self.least + 1e-9, self.most - 1e-9
        )
        self._held_at = np.log([unknown.held_at or unknown.start for unknown in unknowns])
        self.every_third = np.arange(0, len(measured_us), 3)
        self._unknowns = unknowns
        self._anchors = np.array([unknown.anchor for unknown in unknowns])
        self._predict = predict
        self._log_measured = np.log(measured_us)
        self._last: tuple[bytes, FloatArray] = (b"", measured_us)

    def _log_predicted(self, x: FloatArray, rows: IntArray) -> FloatArray:
        """Kept until it is requested elsewhere: a slope is wanted where the residuals were."""
        place = x.tobytes() + rows.tobytes()
        if place != self._last[0]:
            self._last = (place, np.log(self._predict(np.exp(x), rows)))
        return self._last[1]

    def residuals(self, x: FloatArray, rows: IntArray) -> FloatArray:
        """One for each row, then one for each unknown: how far it is from where it is held."""
        deviations = self._log_predicted(x, rows) - self._log_measured[rows]
        return np.concatenate([deviations, self._anchors * (x - self._held_at)])

    def jacobian(self, x: FloatArray, rows: IntArray) -> FloatArray:
        slope = np.zeros((len(rows) + len(x), len(x)))
        here = self._log_predicted(x, rows)
        for k, unknown in enumerate(self._unknowns):
            mine = np.flatnonzero(unknown.acts_on[rows])
            slope[len(rows) + k, k] = self._anchors[k]
            if unknown.is_added:
                slope[mine, k] = np.exp(x[k] - here[mine])
                continue
            step = _STEP if x[k] + _STEP <= self.most[k] else -_STEP
            moved = x.copy()
            moved[k] += step
            slope[mine, k] = (self._log_predicted(moved, rows[mine]) - here[mine]) / step
        return slope

    def solve(self, x: FloatArray, rows: IntArray, most: int) -> FloatArray:
        found = least_squares(
            lambda at: self.residuals(at, rows),
            x,
            jac=lambda at: self.jacobian(at, rows),
            bounds=(self.least, self.most),
            loss="soft_l1",
            f_scale=SOFT,
            max_nfev=most,
            xtol=1e-4,
            ftol=1e-4,
        )
        best: FloatArray = found.x
        return best

    def cost(self, x: FloatArray, rows: IntArray) -> float:
        scaled = self.residuals(x, rows) / SOFT
        return float(np.sum(np.sqrt(1 + scaled**2) - 1))


def _better_start(problem: _Problem, begin: FloatArray, random: np.random.Generator) -> FloatArray:
    """Where it begins, or the end of a short search from the best of a few others, on every third row."""
    rows = problem.every_third
    least, most = problem.least + 1e-9, problem.most - 1e-9
    steps = _SPREAD * random.standard_normal((_OTHER_STARTS, len(begin)))
    others = np.clip(problem.start + steps, least, most)
    other = problem.solve(min(others, key=lambda x: problem.cost(x, rows)), rows, _SHORT)
    return min((np.clip(begin, least, most), other), key=lambda x: problem.cost(x, rows))


def _bootstrap(
    problem: _Problem,
    found: FloatArray,
    residuals: FloatArray,
    slope: FloatArray,
    groups: IntArray,
    random: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """The 5% and 95% quantiles of the optimum over resampled groups, in logarithms."""
    names, member = np.unique(groups, return_inverse=True)
    drawn = []
    for _ in range(_RESAMPLES):
        times = np.bincount(random.integers(0, len(names), len(names)), minlength=len(names))
        weight = np.concatenate([times[member], np.ones(len(found))]).astype(np.float64)
        moved = np.zeros_like(found)
        for _ in range(6):  # soft-L1 as least squares with weights that follow the residuals
            now = residuals + slope @ moved
            root = np.sqrt(weight / np.sqrt(1 + (now / SOFT) ** 2))
            moved = np.linalg.lstsq(slope * root[:, None], -residuals * root, rcond=None)[0]
        drawn.append(np.clip(found + moved, problem.least, problem.most))
    low, high = np.quantile(np.array(drawn), (0.05, 0.95), axis=0)
    return np.minimum(low, found), np.maximum(high, found)


def _errors(deviations: FloatArray, slope: FloatArray, rows_each: float) -> FloatArray:
    """Standard errors by curvature, anchors among it, if the rows of a group are all off by the same."""
    off = max(_USUAL, float(np.sqrt(np.mean(deviations**2))))
    spread: FloatArray = off * np.sqrt(rows_each * np.diag(np.linalg.inv(slope.T @ slope)))
    return spread


def _reported(residuals: FloatArray, slope: FloatArray) -> BoolArray:
    """Whether each unknown's standard error, by the curvature of the data alone, is below a factor 2."""
    noise = max(0.005, 1.4826 * float(np.median(np.abs(residuals))))
    information = slope.T @ slope + 1e-12 * np.eye(slope.shape[1])
    error = noise * np.sqrt(np.diag(np.linalg.inv(information)))
    reported: BoolArray = error < _UNTOLD
    return reported
