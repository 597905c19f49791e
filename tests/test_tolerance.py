import math

import numpy as np
import pytest

from taccl.tolerance import contradicts, is_above, is_optimal, lasts, over_us, takes_time


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e6])
def test_what_is_forgiven_grows_with_what_is_compared(scale: float) -> None:
    assert over_us(3 * scale, 2 * scale) < 3 * scale
    assert over_us(3 * scale, 2 * scale) > 3 * scale * (1 - 1e-9)
    assert lasts(*map(np.array, (0.0, scale * (1 + 5e-10), scale)))
    assert not lasts(*map(np.array, (0.0, scale * (1 + 5e-9), scale)))
    assert is_optimal(scale, scale * (1 - 5e-10))
    assert not is_optimal(scale, scale * (1 - 5e-9))
    assert is_optimal(scale, 0.9 * scale, gap=0.1)
    assert is_above(1.00001 * scale, scale)
    assert not is_above(scale * (1 + 5e-10), scale)
    assert contradicts(1.00001 * scale, scale)
    assert not contradicts(scale * (1 + 5e-8 * min(1.0, 1 / scale)), scale)


def test_what_takes_no_time_is_over_but_for_the_steps_of_the_clock() -> None:
    assert over_us(0.0, 0.0) == -8 * math.ulp(0.0)
    assert 7.0 - over_us(7.0, 0.0) == 8 * math.ulp(7.0)


def test_a_port_is_idle_only_where_a_send_takes_no_time_at_all() -> None:
    assert takes_time(np.array([0.0, 1e-300, 1.0])).tolist() == [False, True, True]
