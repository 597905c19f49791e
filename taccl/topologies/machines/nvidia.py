"""NVIDIA's machines with NVLinks: DGX and HGX nodes of 8 GPUs, racks of 72, and 4 GH200 without a switch."""

from __future__ import annotations

from dataclasses import replace

from taccl.topologies.machines.boxes import Box, full_mesh, one_each
from taccl.topologies.machines.rates import (
    NETWORK_ALPHA,
    NIC_200G,
    NIC_400G,
    NIC_800G,
    NVLINK3,
    NVLINK4,
    NVLINK5,
    NVLINK_ALPHA,
    NVLS4,
    NVLS5,
    NVLS5_RACK,
    PCIE4_X16,
    PCIE5_X16,
    PCIE6_X16,
)

DGX_A100 = Box(
    gpu="A100",
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
    gpu="H100",
    link=NVLINK4,
    switch_links=18,
    switch_sums=NVLS4,
    nic=NIC_400G,
    pcie=PCIE5_X16,
    counts_source="NVIDIA, DGX H100; links as in a dump of 8 H100",
)
DGX_H200 = replace(DGX_H100, gpu="H200", counts_source="NVIDIA, DGX H200; links as in a dump of 8 H200")
#: The H100 with fewer NVLinks.
HGX_H800 = replace(
    DGX_H100, gpu="H800", switch_links=8, counts="dump", counts_source="NCCL topology of a machine of 8 H800"
)
HGX_H20 = replace(
    DGX_H100,
    gpu="H20",
    counts_source="NVIDIA, HGX H20: 900 GB/s of NVLink a GPU, as H100; NICs as of HGX H800",
)
DGX_B200 = replace(DGX_H100, gpu="B200", link=NVLINK5, switch_sums=NVLS5, counts_source="NVIDIA, DGX B200")
DGX_B300 = replace(
    DGX_B200,
    gpu="B300",
    nic=NIC_800G,
    pcie=PCIE6_X16,
    counts_source="NVIDIA, DGX B300: 14.4 TB/s of NVLink, 8 ConnectX-8 of 800 Gb/s",
)
#: A rack is one node here: 18 trays of 4 GPUs at one NVLink fabric, and a NIC for each GPU.
GB200_NVL72 = replace(
    DGX_B200,
    gpu="GB200",
    gpus=72,
    switch_sums=NVLS5_RACK,
    nics=one_each(72),
    counts_source="NVIDIA, GB200 NVL72: 18 trays of 4 GPUs and 4 ConnectX-7, as in a cluster's ibnetdiscover",
)
GB300_NVL72 = replace(
    GB200_NVL72,
    gpu="GB300",
    nic=NIC_800G,
    pcie=PCIE6_X16,
    counts_source="NVIDIA, GB300 NVL72: 18 trays of 4 GPUs and 4 ConnectX-8 of 800 Gb/s",
)
#: No NVSwitch: 6 of a GPU's 18 NVLinks lead to each of the other three. Slingshot 11's card has PCIe 4.
QUAD_GH200 = Box(
    gpu="GH200",
    gpus=4,
    link=NVLINK4,
    link_alpha=NVLINK_ALPHA,
    bundles=full_mesh(4, 6),
    nics=one_each(4),
    nic=NIC_200G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE4_X16,
    counts="vendor",
    counts_source="NVIDIA, quad GH200: 18 NVLinks over 3 peers; CSCS, Alps: a Slingshot 11 card for each",
)

MACHINES = {
    "dgx-a100": DGX_A100.machine(
        "NVIDIA DGX A100: 8 A100s, 12 NVLinks each, 8 NICs of 200 Gb/s", "NVIDIA; links as in a dump"
    ),
    "hgx-a100": DGX_A100.machine(
        "8 A100s on NVIDIA's HGX board, 8 NICs of 200 Gb/s", "NVIDIA; links as in a dump"
    ),
    "dgx-h100": DGX_H100.machine(
        "NVIDIA DGX H100: 8 H100s, 18 NVLinks each, 8 NICs of 400 Gb/s", "NVIDIA; links as in a dump"
    ),
    "dgx-h200": DGX_H200.machine(
        "NVIDIA DGX H200: 8 H200s, 18 NVLinks each, 8 NICs of 400 Gb/s", "NVIDIA; links as in a dump"
    ),
    "hgx-h800": HGX_H800.machine("8 H800s, 8 NVLinks each, 8 NICs of 400 Gb/s", "NCCL's topology file"),
    "hgx-h20": HGX_H20.machine("8 H20s, 18 NVLinks each, 8 NICs of 400 Gb/s", "NVIDIA"),
    "dgx-b200": DGX_B200.machine("NVIDIA DGX B200: 8 B200s, 18 NVLinks 5 each, 8 NICs of 400 Gb/s", "NVIDIA"),
    "dgx-b300": DGX_B300.machine("NVIDIA DGX B300: 8 B300s, 18 NVLinks 5 each, 8 NICs of 800 Gb/s", "NVIDIA"),
    "gb200-nvl72": GB200_NVL72.machine(
        "NVIDIA GB200 NVL72: racks of 72 GPUs at one NVLink fabric, each a node; 72 NICs of 400 Gb/s",
        "NVIDIA; trays as in a dump",
        1,
    ),
    "gb300-nvl72": GB300_NVL72.machine(
        "NVIDIA GB300 NVL72: racks of 72 GPUs at one NVLink fabric, each a node; 72 NICs of 800 Gb/s",
        "NVIDIA",
        1,
    ),
    "gh200": QUAD_GH200.machine(
        "4 GH200 in a full mesh, 6 NVLinks a pair, 4 NICs of 200 Gb/s", "NVIDIA; NICs as in Alps"
    ),
}
