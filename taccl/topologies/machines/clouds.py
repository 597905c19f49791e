"""Nodes of clouds: the boxes of NVIDIA with the networks of AWS and Azure."""

from __future__ import annotations

from dataclasses import replace

from taccl.topologies.machines.nvidia import DGX_A100, DGX_H100
from taccl.topologies.machines.rates import EFA_P4D_ALPHA, NIC_100G

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

MACHINES = {
    "p4d": P4D.machine("AWS p4d: 8 A100s, 4 NICs of 100 Gb/s, each next to 2 GPUs", "dump", "AWS's file"),
    "ndv4": NDV4.machine(
        "Azure ND A100 v4: 8 A100s, 8 NICs of 200 Gb/s, 2 next to 2 GPUs", "dump", "Azure's file"
    ),
    "ndv5": NDV5.machine("Azure ND H100 v5: 8 H100s, a NIC of 400 Gb/s for each GPU", "vendor", "Microsoft"),
}
