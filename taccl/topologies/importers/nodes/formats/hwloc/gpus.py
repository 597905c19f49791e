"""The GPUs of an hwloc file, in the order of the vendor's tool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.support.tables import Location
from taccl.topologies.importers.nodes.facts import Gpu
from taccl.topologies.importers.nodes.formats.hwloc.tree import PciDevice, Software, Tree

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
        Location(path, software.element.line), model=software.infos.get("GPUModel") or None, dev=number
    )
