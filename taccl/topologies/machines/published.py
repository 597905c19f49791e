"""The machines that TACCL's sketches and throughput studies are published for: DGX-2, NDv2 and DGX A100.

Link costs are those published with TACCL (NSDI 2023): an NVLink has alpha 0.3 us and beta 8 us/MB
(DGX-2, through the switch), 23 (NDv2, two links) or 46 (NDv2, one link); GPU to GPU over InfiniBand
alpha 2.6 us and beta 105 us/MB. Results are compared on them, so nothing newer may change a number here.
"""

from __future__ import annotations

from collections.abc import Iterator

from taccl.model.units import beta_from_bandwidth
from taccl.topologies.devices import Device, Link
from taccl.topologies.machines.figures import Figure
from taccl.topologies.machines.parts import both_directions, check_nodes, fabric, gpu_name
from taccl.topologies.model import PhysicalTopology

TACCL = "TACCL (NSDI 2023)"
FORESTCOLL = "ForestColl (2024)"

NVLINK_ALPHA_US = 0.3
DGX2_NVLINK_BETA = 8.0
NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA = 23.0, 46.0
INFINIBAND_ALPHA_US, INFINIBAND_BETA = 2.6, 105.0

#: The NVLinks between the 8 GPUs of an NDv2 node (and of a DGX-1 with V100s).
NDV2_DOUBLE_PAIRS = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
NDV2_SINGLE_PAIRS = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))

_INFINIBAND_FIGURES = (
    Figure(INFINIBAND_ALPHA_US, "measured", TACCL, "InfiniBand, GPU to GPU", "us"),
    Figure(INFINIBAND_BETA, "measured", TACCL, "InfiniBand, GPU to GPU", "us/MB"),
)
DGX2_FIGURES = (
    Figure(NVLINK_ALPHA_US, "measured", TACCL, "NVLink, GPU to GPU", "us"),
    Figure(DGX2_NVLINK_BETA, "measured", TACCL, "NVLink, GPU to GPU", "us/MB"),
    *_INFINIBAND_FIGURES,
)
NDV2_FIGURES = (
    Figure(NVLINK_ALPHA_US, "measured", TACCL, "NVLink, GPU to GPU", "us"),
    Figure(NDV2_DOUBLE_BETA, "measured", TACCL, "two NVLinks, GPU to GPU", "us/MB"),
    Figure(NDV2_SINGLE_BETA, "measured", TACCL, "one NVLink, GPU to GPU", "us/MB"),
    *_INFINIBAND_FIGURES,
)
A100_FIGURES = (
    Figure(300, "published", FORESTCOLL, "a GPU to all others together", "GB/s"),
    Figure(NVLINK_ALPHA_US, "assumed", "as dgx2", "NVLink, GPU to GPU", "us"),
    Figure(25, "published", FORESTCOLL, "a NIC", "GB/s"),
    Figure(INFINIBAND_ALPHA_US, "assumed", "as dgx2", "InfiniBand, GPU to GPU", "us"),
)


def dgx2(nodes: int = 2) -> PhysicalTopology:
    """NVIDIA DGX-2: 16 V100s behind NVSwitches, and 8 NICs, one for each pair of GPUs {2k, 2k+1}.

    The NVSwitches are one device: any GPU reaches any other, and what is limited is a GPU's total
    in or out. The pair shares its NIC's link to, and its link from, the fabric. The published cost
    of InfiniBand is from GPU to GPU; it is all on those two links, and a GPU's own link to its NIC
    adds no alpha and is no slower.
    """
    check_nodes(nodes, 16)
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(nodes):
        gpus = [gpu_name(node, local) for local in range(16)]
        nics = [f"node{node}.nic{local}" for local in range(8)]
        switch = f"node{node}.nvswitch"
        devices += [Device(gpu, "gpu", node, local) for local, gpu in enumerate(gpus)]
        devices.append(Device(switch, "switch", node, 0))
        devices += [Device(nic, "nic", node, local) for local, nic in enumerate(nics)]
        for local, gpu in enumerate(gpus):
            links += both_directions(gpu, switch, NVLINK_ALPHA_US / 2, DGX2_NVLINK_BETA)
            links += both_directions(gpu, nics[local // 2], 0.0, INFINIBAND_BETA)
    return _connected("dgx2", nodes, devices, links)


def a100(nodes: int = 2) -> PhysicalTopology:
    """DGX A100 as throughput studies model it (ForestColl, 2024): 8 GPUs, 300 GB/s each way, a NIC each.

    NVIDIA's figures: 600 GB/s of NVLink for each A100, both directions together, and 200 Gb/s InfiniBand for
    each GPU, so 25 GB/s. Latencies are those of `dgx2`.
    """
    check_nodes(nodes, 8)
    devices: list[Device] = []
    links: list[Link] = []
    nic_beta = beta_from_bandwidth(25)
    for node in range(nodes):
        gpus = [gpu_name(node, local) for local in range(8)]
        nics = [f"node{node}.nic{local}" for local in range(8)]
        switch = f"node{node}.nvswitch"
        devices += [Device(gpu, "gpu", node, local) for local, gpu in enumerate(gpus)]
        devices.append(Device(switch, "switch", node, 0))
        devices += [Device(nic, "nic", node, local) for local, nic in enumerate(nics)]
        for gpu, nic in zip(gpus, nics, strict=True):
            links += both_directions(gpu, switch, NVLINK_ALPHA_US / 2, beta_from_bandwidth(300))
            links += both_directions(gpu, nic, 0.0, nic_beta)
    return _connected("a100", nodes, devices, links, nic_beta)


def ndv2(nodes: int = 2) -> PhysicalTopology:
    """Azure NDv2: 8 V100s in a hybrid cube mesh of NVLinks, and one NIC next to GPUs 0 and 1.

    The NIC is behind the PCIe switch of GPUs 0 and 1; the other GPUs reach it only through them
    (or through their host). The published cost of InfiniBand is placed as in `dgx2`.
    """
    check_nodes(nodes, 8)
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(nodes):
        pcie, nic = f"node{node}.pcie", f"node{node}.nic0"
        devices += [Device(gpu_name(node, local), "gpu", node, local) for local in range(8)]
        devices += [Device(pcie, "pcie", node, 0), Device(nic, "nic", node, 0)]
        links += ndv2_nvlinks(node, NVLINK_ALPHA_US, NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA)
        for end in (gpu_name(node, 0), gpu_name(node, 1), nic):
            links += both_directions(end, pcie, 0.0, INFINIBAND_BETA)
    return _connected("ndv2", nodes, devices, links)


def ndv2_nvlinks(node: int, alpha_us: float, double_beta: float, single_beta: float) -> Iterator[Link]:
    """The cube mesh of a node: links of `double_beta` where two NVLinks join GPUs, else `single_beta`."""
    for pairs, beta in ((NDV2_DOUBLE_PAIRS, double_beta), (NDV2_SINGLE_PAIRS, single_beta)):
        for a, b in pairs:
            yield from both_directions(gpu_name(node, a), gpu_name(node, b), alpha_us, beta)


def _connected(
    name: str, nodes: int, devices: list[Device], links: list[Link], beta: float = INFINIBAND_BETA
) -> PhysicalTopology:
    """The nodes with an InfiniBand fabric between their NICs, which a single node does without."""
    if nodes > 1:
        nics = [device.name for device in devices if device.kind == "nic"]
        more_devices, more_links = fabric(nics, INFINIBAND_ALPHA_US, beta)
        devices, links = devices + more_devices, links + more_links
    return PhysicalTopology(name, tuple(devices), tuple(links))
