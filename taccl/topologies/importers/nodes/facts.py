"""What a dump tells about one node: GPUs, NICs, links and places, each with the line that tells it.

The noun of this room. Readers make it, `merge` refines one by another, `machine` makes a machine of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from taccl.support.tables import FileLine
from taccl.topologies.machines.figures import How

LinkKind = Literal["nvlink", "xgmi", "pcie"]


#: A warning of readers, which holds until another dump of the machine tells them.
COUNTS_UNTOLD = (
    "`amd-smi xgmi` does not tell how many links join two GPUs; `amd-smi topology` or RCCL's topology XML may"
)


class Nearness(IntEnum):
    """How two devices of a node reach each other, from near to far (the words of `nvidia-smi topo -m`)."""

    SELF = 0
    PIX = 1  #: past at most one PCIe bridge
    PXB = 2  #: past several PCIe bridges
    PHB = 3  #: through one CPU's host bridge
    NODE = 4  #: between host bridges of one NUMA node
    SYS = 5  #: between NUMA nodes


def nearest_ports(far: Iterable[Sequence[tuple[Nearness, int]]]) -> tuple[tuple[int, ...], ...]:
    """Of each GPU: of the ports of the least nearness those past the fewest bridges; none on other CPUs.

    `far` : of each GPU, the nearness of each port and the bridges between them.
    """
    found = []
    for row in far:
        least = min((port for port in row if port[0] < Nearness.SYS), default=None)
        found.append(tuple(i for i, port in enumerate(row) if port == least))
    return tuple(found)


@dataclass(frozen=True)
class Gpu:
    """A GPU, in the order of the machine that will be made.

    Parameters
    ----------
    busid : lower case, with its domain; None where the dump has none.
    model : as the tool names it, `A100-SXM4-80GB`; None where it does not.
    arch : `sm80`, `gfx942`; None where it is not stated.
    numa : of the CPU that it is attached to.
    dev : its index in the vendor's own tool.
    pcie_gbps : of the narrowest link between it and its CPU (where `Dump.bridges` are reported: the first of
    them
        that it is under), GB/s each way.
    pcie_place : the line that tells it, where it is not `place`.
    host : tells the machines of an NVLink domain apart, with no PCIe between them; None of a single one.
    """

    place: FileLine
    busid: str | None = None
    model: str | None = None
    arch: str | None = None
    numa: int | None = None
    dev: int | None = None
    pcie_gbps: float | None = None
    pcie_place: FileLine | None = None
    host: str | None = None


@dataclass(frozen=True)
class Nic:
    """A port of a network card.

    Parameters
    ----------
    name : `mlx5_0`; of ports that a library fused, `mlx5_0+mlx5_1`.
    gbps : GB/s each way; None where the dump has no speed.
    card : what tells cards apart (a bus id without its function); ports of one card share its PCIe link.
    card_gbps : of the card's PCIe link, GB/s each way.
    card_place : the line that tells it, where it is not `place`.
    host : as of a GPU.
    """

    place: FileLine
    name: str
    gbps: float | None = None
    card: str | None = None
    card_gbps: float | None = None
    numa: int | None = None
    card_place: FileLine | None = None
    host: str | None = None


@dataclass(frozen=True)
class GpuLink:
    """Links of one GPU to another, or to the switch between all of them.

    Parameters
    ----------
    a, b : positions in `Dump.gpus`; `b` is None for the switch, or where the dump does not say where the
        links lead (then its `has_switch` is None). Each pair stands once, with a < b.
    count : how many; None where the dump says that there are some, but not how many.
    gbps : of one of them, each way, as the dump has it; None where it has no speed.
    is_raw : that is the rate of its signals, which nothing reaches, and no bandwidth.
    switch : which switch, where GPUs hang at several that are not joined.
    """

    place: FileLine
    a: int
    b: int | None
    kind: LinkKind
    count: int | None = None
    gbps: float | None = None
    is_raw: bool = False
    switch: int = 0


@dataclass(frozen=True)
class SharedBridge:
    """A PCIe bridge (or a CPU) whose way up is shared by several GPUs or NICs.

    Parameters
    ----------
    gpus, nics : positions of those below it.
    gbps : of its way up, each way; None where the dump has none.
    name : for people: a bus id, `cpu 0`.
    """

    place: FileLine
    name: str
    gpus: tuple[int, ...]
    nics: tuple[int, ...]
    gbps: float | None = None


@dataclass(frozen=True)
class Cpu:
    """A NUMA domain with its processor.

    Parameters
    ----------
    arch : `x86_64`, `arm64`, `ppc64`.
    vendor : as cpuid has it: `GenuineIntel`, `AuthenticAMD`.
    gbps : to another CPU, GB/s each way, as the dump has it.
    """

    place: FileLine
    numa: int | None = None
    arch: str | None = None
    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    gbps: float | None = None


@dataclass(frozen=True)
class LibraryChoice:
    """What a library chose to do on a machine: no description of it, but something to check one by.

    Parameters
    ----------
    paths : place, `Gpu.dev` of two neighbours in a ring, and the worst kind of way that the ring takes
        between GPUs, in NCCL's words (`NVL`, `PIX`, `SYS`).
    """

    paths: tuple[tuple[FileLine, int, int, str], ...] = ()


@dataclass(frozen=True)
class Dump:
    """All that one dump tells, or several together.

    A field of None is not stated by this format; an empty tuple says that there is none.

    Parameters
    ----------
    format : the name of the format, `nccl-topology`; of several, joined by `+`.
    gpus, nics : in the order of the machine's ranks, of the dump.
    links : between GPUs, and from GPUs to the switch.
    has_switch : whether GPUs are joined by NVSwitches.
    gpu_nearness : shape (gpus, gpus) of Nearness or None, by PCIe alone.
    nic_nearness : shape (gpus, nics), likewise.
    nearest_nics : of each GPU, positions of the nearest, where the dump tells more than `nic_nearness` holds.
    bridges : what GPUs and NICs share on their way to the CPU, where the PCIe tree is reported; of two,
    either
        one has all that the other has, or they have nothing in common.
    peer_access : shape (gpus, gpus), whether one GPU may read and write the other's memory, whatever the way.
    cpus : where processors are reported.
    plan : the dump is a plan only: it can check others, and is no machine on its own.
    is_hint : somebody wrote it to place devices; its link speeds mean nothing.
    order : how the GPUs were put in order, in a few words.
    warnings : in plain sentences, with their lines.
    """

    format: str
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...] | None = None
    links: tuple[GpuLink, ...] | None = None
    has_switch: bool | None = None
    gpu_nearness: tuple[tuple[Nearness | None, ...], ...] | None = None
    nic_nearness: tuple[tuple[Nearness | None, ...], ...] | None = None
    nearest_nics: tuple[tuple[int, ...], ...] | None = None
    bridges: tuple[SharedBridge, ...] | None = None
    peer_access: tuple[tuple[bool | None, ...], ...] | None = None
    cpus: tuple[Cpu, ...] | None = None
    plan: LibraryChoice | None = None
    is_hint: bool = False
    order: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Known:
    """A row of the table that an import prints: a quantity, its value, and how it is known.

    Parameters
    ----------
    source : a FileLine for what was read, a rule for what was inferred, a reference for what was assumed.
    """

    quantity: str
    value: str | float | int
    how: How
    source: str


_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?", re.IGNORECASE)


def normal_busid(text: str) -> str | None:
    """The bus id in a text such as `00000000:17:00.0`, `0000:17:00.0` or `17:00.0`; None if it is none.

    Domains of more than four digits that begin with zeros lose them: NVML and sysfs write them apart.
    """
    match = _BUS_ID.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.group(1, 2, 3))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{(match[4] or '0').lower()}"
