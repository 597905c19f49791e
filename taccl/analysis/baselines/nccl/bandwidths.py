"""The bandwidth that NCCL's model expects of an algorithm with a protocol, before the size counts."""

from __future__ import annotations

from taccl.analysis.baselines.nccl.communicator import Algorithm, Call, Communicator, Graph, Protocol
from taccl.analysis.baselines.nccl.releases import Release


def algbw_gbps(release: Release, call: Call) -> float:
    """10**9 bytes per second of the size that nccl-tests prints, of a pair that may run.

    Source: NVIDIA/nccl 2.30.7, src/graph/tuning.cc.
    """
    comm, algorithm, protocol, collective = call.comm, call.algorithm, call.protocol, call.collective
    graph, steps = comm.graphs[algorithm], steps_of(collective, comm.ranks)
    if algorithm == "Ring":
        return _ring(release, comm, graph, protocol) * comm.ranks / steps
    if algorithm == "Tree":
        return _tree(release, comm, graph, protocol) / 2
    if algorithm in ("NVLS", "NVLSTree"):
        bus = _nvls(release, comm, graph, algorithm, collective)
        return bus * comm.ranks / steps if collective == "allreduce" else bus
    if algorithm == "PAT":
        return release.shares.pat * _total(comm, graph)
    if algorithm == "CollNetDirect" and collective != "allreduce":
        return comm.per_node * min(graph.gbps, release.shares.collnet_network * graph.between_gbps)
    return _collnet(release, comm, graph, algorithm) / 2


def steps_of(collective: str, ranks: int) -> int:
    """Steps of a ring."""
    if collective == "allreduce":
        return 2 * (ranks - 1)
    return ranks - 1 if collective in ("allgather", "reducescatter") else ranks


def _total(comm: Communicator, graph: Graph) -> float:
    """All channels together: of the node up to two nodes, of the network beyond."""
    return graph.channels * (graph.gbps if comm.nodes <= 2 else graph.between_gbps)


def column(comm: Communicator) -> int:
    """The column of the release's tables: one node, two, more."""
    return min(comm.nodes, 3) - 1


def _ll_most(release: Release, comm: Communicator) -> float:
    if comm.nodes == 1:
        return release.ll_most_one_node_gbps[comm.generation]
    return release.ll_most_between_gbps[comm.cpu][column(comm) - 1]


def _ring(release: Release, comm: Communicator, graph: Graph, protocol: Protocol) -> float:
    total = _total(comm, graph)
    if protocol == "LL":
        return min(release.shares.ring_ll * total, _ll_most(release, comm))
    if protocol == "LL128":
        most = release.ring_ll128_gbps[comm.generation][column(comm)]
        return min(release.shares.ring_ll128 * total, graph.channels * most)
    return total


def _tree(release: Release, comm: Communicator, graph: Graph, protocol: Protocol) -> float:
    most = release.tree_gbps[comm.generation][column(comm)]
    total = min(release.shares.tree * _total(comm, graph), graph.channels * most)
    if protocol == "LL":
        total = min(release.shares.tree_ll * total, _ll_most(release, comm))
    elif protocol == "LL128":
        share = release.shares.tree_ll128[min(comm.nodes, 2) - 1]
        most = release.tree_ll128_gbps[comm.generation][column(comm)]
        total = min(share * total, graph.channels * most)
    return release.shares.plain_tree * total if graph.is_plain_tree else total


def _nvls(release: Release, comm: Communicator, graph: Graph, algorithm: Algorithm, collective: str) -> float:
    """An AllReduce sums and copies at once: twice the bandwidth that gathering alone gets of the switch.

    In one node the bandwidth between nodes does not count, though the source takes the less of both always.
    H100 has 59.5 and 60, so it makes no difference; 8 B200 would be at 720 GB/s in place of 829, and 839 to
    843 were measured; 5 H100 at 300 in place of 408, and 412 were measured.
    """
    channels, efficiency = graph.channels, release.nvls_efficiency[comm.generation]
    inside = graph.gbps * efficiency * (channels - 1) / channels
    inside *= 2 if collective == "allreduce" else (comm.per_node - 1) / comm.per_node
    if algorithm == "NVLS":
        return channels * (inside if comm.nodes == 1 else min(inside, graph.between_gbps))
    between = graph.between_gbps * (2 if comm.nodes <= 2 else 1)
    return channels * min(inside, between, release.nvls_tree_gbps[comm.generation][column(comm)])


def _collnet(release: Release, comm: Communicator, graph: Graph, algorithm: Algorithm) -> float:
    total = graph.channels * graph.gbps
    if algorithm == "CollNetChain":
        return total
    gpus_per_channel = comm.per_node / graph.channels
    total /= (gpus_per_channel + 1) / 2
    return total * release.shares.collnet_since_hopper if is_since_hopper(comm) else total


def is_since_hopper(comm: Communicator) -> bool:
    """Whether the GPUs can sum and copy in their NVSwitch."""
    return comm.generation in ("Hopper", "Blackwell")
