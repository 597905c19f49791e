"""What a bound is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """No schedule of the problem ends before `value_us`; `witness` says in a few words why."""

    value_us: float
    witness: str
