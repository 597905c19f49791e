"""Parameters found from times: exactly where times are exact, robustly where a few are wild."""

import numpy as np
import pytest

from taccl.calibration.runs.least_deviation import (
    IntArray,
    LeastDeviation,
    Unknown,
    least_deviation,
    search,
    short_search,
)
from taccl.model.network import FloatArray

SIZES = np.tile(np.logspace(3, 8, 12), 4)
GROUPS = np.repeat(np.arange(4), 12)
EVERY = np.ones(len(SIZES), dtype=np.bool_)
TRUE = np.array([6.0, 0.02])


def line(values: FloatArray, rows: IntArray) -> FloatArray:
    """A launch, and so long for each kB."""
    times: FloatArray = values[0] + values[1] * SIZES[rows] / 1e3
    return times


def unknowns(*starts: float) -> list[Unknown]:
    return [Unknown(start, 1e-4, 1e4, EVERY) for start in starts]


def fitted(measured: FloatArray, some: list[Unknown] | None = None, seed: int = 0) -> LeastDeviation:
    some = some or unknowns(1.0, 1.0)
    begin = np.array([each.start for each in some])
    begin = search(some, line, measured, begin, seed=seed)
    return least_deviation(some, line, measured, GROUPS, begin, seed=seed)


def exact() -> FloatArray:
    return line(TRUE, np.arange(len(SIZES)))


def test_exact_times_give_the_parameters_back() -> None:
    found = fitted(exact())
    assert found.values == pytest.approx(TRUE, rel=0.01)
    assert found.is_reported.all()
    assert found.predicted_us == pytest.approx(exact(), rel=0.01)


def test_a_few_wild_times_change_little() -> None:
    measured = exact()
    measured[::11] *= 8
    assert fitted(measured).values == pytest.approx(TRUE, rel=0.05)


def test_intervals_hold_the_value_and_widen_with_noise() -> None:
    random = np.random.default_rng(1)
    widths = []
    for noise in (0.01, 0.1):
        files = np.exp(noise * random.standard_normal(4))[GROUPS]
        found = fitted(exact() * files)
        assert (found.low <= found.values).all()
        assert (found.values <= found.high).all()
        widths.append(found.high / found.low)
    assert (widths[1] > widths[0]).all()


def test_one_group_of_times_has_wide_intervals_however_well_they_fit() -> None:
    """A bootstrap over one group alone would always draw the same."""
    begin = np.array([1.0, 1.0])
    found = least_deviation(
        unknowns(1.0, 1.0), line, exact(), 0 * GROUPS, search(unknowns(1.0, 1.0), line, exact(), begin)
    )
    assert found.values == pytest.approx(TRUE, rel=0.01)
    assert (found.high > 1.05 * found.low).all()


def test_what_the_times_do_not_depend_on_stays_and_is_said_to_be_untold() -> None:
    found = fitted(exact(), [*unknowns(1.0, 1.0), Unknown(7.0, 1e-4, 1e4, ~EVERY)])
    assert found.is_reported.tolist() == [True, True, False]
    assert found.values[2] == pytest.approx(7.0, rel=0.05)


def test_the_same_seed_gives_the_same_answer() -> None:
    random = np.random.default_rng(2)
    measured = exact() * np.exp(0.1 * random.standard_normal(len(SIZES)))
    first, second = fitted(measured, seed=3), fitted(measured, seed=3)
    assert (first.values == second.values).all()
    assert (first.low == second.low).all()


def test_values_stay_within_their_limits() -> None:
    narrow = [Unknown(1.0, 0.5, 2.0, EVERY), Unknown(1.0, 1e-4, 1e4, EVERY)]
    found = fitted(exact(), narrow)
    assert 0.5 <= found.values[0] <= 2.0


def test_a_short_search_says_how_far_off_a_model_is() -> None:
    _, near = short_search(unknowns(1.0, 1.0), line, exact())
    _, far = short_search(unknowns(1.0, 1.0), lambda values, rows: line(values, rows) ** 2, exact())
    assert near < far
