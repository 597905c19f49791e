"""What a link of each kind moves and how late it delivers, where nothing was measured.

The one table of such constants: the catalogue and imported dumps take theirs from here. Rates are those that
NCCL 2.30.7 and RCCL count on for their kernels, with the vendor's next to them.
"""

from __future__ import annotations

from taccl.topologies.machines.figures import Alpha, Rate

_NCCL, _RCCL = "NCCL 2.30.7's constant", "RCCL's constant"

NVLINK1 = Rate("NVLink 1", 18.0, 20.0, "library", _NCCL, "P100")
NVLINK2 = Rate("NVLink 2", 20.0, 25.0, "library", _NCCL, "V100")
NVLINK3 = Rate("NVLink 3", 20.0, 25.0, "library", _NCCL, "A100")
NVLINK_BRIDGE = Rate("NVLink bridge", 12.0, 14.0, "library", _NCCL, "sm86")
NVLINK4 = Rate("NVLink 4", 20.6, 25.0, "library", _NCCL, "H100, H200, H20, H800, GH200")
NVLINK5 = Rate("NVLink 5", 40.1, 50.0, "library", _NCCL, "B200, B300, GB200, GB300")

#: From which compute capability on GPUs have them; sm86, sm87 and sm89 have bridges in their place.
NVLINKS = ((100, NVLINK5), (90, NVLINK4), (80, NVLINK3), (70, NVLINK2), (60, NVLINK1))

#: What kernels get of one NVLink, each way, where the NVSwitch sums and copies (`multimem`): less than from
#: GPU to GPU. Of the fastest AllReduces that were published: S bytes of n GPUs are S (1 + 1/n) each way.
NVLS4 = Rate(
    *("NVLink 4 with sums in the switch", 17.3, 25.0, "inferred"),
    "8 H800 with NVLS, busbw 215 GB/s (nccl#1374): 215 / 1.75 x 9/8 / 8 links; H100 17.1-17.2 (nccl#1455)",
    "H100, H200, H20, H800",
)
NVLS5 = Rate(
    *("NVLink 5 with sums in the switch", 30.2, 50.0, "inferred"),
    "8 B200 with NVLS, busbw 843 GB/s (nccl-tests, NCCL 2.30): 843 / 1.75 x 9/8 / 18 links",
    "B200, B300",
)
#: Of all 72 GPUs of a rack. Fewer get more: 8 of them were measured at busbw 811 GB/s, which is 29.0 a link
#: (lixueduan.com, GB200 MNNVL), so whoever has a part of a rack takes the rate above.
NVLS5_RACK = Rate(
    *("NVLink 5 with sums in the rack's switches", 24.2, 50.0, "inferred"),
    "72 GB200 with NVLS, algbw 429 GB/s (coreweave/nccl-tests#43): 429 x 73/72 / 18 links",
    "GB200, GB300",
)

XGMI_MI50 = Rate("xGMI", 24.0, 46.0, "library", _RCCL, "MI50, MI100")
XGMI_MI250X = Rate("xGMI", 36.0, 50.0, "library", _RCCL, "MI250X")
XGMI_MI300X = Rate("xGMI", 48.0, 64.0, "library", _RCCL, "MI300X")
XGMI_MI350X = Rate(
    *("xGMI", 51.6, 77.0, "inferred"),
    "8 MI350X, AllReduce of 8 GB in 41644 us (ROCm/system-acceptance-docs): busbw 361 / 7 links",
    "MI350X",
)
#: By the architecture of their GPUs.
XGMI = {
    **dict.fromkeys(("gfx906", "gfx908"), XGMI_MI50),
    "gfx90a": XGMI_MI250X,
    **dict.fromkeys(("gfx940", "gfx941", "gfx942"), XGMI_MI300X),
    "gfx950": XGMI_MI350X,
}

NEURONLINK3 = Rate(
    *("NeuronLink-v3", 128.0, 128.0, "vendor"),
    "AWS: 1024 GB/s of a chip in its instance / 4 links / 2 directions",
    "Trainium 2",
)

