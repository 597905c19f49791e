"""What NCCL's model of costs knows of a communicator: ranks, nodes, the generation of GPUs, graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from taccl.errors import TopologyError
from taccl.support.arguments import number, shown, whole_number, word

Algorithm = Literal["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"]
Protocol = Literal["LL", "LL128", "Simple"]
Generation = Literal["Volta", "Ampere", "Hopper", "Blackwell"]
Hop = Literal["NVLink", "PCIe", "network"]
Cpu = Literal["intel", "amd", "arm"]

#: In NCCL's order: of pairs that take equally long, the first is picked.
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
GENERATIONS: tuple[Generation, ...] = get_args(Generation)
CPUS: tuple[Cpu, ...] = get_args(Cpu)

_MOST_RANKS = 2**20
_MOST_CHANNELS = 64
_MOST_GBPS = 1e6


@dataclass(frozen=True)
class Graph:
    """The channels of an algorithm, as NCCL's search leaves them, checked when it is made.

    Parameters
    ----------
    channels : how many; NCCL's log prints them as nChannels.
    gbps : what one channel moves inside a node, 10**9 bytes per second.
    between_gbps : the same between nodes. Of NVLS in one node, the second bandwidth of NCCL's log.
    hop : what joins the GPUs of a node.
    is_plain_tree : of a tree whose pattern is one plain tree, as with one GPU a node.

    Raises
    ------
    TopologyError : no channel, or a bandwidth that is not positive.
    """

    channels: int
    gbps: float
    between_gbps: float
    hop: Hop = "NVLink"
    is_plain_tree: bool = False

    def __post_init__(self) -> None:
        whole_number(self.channels, "channels", TopologyError, least=1, most=_MOST_CHANNELS)
        for name in ("gbps", "between_gbps"):
            number(getattr(self, name), name, TopologyError, above=0, most=_MOST_GBPS, unit="GB/s")


@dataclass(frozen=True)
class Communicator:
    """The ranks of a call, checked when it is made.

    Parameters
    ----------
    ranks, nodes : GPUs, as many in each node.
    graphs : by algorithm; an algorithm without a graph cannot run.
    cpu : whose processors the nodes have: with several nodes LL's bandwidth and the cost of a post depend
        on it.
    nic_latency_us : what the network's plugin states as its latency; InfiniBand states 0.
    has_sharp : whether the network sums (`NCCL_COLLNET_ENABLE=1` with SHARP); NCCL's default is no.

    Raises
    ------
    TopologyError : a number out of range, ranks that are no multiple of the nodes, an unknown generation.
    """

    ranks: int
    nodes: int
    generation: Generation
    graphs: Mapping[Algorithm, Graph]
    cpu: Cpu = "intel"
    nic_latency_us: float = 0.0
    has_sharp: bool = False

    def __post_init__(self) -> None:
        whole_number(self.ranks, "ranks", TopologyError, least=2, most=_MOST_RANKS)
        whole_number(self.nodes, "nodes", TopologyError, least=1, most=self.ranks)
        if self.ranks % self.nodes:
            raise TopologyError(
                f"NCCL's model takes as many ranks in each node, not {self.ranks} in {self.nodes}"
            )
        word(self.generation, "generation", GENERATIONS, TopologyError)
        word(self.cpu, "cpu", CPUS, TopologyError)
        number(self.nic_latency_us, "nic_latency_us", TopologyError, most=1e6, unit="us")
        if "Ring" not in self.graphs or not all(isinstance(each, Graph) for each in self.graphs.values()):
            raise TopologyError(f"a communicator has a Graph of rings at least, not {shown(self.graphs)}")

    @property
    def per_node(self) -> int:
        """Ranks of a node."""
        return self.ranks // self.nodes


@dataclass(frozen=True)
class Call:
    """A collective of this many bytes, as nccl-tests prints them, by one algorithm with one protocol."""

    comm: Communicator
    algorithm: Algorithm
    protocol: Protocol
    collective: str
    size_bytes: int
