"""All-pairs: everyone sends to everyone, directly.

As an AllReduce of whole buffers it is one-shot (each rank sends its input to all others, each adds up for
itself): one step where every pair has a link of its own, and n - 1 sends of the whole buffer at each port
where not. An all-pairs ReduceScatter followed by an all-pairs AllGather is two-shot. As an AlltoAll it is the
pairwise exchange: at step i, rank p sends to p + i, so that no two send to one rank at once.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
IJHPCA 19 (2005), section 4 (pairwise exchange); Shah et al., "MSCCL++: rethinking GPU communication
abstractions for cutting-edge AI applications", arXiv 2504.09014 (2025) (its one-phase and two-phase all-pairs
AllReduce).
"""

from __future__ import annotations

from functools import lru_cache

from taccl.encoding.engines.textbook.line import Hop, LineAlgorithm, Spread, Total


@lru_cache(maxsize=64)
def _everything(n: int) -> Spread:
    # All in one step: no send waits for another. Where they share a port, they take turns in this order.
    return (tuple((p, (p + turn) % n, (p,)) for turn in range(1, n) for p in range(n)),)


@lru_cache(maxsize=64)
def _sums(n: int) -> Total:
    return (tuple((p, (p + turn) % n, 0) for turn in range(1, n) for p in range(n)),)


def _hops(n: int, begin: int, end: int) -> tuple[Hop, ...]:
    return () if begin == end else (((end - begin) % n - 1, begin, end),)


ALL_PAIRS = LineAlgorithm(
    "all-pairs",
    spread=_everything,
    total=_sums,
    hops=_hops,
    adds=lambda n: n - 1,
    reaches=lambda n: range(1, n),
    is_at_once=True,
)
