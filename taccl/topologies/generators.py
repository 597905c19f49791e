"""Regular machines of one node: switch, ring, torus, mesh, fully connected, hub and spokes.

Every generator takes the cost of one GPU-to-GPU hop: `alpha_us`, and either `beta_us_per_mb` or
`bandwidth_gbps`; without any, 0.5 us and 50 GB/s. All raise TopologyError for a shape that is no
machine and for a cost that is not finite and positive (an alpha of 0 is allowed).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations, product

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MIN_BETA_US_PER_MB, beta_from_bandwidth
from taccl.support.arguments import is_number, is_whole, number, shown
from taccl.topologies.devices import MAX_GPUS, MAX_LINKS, Device, Link
from taccl.topologies.model import PhysicalTopology

DEFAULT_ALPHA_US = 0.5
DEFAULT_BANDWIDTH_GBPS = 50.0


def single_switch(
    gpus: int,
    *,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """GPUs that each have a link to and a link from one switch; half of the alpha is on each."""
    _check_count("switch", gpus)
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    ups = [(f"gpu{gpu}", "switch") for gpu in range(gpus)]
    devices = [Device("switch", "switch", 0, 0)]
    return _machine(f"switch:{gpus}", gpus, _both_directions(ups), alpha / 2, beta, occupancy, devices)


def ring(
    gpus: int,
    *,
    unidirectional: bool = False,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """GPU i has a link to GPU i + 1 and, unless `unidirectional`, one back; the last meets the first."""
    name = "ring-oneway" if unidirectional else "ring"
    _check_count(name, gpus)
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    ends = [(f"gpu{gpu}", f"gpu{(gpu + 1) % gpus}") for gpu in range(gpus)]
    return _machine(
        f"{name}:{gpus}", gpus, ends if unidirectional else _both_directions(ends), alpha, beta, occupancy
    )


def torus(
    *sizes: int,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """A grid whose lines are closed to rings, in any number of dimensions; ranks are row-major.

    A dimension of size 2 has one link each way between its two GPUs, not two.
    """
    return grid(
        "torus", sizes, (True,) * len(sizes), hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps), occupancy
    )


def mesh(
    *sizes: int,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """A grid with borders, in any number of dimensions; ranks are row-major."""
    return grid(
        "mesh", sizes, (False,) * len(sizes), hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps), occupancy
    )


def fully_connected(
    gpus: int,
    *,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """A link from every GPU to every other."""
    _check_count("full", gpus)
    if gpus * (gpus - 1) > MAX_LINKS:
        raise TopologyError(
            f"full:{gpus} has {gpus * (gpus - 1)} links, which is too large to build: {MAX_LINKS} fit",
            hint=f"full:{_most_linked()} or smaller",
        )
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    ends = permutations((f"gpu{gpu}" for gpu in range(gpus)), 2)
    return _machine(f"full:{gpus}", gpus, ends, alpha, beta, occupancy)


def hub_and_spoke(
    gpus: int,
    *,
    alpha_us: float = DEFAULT_ALPHA_US,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """GPU 0 has a link to and from each of the others, which have no other links."""
    _check_count("hub", gpus)
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    ends = _both_directions(("gpu0", f"gpu{gpu}") for gpu in range(1, gpus))
    return _machine(f"hub:{gpus}", gpus, ends, alpha, beta, occupancy)


def grid(
    name: str,
    sizes: Sequence[int],
    closed: Sequence[bool],
    cost: tuple[float, float],
    occupancy: Occupancy,
) -> PhysicalTopology:
    """A grid with a link both directions between neighbours, of alpha and beta `cost`.

    Parameters
    ----------
    name : what the machine is called before its sizes.
    closed : for each dimension, whether its lines are rings; one of size 2 has one link each way still.

    Raises
    ------
    TopologyError : a size below 1, fewer than 2 GPUs or too many.
    """
    if not sizes or not all(is_whole(size) and size >= 1 for size in sizes):
        raise TopologyError(f"a grid has sizes of 1 or more, not '{name}:{'x'.join(map(shown, sizes))}'")
    _check_count(name, math.prod(sizes))
    name = f"{name}:{'x'.join(map(str, sizes))}"
    ends = []
    for place in product(*map(range, sizes)):
        for dimension, size in enumerate(sizes):
            step = place[dimension] + 1
            if step < size or (closed[dimension] and size > 2):
                neighbour = (*place[:dimension], step % size, *place[dimension + 1 :])
                ends.append((_grid_gpu(place, sizes), _grid_gpu(neighbour, sizes)))
    return _machine(name, math.prod(sizes), _both_directions(ends), *cost, occupancy)


def _grid_gpu(place: Sequence[int], sizes: Sequence[int]) -> str:
    rank = 0
    for coordinate, size in zip(place, sizes, strict=True):
        rank = rank * size + coordinate
    return f"gpu{rank}"


def _check_count(name: str, gpus: int) -> None:
    if not is_whole(gpus) or not 2 <= gpus <= MAX_GPUS:
        raise TopologyError(f"{name.partition(':')[0]} takes 2 to {MAX_GPUS} GPUs, not {shown(gpus)}")


def _most_linked() -> int:
    """The most GPUs that can all have a link to each other."""
    return (1 + math.isqrt(1 + 4 * MAX_LINKS)) // 2


def hop_cost(
    alpha_us: float, beta_us_per_mb: float | None, bandwidth_gbps: float | None
) -> tuple[float, float]:
    """Alpha and beta of a hop, 50 GB/s where neither a beta nor a bandwidth is given.

    Raises
    ------
    TopologyError : both are given, or a cost is not finite and positive.
    """
    if beta_us_per_mb is not None and bandwidth_gbps is not None:
        raise TopologyError("beta_us_per_mb and bandwidth_gbps say the same thing; give one of them")
    if beta_us_per_mb is None:
        beta_us_per_mb = beta_from_bandwidth(
            DEFAULT_BANDWIDTH_GBPS if bandwidth_gbps is None else bandwidth_gbps
        )
    if not is_number(beta_us_per_mb) or not 0 < beta_us_per_mb < math.inf:
        raise TopologyError(f"beta_us_per_mb must be positive and finite, not {shown(beta_us_per_mb)}")
    alpha_us = number(alpha_us, "alpha_us", TopologyError, most=MAX_ALPHA_US)
    return alpha_us, number(
        beta_us_per_mb, "beta_us_per_mb", TopologyError, least=MIN_BETA_US_PER_MB, most=MAX_BETA_US_PER_MB
    )


def _both_directions(ends: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each pair and its reverse, none twice."""
    return list(dict.fromkeys(pair for a, b in ends for pair in ((a, b), (b, a))))


def _machine(
    name: str,
    gpus: int,
    ends: Iterable[tuple[str, str]],
    alpha_us: float,
    beta_us_per_mb: float,
    occupancy: Occupancy,
    devices: Sequence[Device] = (),
) -> PhysicalTopology:
    ranks = tuple(Device(f"gpu{gpu}", "gpu", 0, gpu) for gpu in range(gpus))
    links = tuple(Link(src, dst, alpha_us, beta_us_per_mb) for src, dst in ends)
    return PhysicalTopology(name, (*ranks, *devices), links, occupancy)
