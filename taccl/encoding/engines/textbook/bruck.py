"""Bruck's algorithm, or dissemination: recursive doubling for any number of ranks.

In step t every rank sends to the one 2^t before it (and hears from the one 2^t behind), so everyone hears of
twice as many, and ceil(log2 n) steps do for any n. An AlltoAll goes the same way: a block that has d
positions to go moves by the bits of d.

Sums need care, because a rank that was counted may not be counted again. Everyone sums up a *window*: its own
contribution and those of the w - 1 ranks after it. Next to a window of w, each rank still holds the shorter
ones that it had before, so two windows side by side make one of w + v where v is any earlier width: the
widths are an addition chain that ends with n, in which each number adds something to the one before it. For a
power of two that is doubling; for 3, 5, 6, 9, 10 it is as many steps as ceil(log2 n).

NCCL's PAT (parallel aggregated trees) is Bruck's AllGather with the longest distance first, so that most
is sent to near ranks: a binomial tree for each block. Where buffers are too small for a step, the trees
follow each other in batches.

Sources: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
multiport message-passing systems", IEEE TPDS 8 (1997), sections 3 and 4; Bruck and Ho, "Efficient global
combine operations in multi-port message-passing systems", Parallel Processing Letters 3 (1993); Knuth, "The
Art of Computer Programming" 2, section 4.6.3 (addition chains); Jeaugey, "PAT: a new algorithm for all-gather
and reduce-scatter operations at scale", arXiv 2506.20252 (2025).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from taccl.encoding.engines.textbook.line import Carried, Hops, LineAlgorithm, hops, joined
from taccl.encoding.engines.textbook.tuning import BRUCK_MOST_SEARCHED
from taccl.model.collective import IntArray


def _spread(n: int, begin: IntArray) -> Hops:
    """A rank that has the blocks of a window of w sends the first of them to the rank w before it."""

    def across(step: int) -> Hops:
        window = 1 << step
        src = begin - np.arange(min(window, n - window))[:, None]
        return hops(step, src % n, (src - window) % n, np.arange(len(begin)))

    return joined(*map(across, range((n - 1).bit_length())))


def _spread_far_first(n: int, begin: IntArray) -> Hops:
    """A block that has come to a multiple of 2w goes on to the rank w before it, the largest w first."""

    def across(step: int, window: int) -> Hops:
        src = begin - np.arange(0, n - window, 2 * window)[:, None]
        return hops(step, src % n, (src - window) % n, np.arange(len(begin)))

    return joined(*(across(step, 1 << bit) for step, bit in enumerate(reversed(range((n - 1).bit_length())))))


def _route(n: int, begin: IntArray, end: IntArray) -> Hops:
    """By each bit of the distance, the lowest first."""
    left = (begin - end) % n

    def across(bit: int) -> Hops:
        block = np.flatnonzero(left >> bit & 1)
        at = begin[block] - left[block] % (1 << bit)
        return hops(bit, at % n, (at - (1 << bit)) % n, block)

    return joined(*map(across, range((n - 1).bit_length())))


def _total(n: int) -> tuple[Hops, Carried]:
    chain = addition_chain(n)
    window, rank = np.array(chain[:-1], dtype=np.int64)[:, None], np.arange(n)
    since = [chain.index(then - have) for have, then in pairwise(chain)]
    step = np.arange(len(window))[:, None]
    return hops(step, rank, (rank - window) % n, 0), Carried(np.array(since, dtype=np.int64))


@lru_cache(maxsize=256)
def addition_chain(n: int) -> tuple[int, ...]:
    """1 = a_0 < a_1 < ... = n with each a_(i+1) - a_i one of a_0 .. a_i; as short as possible for small n."""
    if n > BRUCK_MOST_SEARCHED:
        half = addition_chain(n // 2)
        return (*half, n - 1, n) if n % 2 else (*half, n)
    most = (n - 1).bit_length()
    while True:
        chain = _chain([1], n, most)
        if chain is not None:
            return chain
        most += 1


def _chain(chain: list[int], n: int, most: int) -> tuple[int, ...] | None:
    """The chain made longer by at most this many numbers."""
    last = chain[-1]
    if last == n:
        return tuple(chain)
    if not most or last << most < n:
        return None
    for part in reversed(chain):
        if last + part <= n:
            found = _chain([*chain, last + part], n, most - 1)
            if found is not None:
                return found
    return None


BRUCK = LineAlgorithm(
    "Bruck",
    _spread,
    sends=lambda n: (n - 1).bit_length(),
    route=_route,
    total=_total,
    adds=lambda n: len(addition_chain(n)) - 1,
    mean_hops=lambda n: n.bit_length() / 2,
)
PAT = LineAlgorithm("PAT", _spread_far_first, sends=BRUCK.sends, is_variant=True)
