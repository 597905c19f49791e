"""GPUs and network ports of an hwloc file, and what they share on their way to the CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taccl.support.lists import natural
from taccl.support.tables import FileLine
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import Gpu, Nic, SharedBridge, nearest_ports
from taccl.topologies.importers.nodes.formats.hwloc.tree import (
    PciDevice,
    Software,
    Tree,
    bridges_between,
    nearness,
    way_gbps,
)

#: Backends that give each GPU a number, the vendor's own tool first.
_BACKENDS = ("nvml", "rsmi", "cuda", "ze")
_NUMBERED = re.compile(rf"({'|'.join(_BACKENDS)})([0-9]{{1,4}})")
#: Display classes; integrated graphics are among them, and are no GPUs of these vendors.
_DISPLAY, _VENDORS = ("0300", "0302", "0380", "1200"), ("10de", "1002")
_NVSWITCH, _NVIDIA = "0680", "10de:"


@dataclass(frozen=True, eq=False)
class PlacedGpu:
    """A GPU, and where it is in the tree (None if the file has no PCI devices)."""

    gpu: Gpu
    device: PciDevice | None
    software: tuple[Software, ...]

    def info(self, name: str) -> str | None:
        return next((each.infos[name] for each in self.software if each.infos.get(name)), None)


def find_gpus(tree: Tree, path: str | None, warnings: list[str]) -> tuple[list[PlacedGpu], str]:
    """The GPUs, and their order in a few words."""
    displays = [device for device in tree.devices if _is_display(device)]
    driven = [device for device in tree.devices if _numbers(device.software)]
    for device in displays if driven else ():
        if device not in driven:
            warnings.append(
                f"{device.here(path)}: {device.busid or 'a display device'} is left out, "
                "no driver of GPUs names it"
            )
    found = [_placed(device, path) for device in driven or displays]
    if not found:
        return _loose_gpus(tree, path)
    for backend in _BACKENDS:
        numbers = [_numbers(each.software).get(backend) for each in found]
        if None not in numbers and len({*numbers}) == len(found):
            order = sorted(range(len(found)), key=lambda i: numbers[i] or 0)
            return [found[i] for i in order], f"by the number of {backend}"
    return sorted(found, key=lambda each: each.gpu.busid or ""), "by bus id"


def has_nvswitch(tree: Tree) -> bool:
    """Whether an NVSwitch is among the PCI devices."""
    return any(is_nvswitch(device) for device in tree.devices)


def is_nvswitch(device: PciDevice) -> bool:
    """By its class; a driver can hide that, and then hwloc's own word is left."""
    if device.element.attributes.get("subtype") == "NVSwitch":
        return True
    return device.kind == _NVSWITCH and device.chip.startswith(_NVIDIA)


def _is_display(device: PciDevice) -> bool:
    return device.kind in _DISPLAY and device.chip.startswith(_VENDORS)


def _numbers(software: Sequence[Software]) -> dict[str, int]:
    """By backend, the number that it gives the GPU; 0 is a number as good as others."""
    found: dict[str, int] = {}
    for each in software:
        match = _NUMBERED.fullmatch(each.name)
        if match is not None:
            found.setdefault(match[1], int(match[2]))
    return found


def _placed(device: PciDevice, path: str | None) -> PlacedGpu:
    numbers = _numbers(device.software)
    models = [each.infos["GPUModel"] for each in device.software if each.infos.get("GPUModel")]
    gpu = Gpu(
        place=device.here(path),
        busid=device.busid or None,
        model=models[0] if models else None,
        numa=device.numa,
        dev=next((numbers[backend] for backend in _BACKENDS if backend in numbers), None),
    )
    return PlacedGpu(gpu, device, tuple(device.software))


def _loose_gpus(tree: Tree, path: str | None) -> tuple[list[PlacedGpu], str]:
    """GPUs of a file without PCI devices (filtered, or of a container): those of one backend."""
    for backend in _BACKENDS:
        numbered = {
            number: each
            for each in tree.loose
            for name, number in _numbers([each]).items()
            if name == backend
        }
        if numbered:
            placed = [
                PlacedGpu(_loose_gpu(each, number, path), None, (each,))
                for number, each in sorted(numbered.items())
            ]
            return placed, f"by the number of {backend}"
    return [], ""


def _loose_gpu(software: Software, number: int, path: str | None) -> Gpu:
    return Gpu(
        FileLine(path, software.element.line), model=software.infos.get("GPUModel") or None, dev=number
    )


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
    found.sort(key=lambda each: natural(each.nic.name))
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


#: hwloc's GB/s of 16 lanes of generation 3, the slowest that GPUs of today have; what is below it is idle.
_FULL_PCIE = 15.7

_Below = tuple[tuple[int, ...], tuple[int, ...]]


def shared_bridges(
    gpus: Sequence[PciDevice], nics: Sequence[PlacedNic], path: str | None
) -> tuple[SharedBridge, ...]:
    """The bridges that two GPUs or ports hang below; of several above the same ones, the narrowest way up."""
    lines: dict[int, Element] = {}
    below: dict[int, tuple[list[int], list[int]]] = {}
    for side, devices in enumerate((gpus, [nic.device for nic in nics])):
        for position, device in enumerate(devices):
            for bridge in device.bridges:
                lines[id(bridge)] = bridge
                below.setdefault(id(bridge), ([], []))[side].append(position)
    groups: dict[_Below, list[Element]] = {}
    for key, (some_gpus, some_nics) in below.items():
        if len(some_gpus) + len(some_nics) > 1:
            groups.setdefault((tuple(some_gpus), tuple(some_nics)), []).append(lines[key])
    return tuple(
        SharedBridge(
            FileLine(path, bridges[0].line),
            bridges[0].attributes.get("pci_busid", "").strip().lower() or f"bridge on line {bridges[0].line}",
            *members,
            gbps=way_gbps(bridges, _FULL_PCIE),
        )
        for members, bridges in groups.items()
    )


def with_pcie(position: int, placed: PlacedGpu, bridges: Sequence[SharedBridge]) -> Gpu:
    """A GPU with the narrowest link between it and the first bridge that it shares."""
    if placed.device is None:
        return placed.gpu
    shared = {bridge.place.line for bridge in bridges if position in bridge.gpus}
    own: list[Element] = [placed.device.element]
    for bridge in placed.device.bridges:
        if bridge.line in shared:
            break
        own.append(bridge)
    return replace(placed.gpu, pcie_gbps=way_gbps(own, _FULL_PCIE))


def nearest_nics(gpus: Sequence[PciDevice], nics: Sequence[PlacedNic]) -> tuple[tuple[int, ...], ...]:
    """As `nearest_ports`."""
    return nearest_ports(
        [(nearness(gpu, nic.device), bridges_between(gpu, nic.device)) for nic in nics] for gpu in gpus
    )
