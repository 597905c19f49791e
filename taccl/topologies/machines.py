"""The machines that sketches and results are published for: DGX-2 and NDv2, and TE-CCL's readings of them.

Link costs are those published with TACCL (NSDI 2023): an NVLink has alpha 0.3 us and beta 8 us/MB
(DGX-2, through the switch), 23 (NDv2, two links) or 46 (NDv2, one link); GPU to GPU over InfiniBand
alpha 2.6 us and beta 105 us/MB. TE-CCL's are those of its SIGCOMM 2024 experiments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taccl.arguments import is_whole, shown
from taccl.errors import TopologyError
from taccl.topologies.devices import MAX_GPUS, NO_NODE, Device, Link
from taccl.topologies.model import PhysicalTopology
from taccl.units import beta_from_bandwidth

NVLINK_ALPHA_US = 0.3
DGX2_NVLINK_BETA = 8.0
NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA = 23.0, 46.0
INFINIBAND_ALPHA_US, INFINIBAND_BETA = 2.6, 105.0

#: The NVLinks between the 8 GPUs of an NDv2 node (and of a DGX-1 with V100s).
NDV2_DOUBLE_PAIRS = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
NDV2_SINGLE_PAIRS = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))


def check_nodes(nodes: int, gpus_per_node: int) -> None:
    """Raise TopologyError unless there is at least one node, and not more GPUs than MAX_GPUS."""
    if not is_whole(nodes) or nodes < 1:
        raise TopologyError(f"a machine has 1 or more nodes, not {shown(nodes)}")
    if nodes * gpus_per_node > MAX_GPUS:
        raise TopologyError(f"{shown(nodes)} nodes of {gpus_per_node} GPUs are more than {MAX_GPUS} GPUs")


def gpu_name(node: int, local: int) -> str:
    """The name of a GPU of a machine made of nodes: node1.gpu0."""
    return f"node{node}.gpu{local}"


def both_ways(a: str, b: str, alpha_us: float, beta_us_per_mb: float) -> tuple[Link, Link]:
    """A link from `a` to `b` and one back."""
    return Link(a, b, alpha_us, beta_us_per_mb), Link(b, a, alpha_us, beta_us_per_mb)


def fabric(nics: Iterable[str], alpha_us: float, beta_us_per_mb: float) -> tuple[list[Device], list[Link]]:
    """The fabric that every NIC has a link to and from; `alpha_us` is from NIC to NIC."""
    links = [link for nic in nics for link in both_ways(nic, "fabric", alpha_us / 2, beta_us_per_mb)]
    return [Device("fabric", "fabric", NO_NODE, 0)], links


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
            links += both_ways(gpu, switch, NVLINK_ALPHA_US / 2, DGX2_NVLINK_BETA)
            links += both_ways(gpu, nics[local // 2], 0.0, INFINIBAND_BETA)
    return _connected("dgx2", nodes, devices, links)


def a100(nodes: int = 2) -> PhysicalTopology:
    """DGX A100 as throughput studies model it (ForestColl, 2024): 8 GPUs, 300 GB/s each way, a NIC each.

    NVIDIA's figures: 600 GB/s of NVLink for each A100, both ways together, and 200 Gb/s InfiniBand for each
    GPU, so 25 GB/s. Latencies are those of `dgx2`.
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
            links += both_ways(gpu, switch, NVLINK_ALPHA_US / 2, beta_from_bandwidth(300))
            links += both_ways(gpu, nic, 0.0, nic_beta)
    return _connected("a100", nodes, devices, links, nic_beta)


def ndv2(nodes: int = 2) -> PhysicalTopology:
    """Azure NDv2: 8 V100s in a hybrid cube mesh of NVLinks, and one NIC beside GPUs 0 and 1.

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
        links += _ndv2_nvlinks(node, NVLINK_ALPHA_US, NDV2_DOUBLE_BETA, NDV2_SINGLE_BETA)
        for end in (gpu_name(node, 0), gpu_name(node, 1), nic):
            links += both_ways(end, pcie, 0.0, INFINIBAND_BETA)
    return _connected("ndv2", nodes, devices, links)


def _ndv2_nvlinks(node: int, alpha_us: float, double_beta: float, single_beta: float) -> Iterator[Link]:
    for pairs, beta in ((NDV2_DOUBLE_PAIRS, double_beta), (NDV2_SINGLE_PAIRS, single_beta)):
        for a, b in pairs:
            yield from both_ways(gpu_name(node, a), gpu_name(node, b), alpha_us, beta)


def _connected(
    name: str, nodes: int, devices: list[Device], links: list[Link], beta: float = INFINIBAND_BETA
) -> PhysicalTopology:
    """The nodes with an InfiniBand fabric between their NICs, which a single node does without."""
    if nodes > 1:
        nics = [device.name for device in devices if device.kind == "nic"]
        more_devices, more_links = fabric(nics, INFINIBAND_ALPHA_US, beta)
        devices, links = devices + more_devices, links + more_links
    return PhysicalTopology(name, tuple(devices), tuple(links))


def dgx2_teccl(nodes: int = 2) -> PhysicalTopology:
    """TE-CCL's DGX-2: no NICs, but a link from each odd GPU 2k+1 to GPU 2k of the other node.

    125 GB/s and 0.35 us between a GPU and its switch, each way; 12.5 GB/s and 2.6 us between nodes;
    pipelined occupancy.

    Raises
    ------
    TopologyError : more than the 2 nodes that its experiments have.
    """
    check_nodes(nodes, 16)
    if nodes > 2:
        raise TopologyError(
            f"dgx2-teccl has 1 or 2 nodes, not {nodes}", hint="dgx2 takes any number of nodes"
        )
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(nodes):
        switch = f"node{node}.nvswitch"
        devices += [Device(gpu_name(node, local), "gpu", node, local) for local in range(16)]
        devices.append(Device(switch, "switch", node, 0))
        for local in range(16):
            links += both_ways(gpu_name(node, local), switch, 0.35, beta_from_bandwidth(125))
    if nodes == 2:
        links += [
            Link(gpu_name(node, 2 * k + 1), gpu_name(1 - node, 2 * k), 2.6, beta_from_bandwidth(12.5))
            for node in range(2)
            for k in range(8)
        ]
    return PhysicalTopology("dgx2-teccl", tuple(devices), tuple(links), occupancy="pipelined")


def ndv2_teccl(nodes: int = 4) -> PhysicalTopology:
    """TE-CCL's NDv2: no NICs, but GPU 0 of each node -> a network switch -> GPU 1 of each node.

    NVLinks of 50 and 25 GB/s and 0.7 us; 12.5 GB/s and 1.3 us to the network switch, and again from
    it; pipelined occupancy.
    """
    check_nodes(nodes, 8)
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(nodes):
        devices += [Device(gpu_name(node, local), "gpu", node, local) for local in range(8)]
        links += _ndv2_nvlinks(node, 0.7, beta_from_bandwidth(50), beta_from_bandwidth(25))
    if nodes > 1:
        devices.append(Device("fabric", "fabric", NO_NODE, 0))
        for node in range(nodes):
            links.append(Link(gpu_name(node, 0), "fabric", 1.3, beta_from_bandwidth(12.5)))
            links.append(Link("fabric", gpu_name(node, 1), 1.3, beta_from_bandwidth(12.5)))
    return PhysicalTopology("ndv2-teccl", tuple(devices), tuple(links), occupancy="pipelined")
