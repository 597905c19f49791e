"""The model of training steps on the page of the paper's evaluation."""

import pytest

from benchmarks.training import gain, part_for


@pytest.mark.parametrize(("part", "speedup", "by_hand"), [(0.5, 2.0, 4 / 3), (1, 1.9, 1.9), (0, 5.0, 1.0)])
def test_a_step_gains_by_the_part_that_becomes_faster(part: float, speedup: float, by_hand: float) -> None:
    assert gain(part, speedup) == pytest.approx(by_hand)


@pytest.mark.parametrize("speedup", [1.2, 1.9, 3.0])
@pytest.mark.parametrize("wanted", [1.05, 1.11, 2.3])
def test_the_part_for_a_gain_has_that_gain_and_more_than_all_is_none(wanted: float, speedup: float) -> None:
    part = part_for(wanted, speedup)
    assert (part is None) == (wanted > speedup)
    assert part is None or gain(part, speedup) == pytest.approx(wanted)
