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

import numpy as np

from taccl.encoding.engines.textbook.line import Carried, Hops, LineAlgorithm, hops, joined
from taccl.model.collective import IntArray


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _bits(n: int) -> range:
    return range(n.bit_length() - 1)


def _near_first(n: int, begin: IntArray) -> Hops:
    """Bit 0 first, so that most is sent over the longest distance."""
    block = np.arange(len(begin))[:, None]

    def across(bit: int) -> Hops:
        src = (begin >> bit << bit)[:, None] + np.arange(1 << bit)
        return hops(bit, src, src ^ 1 << bit, block)

    return joined(*map(across, _bits(n)))


def _far_first(n: int, begin: IntArray) -> Hops:
    """The highest bit first, so that most is sent to neighbours."""
    block = np.arange(len(begin))[:, None]

    def across(step: int, bit: int) -> Hops:
        src = begin[:, None] % (2 << bit) + np.arange(0, n, 2 << bit)
        return hops(step, src, src ^ 1 << bit, block)

    return joined(*map(across, _bits(n), reversed(_bits(n))))


def _route(n: int, begin: IntArray, end: IntArray) -> Hops:
    """Across each bit that differs, the highest first: what a binomial tree scatters halves each time."""

    def across(step: int, bit: int) -> Hops:
        block = np.flatnonzero((begin ^ end) >> bit & 1)
        lower = (2 << bit) - 1
        at = end[block] & ~lower | begin[block] & lower
        return hops(step, at, at ^ 1 << bit, block)

    return joined(*map(across, _bits(n), reversed(_bits(n))))


def _total(n: int) -> tuple[Hops, Carried]:
    bit, rank = np.indices((len(_bits(n)), n)).reshape(2, -1)
    return hops(bit, rank, rank ^ 1 << bit, 0), Carried(np.array(_bits(n)))


DOUBLING = LineAlgorithm(
    "recursive doubling",
    _near_first,
    sends=lambda n: len(_bits(n)),
    route=_route,
    total=_total,
    adds=lambda n: len(_bits(n)),
    mean_hops=lambda n: n.bit_length() / 2,
    fits=_is_power_of_two,
)
DOUBLING_FAR_FIRST = LineAlgorithm(
    "recursive doubling, far first",
    _far_first,
    sends=lambda n: len(_bits(n)),
    fits=_is_power_of_two,
    is_variant=True,
)
