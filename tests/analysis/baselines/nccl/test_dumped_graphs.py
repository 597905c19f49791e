"""The graphs that are derived of machines are those of NCCL's logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from taccl.analysis.baselines.nccl import Algorithm, communicator_of
from taccl.errors import TopologyError
from taccl.topologies import load_topology, parse_topology
from taccl.topologies.importers.nodes.machine import make_machine
from taccl.topologies.importers.nodes.registry import read_dump

PAIR = """
name: pair
gpus: 2
links: [{pairs: [0-1], alpha_us: 0.7, bandwidth_gbps: 240}]
"""

ONE_EACH = """
name: one each
nodes: 2
node: {gpus: 1, nics: 1, links: [{pairs: [0-nic0], alpha_us: 0, bandwidth_gbps: 24}]}
fabric: {alpha_us: 2.7, bandwidth_gbps: 25}
"""
DUMPS = Path(__file__).parents[3] / "data" / "dumps"


def _graphs(machine: str, nodes: int = 1) -> dict[Algorithm, tuple[int, float, float]]:
    comm = communicator_of(load_topology(machine, nodes=nodes))
    return {name: (graph.channels, graph.gbps, graph.between_gbps) for name, graph in comm.graphs.items()}


def test_8_h100_as_in_a_log_of_nccl() -> None:
    # NVIDIA/nccl#1197: patterns 4 and 1 have 12 channels of 30, pattern 5 has 8 of 40/60
    assert _graphs("dgx-h100") == {
        "Ring": (12, 30, 30),
        "Tree": (12, 30, 30),
        "NVLS": (8, 40, 60),
        "NVLSTree": (8, 40, 60),
    }


def test_8_a100_as_in_logs_and_two_of_them_as_in_the_dump() -> None:
    assert _graphs("dgx-a100") == {"Ring": (12, 20, 20), "Tree": (12, 20, 20)}
    comm = communicator_of(parse_topology(PAIR), gpu="A100")
    assert comm.graphs["Ring"].channels == 12
    assert comm.graphs["Ring"].gbps == 20
    assert comm.graphs["Tree"].gbps == 40


def test_b200_doubles_channels_of_90_and_leaves_those_of_nvls() -> None:
    found = _graphs("dgx-b200")
    assert found["Ring"] == (16, 45, 45)
    assert found["NVLS"] == (8, 80, 90)


def test_two_nodes_have_a_channel_for_each_nic() -> None:
    found = _graphs("dgx-h100", nodes=2)
    assert found["Ring"] == (8, 48, 48)
    assert found["Tree"] == (8, 48, 48)
    assert found["NVLS"] == (8, 40, 48)
    assert _graphs("dgx-a100", nodes=2)["Ring"] == (8, 24, 24)
    assert _graphs("p4d", nodes=2)["Ring"] == (4, 12, 12)


def test_a_cube_mesh_of_v100_has_a_ring_for_each_nvlink() -> None:
    assert _graphs("ndv2")["Ring"] == (6, 20, 20)
    assert communicator_of(load_topology("ndv2", nodes=1)).graphs["Ring"].hop == "NVLink"


def test_grace_stands_beside_gh200_and_gb200() -> None:
    cpus = {name: communicator_of(load_topology(name)).cpu for name in ("gb200-nvl72", "gh200", "dgx-b200")}
    assert cpus == {"gb200-nvl72": "arm", "gh200": "arm", "dgx-b200": "intel"}
    assert communicator_of(load_topology("gh200"), cpu="amd").cpu == "amd"


def test_a_box_of_pcie_has_one_ring_through_its_cpus() -> None:
    comm = communicator_of(load_topology("l40s", nodes=1), gpu="L40S")
    assert (comm.graphs["Ring"].channels, comm.graphs["Ring"].gbps, comm.graphs["Ring"].hop) == (
        1,
        20,
        "PCIe",
    )


def test_two_bridged_pairs_have_a_ring_each_way_round_as_in_the_graph_file_of_that_machine() -> None:
    dump = read_dump(DUMPS / "nccl-topo" / "azure-ncv4-a100-pcie.xml")
    ring = communicator_of(make_machine(dump).topology, gpu="A100").graphs["Ring"]
    assert (ring.channels, ring.gbps) == (2, 12)


def test_a_gpu_and_a_nic_a_node_as_in_a_log() -> None:
    # pattern 4 has one channel of 24/24, pattern 3 one of 48/24, beside a NIC of 200 Gb/s behind PCIe 4
    comm = communicator_of(parse_topology(ONE_EACH), gpu="A100")
    assert (comm.graphs["Ring"].channels, comm.graphs["Ring"].gbps) == (1, 24)
    tree = comm.graphs["Tree"]
    assert (tree.channels, tree.gbps, tree.between_gbps, tree.is_plain_tree) == (1, 48, 24, True)


@pytest.mark.parametrize(
    ("machine", "nodes", "gpu", "message"),
    [
        ("trn2", 1, None, "'Trainium2' is no GPU of NVIDIA"),
        ("ring:8", None, None, "does not say which GPUs"),
        ("mi300x", 1, None, "NCCL runs on NVIDIA"),
        ("ring:8", None, "Voodoo", "no GPU of NVIDIA"),
        ("fat-tree:8x8", None, "H100", "no NICs"),
        ("hub:8", None, "H100", "has no ring"),
    ],
)
def test_machines_that_the_model_cannot_take(
    machine: str, nodes: int | None, gpu: str | None, message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        communicator_of(load_topology(machine, nodes=nodes), gpu=gpu)
