"""Boxes of GPUs that only PCIe joins: L40S servers, and any number of CPUs with GPUs at their root ports."""

from __future__ import annotations

from itertools import combinations

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.model.units import beta_from_bandwidth
from taccl.support.arguments import is_whole, shown
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies.devices import MAX_GPUS, Device
from taccl.topologies.generators import hop_cost
from taccl.topologies.machines.figures import Bandwidth, Figure
from taccl.topologies.machines.machine import Machine
from taccl.topologies.machines.parts import Parts, Wire, both_directions, counted, of_nodes
from taccl.topologies.machines.rates import (
    BETWEEN_CPUS_ALPHA,
    BETWEEN_INTEL_SPR,
    NETWORK_ALPHA,
    NIC_200G,
    PCIE4_X16,
    PCIE4_X16_INTEL,
    PCIE_ALPHA,
)
from taccl.topologies.model import PhysicalTopology

_L40S_COUNTS = "NVIDIA's 2-8-5 design: 2 CPUs, 8 GPUs, 5 NICs, one of them not for GPUs"


def l40s(name: str, nodes: int, bandwidth: Bandwidth) -> PhysicalTopology:
    """8 L40S: two CPUs with two PCIe switches each, and two GPUs and a NIC at each switch.

    The two GPUs of a switch share its way up to the CPU, and their NIC's port. PCIe's alpha is from GPU to
    GPU, half at each; a network's is from NIC to NIC, so the halves of both GPUs come to it.
    """
    below, up, between, port = (
        beta_from_bandwidth(rate.of(bandwidth))
        for rate in (PCIE4_X16, PCIE4_X16_INTEL, BETWEEN_INTEL_SPR, NIC_200G)
    )
    wires: list[Wire] = [(f"gpu{gpu}", f"pcie{gpu // 2}", PCIE_ALPHA.us / 2, below) for gpu in range(8)]
    for switch in range(4):
        wires.append((f"pcie{switch}", f"cpu{switch // 2}", 0.0, up))
        wires.append((f"pcie{switch}", f"nic{switch}", 0.0, below))
    wires.append(("cpu0", "cpu1", BETWEEN_CPUS_ALPHA.us, between))
    parts: Parts = {
        "gpu": counted("gpu", 8),
        "pcie": counted("cpu", 2) + counted("pcie", 4),
        "nic": counted("nic", 4),
    }
    return of_nodes(name, nodes, parts, wires, (NETWORK_ALPHA.us, port))


L40S_FIGURES = (
    Figure(8, "vendor", _L40S_COUNTS, "GPUs of a node"),
    Figure(2, "assumed", "as in a dump of 16 L20", "GPUs at a PCIe switch"),
    PCIE4_X16.figure("GPU to its PCIe switch"),
    PCIE4_X16_INTEL.figure("PCIe switch to CPU"),
    BETWEEN_INTEL_SPR.figure("CPU to CPU"),
    PCIE_ALPHA.figure("GPU to GPU at one CPU"),
    BETWEEN_CPUS_ALPHA.figure("more between CPUs"),
    Figure(4, "vendor", _L40S_COUNTS, "NICs of a node"),
    Figure(2, "assumed", "as in a dump of 16 L20", "GPUs next to a NIC"),
    Figure(NIC_200G.gbps, "assumed", "200 Gb/s / 8", "a NIC", "GB/s"),
    NETWORK_ALPHA.figure("NIC to NIC"),
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
    "l40s": Machine(
        l40s,
        "8 NVIDIA L40S on PCIe 4: 2 CPUs, 2 GPUs and a NIC of 200 Gb/s at each of 4 switches",
        *("vendor", "NVIDIA's 2-8-5 design", L40S_FIGURES),
    ),
}
