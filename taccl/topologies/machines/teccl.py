"""DGX-2 and NDv2 as TE-CCL (SIGCOMM 2024) reads them, for comparing with what it published."""

from __future__ import annotations

from taccl.errors import TopologyError
from taccl.model.units import beta_from_bandwidth
from taccl.topologies.devices import NO_NODE, Device, Link
from taccl.topologies.machines.figures import Figure
from taccl.topologies.machines.parts import both_directions, check_nodes, gpu_name
from taccl.topologies.machines.published import ndv2_nvlinks
from taccl.topologies.model import PhysicalTopology

TECCL = "TE-CCL (SIGCOMM 2024)"
DGX2_FIGURES = (
    Figure(125, "published", TECCL, "GPU to its switch", "GB/s"),
    Figure(0.35, "published", TECCL, "GPU to its switch", "us"),
    Figure(12.5, "published", TECCL, "node to node", "GB/s"),
    Figure(2.6, "published", TECCL, "node to node", "us"),
)
NDV2_FIGURES = (
    Figure(50, "published", TECCL, "two NVLinks, GPU to GPU", "GB/s"),
    Figure(25, "published", TECCL, "one NVLink, GPU to GPU", "GB/s"),
    Figure(0.7, "published", TECCL, "NVLink, GPU to GPU", "us"),
    Figure(12.5, "published", TECCL, "node to node", "GB/s"),
    Figure(1.3, "published", TECCL, "node to the network's switch", "us"),
)


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
            links += both_directions(gpu_name(node, local), switch, 0.35, beta_from_bandwidth(125))
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
        links += ndv2_nvlinks(node, 0.7, beta_from_bandwidth(50), beta_from_bandwidth(25))
    if nodes > 1:
        devices.append(Device("fabric", "fabric", NO_NODE, 0))
        for node in range(nodes):
            links.append(Link(gpu_name(node, 0), "fabric", 1.3, beta_from_bandwidth(12.5)))
            links.append(Link("fabric", gpu_name(node, 1), 1.3, beta_from_bandwidth(12.5)))
    return PhysicalTopology("ndv2-teccl", tuple(devices), tuple(links), occupancy="pipelined")
