"""AMD's machines with xGMI: 8 MI250X (16 GCDs) as one was wired, and 8 MI300X or later in a full mesh."""

from __future__ import annotations

from dataclasses import replace

from taccl.topologies.machines.boxes import Box, full_mesh, one_each
from taccl.topologies.machines.rates import (
    NETWORK_ALPHA,
    NIC_200G,
    NIC_400G,
    PCIE4_X8,
    PCIE5_X16,
    XGMI_ALPHA,
    XGMI_MI250X,
    XGMI_MI300X,
    XGMI_MI350X,
)

#: Pairs of GCDs of a node of 8 MI250X, by how many xGMI links join them; each GCD has 7. The wiring is not
#: regular: 8 GCDs have 3 neighbours and 8 have 4.
MI250X_PAIRS = {
    4: ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)),
    2: ((0, 4), (3, 7), (8, 12), (11, 15)),
    1: (
        *((0, 2), (1, 2), (1, 3), (1, 5), (2, 6), (4, 12), (5, 13), (5, 14)),
        *((6, 13), (6, 14), (7, 15), (8, 10), (9, 10), (9, 11), (9, 13), (10, 14)),
    ),
}

#: The two GCDs of a package share a NIC; each has half of a PCIe 4 x16 to itself.
MI250X = Box(
    gpu="MI250X",
    gpus=16,
    link=XGMI_MI250X,
    link_alpha=XGMI_ALPHA,
    bundles=tuple((a, b, count) for count, pairs in MI250X_PAIRS.items() for a, b in pairs),
    nics=tuple((2 * nic, 2 * nic + 1) for nic in range(8)),
    nic=NIC_200G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE4_X8,
    counts="dump",
    counts_source="RCCL's topology of a machine of 8 MI250X",
)
MI300X = Box(
    gpu="MI300X",
    gpus=8,
    link=XGMI_MI300X,
    link_alpha=XGMI_ALPHA,
    bundles=full_mesh(8),
    nics=one_each(8),
    nic=NIC_400G,
    network_alpha=NETWORK_ALPHA,
    pcie=PCIE5_X16,
    counts="dump",
    counts_source="RCCL's topology of a machine of 8 MI300X",
)
MI325X = replace(
    MI300X,
    gpu="MI325X",
    counts="vendor",
    counts_source="AMD, MI325X platform of 8: 896 GB/s to 7 peers, both directions",
)
MI350X = replace(
    MI300X, gpu="MI350X", link=XGMI_MI350X, counts="vendor", counts_source="AMD, MI350X platform of 8"
)
MI355X = replace(MI350X, gpu="MI355X", counts_source="AMD, MI355X platform of 8: links as MI350X")

MACHINES = {
    "mi250x": MI250X.machine(
        "8 AMD MI250X, 16 GCDs, 7 xGMI links each, not all wired equivalent; 8 NICs of 200 Gb/s",
        "RCCL's topology file",
    ),
    **{
        box.gpu.lower(): box.machine(
            f"8 AMD {box.gpu}, all joined by xGMI, a NIC of 400 Gb/s for each GPU", source
        )
        for box, source in (
            (MI300X, "RCCL's topology file"),
            (MI325X, "AMD"),
            (MI350X, "AMD"),
            (MI355X, "AMD"),
        )
    },
}
