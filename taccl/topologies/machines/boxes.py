"""Nodes as data, and the machine of many such nodes: GPUs, the links between them, NICs next to them.

NVIDIA's are those with NVSwitches, of clouds too: DGX, HGX, the rack GB200 NVL72; AMD's 8 MI250X (16 GCDs) as
one was wired, and 8 MI300X or MI350X in a full mesh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from taccl.model.units import beta_from_bandwidth
from taccl.topologies.machines.figures import Alpha, Bandwidth, Figure, How, Rate
from taccl.topologies.machines.parts import Parts, Wire, counted, of_nodes
from taccl.topologies.machines.rates import (
    EFA_P4D_ALPHA,
    NETWORK_ALPHA,
    NIC_100G,
    NIC_200G,
    NIC_400G,
    NVLINK3,
    NVLINK4,
    NVLINK5,
    NVLINK_ALPHA,
    PCIE4_X8,
    PCIE4_X16,
    PCIE5_X16,
    XGMI_ALPHA,
    XGMI_MI250X,
    XGMI_MI300X,
    XGMI_MI350X,
)
from taccl.topologies.model import PhysicalTopology

#: GPUs (by their number in the node) and how many links join them: (0, 1, 4).
Bundle = tuple[int, int, int]


@dataclass(frozen=True)
class Box:
    """A node whose GPUs have fast links, through one switch or to each other.

    Parameters
    ----------
    gpus : how many.
    link, link_alpha : one link between GPUs, or from a GPU to the switch; the alpha is from GPU to GPU.
    switch_links : links of each GPU into the switch between all of them; 0: there is none.
    bundles : links between GPUs, of which each pair stands once.
    nics : for each NIC, the GPUs next to it.
    nic, network_alpha : of a NIC's port, and from NIC to NIC.
    pcie : between a GPU and a NIC next to it.
    counts, counts_source : how the numbers of GPUs, links and NICs are known.
    """

    gpus: int
    link: Rate
    link_alpha: Alpha
    nics: tuple[tuple[int, ...], ...]
    nic: Rate
    network_alpha: Alpha
    pcie: Rate
    counts: How
    counts_source: str
    switch_links: int = 0
    bundles: tuple[Bundle, ...] = ()

    def build(self, name: str, nodes: int, bandwidth: Bandwidth) -> PhysicalTopology:
        """The machine of `nodes` such nodes, whose NICs one fabric joins.

        Raises
        ------
        TopologyError : no number of nodes, or more GPUs than a machine may have.
        """
        parts: Parts = {
            "gpu": counted("gpu", self.gpus),
            "switch": ["nvswitch"] if self.switch_links else [],
            "nic": counted("nic", len(self.nics)),
        }
        network = (self.network_alpha.us, beta_from_bandwidth(self.nic.of(bandwidth)))
        return of_nodes(name, nodes, parts, list(self._wires(bandwidth)), network)

    def figures(self) -> tuple[Figure, ...]:
        """All numbers of the machine that `build` makes, each with its source."""
        return (*self._gpu_figures(), *self._nic_figures())

    def _wires(self, bandwidth: Bandwidth) -> Iterator[Wire]:
        gbps = self.link.of(bandwidth)
        for gpu in range(self.gpus if self.switch_links else 0):
            beta = beta_from_bandwidth(self.switch_links * gbps)
            yield f"gpu{gpu}", "nvswitch", self.link_alpha.us / 2, beta
        for a, b, count in self.bundles:
            yield f"gpu{a}", f"gpu{b}", self.link_alpha.us, beta_from_bandwidth(count * gbps)
        beta = beta_from_bandwidth(self.pcie.of(bandwidth))
        for nic, alongside in enumerate(self.nics):
            for gpu in alongside:
                yield f"gpu{gpu}", f"nic{nic}", 0.0, beta

    def _gpu_figures(self) -> Iterator[Figure]:
        yield self._count("GPUs of a node", self.gpus)
        if self.switch_links:
            per_gpu = self.switch_links
            yield self._count(f"{self.link.name}s of a GPU, to the switch", per_gpu)
        else:
            degrees = {sum(count for *ends, count in self.bundles if gpu in ends) for gpu in range(self.gpus)}
            per_gpu = max(degrees)
            yield self._count(f"{self.link.name} links of a GPU, to other GPUs", per_gpu)
        yield self.link.figure(f"one {self.link.name} link")
        yield self.link.figure("a GPU to all others together", per_gpu)
        yield self.link_alpha.figure("GPU to GPU in a node")

    def _nic_figures(self) -> Iterator[Figure]:
        yield self._count("NICs of a node", len(self.nics))
        yield self._count("GPUs next to a NIC", max(len(alongside) for alongside in self.nics))
        yield self.nic.figure("a NIC")
        yield self.pcie.figure(f"GPU to the NIC next to it ({self.pcie.name})")
        yield self.network_alpha.figure("NIC to NIC")

    def _count(self, quantity: str, count: int) -> Figure:
        return Figure(count, self.counts, self.counts_source, quantity)


def one_each(gpus: int) -> tuple[tuple[int, ...], ...]:
    """A NIC next to each GPU."""
    return tuple((gpu,) for gpu in range(gpus))


def full_mesh(gpus: int, count: int = 1) -> tuple[Bundle, ...]:
    """`count` links between any two GPUs."""
    return tuple((a, b, count) for a in range(gpus) for b in range(a + 1, gpus))


DGX_A100 = Box(
    gpus=8,
    link=NVLINK3,
    link_alpha=NVLINK_ALPHA,
    switch_links=12,
    nics=one_each(8),
    nic=NIC_200G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE4_X16,
    counts="vendor",
    counts_source="NVIDIA, DGX A100; links as in a dump of 8 A100",
)
DGX_H100 = replace(
    DGX_A100,
    link=NVLINK4,
    switch_links=18,
    nic=NIC_400G,
    pcie=PCIE5_X16,
    counts_source="NVIDIA, DGX H100; links as in a dump of 8 H100",
)
DGX_H200 = replace(DGX_H100, counts_source="NVIDIA, DGX H200; links as in a dump of 8 H200")
#: The H100 with fewer NVLinks.
HGX_H800 = replace(
    DGX_H100, switch_links=8, counts="dump", counts_source="NCCL topology of a machine of 8 H800"
)
DGX_B200 = replace(DGX_H100, link=NVLINK5, counts_source="NVIDIA, DGX B200")
#: A rack is one node here: 18 trays of 4 GPUs at one NVLink fabric, and a NIC for each GPU.
GB200_NVL72 = replace(
    DGX_B200,
    gpus=72,
    nics=one_each(72),
    counts_source="NVIDIA, GB200 NVL72: 18 trays of 4 GPUs and 4 ConnectX-7, as in a cluster's ibnetdiscover",
)


#: Two GPUs and a NIC under each of four PCIe switches.
P4D = replace(
    DGX_A100,
    nics=((0, 1), (2, 3), (4, 5), (6, 7)),
    nic=NIC_100G,
    network_alpha=EFA_P4D_ALPHA,
    counts="dump",
    counts_source="aws-ofi-nccl's topology file of p4d.24xlarge; NVLinks as DGX A100",
)
#: Two GPUs and two NICs under each of four PCIe switches: each GPU is next to both.
NDV4 = replace(
    DGX_A100,
    nics=((0, 1), (0, 1), (2, 3), (2, 3), (4, 5), (4, 5), (6, 7), (6, 7)),
    counts="dump",
    counts_source="Azure's topology file of ND A100 v4; NVLinks as DGX A100",
)
NDV5 = replace(DGX_H100, counts_source="Microsoft, ND H100 v5: 400 Gb/s InfiniBand for each GPU")


#: Pairs of GCDs of a node of 8 MI250X, by how many xGMI links join them; each GCD has 7. The wiring is not
#: regular: 8 GCDs have 3 neighbours and 8 have 4.
MI250X_PAIRS = {
    4: ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)),
    2: ((0, 4), (3, 7), (8, 12), (11, 15)),
    1: (
        *((0, 2), (1, 2), (1, 3), (1, 5), (2, 6), (4, 12), (5, 13), (5, 14)),
        *((6, 13), (6, 14), (7, 15), (8, 10), (9, 10), (9, 11), (9, 13), (10, 14)),
    ),
}

#: The two GCDs of a package share a NIC; each has half of a PCIe 4 x16 to itself.
MI250X = Box(
    gpus=16,
    link=XGMI_MI250X,
    link_alpha=XGMI_ALPHA,
    bundles=tuple((a, b, count) for count, pairs in MI250X_PAIRS.items() for a, b in pairs),
    nics=tuple((2 * nic, 2 * nic + 1) for nic in range(8)),
    nic=NIC_200G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE4_X8,
    counts="dump",
    counts_source="RCCL's topology of a machine of 8 MI250X",
)
MI300X = Box(
    gpus=8,
    link=XGMI_MI300X,
    link_alpha=XGMI_ALPHA,
    bundles=full_mesh(8),
    nics=one_each(8),
    nic=NIC_400G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE5_X16,
    counts="dump",
    counts_source="RCCL's topology of a machine of 8 MI300X",
)
MI350X = replace(MI300X, link=XGMI_MI350X, counts="vendor", counts_source="AMD, MI350X platform of 8")
