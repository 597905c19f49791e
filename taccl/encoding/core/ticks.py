"""Time in whole ticks, as CP-SAT needs it.

Most costs are short decimals or fractions. Then there is a tick that all of them are multiples of, the
model is exact, and its numbers are small: one NDv2 node has 0.1 us, and proofs are ten times as fast.
Otherwise a tick is a small part of the known time, and what is counted is rounded down. So a schedule
in microseconds, rounded down send by send, is one in ticks: each start is at least an earlier start
plus a duration, and the sum of two rounded numbers is no more than the rounded sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from taccl.encoding.core.tuning import TICKS_LARGEST_DENOMINATOR
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem

#: Ticks that the known schedule may last: 1 part in 10**5 of the shortest transfer when rounding.
_MOST_TICKS = 10_000_000
#: A distance that no schedule has time for.
NEVER = 2**40


@dataclass(frozen=True)
class Ticks:
    """How long a tick is, in microseconds, and whether all costs are multiples of it."""

    tick_us: float
    exact: bool

    def of(self, us: FloatArray | float) -> IntArray:
        """Whole ticks, rounded down; `NEVER` for what is infinite."""
        counted = np.asarray(us, dtype=np.float64) / self.tick_us
        whole = np.rint(counted) if self.exact else np.floor(counted)
        return np.where(np.isfinite(counted), whole, NEVER).astype(np.int64)

    def at_least(self, us: float) -> int:
        """Ticks that a schedule in ticks lasts at least, if it lasts that long in microseconds."""
        return int(np.ceil(us / self.tick_us - 1e-6) if self.exact else np.floor(us / self.tick_us))

    def at_most(self, us: float) -> int:
        """Ticks that a schedule in ticks lasts at most, if it lasts no longer in microseconds."""
        return int(np.floor(us / self.tick_us + 1e-6)) + (not self.exact)

    def last_before(self, us: float) -> int:
        """Ticks that a schedule in ticks lasts at most, if it lasts less in microseconds."""
        return int(np.ceil(us / self.tick_us - 1e-6)) - 1 if self.exact else int(np.floor(us / self.tick_us))


def ticks_of(problem: Problem, known_us: float) -> Ticks:
    """The longest exact tick, if that is not too short for a schedule of `known_us`, else a rounded one."""
    topology, sizes_mb = problem.topology, np.unique(problem.size_mb)
    moments = [column for column in (problem.ready_us, problem.tail_us) if column is not None]
    bodies = np.outer(sizes_mb, np.unique(topology.pair_betas)).ravel()
    costs = np.unique(np.concatenate([topology.alpha_us, bodies, *moments]))
    exact = _common_measure(costs[costs > 0].tolist())
    if exact is not None and known_us <= _MOST_TICKS * exact:
        return Ticks(exact, True)
    smallest_mb = float(sizes_mb.min(initial=problem.chunk_mb))
    shortest = topology.duration_us(np.arange(topology.num_links), smallest_mb)
    rounded = known_us / _MOST_TICKS
    # Alpha or beta must count, or what takes no tick could go round in circles.
    return Ticks(min(rounded, float(shortest.min(initial=np.inf)) / 2.001), False)


def _common_measure(costs: list[float]) -> float | None:
    """The largest number that all costs are multiples of; None if one is no simple fraction."""
    numerator, denominator = 0, 1
    for cost in costs:
        fraction = Fraction(cost).limit_denominator(TICKS_LARGEST_DENOMINATOR)
        if abs(fraction - Fraction(cost)) > 1e-13 * cost:
            return None
        common = math.lcm(denominator, fraction.denominator)
        numerator = math.gcd(
            numerator * (common // denominator), fraction.numerator * (common // fraction.denominator)
        )
        denominator = common
    return numerator / denominator if numerator else None
