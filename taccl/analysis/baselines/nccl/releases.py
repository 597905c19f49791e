"""The constants of NCCL's model of costs, by release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taccl.analysis.baselines.nccl.communicator import Algorithm, Cpu, Generation, Hop, Protocol
from taccl.errors import TacclError

#: Three values: LL, LL128 and Simple, or one node, two and more.
Three = tuple[float, float, float]


@dataclass(frozen=True)
class Shares:
    """What is left of the bandwidth of all channels.

    Parameters
    ----------
    ring_ll, ring_ll128 : of rings with these protocols.
    tree, tree_ll, tree_ll128 : of trees, and of that with these protocols; LL128 in one node, and with more.
    plain_tree : of one plain tree, as with one GPU a node.
    pat : of PAT.
    collnet_since_hopper, collnet_network : of CollNetDirect on Hopper and later, and of the network in its
        AllGather.
    """

    ring_ll: float
    ring_ll128: float
    tree: float
    tree_ll: float
    tree_ll128: tuple[float, float]
    plain_tree: float
    pat: float
    collnet_since_hopper: float
    collnet_network: float


@dataclass(frozen=True)
class Delays:
    """What is added to hops.

    Parameters
    ----------
    post_us, posts : of a post to the network, by CPU, and posts of a step by protocol.
    arity_us : CollNetDirect, for each further GPU of a node.
    pat_overlap, pat_rank_us : PAT's hops that overlap, and what each rank adds.
    most_channels : a communicator runs twice the channels of its graph of rings, up to this many.
    plateau, plateau_bytes : rings of Simple in an AllReduce between nodes take this many times their latency,
        by generation, from this many bytes for each channel and rank on.
    """

    post_us: Mapping[Cpu, float]
    posts: Mapping[Protocol, int]
    arity_us: float
    pat_overlap: float
    pat_rank_us: float
    most_channels: int
    plateau: Mapping[Generation, float]
    plateau_bytes: int


@dataclass(frozen=True, eq=False)
class Release:
    """Latencies in microseconds, bandwidths in 10**9 bytes per second.

    Parameters
    ----------
    name, source : the release, and where the numbers stand in it.
    base_us : of an algorithm, by protocol (LL, LL128, Simple).
    hop_us : of one hop of a kind, by algorithm and protocol.
    ll_most_one_node_gbps, ll_most_between_gbps : the most that LL moves: in one node by generation; with two
        nodes, and with more, by CPU.
    ring_ll128_gbps, tree_ll128_gbps, tree_gbps, nvls_tree_gbps : the most of a channel by generation, with
        one node, two and more.
    nvls_efficiency : by generation.
    tree_factors : what the bandwidth of trees is multiplied by, by protocol, for sizes that are powers of two
        from 64 B on.
    """

    name: str
    source: str
    base_us: Mapping[Algorithm, Three]
    hop_us: Mapping[Hop, Mapping[Algorithm, Three]]
    ll_most_one_node_gbps: Mapping[Generation, float]
    ll_most_between_gbps: Mapping[Cpu, tuple[float, float]]
    ring_ll128_gbps: Mapping[Generation, Three]
    tree_ll128_gbps: Mapping[Generation, Three]
    tree_gbps: Mapping[Generation, Three]
    nvls_tree_gbps: Mapping[Generation, Three]
    nvls_efficiency: Mapping[Generation, float]
    tree_factors: Mapping[Protocol, tuple[float, ...]]
    shares: Shares
    delays: Delays


def _simple(us: float) -> Three:
    return (0.0, 0.0, us)


_FREE = _simple(0.0)
_LIKE_VOLTA = (20.0, 20.0, 20.0)

NCCL_2_30 = Release(
    name="2.30",
    source="NVIDIA/nccl 2.30.7, src/graph/tuning.cc",
    base_us={
        "Tree": (6.8, 14.0, 8.4),
        "Ring": (6.6, 14.0, 8.4),
        "CollNetDirect": _FREE,
        "CollNetChain": _FREE,
        "NVLS": _FREE,
        "NVLSTree": _FREE,
        "PAT": _simple(8.0),
    },
    hop_us={
        "NVLink": {
            "Tree": (0.6, 1.25, 4.0),
            "Ring": (0.6, 1.9, 3.4),
            "CollNetDirect": _simple(3.7),
            "CollNetChain": _simple(2.8),
            "NVLS": _simple(25.0),
            "NVLSTree": _simple(25.0),
            "PAT": _simple(4.0),
        },
        "PCIe": {
            "Tree": (1.0, 1.9, 4.0),
            "Ring": (1.0, 2.5, 5.7),
            "CollNetDirect": _simple(3.7),
            "CollNetChain": _simple(2.8),
            "NVLS": _FREE,
            "NVLSTree": _FREE,
            "PAT": _simple(4.0),
        },
        "network": {
            "Tree": (5.0, 8.5, 14.0),
            "Ring": (2.7, 4.0, 14.0),
            "CollNetDirect": _simple(31.0),
            "CollNetChain": _simple(30.0),
            "NVLS": _simple(18.0),
            "NVLSTree": _simple(20.9),
            "PAT": _simple(14.0),
        },
    },
    ll_most_one_node_gbps={"Volta": 39.0, "Ampere": 87.7, "Hopper": 141.0, "Blackwell": 282.0},
    ll_most_between_gbps={"intel": (39.0, 20.4), "arm": (39.0, 20.4), "amd": (22.5, 19.0)},
    ring_ll128_gbps={
        "Volta": _LIKE_VOLTA,
        "Ampere": _LIKE_VOLTA,
        "Hopper": (36.7, 36.7, 36.7),
        "Blackwell": (40.0, 40.0, 40.0),
    },
    tree_ll128_gbps={
        "Volta": _LIKE_VOLTA,
        "Ampere": _LIKE_VOLTA,
        "Hopper": (36.7, 36.7, 29.0),
        "Blackwell": (55.6, 31.67, 20.0),
    },
    tree_gbps={
        "Volta": (26.5, 18.5, 10.0),
        "Ampere": (24.0, 23.6, 17.8),
        "Hopper": (38.7, 41.4, 36.0),
        "Blackwell": (70.0, 42.8, 24.0),
    },
    nvls_tree_gbps={
        "Volta": (26.5, 18.5, 10.0),
        "Ampere": (24.0, 23.6, 17.8),
        "Hopper": (0.0, 57.7, 45.5),
        "Blackwell": (0.0, 96.0, 80.0),
    },
    nvls_efficiency={"Volta": 0.0, "Ampere": 0.0, "Hopper": 0.85, "Blackwell": 0.74},
    tree_factors={
        "LL": (
            *(1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5),
            *(0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0),
        ),
        "LL128": (
            *(1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6),
            *(0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0),
        ),
        "Simple": (
            *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
            *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
        ),
    },
    shares=Shares(
        ring_ll=0.5,
        ring_ll128=0.92,
        tree=0.92,
        tree_ll=1 / 3.8,
        tree_ll128=(7 / 9, 120 / 128),
        plain_tree=0.85,
        pat=0.75,
        collnet_since_hopper=0.85,
        collnet_network=0.9,
    ),
    delays=Delays(
        post_us={"intel": 1.0, "arm": 1.0, "amd": 2.0},
        posts={"LL": 1, "LL128": 1, "Simple": 3},
        arity_us=0.4,
        pat_overlap=3.5,
        pat_rank_us=2.8,
        most_channels=64,
        plateau={"Volta": 1.9, "Ampere": 1.4, "Hopper": 1.4, "Blackwell": 1.4},
        plateau_bytes=64,
    ),
)

#: By name, the newest last.
RELEASES: Mapping[str, Release] = {release.name: release for release in (NCCL_2_30,)}


def release_named(name: str) -> Release:
    """The constants of a release such as `2.30`; `2.30.7` is the same.

    Raises
    ------
    TacclError : a release whose constants are not here.
    """
    text = name if isinstance(name, str) else ""
    found = RELEASES.get(".".join(text.split(".")[:2]))
    if found is None:
        raise TacclError(
            f"the constants of NCCL {str(name)[:40]!r} are not in this program", hint=", ".join(RELEASES)
        )
    return found
