"""What a forest serves: chunks that come from all ranks, or go to all ranks, or both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.demand import Demand
from taccl.model.collective import IntArray

#: The root of a tree whose root may be any rank.
ANYWHERE = -1


@dataclass(frozen=True, eq=False)
class Spread:
    """What happens to every chunk, on a tree that spans the ranks.

    Parameters
    ----------
    sums : parts of it come up the tree and are summed at the root.
    copies : it goes down the tree from the root.
    root : shape (num_chunks,); where its sum is wanted or where it starts, or `ANYWHERE`.
    """

    sums: bool
    copies: bool
    root: IntArray


def spread_of(demand: Demand) -> Spread | None:
    """What happens to every chunk; None if trees over all ranks do not answer the demand."""
    collective = demand.collective
    if not demand.num_chunks:
        return None
    if demand.broadcasts:
        return Spread(False, True, collective.source)
    if not collective.reduces.all() or not demand.from_all:
        return None
    if demand.to_all:
        return Spread(True, True, np.full(demand.num_chunks, ANYWHERE))
    return Spread(True, False, collective.destination) if demand.to_one else None
