"""The machines that results are compared on: DGX-2, NDv2 and DGX A100, as three studies model them.

Link costs are those published with TACCL (NSDI 2023): an NVLink has alpha 0.3 us and beta 8 us/MB
(DGX-2, through the switch), 23 (NDv2, two links) or 46 (NDv2, one link); GPU to GPU over InfiniBand
alpha 2.6 us and beta 105 us/MB. TE-CCL (SIGCOMM 2024) reads DGX-2 and NDv2 otherwise. Results are compared
on them, so nothing newer may change a number here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from taccl.errors import TopologyError
from taccl.model.units import beta_from_bandwidth
from taccl.topologies.devices import NO_NODE, Device, Link
from taccl.topologies.machines.figures import Bandwidth, Figure, Unit
from taccl.topologies.machines.machine import Confidence, Machine
from taccl.topologies.machines.parts import Parts, Wire, counted, gpu_name, of_nodes
from taccl.topologies.model import PhysicalTopology

TACCL = "TACCL (NSDI 2023)"
FORESTCOLL = "ForestColl (2024)"
TECCL = "TE-CCL (SIGCOMM 2024)"

NVLINK_ALPHA_US = 0.3
DGX2_NVLINK_BETA = 8.0
NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA = 23.0, 46.0
INFINIBAND_ALPHA_US, INFINIBAND_BETA = 2.6, 105.0

#: The NVLinks between the 8 GPUs of an NDv2 node (and of a DGX-1 with V100s).
NDV2_DOUBLE_PAIRS = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
NDV2_SINGLE_PAIRS = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))


def _measured(machine: str, *nvlinks: tuple[float, str, Unit]) -> tuple[Figure, ...]:
    """What was measured on a machine: of its NVLinks, and of InfiniBand between two of them."""
    source = f"{TACCL}, on {machine}"
    network = "InfiniBand, GPU to GPU"
    return (
        *(Figure(value, "measured", source, quantity, unit) for value, quantity, unit in nvlinks),
        Figure(INFINIBAND_ALPHA_US, "measured", source, network, "us"),
        Figure(INFINIBAND_BETA, "measured", source, network, "us/MB"),
    )


DGX2_FIGURES = _measured(
    "DGX-2s of V100s",
    (NVLINK_ALPHA_US, "NVLink, GPU to GPU", "us"),
    (DGX2_NVLINK_BETA, "NVLink, GPU to GPU", "us/MB"),
)
NDV2_FIGURES = _measured(
    "Azure NDv2s of V100s",
    (NVLINK_ALPHA_US, "NVLink, GPU to GPU", "us"),
    (NDV2_DOUBLE_BETA, "two NVLinks, GPU to GPU", "us/MB"),
    (NDV2_SINGLE_BETA, "one NVLink, GPU to GPU", "us/MB"),
)
A100_FIGURES = (
    Figure(300, "published", FORESTCOLL, "a GPU to all others together", "GB/s"),
    Figure(NVLINK_ALPHA_US, "assumed", "as dgx2", "NVLink, GPU to GPU", "us"),
    Figure(25, "published", FORESTCOLL, "a NIC", "GB/s"),
    Figure(INFINIBAND_ALPHA_US, "assumed", "as dgx2", "InfiniBand, GPU to GPU", "us"),
)
DGX2_TECCL_FIGURES = (
    Figure(125, "published", TECCL, "GPU to its switch", "GB/s"),
    Figure(0.35, "published", TECCL, "GPU to its switch", "us"),
    Figure(12.5, "published", TECCL, "node to node", "GB/s"),
    Figure(2.6, "published", TECCL, "node to node", "us"),
)
NDV2_TECCL_FIGURES = (
    Figure(50, "published", TECCL, "two NVLinks, GPU to GPU", "GB/s"),
    Figure(25, "published", TECCL, "one NVLink, GPU to GPU", "GB/s"),
    Figure(0.7, "published", TECCL, "NVLink, GPU to GPU", "us"),
    Figure(12.5, "published", TECCL, "node to node", "GB/s"),
    Figure(1.3, "published", TECCL, "node to the network's switch", "us"),
)


def dgx2(nodes: int = 2) -> PhysicalTopology:
    """NVIDIA DGX-2: 16 V100s behind NVSwitches, and 8 NICs, one for each pair of GPUs {2k, 2k+1}.

    The NVSwitches are one device: any GPU reaches any other, and what is limited is a GPU's total
    in or out. The pair shares its NIC's link to, and its link from, the fabric. The published cost
    of InfiniBand is from GPU to GPU; it is all on those two links, and a GPU's own link to its NIC
    adds no alpha and is no slower.
    """
    wires: list[Wire] = []
    for gpu in range(16):
        wires.append((f"gpu{gpu}", "nvswitch", NVLINK_ALPHA_US / 2, DGX2_NVLINK_BETA))
        wires.append((f"gpu{gpu}", f"nic{gpu // 2}", 0.0, INFINIBAND_BETA))
    return _switched("dgx2", "V100", nodes, 16, 8, wires, INFINIBAND_BETA)


def a100(nodes: int = 2) -> PhysicalTopology:
    """DGX A100 as throughput studies model it (ForestColl, 2024): 8 GPUs, 300 GB/s each way, a NIC each.

    NVIDIA's figures: 600 GB/s of NVLink for each A100, both directions together, and 200 Gb/s InfiniBand for
    each GPU, so 25 GB/s. Latencies are those of `dgx2`.
    """
    nic_beta = beta_from_bandwidth(25)
    wires: list[Wire] = []
    for gpu in range(8):
        wires.append((f"gpu{gpu}", "nvswitch", NVLINK_ALPHA_US / 2, beta_from_bandwidth(300)))
        wires.append((f"gpu{gpu}", f"nic{gpu}", 0.0, nic_beta))
    return _switched("a100", "A100", nodes, 8, 8, wires, nic_beta)


def _switched(
    name: str, gpu: str, nodes: int, gpus: int, nics: int, wires: list[Wire], nic_beta: float
) -> PhysicalTopology:
    """GPUs behind one switch, and an InfiniBand fabric between the NICs of all nodes."""
    parts: Parts = {"gpu": counted("gpu", gpus), "switch": ["nvswitch"], "nic": counted("nic", nics)}
    return of_nodes(name, nodes, parts, wires, (INFINIBAND_ALPHA_US, nic_beta), gpu=gpu)


def ndv2(nodes: int = 2) -> PhysicalTopology:
    """Azure NDv2: 8 V100s in a hybrid cube mesh of NVLinks, and one NIC next to GPUs 0 and 1.

    The NIC is behind the PCIe switch of GPUs 0 and 1; the other GPUs reach it only through them
    (or through their host). The published cost of InfiniBand is placed as in `dgx2`.
    """
    wires = _ndv2_nvlinks(NVLINK_ALPHA_US, NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA)
    wires += [(end, "pcie", 0.0, INFINIBAND_BETA) for end in ("gpu0", "gpu1", "nic0")]
    parts: Parts = {"gpu": counted("gpu", 8), "pcie": ["pcie"], "nic": ["nic0"]}
    return of_nodes("ndv2", nodes, parts, wires, (INFINIBAND_ALPHA_US, INFINIBAND_BETA), gpu="V100")


def _ndv2_nvlinks(alpha_us: float, double_beta: float, single_beta: float) -> list[Wire]:
    """The cube mesh of a node: links of `double_beta` where two NVLinks join GPUs, else `single_beta`."""
    return [
        (f"gpu{a}", f"gpu{b}", alpha_us, beta)
        for pairs, beta in ((NDV2_DOUBLE_PAIRS, double_beta), (NDV2_SINGLE_PAIRS, single_beta))
        for a, b in pairs
    ]


def dgx2_teccl(nodes: int = 2) -> PhysicalTopology:
    """TE-CCL's DGX-2: no NICs, but a link from each odd GPU 2k+1 to GPU 2k of the other node.

    125 GB/s and 0.35 us between a GPU and its switch, each way; 12.5 GB/s and 2.6 us between nodes;
    pipelined occupancy.

    Raises
    ------
    TopologyError : more than the 2 nodes that its experiments have.
    """
    gpus = counted("gpu", 16)
    wires = [(gpu, "nvswitch", 0.35, beta_from_bandwidth(125)) for gpu in gpus]
    machine = of_nodes(
        "dgx2-teccl", nodes, {"gpu": gpus, "switch": ["nvswitch"]}, wires, occupancy="pipelined"
    )
    if nodes > 2:
        raise TopologyError(
            f"dgx2-teccl has 1 or 2 nodes, not {nodes}", hint="dgx2 takes any number of nodes"
        )
    between = [
        Link(gpu_name(node, 2 * k + 1), gpu_name(1 - node, 2 * k), 2.6, beta_from_bandwidth(12.5))
        for node in range(nodes if nodes == 2 else 0)
        for k in range(8)
    ]
    return replace(machine, links=(*machine.links, *between))


def ndv2_teccl(nodes: int = 4) -> PhysicalTopology:
    """TE-CCL's NDv2: no NICs, but GPU 0 of each node -> a network switch -> GPU 1 of each node.

    NVLinks of 50 and 25 GB/s and 0.7 us; 12.5 GB/s and 1.3 us to the network switch, and again from
    it; pipelined occupancy.
    """
    wires = _ndv2_nvlinks(0.7, beta_from_bandwidth(50), beta_from_bandwidth(25))
    machine = of_nodes("ndv2-teccl", nodes, {"gpu": counted("gpu", 8)}, wires, occupancy="pipelined")
    if nodes == 1:
        return machine
    beta = beta_from_bandwidth(12.5)
    between = [
        link
        for node in range(nodes)
        for link in (
            Link(gpu_name(node, 0), "fabric", 1.3, beta),
            Link("fabric", gpu_name(node, 1), 1.3, beta),
        )
    ]
    devices = (*machine.devices, Device("fabric", "fabric", NO_NODE, 0))
    return replace(machine, devices=devices, links=(*machine.links, *between))


def _machine(
    build: Callable[[int], PhysicalTopology],
    summary: str,
    confidence: Confidence,
    source: str,
    figures: tuple[Figure, ...],
    default_nodes: int = 2,
) -> Machine:
    """A row of the catalogue; the links of these machines have one speed each."""

    def named(_: str, nodes: int, __: Bandwidth) -> PhysicalTopology:
        return build(nodes)

    return Machine(named, summary, confidence, source, figures, default_nodes, has_peak=False)


MACHINES = {
    "dgx2": _machine(
        dgx2,
        "NVIDIA DGX-2: 16 V100s behind NVSwitches, a NIC for each pair of GPUs",
        *("measured", TACCL, DGX2_FIGURES),
    ),
    "ndv2": _machine(
        ndv2,
        "Azure NDv2: 8 V100s in a hybrid cube mesh, one NIC next to GPUs 0 and 1",
        *("measured", TACCL, NDV2_FIGURES),
    ),
    "a100": _machine(
        a100,
        "DGX A100: 8 A100s behind NVSwitches, a NIC of 25 GB/s for each GPU",
        *("model", FORESTCOLL, A100_FIGURES),
    ),
    "dgx2-teccl": _machine(
        dgx2_teccl,
        "DGX-2 as TE-CCL models it: odd to even GPUs, pipelined",
        *("model", TECCL, DGX2_TECCL_FIGURES),
    ),
    "ndv2-teccl": _machine(
        ndv2_teccl,
        "NDv2 as TE-CCL models it: GPU 0 to GPU 1, pipelined",
        *("model", TECCL, NDV2_TECCL_FIGURES, 4),
    ),
}
