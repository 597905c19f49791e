"""Bruck's algorithm, or dissemination: recursive doubling for any number of ranks.

In step t every rank sends to the one 2^t before it (and hears from the one 2^t behind), so everyone hears of
twice as many, and ceil(log2 n) steps do for any n. An AlltoAll goes the same way: a block that has d
positions to go moves by the bits of d.

Sums need care, because a rank that was counted may not be counted again. Everyone sums up a *window*: its own
contribution and those of the w - 1 ranks after it. Next to a window of w, each rank still holds the shorter
ones that it had before, so two windows side by side make one of w + v where v is any earlier width: the
widths are an addition chain that ends with n, in which each number adds something to the one before it. For a
power of two that is doubling; for 3, 5, 6, 9, 10 it is as many steps as ceil(log2 n).

Sources: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
multiport message-passing systems", IEEE TPDS 8 (1997), sections 3 and 4; Bruck and Ho, "Efficient global
combine operations in multi-port message-passing systems", Parallel Processing Letters 3 (1993); Knuth, "The
Art of Computer Programming" 2, section 4.6.3 (addition chains).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from taccl.encoding.engines.textbook.line import Hop, LineAlgorithm, Spread, Total
from taccl.encoding.engines.textbook.tuning import BRUCK_MOST_SEARCHED


@lru_cache(maxsize=64)
def _windows(n: int) -> Spread:
    steps, have = [], 1
    while have < n:
        more = min(have, n - have)
        steps.append(tuple((p, (p - have) % n, tuple((p + i) % n for i in range(more))) for p in range(n)))
        have += more
    return tuple(steps)


@lru_cache(maxsize=64)
def _sums(n: int) -> Total:
    chain = addition_chain(n)
    return tuple(
        tuple((p, (p - have) % n, chain.index(then - have)) for p in range(n))
        for have, then in pairwise(chain)
    )


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


def _hops(n: int, begin: int, end: int) -> tuple[Hop, ...]:
    left, at, step, hops = (begin - end) % n, begin, 0, []
    while left >> step:
        if left >> step & 1:
            hops.append((step, at, (at - (1 << step)) % n))
            at = (at - (1 << step)) % n
        step += 1
    return tuple(hops)


BRUCK = LineAlgorithm(
    "Bruck",
    spread=_windows,
    total=_sums,
    hops=_hops,
    adds=lambda n: len(addition_chain(n)) - 1,
    mean_hops=lambda n: n.bit_length() / 2,
    reaches=lambda n: tuple(n - (1 << bit) for bit in range((n - 1).bit_length())),
)
