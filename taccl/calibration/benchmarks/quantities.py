"""Fitted numbers and what could not be stated: the noun that fits make, and tables are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taccl.calibration.benchmarks.classes import Pair
from taccl.calibration.benchmarks.facts import Scope
from taccl.model.units import MB


@dataclass(frozen=True)
class Quantity:
    """A fitted number.

    Parameters
    ----------
    link : what it belongs to, `between nodes`, `GPU to GPU`.
    name : `alpha_us`, `beta_us_per_mb`, `launch_us`, `gap_us`, `latency_us`, `ports`, `gbps`.
    value, low, high : the number and its interval: 90% of bootstrap samples, or the range of a class.
    points : how many sizes or pairs.
    source, note : files and lines, and what a reader must know.
    sizes_bytes : the range of sizes it was fitted in, bytes; None where there is none.
    worst_miss, median_miss : of the fit from what was measured, as shares; None where nothing was fitted.
    weak : the interval is wide.
    """

    link: str
    name: str
    value: float
    low: float
    high: float
    points: int
    source: str
    note: str = ""
    sizes_bytes: tuple[int, int] | None = None
    worst_miss: float | None = None
    median_miss: float | None = None
    weak: bool = False

    @property
    def gbps(self) -> float | None:
        """Of a beta, the bandwidth that it is."""
        return MB / (self.value * 1e3) if self.name == "beta_us_per_mb" and self.value else None


@dataclass(frozen=True)
class Refusal:
    """What was requested of a measurement that cannot tell it."""

    link: str
    name: str
    reason: str
    source: str


@dataclass(frozen=True)
class LinkCost:
    """Costs of a hop in one scope, for a machine: what is None was not stated."""

    scope: Scope
    alpha: Quantity | None
    beta: Quantity | None


@dataclass(frozen=True)
class Findings:
    """All that measurements tell.

    Parameters
    ----------
    quantities, refusals : in the order of the files.
    costs : for a machine, at most one per scope.
    pair_gbps : of each pair of GPUs, from the test that moved most; empty if none.
    pair_source : of these.
    warnings : damaged links, contradictions, what the readers left out.
    """

    quantities: tuple[Quantity, ...]
    refusals: tuple[Refusal, ...]
    costs: tuple[LinkCost, ...]
    pair_gbps: Mapping[Pair, float]
    pair_source: str
    warnings: tuple[str, ...]
