"""Machines that clouds rent out: AWS p4d, Azure ND A100 v4 and ND H100 v5."""

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
