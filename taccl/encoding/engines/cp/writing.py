"""Whether a model is written down in a small part of the time that is left."""

from __future__ import annotations

from taccl.encoding.engines.cp.tuning import MOST_PAIRS, PAIRS_PER_S, VARIABLES_WRITTEN_PER_UNIT
from taccl.support.budget import Budget


def is_written_soon(pairs: int, budget: Budget, pairs_per_s: int = PAIRS_PER_S) -> bool:
    """Whether a model with this many pairs of an item and a send fits, and is soon written down.

    If so, that work is noted.
    """
    if pairs > min(MOST_PAIRS, pairs_per_s * budget.remaining_s()):
        return False
    budget.spend(pairs / VARIABLES_WRITTEN_PER_UNIT)
    return True
