"""Which algorithms there are for a line of this many ranks, and which of them differ there."""

from __future__ import annotations

from taccl.encoding.engines.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.engines.textbook.bruck import BRUCK, PAT
from taccl.encoding.engines.textbook.doubling import DOUBLING, DOUBLING_FAR_FIRST
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.ring import RING, RING_BOTH_DIRECTIONS

#: All algorithms for a line.
LINE_ALGORITHMS = (RING, RING_BOTH_DIRECTIONS, ALL_PAIRS, DOUBLING, DOUBLING_FAR_FIRST, BRUCK, PAT)


def spreads_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to spread along a line of this many: those that differ."""
    if size == 2:
        return (ALL_PAIRS,)
    doubling = (DOUBLING, DOUBLING_FAR_FIRST) if DOUBLING.fits(size) else (BRUCK,)
    return (RING, *((RING_BOTH_DIRECTIONS,) if size > 3 else ()), ALL_PAIRS, *doubling)


def totals_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to sum up along a line of this many at all of them: those that differ."""
    return (ALL_PAIRS,) if size == 2 else (ALL_PAIRS, DOUBLING if DOUBLING.fits(size) else BRUCK)


def routes_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to route along a line of this many: those that differ."""
    if size == 2:
        return (ALL_PAIRS,)
    return (ALL_PAIRS, RING_BOTH_DIRECTIONS, RING, DOUBLING if DOUBLING.fits(size) else BRUCK)
