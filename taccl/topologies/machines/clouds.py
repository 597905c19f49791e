"""Nodes of clouds: the boxes of NVIDIA with the networks of AWS, Azure and Google, and AWS's Trainium 2."""

from __future__ import annotations

from dataclasses import replace

from taccl.topologies.machines.boxes import Box, Bundle, one_each
from taccl.topologies.machines.figures import Rate
from taccl.topologies.machines.nvidia import DGX_A100, DGX_B200, DGX_B300, DGX_H100, DGX_H200
from taccl.topologies.machines.rates import (
    EFA_ALPHA,
    EFA_P4D_ALPHA,
    EFA_P5_ALPHA,
    NEURONLINK3,
    NEURONLINK_ALPHA,
    NIC_2X200G,
    NIC_2X400G,
    NIC_4X100G,
    NIC_100G,
    NIC_200G,
    TCPXO_ALPHA,
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
#: A GPU and four cards under each PCIe switch; a NIC here is what the plugin makes of the four.
P5 = replace(
    DGX_H100,
    nic=NIC_4X100G,
    network_alpha=EFA_P5_ALPHA,
    counts_source="AWS, P5: 32 EFA of 100 Gb/s, 4 next to each GPU in aws-ofi-nccl's topology file",
)
P5E = replace(
    P5,
    gpu="H200",
    network_alpha=EFA_ALPHA,
    counts_source="AWS, P5e: 8 H200, 32 EFA of 100 Gb/s; next to GPUs as P5",
)
P5EN = replace(P5E, nic=NIC_2X200G, counts_source="AWS, P5en: 8 H200, 16 EFA of 200 Gb/s")
P6_B200 = replace(DGX_B200, network_alpha=EFA_ALPHA, counts_source="AWS, P6-B200: 8 B200, 8 EFA of 400 Gb/s")
P6_B300 = replace(
    DGX_B300,
    nic=NIC_2X400G,
    network_alpha=EFA_ALPHA,
    counts_source="AWS, P6-B300: 8 B300, 16 EFA of 400 Gb/s",
)
#: Two GPUs and two NICs under each of four PCIe switches: each GPU is next to both.
NDV4 = replace(
    DGX_A100,
    nics=((0, 1), (0, 1), (2, 3), (2, 3), (4, 5), (4, 5), (6, 7), (6, 7)),
    counts="dump",
    counts_source="Azure's topology file of ND A100 v4; NVLinks as DGX A100",
)
NDV5 = replace(DGX_H100, counts_source="Microsoft, ND H100 v5: 400 Gb/s InfiniBand for each GPU")
A3_MEGA = replace(
    DGX_H100,
    nic=NIC_200G,
    network_alpha=TCPXO_ALPHA,
    counts_source="Google, A3 Mega: 8 H100, 8 NICs of 200 Gb/s with GPUDirect-TCPXO",
)
A3_ULTRA = replace(
    DGX_H200, counts_source="Google, A3 Ultra: 8 H200, a ConnectX-7 of 400 Gb/s with RoCE for each"
)


def _torus(side: int) -> tuple[Bundle, ...]:
    """A link from each of side * side chips to the next in its row and in its column, around the edge."""
    links = []
    for row in range(side):
        for column in range(side):
            here = row * side + column
            links.append((here, row * side + (column + 1) % side, 1))
            links.append((here, (row + 1) % side * side + column, 1))
    return tuple(links)


TRN2 = Box(
    gpu="Trainium2",
    gpus=16,
    link=NEURONLINK3,
    link_alpha=NEURONLINK_ALPHA,
    bundles=_torus(4),
    nics=one_each(16),
    nic=NIC_200G,
    network_alpha=EFA_ALPHA,
    pcie=Rate("PCIe", 25.0, 25.0, "assumed", "no narrower than the NIC; AWS publishes none"),
    counts="vendor",
    counts_source="AWS, trn2.48xlarge: 16 chips in a torus of 4 x 4, EFA of 3200 Gb/s, so 200 for each chip",
)

MACHINES = {
    "p4d": P4D.machine("AWS p4d: 8 A100s, 4 NICs of 100 Gb/s, each next to 2 GPUs", "AWS's file"),
    "p5": P5.machine("AWS p5: 8 H100s, 4 NICs of 100 Gb/s for each GPU, used as one", "AWS"),
    "p5e": P5E.machine("AWS p5e: 8 H200s, 4 NICs of 100 Gb/s for each GPU, used as one", "AWS"),
    "p5en": P5EN.machine("AWS p5en: 8 H200s, 2 NICs of 200 Gb/s for each GPU, used as one", "AWS"),
    "p6-b200": P6_B200.machine("AWS p6-b200: 8 B200s, a NIC of 400 Gb/s for each GPU", "AWS"),
    "p6-b300": P6_B300.machine("AWS p6-b300: 8 B300s, 2 NICs of 400 Gb/s for each GPU, used as one", "AWS"),
    "trn2": TRN2.machine(
        "AWS trn2: 16 Trainium 2 in a torus of 4 x 4, a NIC of 200 Gb/s for each chip", "AWS"
    ),
    "ndv4": NDV4.machine("Azure ND A100 v4: 8 A100s, 8 NICs of 200 Gb/s, 2 next to 2 GPUs", "Azure's file"),
    "ndv5": NDV5.machine("Azure ND H100 v5: 8 H100s, a NIC of 400 Gb/s for each GPU", "Microsoft"),
    "a3-mega": A3_MEGA.machine(
        "Google A3 Mega: 8 H100s, a NIC of 200 Gb/s with TCPXO for each GPU", "Google"
    ),
    "a3-ultra": A3_ULTRA.machine(
        "Google A3 Ultra: 8 H200s, a NIC of 400 Gb/s with RoCE for each GPU", "Google"
    ),
}
