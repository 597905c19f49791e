"""NCCL's model: what can run where, what the network and the CPU change, and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taccl.analysis.baselines.nccl import (
    Communicator,
    Graph,
    choice,
    communicator_of,
    estimates,
    release_named,
    time_us,
)
from taccl.errors import CollectiveError, TacclError, TopologyError
from taccl.topologies import load_topology

RELEASE = release_named("2.30")
H100 = communicator_of(load_topology("dgx-h100", nodes=1))
TWO_H100 = communicator_of(load_topology("dgx-h100", nodes=2))


def test_each_estimate_is_the_time_of_its_pair_and_they_are_in_order() -> None:
    found = estimates(RELEASE, H100, "allreduce", 2**20)
    assert {each.name for each in found} == {
        *("Tree LL", "Tree LL128", "Tree Simple", "Ring LL", "Ring LL128", "Ring Simple", "NVLS Simple")
    }
    assert [each.time_us for each in found] == sorted(each.time_us for each in found)
    for each in found:
        assert each.time_us == time_us(RELEASE, H100, each.algorithm, each.protocol, "AllReduce", 2**20)


def test_a_broadcast_is_one_ring_of_one_hop() -> None:
    # 6.6 + 0.6 us; bus 141, algbw 141 x 8 / 8
    assert time_us(RELEASE, H100, "Ring", "LL", "broadcast", 8) == pytest.approx(7.2 + 8 / 141e3)
    assert {each.algorithm for each in estimates(RELEASE, H100, "reduce", 8)} == {"Ring"}


def test_amd_cpus_halve_ll_between_nodes_and_double_a_post() -> None:
    amd = replace(TWO_H100, cpu="amd")
    # Ring LL: 6.6 + 28 x max(0.6, post) + 2 x 2.7 us
    assert time_us(RELEASE, TWO_H100, "Ring", "LL", "allreduce", 1) == pytest.approx(40.0, abs=1e-3)
    assert time_us(RELEASE, amd, "Ring", "LL", "allreduce", 1) == pytest.approx(68.0, abs=1e-3)
    slow, fast = (time_us(RELEASE, comm, "Tree", "LL", "allreduce", 2**26) for comm in (amd, TWO_H100))
    assert slow - 25.2 == pytest.approx((fast - 25.2) * 39 / 22.5)


def test_long_rings_between_nodes_have_a_plateau() -> None:
    # Ring Simple of 2 x 8: 8.4 + 28 x 3.4 + 2 x 14 = 131.6 us, times 1.4; algbw 384 x 16 / 30 = 204.8
    assert time_us(RELEASE, TWO_H100, "Ring", "Simple", "allreduce", 2**30) == pytest.approx(
        1.4 * 131.6 + 2**30 / 204.8e3
    )
    assert time_us(RELEASE, TWO_H100, "Ring", "Simple", "allreduce", 64) == pytest.approx(131.6, abs=0.01)


def test_a_nics_latency_counts_twice_with_simple() -> None:
    slow = replace(TWO_H100, nic_latency_us=10.0)
    by_protocol = {
        protocol: time_us(RELEASE, slow, "Tree", protocol, "allreduce", 8)
        - time_us(RELEASE, TWO_H100, "Tree", protocol, "allreduce", 8)
        for protocol in ("LL", "LL128", "Simple")
    }
    assert by_protocol == pytest.approx({"LL": 20.0, "LL128": 20.0, "Simple": 40.0})


def test_one_gpu_a_node_has_pat_and_plain_trees() -> None:
    comm = Communicator(4, 4, "Hopper", {name: Graph(2, 24, 24) for name in ("Ring", "PAT")})
    # 8.0 + 2 x 14 / 3.5 + 4 x 2.8 = 27.2 us; 0.75 x 48
    assert time_us(RELEASE, comm, "PAT", "Simple", "allgather", 2**20) == pytest.approx(27.2 + 2**20 / 36e3)
    with pytest.raises(TopologyError, match="PAT is for one GPU a node"):
        time_us(RELEASE, TWO_H100, "PAT", "Simple", "allgather", 2**20)


def test_networks_that_sum_have_collnet() -> None:
    graphs = {**TWO_H100.graphs, "CollNetDirect": Graph(8, 40, 48), "CollNetChain": Graph(8, 40, 48)}
    sharp = replace(TWO_H100, graphs=graphs, has_sharp=True)
    # 2 (3.7 + 7 x 0.4) + 31 = 44 us; 320 x 0.85 / 2, a channel for each GPU
    direct = time_us(RELEASE, sharp, "CollNetDirect", "Simple", "allreduce", 2**20)
    assert direct == pytest.approx(44 + 2**20 / 136e3)
    # 2 x 7 x 2.8 + 30 = 69.2 us; 320 / 2
    chain = time_us(RELEASE, sharp, "CollNetChain", "Simple", "allreduce", 2**20)
    assert chain == pytest.approx(69.2 + 2**20 / 160e3)
    # NVLS between nodes: 25 + 18 us; 8 x min(59.5, 48) x 16 / 30
    nvls = time_us(RELEASE, sharp, "NVLS", "Simple", "allreduce", 2**20)
    assert nvls == pytest.approx(43 + 2**20 / (384e3 * 16 / 30))


@pytest.mark.parametrize(
    ("machine", "nodes", "pair", "collective", "reason"),
    [
        ("dgx-a100", 1, ("NVLS", "Simple"), "allreduce", "older than Hopper"),
        ("dgx-h100", 1, ("NVLSTree", "Simple"), "allreduce", "two nodes or more"),
        ("dgx-h100", 2, ("NVLS", "Simple"), "allreduce", "SHARP"),
        ("dgx-h100", 2, ("CollNetChain", "Simple"), "allreduce", "SHARP"),
        ("dgx-h100", 1, ("NVLS", "LL"), "allreduce", "Simple only"),
        ("dgx-h100", 1, ("Tree", "LL"), "allgather", "has no Tree"),
        ("l40s", 1, ("Ring", "LL128"), "allreduce", "NVLinks"),
    ],
)
def test_what_a_machine_cannot_run_is_refused_with_the_reason(
    machine: str, nodes: int, pair: tuple[str, str], collective: str, reason: str
) -> None:
    comm = communicator_of(load_topology(machine, nodes=nodes), gpu="L40S" if machine == "l40s" else None)
    with pytest.raises(TopologyError, match=reason):
        time_us(RELEASE, comm, *pair, collective, 2**20)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("collective", "size", "message"),
    [
        ("alltoall", 8, "no model of alltoall"),
        ("gather", 8, "no model of gather"),
        ("scan", 8, "no collective 'scan'"),
        ("allreduce", 0, "a size"),
        ("allreduce", 2**61, "a size"),
    ],
)
def test_collectives_and_sizes_that_the_model_lacks(collective: str, size: int, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        choice(RELEASE, H100, collective, size)


def test_an_unknown_release_is_named_with_those_that_are_here() -> None:
    assert release_named("2.30.7") is RELEASE
    with pytest.raises(TacclError, match=r"NCCL '2\.18' are not") as caught:
        release_named("2.18")
    assert caught.value.hint == "2.30"


def test_a_communicator_is_checked() -> None:
    with pytest.raises(TopologyError, match="as many ranks in each node"):
        replace(H100, nodes=3)
    with pytest.raises(TopologyError, match="a Graph of rings"):
        replace(H100, graphs={})
    with pytest.raises(TopologyError, match="channels"):
        Graph(0, 10.0, 10.0)
