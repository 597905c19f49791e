"""The GPUs of a topology XML in the order of the machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from taccl.support.tables import Location
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import Gpu
from taccl.topologies.importers.nodes.formats.nccl_topology.tree import Device, all_below, whole

#: RCCL's short names of architectures that are not simply gfx and the number.
_SHORT_GCN = {"910": "gfx90a"}


@dataclass(frozen=True, eq=False)
class PlacedGpu:
    """A GPU, the PCI device that it is, and its own element (None in a hint)."""

    gpu: Gpu
    device: Device
    element: Element | None = None
    rank: int | None = None


def find_gpus(cpus: Sequence[Device], path: str | None) -> tuple[list[PlacedGpu], str]:
    """The GPUs in the machine's order, and that order in a few words.

    By rank where the ranks are 0, 1, ...; else by the vendor's index; else by bus id, the domain first.
    """
    found = [
        _placed(device, element, path)
        for cpu in cpus
        for device in all_below(cpu)
        for element in device.children("gpu")
    ]
    if _are(range(len(found)), [each.rank for each in found]):
        return sorted(found, key=lambda each: each.rank or 0), "by rank"
    devs = [each.gpu.dev for each in found]
    if None not in devs and len({*devs}) == len(found):
        return sorted(found, key=lambda each: each.gpu.dev or 0), "by dev, since ranks are not 0, 1, ..."
    return sorted(found, key=_by_busid), "by bus id, since neither ranks nor devs tell them apart"


def find_hinted_gpus(cpus: Sequence[Device], path: str | None) -> list[PlacedGpu]:
    """PCI devices that are GPUs by their class, by bus id, the domain first."""
    devices = (device for cpu in cpus for device in all_below(cpu) if device.is_gpu_class)
    found = [PlacedGpu(Gpu(at.here(path), at.busid or None, numa=at.numa), at) for at in devices]
    return sorted(found, key=_by_busid)


def _are(wanted: range, ranks: Collection[int | None]) -> bool:
    return sorted(-1 if rank is None else rank for rank in ranks) == list(wanted)


def _by_busid(placed: PlacedGpu) -> tuple[str, str]:
    return placed.device.host, placed.device.busid


def _placed(device: Device, element: Element, path: str | None) -> PlacedGpu:
    gcn, sm = element.attributes.get("gcn", "").strip().lower(), whole(element, "sm", path)
    gpu = Gpu(
        place=Location(path, element.line),
        busid=device.busid or None,
        # Of AMD's GPUs `sm` is the number of compute units.
        arch=_gfx(gcn) if gcn else None if sm is None else f"sm{sm}",
        numa=device.numa,
        dev=whole(element, "dev", path),
        host=device.host or None,
    )
    return PlacedGpu(gpu, device, element, whole(element, "rank", path))


def _gfx(gcn: str) -> str:
    """`gfx942:sramecc+` -> gfx942; 906 -> gfx906."""
    name = gcn.partition(":")[0]
    return name if name.startswith("gfx") else _SHORT_GCN.get(name, f"gfx{name}")
