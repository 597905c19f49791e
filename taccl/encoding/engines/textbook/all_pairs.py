"""All-pairs: everyone sends to everyone, directly.

As an AllReduce of whole buffers it is one-shot (each rank sends its input to all others, each adds up for
itself): one step where every pair has a link of its own, and n - 1 sends of the whole buffer at each port
where not. An all-pairs ReduceScatter followed by an all-pairs AllGather is two-shot. As an AlltoAll it is the
pairwise exchange: at turn i, rank p sends to p + i, so that no two send to one rank at once. All is one step,
for no send waits for another; where they share a port, they go in the order of turns.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
IJHPCA 19 (2005), section 4 (pairwise exchange); Shah et al., "MSCCL++: rethinking GPU communication
abstractions for cutting-edge AI applications", arXiv 2504.09014 (2025) (its one-phase and two-phase all-pairs
AllReduce).
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.engines.textbook.line import Carried, Hops, LineAlgorithm, hops
from taccl.model.collective import IntArray


def _spread(n: int, begin: IntArray) -> Hops:
    turn = np.arange(1, n)[:, None]
    return hops(0, begin, (begin + turn) % n, np.arange(len(begin)))


def _route(n: int, begin: IntArray, end: IntArray) -> Hops:
    distance = (end - begin) % n
    block = np.argsort(distance, kind="stable")[np.count_nonzero(distance == 0) :]
    return hops(0, begin[block], end[block], block)


def _total(n: int) -> tuple[Hops, Carried]:
    return _spread(n, np.arange(n)), Carried(np.zeros(1, dtype=np.int64))


ALL_PAIRS = LineAlgorithm(
    "all-pairs",
    _spread,
    sends=lambda n: n - 1,
    route=_route,
    total=_total,
    adds=lambda n: n - 1,
    steps=lambda n: 1,
)
