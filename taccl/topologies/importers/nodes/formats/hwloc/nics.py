"""The network ports of an hwloc file, and those that serve only management, which are dropped and named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.topologies.importers.nodes.facts import Nic
from taccl.topologies.importers.nodes.formats.hwloc.tree import PciDevice, Software, Tree, way_gbps

_NETWORK_CLASS = "02"
#: Names of devices that programs open for RDMA; what the kernel calls a network interface is none of them.
_RDMA = re.compile(
    r"(?:mlx|mthca|hfi|qib|bnxt_re|efa|rdmap|irdma|ionic|rocep|ibp|roceo|rxe|siw|cxi|opa|hns|erdma)[a-z]*_?[0-9]"
)
#: HPE's Slingshot is no OpenFabrics device; its ports are network interfaces of these names.
_SLINGSHOT = re.compile(r"(?:hsi|hsn)[0-9]+")
_SLINGSHOT_VENDOR = "17db"
_OTHER = re.compile(r"(?:nvme|sd|card|render|control|dax|pmem|ttm|cuda|nvml|rsmi|opencl|ze|dma|mmcblk|sr)")
#: Raw GB/s of PCIe below which a port has at most 10 Gb/s.
_MANAGEMENT_PCIE = 1.25
_DOWN = ("1", "2", "3")


@dataclass(frozen=True, eq=False)
class PlacedNic:
    """A port, and the PCI device that it is."""

    nic: Nic
    device: PciDevice
    is_rdma: bool
    is_down: bool


def find_nics(tree: Tree, path: str | None, warnings: list[str]) -> list[PlacedNic]:
    """The ports that a job can use, in the order of their names."""
    found = [
        placed
        for device in tree.devices
        if device.kind.startswith(_NETWORK_CLASS)
        for placed in _ports(device, path)
    ]
    found.sort(key=lambda each: _natural(each.nic.name))
    kept = _without_slow(found)
    up = [each for each in kept if not each.is_down]
    dropped = [each.nic.name for each in found if each not in kept]
    if dropped:
        warnings.append(f"ports that are slower, or of no fabric, are left out: {', '.join(dropped)}")
    down = [each for each in kept if each.is_down]
    if down and up:
        places = ", ".join(f"{each.nic.name} ({each.nic.place})" for each in down)
        warnings.append(f"ports that are down are left out: {places}")
    return up or kept


def _ports(device: PciDevice, path: str | None) -> list[PlacedNic]:
    """One port for each device that programs open; the kernel's name where there is none of these."""
    named = [each for each in device.software if each.name and not _OTHER.match(each.name)]
    rdma = [each for each in named if _RDMA.match(each.name)]
    slingshot = [each for each in named if _SLINGSHOT.fullmatch(each.name)]
    chosen: Sequence[Software] = rdma or slingshot or named[:1]
    if rdma and len({each.name for each in rdma}) < len(rdma):
        chosen = rdma[:1]
    fast = bool(rdma or slingshot) or device.chip.startswith(_SLINGSHOT_VENDOR)
    return [_port(device, each, fast, path) for each in chosen]


def _port(device: PciDevice, software: Software, is_rdma: bool, path: str | None) -> PlacedNic:
    states, lids = (_of_ports(software, what) for what in ("State", "LID"))
    is_down = all(state in _DOWN for state in states) if states else bool(lids) and {*lids} == {"0xffff"}
    nic = Nic(
        place=device.here(path),
        name=software.name,
        card=device.busid.rpartition(".")[0] or None,
        card_gbps=way_gbps((device.element,)),
        numa=device.numa,
    )
    return PlacedNic(nic, device, is_rdma, is_down)


def _of_ports(software: Software, what: str) -> list[str]:
    """What is reported of each port: `Port1State`, `Port2State`."""
    return [
        value.strip()
        for name, value in software.infos.items()
        if re.fullmatch(rf"Port[0-9]{{1,3}}{what}", name)
    ]


def _without_slow(found: Sequence[PlacedNic]) -> list[PlacedNic]:
    """Those of a fabric, if there are any; else all that PCIe does not hold to 10 Gb/s, if any."""
    fabric = [each for each in found if each.is_rdma]
    if fabric:
        return fabric
    fast = [each for each in found if (each.device.raw_gbps or 0.0) >= _MANAGEMENT_PCIE]
    return fast or [*found]


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """mlx5_2 before mlx5_10."""
    return tuple(
        (0, int(word), "") if word.isdigit() else (1, 0, word)
        for word in re.findall(r"[0-9]{1,9}|[^0-9]+", name)
    )
