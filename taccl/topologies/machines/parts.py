"""What machines made of nodes have in common: names of GPUs, links both directions, a fabric between NICs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.support.arguments import is_whole, shown
from taccl.topologies.devices import MAX_GPUS_OF_NODES, NO_NODE, Device, DeviceKind, Link
from taccl.topologies.helpers import faces_of
from taccl.topologies.model import PhysicalTopology

#: Two devices of a node by their names in it, and the alpha and beta of a link each way between them.
Wire = tuple[str, str, float, float]
#: The names of a node's devices in it, by their kind.
Parts = Mapping[DeviceKind, Sequence[str]]


def check_nodes(nodes: int, gpus_per_node: int) -> None:
    """Raise TopologyError unless there is at least one node, and not more GPUs than MAX_GPUS_OF_NODES."""
    if not is_whole(nodes) or nodes < 1:
        raise TopologyError(f"a machine has 1 or more nodes, not {shown(nodes)}")
    if nodes * gpus_per_node > MAX_GPUS_OF_NODES:
        raise TopologyError(
            f"{shown(nodes)} nodes of {gpus_per_node} GPUs are more than {MAX_GPUS_OF_NODES} GPUs"
        )


def gpu_name(node: int, local: int) -> str:
    """The name of a GPU of a machine made of nodes: node1.gpu0."""
    return f"node{node}.gpu{local}"


def counted(word: str, count: int) -> list[str]:
    """gpu0, gpu1, ...: the names of devices in their node."""
    return [f"{word}{local}" for local in range(count)]


def both_directions(a: str, b: str, alpha_us: float, beta_us_per_mb: float) -> tuple[Link, Link]:
    """A link from `a` to `b` and one back."""
    return Link(a, b, alpha_us, beta_us_per_mb), Link(b, a, alpha_us, beta_us_per_mb)


def of_nodes(
    name: str,
    nodes: int,
    devices: Parts,
    wires: Sequence[Wire],
    network: tuple[float, float] | None = None,
    occupancy: Occupancy = "serial",
    gpu: str | None = None,
    sums: Mapping[str, float] | None = None,
) -> PhysicalTopology:
    """The machine of equal nodes.

    Parameters
    ----------
    devices, wires : of one node, by the names in it.
    network : alpha from NIC to NIC and beta of a NIC's link to the one fabric that joins all NICs of several
        nodes; None where there is no such fabric.
    gpu : the model of the GPUs.
    sums : of each switch of a node that sums and copies, the beta at which it does.

    Raises
    ------
    TopologyError : no number of nodes, or more GPUs than a machine may have.
    """
    check_nodes(nodes, len(devices["gpu"]))
    made = [
        Device(f"node{node}.{device}", kind, node, local)
        for node in range(nodes)
        for kind, names in devices.items()
        for local, device in enumerate(names)
    ]
    for node in range(nodes):
        for number, (switch, beta) in enumerate((sums or {}).items()):
            made += faces_of(f"node{node}.{switch}", node, 2 * number, beta)
    links = [
        link
        for node in range(nodes)
        for a, b, alpha, beta in wires
        for link in both_directions(f"node{node}.{a}", f"node{node}.{b}", alpha, beta)
    ]
    if network is not None and nodes > 1:
        alpha, beta = network
        nics = [device.name for device in made if device.kind == "nic"]
        made.append(Device("fabric", "fabric", NO_NODE, 0))
        links += [link for nic in nics for link in both_directions(nic, "fabric", alpha / 2, beta)]
    return PhysicalTopology(name, tuple(made), tuple(links), occupancy, gpu=gpu)
