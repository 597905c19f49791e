"""Fat trees: hosts below leaves, leaves below spines, perhaps pods below a core, oversubscribed or not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.model.units import MAX_ALPHA_US
from taccl.support.arguments import is_number, is_whole, number, shown
from taccl.topologies.devices import MAX_GPUS, NO_NODE, Device, Link
from taccl.topologies.generators import hop_cost
from taccl.topologies.machines.parts import both_directions, gpu_name
from taccl.topologies.machines.rates import LEVEL_ALPHA, NETWORK_ALPHA, NIC_400G
from taccl.topologies.model import PhysicalTopology

#: A larger oversubscription, or a smaller one than 1 over it, is a slip of the pen.
MAX_OVERSUBSCRIPTION = 10_000

_HINT = (
    "fat-tree:8 is 8-ary; fat-tree:16x8 has 8 leaves with 16 hosts each; fat-tree:16x4x8:2:1 has 8 pods, 2:1"
)

FAT_TREE_FIGURES = (
    NIC_400G.figure("a host's link, unless given"),
    NETWORK_ALPHA.figure("host to host at one leaf, unless given"),
    LEVEL_ALPHA.figure("more for each level above, unless given"),
)


def fat_tree(
    *sizes: int,
    oversubscription: float | Sequence[float] = (),
    alpha_us: float = NETWORK_ALPHA.us,
    level_alpha_us: float = LEVEL_ALPHA.us,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "pipelined",
) -> PhysicalTopology:
    """A tree of switches with hosts of one GPU each below.

    All uplinks of a switch together are one link each way, and all switches that they lead to are one device:
    the spines of a pod, and the core. So does a network whose packets are spread over all uplinks; where each
    flow keeps one uplink, some carry more than others and it is slower.

    What is below one uplink to the top is a node: the hosts of a leaf, or those of a pod.

    Parameters
    ----------
    sizes : hosts of a leaf and leaves (leaf and spine); hosts of a leaf, leaves of a pod and pods (leaf,
        spine and core); or K alone: K pods of K / 2 leaves with K / 2 hosts each, the K-ary fat tree of
        Al-Fares et al. (SIGCOMM 2008).
    oversubscription : the bandwidth below a switch over that of its uplinks, of the leaves and, with three
        levels, of the pods; one number is that of the leaves. 1 where not given. The top has no uplinks: a 1
        for it, as in 2:1, says nothing.
    alpha_us : from host to host at one leaf, and `level_alpha_us` more for each level above that the way
        passes.
    beta_us_per_mb, bandwidth_gbps : of a host's link; 50 GB/s where neither is given.

    Raises
    ------
    TopologyError : sizes that are no tree, fewer than 2 hosts or too many, an oversubscription or a cost that
        cannot be.
    """
    hosts, *above = _counts(sizes)
    ratios = _ratios(oversubscription, len(above))
    if beta_us_per_mb is None and bandwidth_gbps is None:
        bandwidth_gbps = NIC_400G.gbps
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    level_alpha = number(level_alpha_us, "level_alpha_us", TopologyError, most=MAX_ALPHA_US)
    betas = [beta]
    for below, ratio in zip((hosts, *above), ratios, strict=False):
        betas.append(betas[-1] * ratio / below)
    leaves = above[0] if len(above) == 2 else 1
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(above[-1]):
        names = [f"node{node}.leaf{leaf}" for leaf in range(leaves)]
        for gpu in range(leaves * hosts):
            devices.append(Device(gpu_name(node, gpu), "gpu", node, gpu))
            links += both_directions(gpu_name(node, gpu), names[gpu // hosts], alpha / 2, beta)
        exit_name = names[0]
        if len(above) == 2:
            exit_name = f"node{node}.spine"
            for name in names:
                links += both_directions(name, exit_name, level_alpha / 2, betas[1])
            names.append(exit_name)
        devices += [Device(name, "switch", node, local) for local, name in enumerate(names)]
        links += both_directions(exit_name, _top(above), level_alpha / 2, betas[-1])
    devices.append(Device(_top(above), "fabric", NO_NODE, 0))
    return PhysicalTopology(_name(sizes, ratios), tuple(devices), tuple(links), occupancy)


def _top(above: Sequence[int]) -> str:
    return "core" if len(above) == 2 else "spine"


def _counts(sizes: Sequence[int]) -> tuple[int, ...]:
    """Hosts of a leaf, leaves, and pods where there are three levels."""
    shape = f"fat-tree:{'x'.join(map(shown, sizes))}"
    if not 1 <= len(sizes) <= 3 or not all(is_whole(size) and size >= 1 for size in sizes):
        raise TopologyError(
            f"a fat tree has hosts, leaves and perhaps pods, 1 or more of each, not '{shape}'", hint=_HINT
        )
    counts = tuple(sizes)
    if len(sizes) == 1:
        (ports,) = sizes
        if ports % 2:
            raise TopologyError(
                f"a k-ary fat tree has switches with an even number of ports, not '{shape}'",
                hint=f"fat-tree:{ports + 1}, or hosts of a leaf and leaves: fat-tree:16x8",
            )
        counts = (ports // 2, ports // 2, ports)
    if not 2 <= math.prod(counts) <= MAX_GPUS:
        raise TopologyError(
            f"fat-tree takes 2 to {MAX_GPUS} hosts, and '{shape}' has {shown(math.prod(counts))}", hint=_HINT
        )
    return counts


def _ratios(given: float | Sequence[float], levels: int) -> tuple[float, ...]:
    """The oversubscription of each level below the top, from the leaves upwards."""
    listed = (given,) if is_number(given) else given
    if not isinstance(listed, list | tuple):
        raise TopologyError(f"oversubscription is a number for each level, not {shown(given)}")
    ratios = [
        number(
            ratio,
            "oversubscription",
            TopologyError,
            least=1 / MAX_OVERSUBSCRIPTION,
            most=MAX_OVERSUBSCRIPTION,
        )
        for ratio in listed
    ]
    if len(ratios) > levels and (len(ratios) > levels + 1 or ratios[-1] != 1):
        raise TopologyError(
            f"a fat tree of {levels + 1} levels has an oversubscription of {levels}, not of {len(ratios)}",
            hint="that of the leaves first; the top has no uplinks",
        )
    return (*ratios[:levels], *(1.0,) * (levels - len(ratios)))


def _name(sizes: Sequence[int], ratios: Sequence[float]) -> str:
    """As the catalogue takes it, without what is 1 at the end."""
    reported = list(ratios)
    while reported and reported[-1] == 1:
        reported.pop()
    return ":".join(["fat-tree", "x".join(map(str, sizes)), *(f"{ratio:.12g}" for ratio in reported)])
