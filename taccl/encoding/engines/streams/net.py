"""What compiled loops know of the links of a machine, for chunks of one size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.engines.streams.tuning import MOST_KINDS
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem


class Net(NamedTuple):
    """The links that chunks may use, for chunks of one size.

    Parameters
    ----------
    first, port, busy_us, busy_more_us : shapes (num_links + 1,), then (num_pairs,); the ports of each link,
        how long a chunk keeps each busy, and each chunk more in the same send.
    late_us, late_more_us : shape (num_pairs,); how long after the start of a send that begins, the same.
    wake_first, wake_us : of each port, how long before it is free links that use it may start, each once.
    src, dst, hop_us, hop_more_us : shape (num_links,); how long a chunk takes, and each more in its send.
    out_first, out : the links out of each rank that may be used.
    use_first, use : for each of these moments, the links that may start then.
    far_us, to_us : shape (num_ranks, num_ranks); how long a chunk takes from rank to rank, and the transpose.
    leaves : shape (num_links,); whether a link leads out of the root's node.
    kind, kind_us : shape (num_links,), then (num_kinds,); the links of a kind take this long for a chunk, or,
        where there would be many kinds, at least as long.
    """

    first: IntArray
    port: IntArray
    busy_us: FloatArray
    busy_more_us: FloatArray
    late_us: FloatArray
    late_more_us: FloatArray
    wake_first: IntArray
    wake_us: FloatArray
    src: IntArray
    dst: IntArray
    hop_us: FloatArray
    hop_more_us: FloatArray
    out_first: IntArray
    out: IntArray
    use_first: IntArray
    use: IntArray
    far_us: FloatArray
    to_us: FloatArray
    leaves: BoolArray
    kind: IntArray
    kind_us: FloatArray


def net_of(problem: Problem, far_us: FloatArray, root: int, to_the_end: bool = False) -> Net:
    """The links of a problem for one of its chunks, times in microseconds; `far_us` as in `Net`.

    `to_the_end` : ports are busy up to the end of a send, not from its start on, so that a schedule read
        backwards is one.
    """
    topology, costs = problem.topology, costs_of(problem.topology)
    of_root = topology.node_of == topology.node_of[root]
    usable = problem.usable(0)
    links = np.flatnonzero(usable)
    out = links[np.argsort(topology.src[links], kind="stable")]
    link, port = topology.incidence
    mb = problem.chunk_mb
    busy_us, busy_more_us = costs.busy_alpha_us + mb * costs.busy_beta_us, mb * costs.busy_beta_us
    hop_us, hop_more_us = costs.alpha_us + mb * costs.beta_us, mb * costs.beta_us
    # By how much a send lasts longer than it keeps a port busy.
    late_us, late_more_us = hop_us[link] - busy_us, hop_more_us[link] - busy_more_us
    if not to_the_end:
        late_us, late_more_us = np.zeros_like(busy_us), np.zeros_like(busy_us)
    used = np.flatnonzero(usable[link])
    used = used[np.lexsort((late_us[used], port[used]))]
    kind, kind_us = _kinds(hop_us)
    wakes, first = np.unique(np.stack([port[used], late_us[used]]), axis=1, return_index=True)
    return Net(
        costs.first,
        costs.port,
        busy_us,
        busy_more_us,
        late_us,
        late_more_us,
        np.searchsorted(wakes[0], np.arange(topology.num_ports + 1)),
        np.ascontiguousarray(wakes[1]),
        topology.src,
        topology.dst,
        hop_us,
        hop_more_us,
        np.searchsorted(topology.src[out], np.arange(problem.num_ranks + 1)),
        out,
        np.append(first, len(used)),
        link[used],
        np.ascontiguousarray(far_us, dtype=np.float64),
        np.ascontiguousarray(far_us.T, dtype=np.float64),
        of_root[topology.src] & ~of_root[topology.dst],
        kind,
        kind_us,
    )


def _kinds(hop_us: FloatArray) -> tuple[IntArray, FloatArray]:
    """The kind of each link, and the least time of each."""
    every_us = np.unique(hop_us)
    kind_us = every_us[:: -(-len(every_us) // MOST_KINDS) or 1]
    return np.searchsorted(kind_us, hop_us, side="right") - 1, kind_us
