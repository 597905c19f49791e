"""The ring: everything goes round, one neighbour at a time.

Each of n ranks passes on to the next what it got from the one before, so after n - 1 steps everyone has
everything, and each link carried what is wanted behind it and nothing else: bandwidth is used fully, and the
number of steps is the largest of all algorithms. Read backwards it is the ring ReduceScatter, and both make
the ring AllReduce. With one source it is the chain (pipelined Broadcast).

Where data is small and steps are many, whole buffers go round in both directions (`total`): every position
adds up what comes to it in floor(n / 2) steps, in place of as many there and as many back.

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
Parallel Distrib. Comput. 69 (2009), section 3; Thakur, Rabenseifner and Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 19 (2005), section 4 (AllGather).
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.engines.textbook.line import Carried, Hops, LineAlgorithm, hops, joined, straight
from taccl.model.collective import IntArray


def _round(n: int, begin: IntArray, steps: int, ahead: int) -> Hops:
    """Blocks that go this many steps, to the next position (`ahead` is 1) or the one before (-1)."""
    step = np.arange(steps)[:, None]
    at = begin + ahead * step
    return hops(step, at % n, (at + ahead) % n, np.arange(len(begin)))


def _spread(n: int, begin: IntArray) -> Hops:
    return _round(n, begin, n - 1, 1)


def _spread_both(n: int, begin: IntArray) -> Hops:
    """Each block goes both directions at once, and stops where it meets itself."""
    return joined(_round(n, begin, n // 2, 1), _round(n, begin, (n - 1) // 2, -1))


def _spread_both_turned(n: int, begin: IntArray) -> Hops:
    """Blocks that are to go half way round go there the other way."""
    return joined(_round(n, begin, (n - 1) // 2, 1), _round(n, begin, n // 2, -1))


def _total_both(n: int) -> tuple[Hops, Carried]:
    """Each passes on what came in its direction last; steps of both directions alternate."""
    ahead, back = _round(n, np.arange(n), n // 2, 1), _round(n, np.arange(n), (n - 1) // 2, -1)
    steps = np.arange(2 * (n // 2))
    moves = joined(ahead._replace(step=2 * ahead.step), back._replace(step=2 * back.step + 1))
    return moves, Carried(np.where(steps < 2, 0, steps - 1), np.where(steps < 2, -1, steps - 2))


def _route(n: int, begin: IntArray, end: IntArray, ahead: int = 1) -> Hops:
    moves = straight(begin, ahead * (end - begin) % n, ahead)
    return moves._replace(src=moves.src % n, dst=moves.dst % n)


def _route_both(n: int, begin: IntArray, end: IntArray) -> Hops:
    """Each block the shorter way; of those that are half way round, every other one goes ahead."""
    ahead, back = (end - begin) % n, (begin - end) % n
    is_ahead = ahead < back
    half_round = np.flatnonzero((ahead == back) & (ahead > 0))
    is_ahead[half_round[::2]] = True
    return joined(
        _route(n, begin, np.where(is_ahead, end, begin)), _route(n, begin, np.where(is_ahead, begin, end), -1)
    )


#: n - 1 steps, over links from each position to the next.
RING = LineAlgorithm("ring", _spread, sends=lambda n: n - 1, route=_route, mean_hops=lambda n: n / 2)
#: Half as many steps, over the links back too.
RING_BOTH_DIRECTIONS = LineAlgorithm(
    "ring both directions",
    _spread_both,
    sends=lambda n: n - 1,
    turned=_spread_both_turned,
    route=_route_both,
    total=_total_both,
    adds=lambda n: n - 1,
    steps=lambda n: n // 2,
    mean_hops=lambda n: n / 4,
    is_variant=True,
)
