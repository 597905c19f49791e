"""The latency that NCCL's model expects of an algorithm with a protocol."""

from __future__ import annotations

from math import floor, log2

from taccl.analysis.baselines.nccl.bandwidths import steps_of
from taccl.analysis.baselines.nccl.communicator import PROTOCOLS, Algorithm, Call, Communicator, Hop, Protocol
from taccl.analysis.baselines.nccl.releases import Release


def latency_us(release: Release, call: Call) -> float:
    """Microseconds that do not depend on the bandwidth, of a pair that may run.

    Source: NVIDIA/nccl 2.30.7, src/graph/tuning.cc.
    """
    comm, algorithm = call.comm, call.algorithm
    index = PROTOCOLS.index(call.protocol)
    base = release.base_us[algorithm][index]
    inside = release.hop_us[comm.graphs[algorithm].hop][algorithm][index]
    between = _between(release, comm, algorithm, call.protocol)
    others, doublings = comm.per_node - 1, floor(log2(comm.nodes))
    if algorithm == "Ring":
        return _ring(release, call)
    if algorithm == "Tree":
        return base + 2 * (others * inside + doublings * between)
    if algorithm == "NVLS":
        return inside + (between if comm.nodes > 1 else 0.0)
    if algorithm == "NVLSTree":
        return base + inside + 2 * doublings * between
    if algorithm == "CollNetDirect":
        return base + 2 * (min(1, others) * inside + others * release.delays.arity_us) + between
    if algorithm == "CollNetChain":
        return base + 2 * others * inside + between
    return base + doublings * between / release.delays.pat_overlap + comm.ranks * release.delays.pat_rank_us


def _between(release: Release, comm: Communicator, algorithm: Algorithm, protocol: Protocol) -> float:
    """A hop of the network; with one GPU a node nothing hides it, and it costs as a tree's."""
    like: Algorithm = "Tree" if comm.per_node == 1 else algorithm
    hop = release.hop_us["network"][like][PROTOCOLS.index(protocol)]
    return hop + comm.nic_latency_us * (2 if protocol == "Simple" else 1)


def _ring(release: Release, call: Call) -> float:
    comm, protocol, collective = call.comm, call.protocol, call.collective
    index, hop = PROTOCOLS.index(protocol), comm.graphs["Ring"].hop
    base = release.base_us["Ring"][index]
    if collective in ("broadcast", "reduce"):
        one_hop: Hop = hop if comm.nodes == 1 else "network"
        return base + release.hop_us[one_hop]["Ring"][index]
    steps = steps_of(collective, comm.ranks)
    between_steps = steps_of(collective, comm.nodes) if comm.nodes > 1 else 0
    posts = 0.0 if comm.nodes == 1 else release.delays.post_us[comm.cpu] * release.delays.posts[protocol]
    inside = max(release.hop_us[hop]["Ring"][index], posts)
    latency = base + (steps - between_steps) * inside
    latency += between_steps * _between(release, comm, "Ring", protocol)
    channels = min(2 * comm.graphs["Ring"].channels, release.delays.most_channels)
    is_long = call.size_bytes // (channels * comm.ranks) >= release.delays.plateau_bytes
    if protocol == "Simple" and comm.nodes > 1 and collective == "allreduce" and is_long:
        latency *= release.delays.plateau[comm.generation]
    return latency
