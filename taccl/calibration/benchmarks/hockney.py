"""Alpha and beta that fit measured times: t(s) = alpha + s beta, by least relative deviation, in ranges.

Hockney's model (Parallel Computing 20, 1994). Least absolute deviations, because one disturbed size must not
move the line; relative ones, because ordinary least squares lets the largest sizes decide alpha. Libraries
change their protocol with the size, so sizes are first cut into ranges, as netgauge does: walking up, a new
one begins where several times in a row leave the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from taccl.errors import MeasurementError
from taccl.model.units import MB

Array = NDArray[np.float64]

#: Fewer different sizes than these tell no line.
FEWEST_SIZES = 4
#: The least correlation of sizes and times that a line may have.
LEAST_CORRELATION = 0.9
#: How many samples an interval is made of, and which share of them it holds.
SAMPLES = 1000
INTERVAL = 0.90
#: How far a time must be off the line, at least, to count as having left it; and how many in a row must be.
_TOLERANCE, _STRIKES = 0.05, 3
#: An interval wider than these makes a number weak: alpha by a factor, beta by a share of it.
_WEAK_ALPHA, _WEAK_BETA = 1.5, 0.10
#: Times within this share of the smallest are as small as it.
NOISE = 0.05
#: Clocks count in steps: below a microsecond, times within this many microseconds are as small, up to a
#: share.
TICK_US, NOISE_OF_TICKS = 0.05, 0.20
_ROUNDS = 40


@dataclass(frozen=True)
class Estimate:
    """A number with the interval that holds 90% of its bootstrap samples.

    Parameters
    ----------
    value, low, high : microseconds, or microseconds per MB.
    is_weak : the interval is wider than a factor of 1.5 (alpha) or 10% (beta).
    """

    value: float
    low: float
    high: float
    is_weak: bool


@dataclass(frozen=True)
class FittedLine:
    """A line through the times of a range of sizes.

    Parameters
    ----------
    alpha_us, beta_us_per_mb : with their intervals; alpha is where the line meets size 0.
    sizes : the least and the largest size of the range, bytes.
    points : how many different sizes there are.
    worst_miss, median_miss : of the line from a time, as shares of the time.
    """

    alpha_us: Estimate
    beta_us_per_mb: Estimate
    sizes: tuple[int, int]
    points: int
    worst_miss: float
    median_miss: float

    def time_us(self, size_bytes: float) -> float:
        """What a message of this size takes on the line."""
        return self.alpha_us.value + size_bytes / MB * self.beta_us_per_mb.value


@dataclass(frozen=True)
class Times:
    """The best time of each size, and all its repeats.

    Parameters
    ----------
    sizes : shape (n,), bytes, growing.
    best_us : shape (n,): the least of the repeats, since what disturbs a run only makes it longer.
    repeats : for each size, all its times.
    """

    sizes: Array
    best_us: Array
    repeats: tuple[Array, ...]

    @classmethod
    def of(cls, points: list[tuple[int, float]]) -> Times:
        """From (bytes, microseconds), in any order."""
        by_size: dict[int, list[float]] = {}
        for size, time_us in points:
            by_size.setdefault(size, []).append(time_us)
        sizes = sorted(by_size)
        repeats = tuple(np.array(by_size[size], dtype=float) for size in sizes)
        best = np.array([times.min() for times in repeats], dtype=float)
        return cls(np.array(sizes, dtype=float), best, repeats)

    def within(self, least: float, most: float) -> Times:
        """Those of sizes from `least` to `most`, without size 0."""
        keep = np.flatnonzero((self.sizes >= max(least, 1)) & (self.sizes <= most))
        return Times(self.sizes[keep], self.best_us[keep], tuple(self.repeats[at] for at in keep))


def fit(times: Times, seed: int = 0) -> FittedLine:
    """The line of least relative deviation through all the times.

    Minimises sum |t - alpha - s beta| / t over alpha, beta >= 0: a linear program. The intervals are those of
    1000 bootstrap samples of the sizes, each with one of its repeats.

    Raises
    ------
    MeasurementError : fewer than 4 sizes, times that do not grow with the size, or that are no line.
    """
    count = len(times.sizes)
    if count < FEWEST_SIZES:
        raise MeasurementError(f"{count} size(s) tell no line; {FEWEST_SIZES} are needed")
    sizes = times.sizes / MB
    correlation = _correlation(sizes, times.best_us)
    if not correlation >= LEAST_CORRELATION:
        raise MeasurementError(
            f"the times are no line over the sizes: their correlation is {correlation:.2f}, "
            f"and {LEAST_CORRELATION} is needed"
        )
    alpha, beta = _least_relative_deviation(sizes, times.best_us)
    if beta <= 0:
        raise MeasurementError("the times do not grow with the size")
    alphas, betas = _bootstrap(times, seed)
    misses = np.abs(alpha + sizes * beta - times.best_us) / times.best_us
    return FittedLine(
        _estimate(alpha, alphas, is_alpha=True),
        _estimate(beta, betas, is_alpha=False),
        (int(times.sizes[0]), int(times.sizes[-1])),
        count,
        float(misses.max()),
        float(np.median(misses)),
    )


@dataclass(frozen=True)
class Floor:
    """What the smallest messages take.

    Parameters
    ----------
    time_us : the median of the times that are as small as the smallest, with its interval.
    sizes : the least and the largest of their sizes, bytes.
    points : how many sizes these are.
    """

    time_us: Estimate
    sizes: tuple[int, int]
    points: int


def floor(times: Times, seed: int = 0) -> Floor | None:
    """The floor of the times.

    None where fewer than 3 sizes take as little, so that already the smallest are paid by the byte.
    """
    smallest = times.within(1, np.inf)
    count = len(smallest.sizes)
    if not count:
        return None
    reference = smallest.best_us[: max(3, count // 3)].min()
    noise = max(NOISE * reference, min(TICK_US, NOISE_OF_TICKS * reference))
    # a protocol that begins later may be faster than the smallest messages
    is_low = np.abs(smallest.best_us - reference) <= noise
    # the first may still be warming up; then until two in a row are off, since one may be disturbed and later
    # ones belong to another protocol
    first = int(np.argmax(is_low))
    ends = first + np.flatnonzero(~is_low[first:-1] & ~is_low[first + 1 :])
    until = int(ends[0]) if len(ends) else count
    low = np.flatnonzero(is_low[:until])
    if len(low) < 3:
        return None
    repeats = np.concatenate([smallest.repeats[at] for at in low])
    samples = np.median(np.random.default_rng(seed).choice(repeats, (SAMPLES, len(repeats))), axis=1)
    return Floor(
        _estimate(float(np.median(smallest.best_us[low])), samples, is_alpha=True),
        (int(smallest.sizes[low[0]]), int(smallest.sizes[low[-1]])),
        len(low),
    )


def ranges(times: Times) -> list[Times]:
    """The times cut where their slope changes, the smallest sizes first; the last may have fewer than 4.

    Walking up the sizes, a time counts as off when it misses the line through those before it by more than
    three times their median miss, and by 5% at least. Three in a row begin a new range.
    """
    found: list[tuple[int, int]] = []
    start, at, strikes = 0, FEWEST_SIZES, 0
    sizes, best = times.sizes / MB, times.best_us
    line: tuple[float, float] | None = None
    tolerance = _TOLERANCE
    while at < len(sizes):
        if line is None:
            line = _reweighted(sizes[start : at - strikes], best[start : at - strikes])
            misses = np.abs(line[0] + sizes[start : at - strikes] * line[1] - best[start : at - strikes])
            tolerance = max(_TOLERANCE, 3 * float(np.median(misses / best[start : at - strikes])))
        is_off = abs(line[0] + sizes[at] * line[1] - best[at]) > tolerance * best[at]
        strikes = strikes + 1 if is_off else 0
        at += 1
        if strikes == _STRIKES:
            found.append((start, at - strikes))
            start, at, strikes, line = at - strikes, at - strikes + FEWEST_SIZES, 0, None
        elif not is_off and (at - start <= 64 or (at - start) % 16 == 0):  # many sizes hardly move the line
            line = None
    found.append((start, len(sizes)))
    return [Times(times.sizes[a:b], best[a:b], times.repeats[a:b]) for a, b in found]


def _correlation(sizes: Array, times_us: Array) -> float:
    if np.ptp(sizes) == 0 or np.ptp(times_us) == 0:
        return 0.0
    return float(np.corrcoef(sizes, times_us)[0, 1])


def _least_relative_deviation(sizes: Array, times_us: Array) -> tuple[float, float]:
    """Exactly: alpha, beta and a miss of each size are the variables of a linear program."""
    count = len(sizes)
    line = np.column_stack([1 / times_us, sizes / times_us])
    miss = np.eye(count)
    rows = np.vstack([np.hstack([line, -miss]), np.hstack([-line, -miss])])
    limits = np.concatenate([np.ones(count), -np.ones(count)])
    if count > 400:  # the program is dense; this many points are reported as well by reweighting
        return _reweighted(sizes, times_us)
    done = linprog(np.concatenate([[0, 0], np.ones(count)]), A_ub=rows, b_ub=limits, bounds=(0, None))
    if not done.success:
        return _reweighted(sizes, times_us)
    return float(done.x[0]), float(done.x[1])


def _reweighted(sizes: Array, times_us: Array) -> tuple[float, float]:
    alphas, betas = _reweighted_many(sizes[None, :], times_us[None, :])
    return float(alphas[0]), float(betas[0])


def _reweighted_many(sizes: Array, times_us: Array) -> tuple[Array, Array]:
    """The same line by iteratively reweighted least squares, of many samples at once: shapes (samples, n)."""
    weights = 1 / times_us**2
    alpha = beta = np.zeros(len(sizes))
    for _ in range(_ROUNDS):
        total = weights.sum(axis=1)
        mean_size, mean_time = (weights * sizes).sum(axis=1) / total, (weights * times_us).sum(axis=1) / total
        around = sizes - mean_size[:, None]
        spread = (weights * around**2).sum(axis=1)
        slope = np.divide(
            (weights * around * (times_us - mean_time[:, None])).sum(axis=1),
            spread,
            out=np.zeros_like(spread),
            where=spread > 0,
        )
        new_alpha = mean_time - slope * mean_size
        through_zero = (weights * sizes * times_us).sum(axis=1) / (weights * sizes**2).sum(axis=1)
        beta = np.where(new_alpha < 0, through_zero, np.maximum(slope, 0))
        alpha = np.where(new_alpha < 0, 0, np.where(slope < 0, mean_time, new_alpha))
        misses = np.abs(alpha[:, None] + sizes * beta[:, None] - times_us) / times_us
        weights = 1 / times_us**2 / np.maximum(misses, 1e-5)
    return alpha, beta


def _bootstrap(times: Times, seed: int) -> tuple[Array, Array]:
    """Alphas and betas of samples of the sizes with replacement, each size with one of its repeats."""
    chance = np.random.default_rng(seed)
    count = len(times.sizes)
    samples = min(SAMPLES, max(100, 400_000 // count))
    drawn = chance.integers(count, size=(samples, count))
    most = max(len(repeat) for repeat in times.repeats)
    table = np.array([np.resize(repeat, most) for repeat in times.repeats])
    many = np.array([len(repeat) for repeat in times.repeats])
    which = (chance.random(drawn.shape) * many[drawn]).astype(int)
    varied = np.ptp(drawn, axis=1) > 0  # one size alone is no line
    return _reweighted_many((times.sizes / MB)[drawn[varied]], table[drawn, which][varied])


def _estimate(value: float, samples: Array, *, is_alpha: bool) -> Estimate:
    tail = (1 - INTERVAL) / 2
    low, high = (float(each) for each in np.quantile(samples, (tail, 1 - tail)))
    low, high = min(low, value), max(high, value)
    weak = high > _WEAK_ALPHA * low if is_alpha else high - low > _WEAK_BETA * value
    return Estimate(value, low, high, bool(weak))
