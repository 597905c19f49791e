"""Recursive doubling and halving: after each step everyone knows twice as much.

Ranks whose numbers differ in one bit exchange all that they have, bit after bit: log2 n steps. As an
AllGather each exchange is twice the one before; read backwards it is recursive halving, a ReduceScatter, and
both after each other are Rabenseifner's AllReduce (halving-doubling). If whole buffers are added up at each
exchange, it is an AllReduce of log2 n steps, with no root and no way back: the fewest that there can be. With
one source it is the binomial tree. For n that is a power of two.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
IJHPCA 19 (2005), section 4 (recursive doubling and halving, binomial trees); Rabenseifner, "Optimization of
collective reduction operations", ICCS 2004, section 3.
"""

from __future__ import annotations

from functools import lru_cache

from taccl.encoding.engines.textbook.line import Hop, LineAlgorithm, Spread, Total, is_power_of_two


@lru_cache(maxsize=64)
def _near_first(n: int) -> Spread | None:
    """Bit 0 first, so that most is sent over the longest distance."""
    if not is_power_of_two(n):
        return None
    steps = [1 << bit for bit in range(n.bit_length() - 1)]
    return tuple(
        tuple((p, p ^ size, tuple(range(p // size * size, p // size * size + size))) for p in range(n))
        for size in steps
    )


@lru_cache(maxsize=64)
def _far_first(n: int) -> Spread | None:
    """The highest bit first, so that most is sent to neighbours."""
    if not is_power_of_two(n):
        return None
    steps = [1 << bit for bit in reversed(range(n.bit_length() - 1))]
    return tuple(
        tuple((p, p ^ size, tuple(range(p % (2 * size), n, 2 * size))) for p in range(n)) for size in steps
    )


@lru_cache(maxsize=64)
def _sums(n: int) -> Total | None:
    if not is_power_of_two(n):
        return None
    return tuple(tuple((p, p ^ (1 << bit), bit) for p in range(n)) for bit in range(n.bit_length() - 1))


def _hops(n: int, begin: int, end: int) -> tuple[Hop, ...] | None:
    """Across each bit that differs, the highest first: what a binomial tree scatters halves each time."""
    if not is_power_of_two(n):
        return None
    hops, at = [], begin
    for step, bit in enumerate(reversed(range(n.bit_length() - 1))):
        if (at ^ end) >> bit & 1:
            hops.append((step, at, at ^ (1 << bit)))
            at ^= 1 << bit
    return tuple(hops)


def _partners(n: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(n.bit_length() - 1))


DOUBLING = LineAlgorithm(
    "recursive doubling",
    spread=_near_first,
    total=_sums,
    hops=_hops,
    adds=lambda n: n.bit_length() - 1,
    mean_hops=lambda n: n.bit_length() / 2,
    reaches=_partners,
)
DOUBLING_FAR_FIRST = LineAlgorithm(
    "recursive doubling, far first", spread=_far_first, reaches=_partners, is_variant=True
)
