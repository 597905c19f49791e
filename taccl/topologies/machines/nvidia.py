"""Machines of NVIDIA's GPUs with NVSwitches: DGX, HGX, the rack GB200 NVL72, and those of clouds."""

from __future__ import annotations

from dataclasses import replace

from taccl.topologies.machines.boxes import Box, one_each
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
    PCIE4_X16,
    PCIE5_X16,
)

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
