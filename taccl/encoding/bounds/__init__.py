"""Proofs: times that no schedule of a problem can beat, each with its witness.

A bound is a value (`bound`), made by one module of this room and listed in `registry`; `stream` asks them in
turn, and `views` says which problems they are requested about where there are sums.
"""

from __future__ import annotations

from taccl.encoding.bounds.bound import BY_SEARCH, Bound, Proof, Prove
from taccl.encoding.bounds.registry import BOUNDS, known_bounds
from taccl.encoding.bounds.stream import (
    NOTHING,
    all_bounds,
    any_chunks_bound,
    declined,
    lower_bound,
    proofs,
    quick_bound,
    times_asked,
)
from taccl.encoding.bounds.views import View
from taccl.encoding.bounds.volume import soonest

__all__ = [
    "BOUNDS",
    "BY_SEARCH",
    "NOTHING",
    "Bound",
    "Proof",
    "Prove",
    "View",
    "all_bounds",
    "any_chunks_bound",
    "declined",
    "known_bounds",
    "lower_bound",
    "proofs",
    "quick_bound",
    "soonest",
    "times_asked",
]
