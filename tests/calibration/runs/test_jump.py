"""A jump in times is found where it shows in several files, and nowhere else."""

import numpy as np
import pytest

from taccl.calibration.runs.jump import find_jump
from taccl.model.network import FloatArray

SIZES = 2.0 ** np.arange(14, 26)
#: Three files: a launch of 200 us, and this many microseconds for each MB.
RATES = (10.0, 45.0, 160.0)
GROUPS = np.repeat(np.arange(len(RATES)), len(SIZES))
PREDICTED = np.concatenate([200 + rate * SIZES / 2**20 for rate in RATES])


def jumping(by_us: float, files: int = len(RATES), after_us: float = 243.0) -> FloatArray:
    times: FloatArray = PREDICTED + by_us * ((PREDICTED > after_us) & (GROUPS < files))
    return times


def noise(amount: float, seed: int) -> FloatArray:
    factors: FloatArray = np.exp(amount * np.random.default_rng(seed).standard_normal(len(PREDICTED)))
    return factors


@pytest.mark.parametrize("seed", range(3))
def test_a_jump_is_found_between_the_times_on_either_side(seed: int) -> None:
    found = find_jump(jumping(20.0) * noise(0.004, seed), PREDICTED, GROUPS)
    assert found is not None
    assert found.by_us == pytest.approx(20.0, rel=0.25)
    assert found.low <= found.after_us <= found.high
    assert found.after_us == pytest.approx(243.0, rel=0.04)


def test_predictions_that_are_all_late_by_the_same_do_not_hide_it() -> None:
    found = find_jump(jumping(20.0), PREDICTED + 8.0, GROUPS)
    assert found is not None
    assert found.by_us == pytest.approx(20.0, rel=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_no_jump(seed: int) -> None:
    assert find_jump(PREDICTED * noise(0.02, seed), PREDICTED, GROUPS) is None


def test_times_that_agree_with_the_model_have_none() -> None:
    assert find_jump(PREDICTED, PREDICTED, GROUPS) is None
    assert find_jump(PREDICTED, PREDICTED * 1.05, GROUPS) is None


def test_what_only_one_file_shows_is_none() -> None:
    one = GROUPS == 0
    assert find_jump(jumping(20.0)[one], PREDICTED[one], GROUPS[one]) is None


def test_a_few_microseconds_wake_no_host() -> None:
    assert find_jump(jumping(2.0), PREDICTED, GROUPS) is None


def test_too_few_times_have_none() -> None:
    assert find_jump(PREDICTED[:5], PREDICTED[:5], GROUPS[:5]) is None
