"""Dragonflies: groups of routers that are all linked, and a few cables between any two groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.model.units import MAX_ALPHA_US, beta_from_bandwidth
from taccl.support.arguments import is_whole, number, shown
from taccl.topologies.devices import MAX_GPUS, MAX_LINKS, Device, Link
from taccl.topologies.generators import hop_cost
from taccl.topologies.machines.figures import Alpha
from taccl.topologies.machines.parts import both_directions, gpu_name
from taccl.topologies.machines.rates import NETWORK_ALPHA, NIC_200G, SLINGSHOT_ALPHA
from taccl.topologies.model import PhysicalTopology

_HINT = "dragonfly:9x4x2x2 has 9 groups of 4 routers, with 2 hosts and 2 links to other groups at each"
#: To a router of another group: one more router, and a cable of 50 m, 5 ns each.
_GLOBAL_ALPHA = Alpha(0.6, "assumed", "a router's 0.35, and 50 m of fibre at 5 ns/m; ours")

DRAGONFLY_FIGURES = (
    NIC_200G.figure("a host's link, a local and a global one, unless given"),
    NETWORK_ALPHA.figure("host to host at one router, unless given"),
    SLINGSHOT_ALPHA.figure("more for each local link, unless given"),
    _GLOBAL_ALPHA.figure("more for a global link, unless given"),
)


def dragonfly(
    *sizes: int,
    alpha_us: float = NETWORK_ALPHA.us,
    local_alpha_us: float = SLINGSHOT_ALPHA.us,
    global_alpha_us: float = _GLOBAL_ALPHA.us,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    local_gbps: float | None = None,
    global_gbps: float | None = None,
    occupancy: Occupancy = "pipelined",
) -> PhysicalTopology:
    """A dragonfly (Kim, Dally, Scott, Abts, ISCA 2008) with hosts of one GPU each.

    Any two routers of a group have a local link. A group of A routers with H global links each has A * H
    of them, numbered through its routers; number k, counted modulo G - 1, leads to the group k + 1 further
    on. So any two of G groups have A * H // (G - 1) global links, and what is left over stays unused. A way
    between groups passes one global link and at most a local one on either side: no third group.

    A group is a node.

    Parameters
    ----------
    sizes : groups, routers of a group, hosts of a router, and global links of a router; without the last, as
        many as it takes to join any two groups.
    alpha_us : from host to host at one router; a local link adds `local_alpha_us`, a global one
        `global_alpha_us`.
    beta_us_per_mb, bandwidth_gbps : of a host's link; 25 GB/s where neither is given.
    local_gbps, global_gbps : of a local and of a global link, GB/s each way; as a host's link where not
        given.

    Raises
    ------
    TopologyError : sizes that are no dragonfly, too few global links, fewer than 2 hosts or too many, a cost
        that cannot be.
    """
    groups, routers, hosts, ports = _counts(sizes)
    if beta_us_per_mb is None and bandwidth_gbps is None:
        bandwidth_gbps = NIC_200G.gbps
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    local = _cost("local", local_alpha_us, local_gbps, beta)
    across = _cost("global", global_alpha_us, global_gbps, beta)
    devices: list[Device] = []
    links: list[Link] = []
    for group in range(groups):
        for gpu in range(routers * hosts):
            devices.append(Device(gpu_name(group, gpu), "gpu", group, gpu))
            links += both_directions(gpu_name(group, gpu), _router(group, gpu // hosts), alpha / 2, beta)
        devices += [Device(_router(group, router), "switch", group, router) for router in range(routers)]
        for a, b in combinations(range(routers), 2):
            links += both_directions(_router(group, a), _router(group, b), *local)
    for one, other in _cables(groups, routers, ports):
        links += both_directions(one, other, *across)
    return PhysicalTopology(f"dragonfly:{'x'.join(map(str, sizes))}", tuple(devices), tuple(links), occupancy)


def _router(group: int, router: int) -> str:
    return f"node{group}.router{router}"


def _cables(groups: int, routers: int, ports: int) -> Iterator[tuple[str, str]]:
    """The routers at both ends of each global link, each link once."""
    for a, b in combinations(range(groups), 2):
        for first in range(0, routers * ports // (groups - 1) * (groups - 1), groups - 1):
            there, back = first + b - a - 1, first + groups - (b - a) - 1
            yield _router(a, there // ports), _router(b, back // ports)


def _counts(sizes: Sequence[int]) -> tuple[int, int, int, int]:
    """Groups, routers, hosts and global links of a router."""
    shape = f"dragonfly:{'x'.join(map(shown, sizes))}"
    if not 3 <= len(sizes) <= 4 or not all(is_whole(size) and size >= 1 for size in sizes):
        raise TopologyError(
            f"a dragonfly has groups, routers and hosts, 1 or more of each, and perhaps global links, not "
            f"'{shape}'",
            hint=_HINT,
        )
    groups, routers, hosts = sizes[:3]
    if not 2 <= math.prod(sizes[:3]) <= MAX_GPUS:
        raise TopologyError(
            f"dragonfly takes 2 to {MAX_GPUS} hosts, and '{shape}' has {shown(math.prod(sizes[:3]))}",
            hint=_HINT,
        )
    least = -(-(groups - 1) // routers)
    ports = sizes[3] if len(sizes) == 4 else least
    if ports < least:
        raise TopologyError(
            f"'{shape}' has {routers * ports} global links of a group, and {groups - 1} other groups",
            hint=f"{least} global links of a router: dragonfly:{groups}x{routers}x{hosts}x{least}",
        )
    if groups * routers * (routers - 1 + ports) > MAX_LINKS:
        raise TopologyError(f"'{shape}' is too large to build: {MAX_LINKS} links fit", hint=_HINT)
    return groups, routers, hosts, ports


def _cost(which: str, alpha_us: float, gbps: float | None, beta: float) -> tuple[float, float]:
    alpha = number(alpha_us, f"{which}_alpha_us", TopologyError, most=MAX_ALPHA_US)
    if gbps is None:
        return alpha, beta
    return alpha, beta_from_bandwidth(number(gbps, f"{which}_gbps", TopologyError, above=0, most=1e12))
