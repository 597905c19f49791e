"""What machines made of nodes have in common: names of GPUs, links both directions, a fabric between NICs."""

from __future__ import annotations

from collections.abc import Iterable

from taccl.errors import TopologyError
from taccl.support.arguments import is_whole, shown
from taccl.topologies.devices import MAX_GPUS, NO_NODE, Device, Link


def check_nodes(nodes: int, gpus_per_node: int) -> None:
    """Raise TopologyError unless there is at least one node, and not more GPUs than MAX_GPUS."""
    if not is_whole(nodes) or nodes < 1:
        raise TopologyError(f"a machine has 1 or more nodes, not {shown(nodes)}")
    if nodes * gpus_per_node > MAX_GPUS:
        raise TopologyError(f"{shown(nodes)} nodes of {gpus_per_node} GPUs are more than {MAX_GPUS} GPUs")


def gpu_name(node: int, local: int) -> str:
    """The name of a GPU of a machine made of nodes: node1.gpu0."""
    return f"node{node}.gpu{local}"


def both_directions(a: str, b: str, alpha_us: float, beta_us_per_mb: float) -> tuple[Link, Link]:
    """A link from `a` to `b` and one back."""
    return Link(a, b, alpha_us, beta_us_per_mb), Link(b, a, alpha_us, beta_us_per_mb)


def fabric(nics: Iterable[str], alpha_us: float, beta_us_per_mb: float) -> tuple[list[Device], list[Link]]:
    """The fabric that every NIC has a link to and from; `alpha_us` is from NIC to NIC."""
    links = [link for nic in nics for link in both_directions(nic, "fabric", alpha_us / 2, beta_us_per_mb)]
    return [Device("fabric", "fabric", NO_NODE, 0)], links
