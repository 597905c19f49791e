"""The graphs that NCCL's search finds for a machine: how many channels, and how fast one of them is.

The search goes through a list of speeds and keeps the largest product of channels and speed that fits.
Where GPUs are linked to each other, rings are not searched: they are taken to fill every link.
Source: NVIDIA/nccl 2.30.7, src/graph/search.cc; NVIDIA/nccl#1197 has the graphs of 8 H100 in a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from taccl.analysis.baselines.nccl.communicator import Algorithm, Communicator, Cpu, Generation, Graph
from taccl.analysis.baselines.node_links import NodeLinks, links_of, times
from taccl.errors import TopologyError
from taccl.support.arguments import whole_number
from taccl.topologies import PhysicalTopology
from taccl.topologies.importers.nodes.gpus import arch_of_model

#: The speeds that the search tries for a channel inside one node, 10**9 bytes per second.
INSIDE: dict[Generation, tuple[float, ...]] = {
    "Volta": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "Ampere": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "Hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    "Blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
_BETWEEN_OF_AMPERE = (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
#: The same for nodes with a network.
BETWEEN: dict[Generation, tuple[float, ...]] = {
    "Volta": _BETWEEN_OF_AMPERE,
    "Ampere": _BETWEEN_OF_AMPERE,
    "Hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    "Blackwell": (
        *(96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3),
        *(2.4, 1.2, 0.24, 0.12),
    ),
}
#: Channels of rings and trees, and heads of NVLS, at most.
MOST_CHANNELS, MOST_HEADS = 32, 32
#: The search ends below this share of the speed of the best graph so far.
LEAST_SHARE = 0.49
#: Channels of less are not doubled; nor, on GPUs newer than Ampere, more than `_MANY` of less than the other.
_DOUBLED_FROM, _DOUBLED_FROM_SINCE_HOPPER, _MANY = 25.0, 50.0, 4


def is_doubled(generation: Generation, channels: int, gbps: float) -> bool:
    """Whether the channels of a ring become twice as many of half the speed."""
    is_new = generation in ("Hopper", "Blackwell")
    return gbps >= _DOUBLED_FROM and not (is_new and gbps < _DOUBLED_FROM_SINCE_HOPPER and channels > _MANY)


#: GPUs that NVIDIA sells on one board with its Grace CPU.
_WITH_GRACE = re.compile(r"\bG[BH]\d00\b")


def communicator_of(
    topology: PhysicalTopology,
    *,
    gpu: str | None = None,
    ranks: int | None = None,
    cpu: Cpu | None = None,
    nic_latency_us: float = 0.0,
) -> Communicator:
    """The GPUs of a machine as NCCL's model knows them.

    Parameters
    ----------
    ranks : only this many of the GPUs at the NVSwitch of one node; None: all.
    gpu : the model of the GPUs, where the machine does not say.
    cpu : whose processors the nodes have; None: ARM's of GPUs that are on one board with them (GH200,
        GB200), else Intel's.
    nic_latency_us : what the network's plugin states; InfiniBand states 0.

    Raises
    ------
    TopologyError : GPUs that are unknown or not NVIDIA's, or a machine that NCCL's model cannot take.
    """
    generation = generation_of(topology, gpu)
    links = links_of(topology)
    nodes = topology.num_members // links.gpus
    if ranks is not None:
        whole_number(ranks, "ranks", TopologyError, least=2, most=topology.num_members)
        if ranks < topology.num_members and not (links.has_switch and nodes == 1):
            raise TopologyError(
                f"{ranks} of the GPUs of {topology.name!r} are not at the NVSwitch of one node"
            )
        links = replace(links, gpus=ranks // nodes)
    return Communicator(
        ranks=links.gpus * nodes,
        nodes=nodes,
        generation=generation,
        graphs=graphs_of(links, generation),
        cpu=cpu or _cpu_beside(gpu or topology.gpu or ""),
        nic_latency_us=nic_latency_us,
    )


def _cpu_beside(model: str) -> Cpu:
    return "arm" if _WITH_GRACE.search(model) else "intel"


def generation_of(topology: PhysicalTopology, gpu: str | None = None) -> Generation:
    """The generation of the machine's GPUs.

    Raises
    ------
    TopologyError : they are unknown, or not NVIDIA's.
    """
    model = gpu or topology.gpu
    if model is None:
        raise TopologyError(f"{topology.name!r} does not say which GPUs it has", hint="--gpu H100")
    arch = arch_of_model(model)
    if arch is None:
        raise TopologyError(
            f"{model[:40]!r} is no GPU of NVIDIA that is known here", hint="H100, B200, A100, V100"
        )
    if not arch.startswith("sm"):
        raise TopologyError(f"{model} is AMD's, and NCCL runs on NVIDIA's GPUs", hint="taccl baseline rccl")
    number = int(arch.removeprefix("sm"))
    if number >= 100:
        return "Blackwell"
    return "Hopper" if number >= 90 else "Ampere" if number >= 80 else "Volta"


def graphs_of(links: NodeLinks, generation: Generation) -> dict[Algorithm, Graph]:
    """The graphs of rings and trees, and of NVLS where the GPUs are Hopper or later at an NVSwitch."""
    ring = _ring(links, generation)
    graphs: dict[Algorithm, Graph] = {"Ring": ring, "Tree": _tree(links, generation, ring)}
    if links.nics and links.gpus == 1:
        graphs["PAT"] = ring
    nvls = _nvls(links, generation) if generation in ("Hopper", "Blackwell") and links.has_switch else None
    if nvls is not None:
        graphs["NVLS"] = graphs["NVLSTree"] = nvls
    return graphs


def _speeds(links: NodeLinks, generation: Generation) -> Sequence[float]:
    return BETWEEN[generation] if links.nics else INSIDE[generation]


def _ring(links: NodeLinks, generation: Generation) -> Graph:
    """The largest product, the faster channels first; then perhaps twice as many of half the speed."""
    fits: Callable[[float], int] = _through_nics(links) if links.nics else links.channels
    fastest = links.nic_gbps if links.nics else links.path_gbps
    channels, gbps = 0, 0.0
    for speed in _speeds(links, generation):
        if not times(fastest, speed) or (channels and speed < LEAST_SHARE * gbps):
            continue
        count = min(fits(speed), MOST_CHANNELS)
        if count * speed > channels * gbps:
            channels, gbps = count, float(speed)
    if not channels:
        raise TopologyError(f"links of {fastest:g} GB/s are slower than any channel of NCCL on {generation}")
    if is_doubled(generation, channels, gbps) and channels < MOST_CHANNELS:
        doubled = min(2 * channels, MOST_CHANNELS)
        channels, gbps = doubled, gbps / -(-doubled // channels)
    return Graph(channels, gbps, gbps, links.hop)


def _through_nics(links: NodeLinks) -> Callable[[float], int]:
    """Channels that enter a node through a NIC, pass all its GPUs and leave: one link less than a ring."""

    def fits(gbps: float) -> int:
        entering = links.nics * times(links.nic_gbps, gbps)
        return min(entering, _passing(links, gbps))

    return fits


def _passing(links: NodeLinks, gbps: float) -> int:
    """Open chains of this speed that fit a node, begun at all its GPUs in turn."""
    if links.gpus == 1:
        return MOST_CHANNELS
    return times(links.gpu_gbps * links.gpus / (links.gpus - 1), gbps)


def _tree(links: NodeLinks, generation: Generation, ring: Graph) -> Graph:
    """As many channels as rings, inside a node perhaps faster."""
    inside = ring.gbps
    if links.nics:
        for speed in reversed(_speeds(links, generation)):
            if inside < speed and inside < 2 * ring.gbps and _passing(links, speed) >= ring.channels:
                inside = float(speed)
    else:
        both_ways = 2 if links.gpus == 2 else 1
        faster = (speed for speed in INSIDE[generation] if both_ways * links.channels(speed) >= ring.channels)
        inside = float(max((*faster, ring.gbps)))
    between = ring.between_gbps if links.nics else inside
    return Graph(ring.channels, inside, between, links.hop, is_plain_tree=links.gpus == 1)


def _nvls(links: NodeLinks, generation: Generation) -> Graph | None:
    """A head at each GPU, or at each with a NIC: a GPU's link carries all channels, and its own one twice.

    The bandwidth between nodes is then raised as long as it is below twice the one inside, also in one node.
    """
    heads = min(links.gpus, links.nics or links.gpus, MOST_HEADS)
    speeds = _speeds(links, generation)
    reached = [speed for speed in speeds if not links.nics or times(links.nic_gbps, speed)]
    fitting = [speed for speed in reached if times(links.gpu_gbps, (heads + 1) * speed)]
    if not fitting or links.gpus < 2:
        return None
    inside = between = fitting[0]
    for speed in reversed(reached[: reached.index(inside)]):
        if between < 2 * inside:
            between = speed
    return Graph(heads, float(inside), float(between), links.hop)
