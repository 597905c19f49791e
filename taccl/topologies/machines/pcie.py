"""GPUs as PCIe cards: servers of 8, bridged in pairs or not, and CPUs with any number at their root ports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.model.units import beta_from_bandwidth
from taccl.support.arguments import is_whole, shown
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies.devices import MAX_GPUS, Device
from taccl.topologies.generators import hop_cost
from taccl.topologies.machines.figures import Bandwidth, Figure, How, Rate
from taccl.topologies.machines.machine import Machine
from taccl.topologies.machines.parts import Parts, Wire, both_directions, counted, of_nodes
from taccl.topologies.machines.rates import (
    BETWEEN_CPUS_ALPHA,
    BETWEEN_INTEL_SPR,
    NETWORK_ALPHA,
    NIC_200G,
    NIC_400G,
    NVLINK3,
    NVLINK4,
    NVLINK_ALPHA,
    PCIE4_X16,
    PCIE4_X16_INTEL,
    PCIE5_X16,
    PCIE5_X16_INTEL,
    PCIE_ALPHA,
)
from taccl.topologies.model import PhysicalTopology

_DESIGN = "NVIDIA's 2-8-5 design: 2 CPUs, 8 GPUs, 5 NICs, one of them not for GPUs"


@dataclass(frozen=True)
class PairedBox:
    """8 GPUs as cards: two CPUs with two PCIe switches each, and two GPUs and a NIC at each switch.

    The two GPUs of a switch share its way up to the CPU, and their NIC's port. PCIe's alpha is from GPU to
    GPU, half at each; a network's is from NIC to NIC, so the halves of both GPUs come to it.

    Parameters
    ----------
    gpu : the model of its GPUs.
    below, up : PCIe of a GPU and of a NIC, and from a switch to its CPU.
    nic, nic_how, nic_source : a NIC's port, and how it is known.
    bridge, bridge_links, bridge_source : joins the two GPUs of a switch directly; None: nothing does.
    """

    gpu: str
    below: Rate
    up: Rate
    nic: Rate
    nic_how: How
    nic_source: str
    bridge: Rate | None = None
    bridge_links: int = 0
    bridge_source: str = ""

    def build(self, name: str, nodes: int, bandwidth: Bandwidth) -> PhysicalTopology:
        """The machine of `nodes` such nodes, whose NICs one fabric joins.

        Raises
        ------
        TopologyError : no number of nodes, or more GPUs than a machine may have.
        """
        below, up, between, port = (
            beta_from_bandwidth(rate.of(bandwidth))
            for rate in (self.below, self.up, BETWEEN_INTEL_SPR, self.nic)
        )
        wires: list[Wire] = [(f"gpu{gpu}", f"pcie{gpu // 2}", PCIE_ALPHA.us / 2, below) for gpu in range(8)]
        for switch in range(4):
            wires.append((f"pcie{switch}", f"cpu{switch // 2}", 0.0, up))
            wires.append((f"pcie{switch}", f"nic{switch}", 0.0, below))
            if self.bridge is not None:
                bridged = beta_from_bandwidth(self.bridge_links * self.bridge.of(bandwidth))
                wires.append((f"gpu{2 * switch}", f"gpu{2 * switch + 1}", NVLINK_ALPHA.us, bridged))
        wires.append(("cpu0", "cpu1", BETWEEN_CPUS_ALPHA.us, between))
        parts: Parts = {
            "gpu": counted("gpu", 8),
            "pcie": counted("cpu", 2) + counted("pcie", 4),
            "nic": counted("nic", 4),
        }
        return of_nodes(name, nodes, parts, wires, (NETWORK_ALPHA.us, port), gpu=self.gpu)

    def figures(self) -> tuple[Figure, ...]:
        """All numbers of the machine that `build` makes, each with its source."""
        bridges: tuple[Figure, ...] = ()
        if self.bridge is not None:
            bridges = (
                Figure(self.bridge_links, "vendor", self.bridge_source, "NVLinks of the bridge of two GPUs"),
                self.bridge.figure("the two GPUs of a bridge", self.bridge_links),
                NVLINK_ALPHA.figure("the two GPUs of a bridge"),
            )
        return (
            Figure(8, "vendor", _DESIGN, "GPUs of a node"),
            *bridges,
            Figure(2, "assumed", "as in a dump of 16 L20", "GPUs at a PCIe switch"),
            self.below.figure("GPU to its PCIe switch"),
            self.up.figure("PCIe switch to CPU"),
            BETWEEN_INTEL_SPR.figure("CPU to CPU"),
            PCIE_ALPHA.figure("GPU to GPU at one CPU"),
            BETWEEN_CPUS_ALPHA.figure("more between CPUs"),
            Figure(4, "vendor", _DESIGN, "NICs of a node"),
            Figure(2, "assumed", "as in a dump of 16 L20", "GPUs next to a NIC"),
            Figure(self.nic.gbps, self.nic_how, self.nic_source, "a NIC", "GB/s"),
            NETWORK_ALPHA.figure("NIC to NIC"),
        )

    def machine(self, summary: str, source: str) -> Machine:
        """A row of the catalogue: any number of such nodes."""
        return Machine(self.build, summary, "vendor", source, self.figures())


L40S = PairedBox("L40S", PCIE4_X16, PCIE4_X16_INTEL, NIC_200G, "assumed", "200 Gb/s / 8")
A100_PCIE = replace(
    L40S,
    gpu="A100",
    bridge=NVLINK3,
    bridge_links=12,
    bridge_source="NVIDIA, A100 PCIe: 600 GB/s over three bridges, both directions; 12 links in two dumps",
)
H100_NVL = PairedBox(
    *(
        "H100",
        PCIE5_X16,
        PCIE5_X16_INTEL,
        NIC_400G,
        "vendor",
        "NVIDIA's 2-8-5-200 design: 200 Gb/s for each GPU",
    ),
    *(NVLINK4, 12, "NVIDIA, H100 NVL: 600 GB/s over three bridges, both directions, so 12 links"),
)


def pcie_box(
    cpus: int,
    gpus: int,
    *,
    alpha_us: float = PCIE_ALPHA.us,
    beta_us_per_mb: float | None = None,
    bandwidth_gbps: float | None = None,
    occupancy: Occupancy = "serial",
) -> PhysicalTopology:
    """CPUs that are all joined, each with as many GPUs at its root ports; GPUs of one CPU share nothing else.

    Parameters
    ----------
    gpus : at each CPU.
    alpha_us : from GPU to GPU at one CPU; between CPUs 0.5 more.
    beta_us_per_mb, bandwidth_gbps : of a GPU's PCIe link; by default 20 GB/s, PCIe 4 x16 through an Intel
        CPU. CPU to CPU are 22 GB/s.

    Raises
    ------
    TopologyError : fewer than 2 GPUs or too many, a cost that is not finite and positive.
    """
    if not (is_whole(cpus) and is_whole(gpus) and cpus >= 1 and gpus >= 1 and cpus * gpus >= 2):
        raise TopologyError(
            f"a PCIe box has CPUs and GPUs at each, not 'pcie:{shown(cpus)}x{shown(gpus)}'", hint="pcie:2x4"
        )
    if cpus * gpus > MAX_GPUS:
        raise TopologyError(f"pcie takes 2 to {MAX_GPUS} GPUs, not {shown(cpus * gpus)}")
    if cpus * (cpus - 1) > MAX_LINKS:
        raise TopologyError(f"pcie:{cpus}x{gpus} is too large to build", hint="fewer CPUs: pcie:2x4")
    if beta_us_per_mb is None and bandwidth_gbps is None:
        bandwidth_gbps = PCIE4_X16_INTEL.gbps
    alpha, beta = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
    devices = [Device(f"gpu{gpu}", "gpu", 0, gpu) for gpu in range(cpus * gpus)]
    devices += [Device(f"cpu{cpu}", "pcie", 0, cpu) for cpu in range(cpus)]
    links = [
        link
        for gpu in range(cpus * gpus)
        for link in both_directions(f"gpu{gpu}", f"cpu{gpu // gpus}", alpha / 2, beta)
    ]
    between = beta_from_bandwidth(BETWEEN_INTEL_SPR.gbps)
    for a, b in combinations(range(cpus), 2):
        links += both_directions(f"cpu{a}", f"cpu{b}", BETWEEN_CPUS_ALPHA.us, between)
    return PhysicalTopology(f"pcie:{cpus}x{gpus}", tuple(devices), tuple(links), occupancy)


PCIE_BOX_FIGURES = (
    PCIE4_X16_INTEL.figure("GPU to its CPU, unless given"),
    BETWEEN_INTEL_SPR.figure("CPU to CPU"),
    PCIE_ALPHA.figure("GPU to GPU at one CPU, unless given"),
    BETWEEN_CPUS_ALPHA.figure("more between CPUs"),
)

MACHINES = {
    "l40s": L40S.machine(
        "8 NVIDIA L40S on PCIe 4: 2 CPUs, 2 GPUs and a NIC of 200 Gb/s at each of 4 switches",
        "NVIDIA's 2-8-5 design",
    ),
    "a100-pcie": A100_PCIE.machine(
        "8 A100 cards on PCIe 4, joined in pairs by NVLink bridges; the rest as l40s",
        "NVIDIA; bridges as in a dump",
    ),
    "h100-nvl": H100_NVL.machine(
        "8 H100 NVL cards on PCIe 5, joined in pairs by NVLink bridges, a NIC of 400 Gb/s for each pair",
        "NVIDIA",
    ),
}
