"""The ring: everything goes round, one neighbour at a time.

Each of n ranks passes on to the next what it got from the one before, so after n - 1 steps everyone has
everything, and each link carried what is wanted behind it and nothing else: bandwidth is used fully, and the
number of steps is the largest of all algorithms. Read backwards it is the ring ReduceScatter, and both make
the ring AllReduce. With one source it is the chain (pipelined Broadcast).

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
Parallel Distrib. Comput. 69 (2009), section 3; Thakur, Rabenseifner and Gropp, "Optimization of collective
communication operations in MPICH", IJHPCA 19 (2005), section 4 (AllGather).
"""

from __future__ import annotations

from functools import lru_cache

from taccl.encoding.engines.textbook.line import Hop, LineAlgorithm, Spread


@lru_cache(maxsize=64)
def _round(n: int) -> Spread:
    return tuple(tuple((p, (p + 1) % n, ((p - step) % n,)) for p in range(n)) for step in range(n - 1))


@lru_cache(maxsize=64)
def _both_directions_round(n: int) -> Spread:
    """Each block goes both directions at once, and stops where it meets itself."""
    ahead, back = n // 2, (n - 1) // 2
    return tuple(
        tuple((p, (p + 1) % n, ((p - step) % n,)) for p in range(n))
        + tuple((p, (p - 1) % n, ((p + step) % n,)) for p in range(n) if step < back)
        for step in range(ahead)
    )


def _hops(n: int, begin: int, end: int) -> tuple[Hop, ...]:
    return tuple((step, (begin + step) % n, (begin + step + 1) % n) for step in range((end - begin) % n))


def _shorter_way_hops(n: int, begin: int, end: int) -> tuple[Hop, ...]:
    ahead = (end - begin) % n
    if ahead <= n - ahead:
        return _hops(n, begin, end)
    return tuple((step, (begin - step) % n, (begin - step - 1) % n) for step in range(n - ahead))


#: n - 1 steps, over links from each position to the next.
RING = LineAlgorithm(
    "ring",
    spread=_round,
    hops=_hops,
    mean_hops=lambda n: n / 2,
    reaches=lambda n: (1,),
    repeats=lambda n: n - 1,
)
#: Half as many steps, over the links back too.
RING_BOTH_DIRECTIONS = LineAlgorithm(
    "ring both directions",
    spread=_both_directions_round,
    hops=_shorter_way_hops,
    mean_hops=lambda n: n / 4,
    reaches=lambda n: (1, n - 1) if n > 2 else (1,),
    repeats=lambda n: n // 2,
    is_variant=True,
)
