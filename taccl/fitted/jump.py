"""A jump in times: calls that last longer than some time, and then take so much more at once.

It knows measured and predicted times; it knows no machine, program or file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from taccl.fitted.least_deviation import SOFT
from taccl.collective import IntArray
from taccl.network import FloatArray

#: A jump must leave at most this part of the deviations, measured as the fit does, ...
_LEFT = 0.8
#: ... in so many files that have times on both sides.
_FILES = 2
#: Fewer times than this on either side say nothing.
_ROWS = 3


@dataclass(frozen=True)
class Jump:
    """Calls that last longer than `after_us` take `by_us` more; `low`, `high`: where `after_us` may be."""

    after_us: float
    by_us: float
    low: float
    high: float


def find_jump(measured_us: FloatArray, predicted_us: FloatArray, groups: IntArray) -> Jump | None:
    """The jump that explains most of how far predictions without one are off, if there is one."""
    order = np.argsort(measured_us, kind="stable")
    measured, predicted, group = measured_us[order], predicted_us[order], groups[order]
    rows = np.arange(len(measured))

    def explained(late: FloatArray) -> tuple[float, FloatArray]:
        def off(x: FloatArray) -> FloatArray:
            moved: FloatArray = np.log(np.maximum(predicted + x[0] + x[1] * late, 1e-3) / measured)
            return moved

        scale = measured[0]
        found = least_squares(off, np.zeros(2), loss="soft_l1", f_scale=SOFT, x_scale=(scale, scale), max_nfev=12)
        return float(found.cost), found.x

    without, _ = explained(np.zeros(len(rows)))
    best: tuple[float, Jump] | None = None
    for first in range(_ROWS, len(rows) - _ROWS + 1):
        both = np.intersect1d(group[:first], group[first:])
        if len(both) < _FILES:
            continue
        cost, (_, by) = explained((rows >= first).astype(np.float64))
        if by <= 0 or cost > _LEFT * without or (best is not None and cost >= best[0]):
            continue
        low, high = sorted((float(measured[first - 1]), float(measured[first] - by)))
        best = cost, Jump((low + high) / 2, float(by), low, high)
    return None if best is None else best[1]
