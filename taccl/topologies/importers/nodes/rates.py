"""Which constants stand for a link of a dump where neither it nor a measurement tells speed or latency.

GB/s are per link and direction; microseconds are of one hop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from taccl.topologies.importers.nodes.facts import Cpu, LinkKind
from taccl.topologies.machines.figures import Bandwidth, Rate
from taccl.topologies.machines.rates import (
    BETWEEN_ARM,
    BETWEEN_CPUS_ALPHA,
    BETWEEN_CPUS_OF,
    BETWEEN_INTEL,
    BETWEEN_POWER9,
    BETWEEN_UNKNOWN_CPUS,
    NETWORK_ALPHA,
    NIC_200G,
    NVLINK1,
    NVLINK2,
    NVLINK3,
    NVLINK4,
    NVLINK5,
    NVLINK_ALPHA,
    NVLINK_BRIDGE,
    PCIE3_X8,
    PCIE3_X16,
    PCIE4_X16,
    PCIE5_X16,
    PCIE6_X16,
    PCIE_ALPHA,
    RING_ALPHAS,
    XGMI_MI50,
    XGMI_MI250X,
    XGMI_MI300X,
    XGMI_MI350X,
)

NCCL_SOURCE = "NCCL 2.30.7 / RCCL constants"
PEAK_SOURCE = "vendor's figure"

_XGMI = {
    **dict.fromkeys(("gfx906", "gfx908"), XGMI_MI50),
    "gfx90a": XGMI_MI250X,
    **dict.fromkeys(("gfx940", "gfx941", "gfx942"), XGMI_MI300X),
    "gfx950": XGMI_MI350X,
}

#: Words of product names -> architecture, the longer names first where one holds another.
_MODELS: tuple[tuple[str, str], ...] = (
    # PCI device ids, which stand where a tool knows no name.
    (r"\b(?:0x)?(?:74a[0-9a-f]|74b[0-9a-f])\b", "gfx942"),
    (r"\b(?:0x)?740[8cf]\b", "gfx90a"),
    (r"\b(?:0x)?738[ce]\b", "gfx908"),
    (r"\b(?:0x)?66a[0-7]\b", "gfx906"),
    (r"\bG?B[123]00\b", "sm100"),
    (r"\bGH200\b|\bH[128]00\b|\bH20\b", "sm90"),
    (r"\bA100\b|\bA800\b|\bA30\b", "sm80"),
    (r"\bV100S?\b|\bGV100\b", "sm70"),
    (r"\bP100\b", "sm60"),
    (r"\bL[24]0S?\b|\bL4\b|\bRTX 6000 Ada\b|\bRTX 40\d0\b", "sm89"),
    (r"\bA10G?\b|\bA40\b|\bA16\b|\bRTX A\d000\b|\bRTX 30\d0\b|\bA6000\b", "sm86"),
    (r"\bT4\b|\bTITAN RTX\b|\bRTX 20\d0\b|\bQuadro RTX \d000\b", "sm75"),
    (r"\bMI35\dX?\b", "gfx950"),
    (r"\bMI3[02]\d[AX]?\b", "gfx942"),
    (r"\bMI2[15]0X?\b", "gfx90a"),
    (r"\bMI100\b", "gfx908"),
    (r"\bMI[56]0\b", "gfx906"),
)

#: How many NVLinks a GPU has -> the generation that has this many.
_NVLINK_BY_COUNT = {4: "sm60", 6: "sm70", 8: "sm80", 12: "sm80", 18: "sm90"}
#: Numbers that later generations have too: what is taken, and what it could be.
NVLINKS_OF_SEVERAL = {18: ("Hopper", "Blackwell")}
#: The same where all of them lead to one other GPU: boards spread a P100's four, bridges join pairs of cards.
_NVLINK_OF_PAIRS = {4: "sm86"}
#: Eight GPUs that all have xGMI links to each other; those before the MI300 had links to fewer others.
_XGMI_NEIGHBOURS_SINCE_MI300 = 7


def arch_of_model(model: str) -> str | None:
    """`NVIDIA A100-SXM4-80GB` -> sm80; None of a product that is not known here."""
    return next((arch for words, arch in _MODELS if re.search(words, model, re.IGNORECASE)), None)


def arch_by_count(count: int, *, in_pairs: bool = False) -> str | None:
    """The generation whose GPUs have this many NVLinks; None where no generation has.

    `in_pairs`: all of a GPU's links lead to one other GPU.
    """
    return (in_pairs and _NVLINK_OF_PAIRS.get(count)) or _NVLINK_BY_COUNT.get(count)


def arch_by_neighbours(count: int) -> str | None:
    """The first generation whose GPUs have xGMI to this many others; None where several have."""
    return "gfx942" if count >= _XGMI_NEIGHBOURS_SINCE_MI300 else None


def rate_source(rate: Rate, bandwidth: Bandwidth) -> str:
    """Where the number of a rate is from, and the other one next to it."""
    name = f"{rate.name} ({rate.gpus})" if rate.gpus else rate.name
    if bandwidth == "nccl":
        return f"{name}: {NCCL_SOURCE}; {PEAK_SOURCE} {rate.peak_gbps:g}"
    return f"{name}: {PEAK_SOURCE}; {NCCL_SOURCE} {rate.gbps:g}"


def link_rate(kind: LinkKind, arch: str | None) -> Rate | None:
    """The links of an architecture such as `sm90` or `gfx942`; None of one that is not known here."""
    if kind == "xgmi":
        return _XGMI.get(arch or "")
    match = re.fullmatch(r"sm(\d{2,3})", arch or "")
    if kind != "nvlink" or match is None:
        return None
    sm = int(match[1])
    if sm in (86, 87, 89):
        return NVLINK_BRIDGE
    for least, rate in ((100, NVLINK5), (90, NVLINK4), (80, NVLINK3), (70, NVLINK2), (60, NVLINK1)):
        if sm >= least:
            return rate
    return None


#: Where neither architecture nor speed is reported: the links that most machines without a name have.
UNKNOWN_LINK: dict[LinkKind, Rate] = {"nvlink": NVLINK3, "xgmi": XGMI_MI250X, "pcie": PCIE3_X16}

#: PCIe by NCCL's figure -> the vendor's, GB/s.
_PCIE_PEAK = {rate.gbps: rate.peak_gbps for rate in (PCIE3_X8, PCIE3_X16, PCIE4_X16, PCIE5_X16, PCIE6_X16)}
#: What NCCL takes for a PCIe link that is not stated: x16 of generation 3.
UNKNOWN_PCIE_GBPS = PCIE3_X16.gbps
_PCIE_PEAK_PER_NCCL = PCIE5_X16.peak_gbps / PCIE5_X16.gbps

#: Of a PCIe link, what NCCL takes GPUs to get where their data passes an Intel CPU.
INTEL_SHARE = 5 / 6


def pcie_peak_gbps(nccl_gbps: float) -> float:
    """The vendor's figure for a PCIe link that NCCL takes for `nccl_gbps`, of any width."""
    return _PCIE_PEAK.get(nccl_gbps, nccl_gbps * _PCIE_PEAK_PER_NCCL)


