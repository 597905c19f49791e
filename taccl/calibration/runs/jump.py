"""A jump in times: calls that last longer than some time take so much more, at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from taccl.calibration.runs.least_deviation import SOFT, BoolArray, IntArray
from taccl.model.network import FloatArray

#: A jump leaves at most this part of what the same times, moved together, are off, measured as the fit does;
#: and this part where predicted times say which calls it is about. The best of many places explains much of
#: any noise where times are few, so of n times n log(1 / left) is at least the third number.
_LEFT, _LEFT_TOO, _EVIDENCE = 0.8, 0.9, 12.0
#: Less than this wakes no host that sleeps, microseconds.
_LEAST_US = 5.0
#: This many groups have times on both sides, and there are this many times on either.
_GROUPS, _ROWS = 2, 3


@dataclass(frozen=True)
class Jump:
    """Calls that last longer than `after_us`, which is from `low` to `high`, take `by_us` more."""

    after_us: float
    by_us: float
    low: float
    high: float


def find_jump(measured_us: FloatArray, predicted_us: FloatArray, groups: IntArray) -> Jump | None:
    """The jump that explains most of what predictions without one are off; None where none explains much.

    A jump that is there shows at the same time in several groups (files), whatever their sizes; what a model
    misses otherwise does not. Measured times tell best where it is, but among those that are long by chance
    more are late, so the predicted ones have to tell the same.

    Parameters
    ----------
    measured_us, predicted_us, groups : shape (rows,).
    """
    order = np.argsort(measured_us, kind="stable")
    measured, predicted, group = measured_us[order], predicted_us[order], groups[order]
    rows = np.arange(len(measured))
    without, _ = _moved(measured, predicted, rows < 0)
    least, best = min(_LEFT, np.exp(-_EVIDENCE / max(1, len(rows)))) * without, None
    for first in range(1, len(rows)):
        if not _has_both(rows >= first, group):
            continue
        left, (all_us, by_us) = _moved(measured, predicted, rows >= first)
        if by_us < _LEAST_US or left >= least:
            continue
        low, high = sorted((float(measured[first - 1]), float(measured[first] - by_us)))
        found = Jump((low + high) / 2, float(by_us), low, high)
        late = predicted + all_us > found.after_us
        left_too, (_, too_us) = _moved(measured, predicted, late)
        if _has_both(late, group) and left_too < _LEFT_TOO * without and too_us > by_us / 2:
            least, best = left, found
    return best


def _has_both(late: BoolArray, group: IntArray) -> bool:
    """Whether enough times are late, enough are not, and enough groups have both."""
    both = np.intersect1d(group[late], group[~late])
    return min(late.sum(), (~late).sum()) >= _ROWS and len(both) >= _GROUPS


def _moved(measured: FloatArray, predicted: FloatArray, late: BoolArray) -> tuple[float, FloatArray]:
    """How far predictions are off where all are moved and the late ones further; and both moves."""

    def off(moves: FloatArray) -> FloatArray:
        times = np.maximum(predicted + moves[0] + moves[1] * late, 1e-3)
        logarithms: FloatArray = np.log(times / measured)
        return logarithms

    found = least_squares(
        off, np.zeros(2), loss="soft_l1", f_scale=SOFT, x_scale=(measured[0], measured[0]), max_nfev=12
    )
    moves: FloatArray = found.x
    return float(found.cost), moves
