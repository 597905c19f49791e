"""What real dumps say, as people who looked at them found: the table that importers are held against.

The dumps lie in tests/data/dumps, whose README.md says where each comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DUMPS = Path(__file__).parents[3] / "data" / "dumps"


@dataclass(frozen=True)
class Verdict:
    """A dump's verdict.

    Parameters
    ----------
    file : below the folder of dumps.
    gbps : GB/s of each GPU to the others by NCCL's constants; None where no file tells.
    nearest : of each GPU, the nearest ports.
    links : links between GPUs, by pair; None of one whose links are too many to write here.
    to_switch : links of each GPU to the switch.
    peak : as `gbps`, by the vendor's figures; None where the verdict has none.
    warned : words that a warning has.
    """

    file: str
    gpus: int
    nics: int
    gbps: float | None
    nearest: tuple[tuple[str, ...], ...]
    links: Mapping[tuple[int, int], int | None] | None = field(default_factory=dict)
    to_switch: int = 0
    peak: float | None = None
    warned: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.file


def ports(*names: str, each: int = 1) -> tuple[tuple[str, ...], ...]:
    """For each of `each` GPUs a row: ports apart by spaces, `-` for none."""
    return tuple(tuple(name.split()) if name != "-" else () for name in names for _ in range(each))


def full(gpus: int, count: int | None = 1) -> dict[tuple[int, int], int | None]:
    """Links between every two GPUs; None of a dump that does not say how many."""
    return {(a, b): count for a in range(gpus) for b in range(a + 1, gpus)}


NCCL_TOPOLOGY = (
    Verdict(
        *("nccl-topo/2gpu-nvlink-down.xml", 2, 1, 20.0),
        ports("mlx5_0+mlx5_1", each=2),
        {(0, 1): 1},
        peak=25.0,
        warned=("states 1 links", ":15)"),
    ),
    Verdict(
        *("nccl-topo/2gpu-nvlink-up.xml", 2, 1, 240.0),
        ports("mlx5_0+mlx5_1", each=2),
        {(0, 1): 12},
        peak=300.0,
    ),
    Verdict(
        *("nccl-topo/a6000-pcie-docker-nets.xml", 4, 2, 12.0),
        ports("eno1np0 eno2np1", "-", each=2),
        warned=("virtual interface: br-", "veth", "no NIC is faster"),
    ),
    Verdict(
        *("nccl-topo/amd-mi100-4p3l.xml", 4, 1, 72.0),
        ports("enp96s0f0", each=4),
        full(4),
        peak=138.0,
        warned=("veth608058c",),
    ),
    Verdict(
        *("nccl-topo/amd-mi250x-16.xml", 16, 8, 252.0),
        ports(*(f"mlx5_{n}" for n in (0, 1, 2, 3, 4, 5, 7, 8)), each=2),
        None,
        peak=350.0,
    ),
    Verdict(
        *("nccl-topo/amd-mi300x-8.xml", 8, 8, 336.0),
        ports(*(f"mlx5_{n}" for n in range(8))),
        full(8),
        peak=448.0,
    ),
    Verdict("nccl-topo/amd-mi50-8-pcie.xml", 8, 2, 24.0, ports("-", "mlx5_0 mlx5_1", each=4)),
    Verdict(
        "nccl-topo/aws-p4d-hint.xml",
        *(8, 4, None),
        ports("nic0", "nic1", "nic2", "nic3", each=2),
        None,
        warned=("hint", "nvidia-smi topo -m"),
    ),
    Verdict(
        *("nccl-topo/azure-ncv4-a100-pcie.xml", 4, 1, 240.0),
        ports("eth0", "-", "-", "-"),
        {(0, 1): 12, (2, 3): 12},
        peak=300.0,
        warned=("links to itself",),
    ),
    Verdict("nccl-topo/azure-ndv2-hint.xml", 8, 1, None, ports("nic0", "-", each=4), None, warned=("hint",)),
    Verdict(
        "nccl-topo/azure-ndv4-hint.xml",
        *(8, 8, None),
        ports("nic0 nic1", "nic2 nic3", "nic4 nic5", "nic6 nic7", each=2),
        None,
        warned=("hint",),
    ),
    Verdict(
        *("nccl-topo/h800-8.xml", 8, 8, 164.8),
        ports(*(f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 7, 8, 9))),
        to_switch=8,
        peak=200.0,
    ),
    Verdict(
        "nccl-topo/l20-16-pcie.xml",
        *(16, 8, 24.0),
        ports(*(f"mlx5_{n}" for n in (1, 3, 5, 7, 2, 4, 6, 8)), each=2),
    ),
    Verdict(
        *("nccl-topo/oci-h100-8x16.xml", 8, 16, 370.8),
        ports(*(f"mlx5_{n} mlx5_{n + 1}" for n in (0, 3, 5, 7, 9, 12, 14, 16))),
        to_switch=18,
        peak=450.0,
    ),
)

AMD_AND_HWLOC = (
    Verdict("amd-smi/topology-2gpu-pcie-new-format-subset.json", 2, 0, 12.0, ((),) * 2, warned=("disabled",)),
    Verdict("amd-smi/topology-2gpu-pcie-old-format.json", 2, 0, 12.0, ((),) * 2, warned=("disabled",)),
    Verdict("amd-smi/topology-8gpu-text.txt", 8, 0, 350.0, ((),) * 8, full(8), peak=350.0),
    Verdict(
        *("hwloc/dgx2.xml", 16, 0, 150.0, ((),) * 16),
        to_switch=6,
        peak=150.0,
        warned=("no network port",),
    ),
    Verdict(
        *("hwloc/lassen-4xv100-p9.xml", 4, 4, None),
        ports("mlx5_0 mlx5_1", "mlx5_2 mlx5_3", each=2),
        warned=("left out: enP5p1s0f0", "NVLink and xGMI are not stated"),
    ),
    Verdict(
        *("hwloc/tioga-mi250x.xml", 8, 4, None),
        ports("hsi0", "hsi1", "hsi2", "hsi3", each=2),
        warned=("one hive", "left out: ens2"),
    ),
    Verdict(
        *("rocm-smi/mi308x-8-showtopo.txt", 8, 0, 336.0, ((),) * 8),
        full(8, None),
        peak=448.0,
        warned=("how many xGMI links",),
    ),
    Verdict("rocm-smi/mi50-4-pcie-showtopo-cut.txt", 4, 0, 12.0, ((),) * 4),
)
