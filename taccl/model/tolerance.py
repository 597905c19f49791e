"""What counts as over, equal, optimal and idle, in one place.

No number of microseconds is small for every machine: a byte over a fast link takes less than a millionth of
one. So a time is forgiven a billionth of what it lasts, and some steps of the clock, which is made of floats.
Of many tiny sends the steps add up (`over_us`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Two times within this fraction of each other are equal: far above float error, far below interest.
EQUAL = 1e-9
#: Links whose costs are within this fraction of each other stand for each other in a symmetry. A schedule is
#: forgiven twice as much, so that with the times of one it is valid with the costs of the other.
SAME_COST = EQUAL / 2
#: A schedule within this fraction of its bound is optimal.
OPTIMAL_GAP = EQUAL
#: This many steps of the clock are forgiven: sums of the same costs in another order differ by some.
ULPS = 8
#: An engine keeps a schedule that is faster by more than this, microseconds. It judges no schedule.
TOLERANCE_US = 1e-6
#: Linear programs end with errors of up to this fraction of what they compute.
_SOLVER_ERROR = 1e-7

_Floats = NDArray[np.floating]


def over_us(end_us: _Floats | float, lasted_us: _Floats | float) -> _Floats:
    """The moment from which something that lasted so long and ends then counts as over.

    It is never after `end_us`, and before it by at most EQUAL * lasted_us and ULPS + 2 steps of the clock, a
    step being the distance to the next float. What one thing after another is forgiven adds up: n of them
    that follow each other until t take at most EQUAL of what they take and n * (ULPS + 3) steps more than the
    time that they have, one step each being the rounding of their ends. A step is at most t / 2**52, so this
    is a part of t of 1e-9 + 2.5e-15 * n, however short each is: two billionths where they are 400,000.

    Parameters
    ----------
    end_us, lasted_us : microseconds, of equal shape or scalars.
    """
    lasted = np.maximum(lasted_us, 0.0)
    clock = np.abs(np.asarray(end_us) - lasted) + lasted
    return np.asarray(end_us - EQUAL * lasted - ULPS * np.spacing(clock))


def lasts(start_us: _Floats, end_us: _Floats, expected_us: _Floats) -> NDArray[np.bool_]:
    """Whether what starts and ends then takes as long as expected."""
    clock = np.maximum(np.abs(start_us), np.abs(end_us))
    return np.asarray(
        np.abs(end_us - start_us - expected_us) <= EQUAL * expected_us + ULPS * np.spacing(clock)
    )


def takes_time(busy_us: _Floats) -> NDArray[np.bool_]:
    """Whether a port is not idle during a send that keeps it busy for so long: however short, it is."""
    return np.asarray(busy_us > 0)


def is_optimal(time_us: float, bound_us: float, gap: float = 0.0) -> bool:
    """Whether a bound proves a time the best, or within `gap`, a fraction of the time, of the best."""
    return time_us - bound_us <= (gap + OPTIMAL_GAP) * time_us


def is_above(bound_us: float, time_us: float) -> bool:
    """Whether a bound proves that nothing takes so little time: float error never does."""
    return bound_us > time_us * (1 + EQUAL)


def contradicts(bound_us: float, time_us: float) -> bool:
    """Whether a bound is so far above the time of a valid schedule that one of the two is wrong."""
    return bound_us > time_us * (1 + EQUAL) + min(TOLERANCE_US, _SOLVER_ERROR * time_us)
