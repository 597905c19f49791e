"""Which constants stand for a link of a dump where neither it nor a measurement tells speed or latency.

GB/s are per link and direction; microseconds are of one hop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from taccl.topologies.importers.nodes.facts import Cpu, LinkKind
from taccl.topologies.machines import rates
from taccl.topologies.machines.figures import Bandwidth, Rate

NCCL_SOURCE = "NCCL 2.30.7 / RCCL constants"
PEAK_SOURCE = "vendor's figure"


def rate_source(rate: Rate, bandwidth: Bandwidth) -> str:
    """Where the number of a rate is from, and the other one next to it."""
    name = f"{rate.name} ({rate.gpus})" if rate.gpus else rate.name
    if bandwidth == "nccl":
        return f"{name}: {NCCL_SOURCE}; {PEAK_SOURCE} {rate.peak_gbps:g}"
    return f"{name}: {PEAK_SOURCE}; {NCCL_SOURCE} {rate.gbps:g}"


def link_rate(kind: LinkKind, arch: str | None) -> Rate | None:
    """The links of an architecture such as `sm90` or `gfx942`; None of one that is not known here."""
    if kind == "xgmi":
        return rates.XGMI.get(arch or "")
    match = re.fullmatch(r"sm(\d{2,3})", arch or "")
    if kind != "nvlink" or match is None:
        return None
    sm = int(match[1])
    if sm in (86, 87, 89):
        return rates.NVLINK_BRIDGE
    for least, rate in (
        (100, rates.NVLINK5),
        (90, rates.NVLINK4),
        (80, rates.NVLINK3),
        (70, rates.NVLINK2),
        (60, rates.NVLINK1),
    ):
        if sm >= least:
            return rate
    return None


def summing_rate(arch: str | None) -> Rate | None:
    """NVLinks through the sums and copies of NVSwitches; None of those before Hopper's, which have none.

    A dump has the GPUs of a node: where these are a tray of a rack, the figure of eight GPUs is theirs, too.
    """
    if link_rate("nvlink", arch) is rates.NVLINK4:
        return rates.NVLS4
    if link_rate("nvlink", arch) is rates.NVLINK5:
        return rates.NVLS5
    return None


#: Where neither architecture nor speed is reported: the links that most machines without a name have.
UNKNOWN_LINK: dict[LinkKind, Rate] = {
    "nvlink": rates.NVLINK3,
    "xgmi": rates.XGMI_MI250X,
    "pcie": rates.PCIE3_X16,
}

#: PCIe by NCCL's figure -> the vendor's, GB/s.
_PCIE_PEAK = {
    rate.gbps: rate.peak_gbps
    for rate in (rates.PCIE3_X8, rates.PCIE3_X16, rates.PCIE4_X16, rates.PCIE5_X16, rates.PCIE6_X16)
}
#: What NCCL takes for a PCIe link that is not stated: x16 of generation 3.
UNKNOWN_PCIE_GBPS = rates.PCIE3_X16.gbps
_PCIE_PEAK_PER_NCCL = rates.PCIE5_X16.peak_gbps / rates.PCIE5_X16.gbps

#: Of a PCIe link, what NCCL takes GPUs to get where their data passes an Intel CPU.
INTEL_SHARE = 5 / 6


def pcie_peak_gbps(nccl_gbps: float) -> float:
    """The vendor's figure for a PCIe link that NCCL takes for `nccl_gbps`, of any width."""
    return _PCIE_PEAK.get(nccl_gbps, nccl_gbps * _PCIE_PEAK_PER_NCCL)


#: What a NIC is taken for that no dump has a speed of.
UNKNOWN_NIC_GBPS = rates.NIC_200G.gbps
UNKNOWN_NIC_SOURCE = "200 Gb/s; no file here tells the speed of a NIC"


def cpu_gbps(cpu: Cpu | None) -> tuple[float, str]:
    """What passes from one CPU to another, GB/s each way, and the source.

    NCCL's constants: they depend on the vendor and, of Intel, on family and model.
    """
    rate = rates.BETWEEN_UNKNOWN_CPUS if cpu is None else _between(cpu)
    return rate.gbps, f"between CPUs, {rate.name}: {NCCL_SOURCE}"


def _between(cpu: Cpu) -> Rate:
    arch, vendor = cpu.arch or "", (cpu.vendor or "").strip()
    if arch.startswith("ppc"):
        return rates.BETWEEN_POWER9
    if arch in ("arm64", "aarch64"):
        return rates.BETWEEN_ARM
    if vendor == "GenuineIntel":
        model = cpu.model if cpu.family == 6 and cpu.model is not None else 0
        return next(rate for least, rate in rates.BETWEEN_INTEL if model >= least)
    return rates.BETWEEN_CPUS_OF.get(vendor, rates.BETWEEN_UNKNOWN_CPUS)


Protocol = Literal["LL", "LL128", "Simple"]
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")


@dataclass(frozen=True)
class Alphas:
    """Microseconds of a hop: from GPU to GPU over NVLink or xGMI, over PCIe, and from NIC to NIC."""

    link_us: float
    pcie_us: float
    network_us: float
    link_source: str
    pcie_source: str
    network_source: str
    #: Added between CPUs.
    cpu_us: float = rates.BETWEEN_CPUS_ALPHA.us
    cpu_source: str = "an assumption of this program"


def alphas(protocol: Protocol | None) -> Alphas:
    """The latencies of a hop, as NCCL has them for a protocol, or those of a small message."""
    if protocol is None:
        return Alphas(
            *(rates.NVLINK_ALPHA.us, rates.PCIE_ALPHA.us, rates.NETWORK_ALPHA.us),
            f"NVLink and xGMI: {rates.NVLINK_ALPHA.source}",
            "PCIe: NCCL's LL ring",
            "network: NCCL's LL ring",
        )
    link, pcie, network = rates.RING_ALPHAS[protocol]
    source = f"NCCL's {protocol} ring"
    return Alphas(link, pcie, network, source, source, source)