#: What a NIC is taken for that no dump has a speed of.
UNKNOWN_NIC_GBPS = NIC_200G.gbps
UNKNOWN_NIC_SOURCE = "200 Gb/s; no file here tells the speed of a NIC"


def cpu_gbps(cpu: Cpu | None) -> tuple[float, str]:
    """What passes from one CPU to another, GB/s each way, and the source.

    NCCL's constants: they depend on the vendor and, of Intel, on family and model.
    """
    rate = BETWEEN_UNKNOWN_CPUS if cpu is None else _between(cpu)
    return rate.gbps, f"between CPUs, {rate.name}: {NCCL_SOURCE}"


def _between(cpu: Cpu) -> Rate:
    arch, vendor = cpu.arch or "", (cpu.vendor or "").strip()
    if arch.startswith("ppc"):
        return BETWEEN_POWER9
    if arch in ("arm64", "aarch64"):
        return BETWEEN_ARM
    if vendor == "GenuineIntel":
        model = cpu.model if cpu.family == 6 and cpu.model is not None else 0
        return next(rate for least, rate in BETWEEN_INTEL if model >= least)
    return BETWEEN_CPUS_OF.get(vendor, BETWEEN_UNKNOWN_CPUS)


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
    cpu_us: float = BETWEEN_CPUS_ALPHA.us
    cpu_source: str = "an assumption of this program"


def alphas(protocol: Protocol | None) -> Alphas:
    """The latencies of a hop, as NCCL has them for a protocol, or those of a small message."""
    if protocol is None:
        return Alphas(
            *(NVLINK_ALPHA.us, PCIE_ALPHA.us, NETWORK_ALPHA.us),
            "NVLink and xGMI: TACCL's paper",
            "PCIe: NCCL's LL ring",
            "network: NCCL's LL ring",
        )
    link, pcie, network = RING_ALPHAS[protocol]
    source = f"NCCL's {protocol} ring"
    return Alphas(link, pcie, network, source, source, source)
