"""NCCL's choice: the time that its model expects of each algorithm with each protocol, and the least of them.

time = latency + size / algbw, as `ncclGroupSimulateEnd` returns it. Environment variables and tuner plugins,
which override the choice, are left out, and so are fp8 and the fewer channels that small calls use.
Source: NVIDIA/nccl 2.30.7, src/graph/tuning.cc.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.analysis.baselines.nccl.bandwidths import algbw_gbps, is_since_hopper
from taccl.analysis.baselines.nccl.communicator import (
    ALGORITHMS,
    PROTOCOLS,
    Algorithm,
    Call,
    Communicator,
    Graph,
    Protocol,
)
from taccl.analysis.baselines.nccl.latencies import latency_us
from taccl.analysis.baselines.nccl.releases import Release
from taccl.errors import CollectiveError, TopologyError
from taccl.model.collectives import plain_name
from taccl.model.units import MAX_SIZE_BYTES
from taccl.support.arguments import shown, whole_number, word

#: The collectives of the model, with the algorithms that each has.
COLLECTIVES: dict[str, tuple[Algorithm, ...]] = {
    "allreduce": ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree"),
    "allgather": ("Ring", "CollNetDirect", "NVLS", "PAT"),
    "reducescatter": ("Ring", "CollNetDirect", "NVLS", "PAT"),
    "broadcast": ("Ring",),
    "reduce": ("Ring",),
}
#: Those that NCCL, or its callers, run as sends from point to point.
POINT_TO_POINT = ("alltoall", "gather", "scatter")
_SIMPLE_ONLY = ("CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
#: Sizes from 64 bytes on have a factor; of a tree's the last one is not used.
_FIRST_FACTOR_SHIFT, _LAST_OF_TREES = 6, 22


@dataclass(frozen=True)
class Estimate:
    """What NCCL expects of one algorithm with one protocol."""

    algorithm: Algorithm
    protocol: Protocol
    time_us: float

    @property
    def name(self) -> str:
        """Such as `Ring LL`."""
        return f"{self.algorithm} {self.protocol}"


@dataclass(frozen=True)
class Choice:
    """What NCCL picks, and what comes next; None: nothing else can run."""

    pick: Estimate
    runner_up: Estimate | None


def time_us(
    release: Release,
    comm: Communicator,
    algorithm: Algorithm,
    protocol: Protocol,
    collective: str,
    size_bytes: int,
) -> float:
    """Microseconds that NCCL expects.

    Parameters
    ----------
    size_bytes : as nccl-tests prints it.

    Raises
    ------
    CollectiveError : a collective that the model lacks, or a size out of range.
    TopologyError : the pair cannot run there: the message says why.
    """
    name = _checked(collective, size_bytes)
    word(algorithm, "algorithm", ALGORITHMS, TopologyError)
    word(protocol, "protocol", PROTOCOLS, TopologyError)
    reason = refusal(comm, algorithm, protocol, name)
    if reason is not None:
        raise TopologyError(f"{algorithm} {protocol} cannot run {name} here: {reason}")
    return _time_us(release, Call(comm, algorithm, protocol, name, size_bytes))


def estimates(release: Release, comm: Communicator, collective: str, size_bytes: int) -> tuple[Estimate, ...]:
    """Every pair that can run, the fastest first, as NCCL breaks ties.

    Raises
    ------
    CollectiveError : a collective that the model lacks, or a size out of range.
    """
    name = _checked(collective, size_bytes)
    found = [
        Estimate(algorithm, protocol, _time_us(release, Call(comm, algorithm, protocol, name, size_bytes)))
        for algorithm in ALGORITHMS
        for protocol in PROTOCOLS
        if refusal(comm, algorithm, protocol, name) is None
    ]
    return tuple(sorted(found, key=lambda estimate: estimate.time_us))


def choice(release: Release, comm: Communicator, collective: str, size_bytes: int) -> Choice:
    """What NCCL picks for a call, and the runner-up.

    Raises
    ------
    CollectiveError : a collective that the model lacks, or a size out of range.
    """
    ordered = estimates(release, comm, collective, size_bytes)
    return Choice(ordered[0], ordered[1] if len(ordered) > 1 else None)


def refusal(comm: Communicator, algorithm: Algorithm, protocol: Protocol, collective: str) -> str | None:
    """Why NCCL does not run this pair by default, in a few words; None where it does."""
    if algorithm not in COLLECTIVES[collective]:
        return f"NCCL has no {algorithm} of it"
    if algorithm in _SIMPLE_ONLY and protocol != "Simple":
        return f"{algorithm} has Simple only"
    if algorithm == "PAT" and comm.per_node > 1:
        return "PAT is for one GPU a node"
    if algorithm == "NVLSTree" and comm.nodes == 1:
        return "NVLSTree is for two nodes or more"
    needs_sharp = algorithm.startswith("CollNet") or (algorithm == "NVLS" and comm.nodes > 1)
    if needs_sharp and not comm.has_sharp:
        return "it needs a network that sums (SHARP)"
    if algorithm in ("NVLS", "NVLSTree") and not is_since_hopper(comm):
        return "the GPUs are older than Hopper"
    graph = comm.graphs.get(algorithm)
    if graph is None:
        return "there is no graph of it: NVLS and CollNetDirect need an NVSwitch"
    return _refusal_of_graph(comm, graph, algorithm, protocol, collective)


def _refusal_of_graph(
    comm: Communicator, graph: Graph, algorithm: Algorithm, protocol: Protocol, collective: str
) -> str | None:
    """Why the channels do not do."""
    if algorithm in ("NVLS", "NVLSTree") and graph.channels < 2:
        return "it needs two channels"
    is_gathering = algorithm in ("NVLS", "CollNetDirect") and collective != "allreduce"
    if is_gathering and comm.nodes > 1 and comm.per_node > graph.channels:
        return "it needs a NIC for each GPU"
    if protocol == "LL128" and comm.per_node > 1 and graph.hop != "NVLink":
        return "LL128 needs NVLinks inside a node"
    return None


def _time_us(release: Release, call: Call) -> float:
    algbw = algbw_gbps(release, call) * _factor(release, call)
    return latency_us(release, call) + call.size_bytes / (1000 * algbw)


def _factor(release: Release, call: Call) -> float:
    """What the bandwidth of a tree is multiplied by at this size."""
    comm, algorithm = call.comm, call.algorithm
    index = (call.size_bytes >> _FIRST_FACTOR_SHIFT).bit_length() - 1
    factors = release.tree_factors[call.protocol]
    is_tree = algorithm == "Tree" and index <= _LAST_OF_TREES
    is_nvls_tree = algorithm == "NVLSTree" and comm.generation == "Blackwell" and comm.cpu != "arm"
    return factors[index] if (is_tree or is_nvls_tree) and 0 <= index < len(factors) else 1.0


def _checked(collective: str, size_bytes: int) -> str:
    """The collective's plain name."""
    name = plain_name(collective) if isinstance(collective, str) else ""
    if name in POINT_TO_POINT:
        raise CollectiveError(
            f"NCCL has no model of {name}: it is sent from point to point", hint=", ".join(COLLECTIVES)
        )
    if name not in COLLECTIVES:
        raise CollectiveError(f"NCCL has no collective {shown(collective)}", hint=", ".join(COLLECTIVES))
    whole_number(size_bytes, "a size", CollectiveError, least=1, most=MAX_SIZE_BYTES)
    return name
