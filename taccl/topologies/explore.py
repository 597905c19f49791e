"""Looking at a machine: distances between ranks, the load of an AlltoAll, and bisection bandwidth.

A hop is one transfer from GPU to GPU (a `PhysicalTopology.path`; between nodes a `host_path`). A
message goes from rank to rank by as many hops as it needs, each whole: store and forward.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taccl.errors import TopologyError
from taccl.model.units import MB, parse_size
from taccl.topologies.devices import Path
from taccl.topologies.model import PhysicalTopology

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def hop_distances(topology: PhysicalTopology) -> IntArray:
    """The fewest hops from each rank (row) to each rank (column); -1 where there is no way.

    Returns
    -------
    Shape (num_ranks, num_ranks).
    """
    costs, _ = _shortest(np.where(np.isinf(_hop_times(topology, 0)), np.inf, 1.0))
    return np.where(np.isinf(costs), -1, costs).astype(np.int64)


def distances_us(topology: PhysicalTopology, size: str | int) -> FloatArray:
    """The least time in microseconds for a message of `size` from each rank (row) to each (column).

    Each hop takes alpha + size * beta, and nothing else is under way. Infinite where there is no way.

    Parameters
    ----------
    size : bytes, or a text such as `1MB`.

    Returns
    -------
    Shape (num_ranks, num_ranks).
    """
    return _shortest(_hop_times(topology, parse_size(size)))[0]


def alltoall_loads_us(topology: PhysicalTopology, size: str | int) -> FloatArray:
    """How long each link is busy when every rank sends `size` to every other rank, in microseconds.

    Each message takes one route, the fastest on an idle machine (of equal ones, the first found), so
    this is the load of a plain AlltoAll and no bound on the best one. A link is busy with each transfer
    over it for size * beta at its own beta, and for the alpha of the transfer's path too unless the
    machine's occupancy is pipelined.

    Returns
    -------
    Shape (number of links,), in the order of `topology.links`.

    Raises
    ------
    TopologyError : a rank cannot reach another.
    """
    size_bytes = parse_size(size)
    costs, via = _shortest(_hop_times(topology, size_bytes))
    loads = np.zeros(len(topology.links))
    beta = np.array([link.beta_us_per_mb for link in topology.links])
    for src in range(topology.num_ranks):
        for dst in range(topology.num_ranks):
            if np.isinf(costs[src, dst]):
                raise TopologyError(f"rank {src} of {topology.name!r} cannot reach rank {dst}")
            at = src
            while at != dst:
                step = int(via[at, dst])
                path = _hop(topology, at, step)
                assert path is not None
                links = list(path.links)
                alpha = path.alpha_us if topology.occupancy == "serial" else 0.0
                loads[links] += size_bytes / MB * beta[links] + alpha
                at = step
    return loads


def _hop(topology: PhysicalTopology, src: int, dst: int) -> Path | None:
    return topology.host_path(src, dst) if src != dst else None


def _hop_times(topology: PhysicalTopology, size_bytes: int) -> FloatArray:
    """Time of the one hop from row to column, in microseconds; infinite where there is none."""
    times = np.full((topology.num_ranks, topology.num_ranks), np.inf)
    for src in range(topology.num_ranks):
        for dst in range(topology.num_ranks):
            path = _hop(topology, src, dst)
            if path is not None:
                times[src, dst] = path.alpha_us + size_bytes / MB * path.beta_us_per_mb
    return times


def _shortest(hops: FloatArray) -> tuple[FloatArray, IntArray]:
    """All shortest routes over one-hop costs (Floyd and Warshall): their costs, and each one's first stop."""
    costs = hops.copy()
    np.fill_diagonal(costs, 0.0)
    num_ranks = len(costs)
    first = np.tile(np.arange(num_ranks), (num_ranks, 1))
    for stop in range(num_ranks):
        through = costs[:, stop, None] + costs[None, stop, :]
        better = through < costs - 1e-9 * np.where(np.isinf(costs), 0.0, costs)
        costs = np.where(better, through, costs)
        first = np.where(better, first[:, stop, None], first)
    return costs, first