PCIE3_X8 = Rate("PCIe 3 x8", 6.0, 8.0, "library", _NCCL)
PCIE3_X16 = Rate("PCIe 3 x16", 12.0, 15.75, "library", _NCCL)
PCIE4_X8 = Rate("PCIe 4 x8", 12.0, 15.75, "library", _RCCL)
PCIE4_X16 = Rate("PCIe 4 x16", 24.0, 31.5, "library", _NCCL)
PCIE5_X16 = Rate("PCIe 5 x16", 48.0, 63.0, "library", _NCCL)
PCIE6_X16 = Rate("PCIe 6 x16", 96.0, 121.0, "library", _NCCL)
PCIE = (PCIE3_X8, PCIE3_X16, PCIE4_X16, PCIE5_X16, PCIE6_X16)
#: What NCCL counts on where GPUs of an Intel machine reach each other through the CPU: 5/6 of PCIe.
PCIE4_X16_INTEL = Rate("PCIe 4 x16 through an Intel CPU", 20.0, 31.5, "library", "NCCL 2.30.7: 5/6 of 24")
PCIE5_X16_INTEL = Rate("PCIe 5 x16 through an Intel CPU", 40.0, 63.0, "library", "NCCL 2.30.7: 5/6 of 48")
BETWEEN_INTEL_SPR = Rate("Intel Sapphire Rapids", 22.0, 22.0, "library", _NCCL)
BETWEEN_POWER9 = Rate("POWER9", 32.0, 32.0, "library", _NCCL)
BETWEEN_ARM = Rate("ARM", 6.0, 6.0, "library", _NCCL)
_BETWEEN_ZHAOXIN = Rate("Zhaoxin", 6.0, 6.0, "library", _NCCL)
#: Other CPUs by their vendor, as cpuid has it.
BETWEEN_CPUS_OF = {
    "AuthenticAMD": Rate("AMD", 16.0, 16.0, "library", _NCCL),
    "CentaurHauls": _BETWEEN_ZHAOXIN,
    "Shanghai": _BETWEEN_ZHAOXIN,
}
#: Intel's CPUs, from which model of family 6 on.
BETWEEN_INTEL = (
    (0xCF, Rate("Intel Emerald Rapids", 40.0, 40.0, "library", _NCCL)),
    (0x8F, BETWEEN_INTEL_SPR),
    (0x55, Rate("Intel Skylake", 10.0, 10.0, "library", _NCCL)),
    (0, Rate("Intel Broadwell", 6.0, 6.0, "library", _NCCL)),
)
BETWEEN_UNKNOWN_CPUS = Rate("CPUs that are not stated, as of Intel Skylake", 10.0, 10.0, "library", _NCCL)

#: The line rate of a NIC: bits per second over 8, which is what NCCL counts on, too.
NIC_100G = Rate("100 Gb/s", 12.5, 12.5, "vendor", "100 Gb/s / 8")
NIC_200G = Rate("200 Gb/s", 25.0, 25.0, "vendor", "200 Gb/s / 8")
NIC_400G = Rate("400 Gb/s", 50.0, 50.0, "vendor", "400 Gb/s / 8")
NIC_800G = Rate("800 Gb/s", 100.0, 100.0, "vendor", "800 Gb/s / 8")
#: Several cards of a GPU, which the library's plugin stripes every message over, and so shows as one.
NIC_4X100G = Rate("4 x 100 Gb/s", 50.0, 50.0, "vendor", "4 x 100 Gb/s / 8, used as one")
NIC_2X200G = Rate("2 x 200 Gb/s", 50.0, 50.0, "vendor", "2 x 200 Gb/s / 8, used as one")
NIC_2X400G = Rate("2 x 400 Gb/s", 100.0, 100.0, "vendor", "2 x 400 Gb/s / 8, used as one")

NVLINK_ALPHA = Alpha(
    *(0.7, "assumed"),
    "measured on V100s only (the paper of TACCL; its files have 0.3); NCCL 2.30.7 has 0.6 with LL",
)
XGMI_ALPHA = Alpha(0.7, "assumed", "as NVLink, measured on V100s only")
NEURONLINK_ALPHA = Alpha(0.7, "assumed", "as NVLink; AWS publishes none")
PCIE_ALPHA = Alpha(1.0, "library", "NCCL 2.30.7, LL")
BETWEEN_CPUS_ALPHA = Alpha(0.5, "assumed", "added where a way passes both CPUs")
NETWORK_ALPHA = Alpha(
    *(2.7, "library"),
    "NCCL 2.30.7, LL ring; others measured 1.7-2.6 (TACCL, V100s), 2.1-3.3 (OSU, A100s of ABCI)",
)
#: Microseconds of a hop in NCCL's rings by protocol: over NVLink, over PCIe, from NIC to NIC.
RING_ALPHAS = {"LL": (0.6, 1.0, 2.7), "LL128": (1.9, 2.5, 4.0), "Simple": (3.4, 5.7, 14.0)}
LEVEL_ALPHA = Alpha(0.5, "assumed", "two more switches and their cables, 0.25 us each; ours")
SLINGSHOT_ALPHA = Alpha(0.35, "assumed", "as De Sensi et al. (SC 2020) measured a Slingshot switch")
#: What aws-ofi-nccl's tuner counts on for EFA.
EFA_P4D_ALPHA = Alpha(20.0, "library", "aws-ofi-nccl's tuner, p4d")
EFA_P5_ALPHA = Alpha(18.0, "library", "aws-ofi-nccl's tuner, p5")
EFA_ALPHA = Alpha(18.0, "assumed", "as aws-ofi-nccl's tuner has it of p5")
TCPXO_ALPHA = Alpha(
    *(49.3, "inferred"),
    "8 B AllReduce of 2 x 8 H100, 2 hops: (123 us in a log of a3-mega - 29.8 over InfiniBand) / 2 + 2.7",
)
