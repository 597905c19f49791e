"""The GPUs of a topology XML in the order of the machine, and the links between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from taccl.dumps.facts import Gpu, GpuLink, LinkKind, Place
from taccl.dumps.formats.nccl_topology.tree import Device, all_below, whole
from taccl.xml_elements import Element

#: RCCL's short names of architectures that are not simply gfx and the number.
_SHORT_GCN = {"910": "gfx90a"}
_SWITCH, _CPU, _GPU = "0x0680", "0x068001", ("0x0300", "0x0302", "0x0380", "0x1200")
#: A target that a virtual machine hides, or that is in another tray: fffffff:ffff:ff.
_HIDDEN = re.compile(r"f{5,}:[f0-9:.]*")


@dataclass(frozen=True, eq=False)
class Placed:
    """A GPU, the PCI device that it is, and its own element (None in a hint)."""

    gpu: Gpu
    device: Device
    element: Element | None
    rank: int | None


@dataclass
class _Stated:
    """What one GPU says of its links to another: how many, and on which line."""

    count: int
    place: Place
    kind: LinkKind


@dataclass
class Links:
    """The links of all GPUs, and what is odd about them."""

    links: list[GpuLink] = field(default_factory=list)
    has_switch: bool = False
    warnings: list[str] = field(default_factory=list)


def find_gpus(cpus: Sequence[Device], path: str | None) -> tuple[list[Placed], str]:
    """The GPUs in the machine's order, and that order in a few words."""
    found = [
        _placed(device, element, path)
        for cpu in cpus
        for device in all_below(cpu)
        for element in device.children("gpu")
    ]
    ranks = [each.rank for each in found]
    if found and sorted(rank for rank in ranks if rank is not None) == list(range(len(found))):
        return sorted(found, key=lambda each: each.rank or 0), "by rank"
    devs = [each.gpu.dev for each in found]
    if None not in devs and len({*devs}) == len(found):
        return sorted(found, key=lambda each: each.gpu.dev or 0), "by dev"
    return sorted(found, key=lambda each: each.device.busid), "by bus id"


def find_hinted_gpus(cpus: Sequence[Device], path: str | None) -> list[Placed]:
    """PCI devices that are GPUs by their class, by bus id."""
    devices = [device for cpu in cpus for device in all_below(cpu) if device.is_gpu_class]
    found = [
        Placed(Gpu(device.here(path), device.busid or None, numa=device.numa), device, None, None)
        for device in devices
    ]
    return sorted(found, key=lambda each: each.device.busid)


def _placed(device: Device, element: Element, path: str | None) -> Placed:
    gcn, sm = element.attributes.get("gcn", "").strip().lower(), whole(element, "sm", path)
    arch = _gfx(gcn) if gcn else None if sm is None else f"sm{sm}"
    gpu = Gpu(
        place=Place(path, element.line),
        busid=device.busid or None,
        arch=arch,
        numa=device.numa,
        dev=whole(element, "dev", path),
        pcie_gbps=min(each.gbps for each in (device, *device.bridges)),
    )
    return Placed(gpu, device, element, whole(element, "rank", path))


def _gfx(gcn: str) -> str:
    """`gfx942:sramecc+` -> gfx942; 906 -> gfx906."""
    name = gcn.partition(":")[0]
    return name if name.startswith("gfx") else _SHORT_GCN.get(name, f"gfx{name}")


def find_links(placed: Sequence[Placed], path: str | None) -> Links:
    """The links that both ends of each pair state, and those to the switch."""
    found = Links()
    stated: dict[tuple[int, int], _Stated] = {}
    to_switch: dict[int, _Stated] = {}
    kinds: tuple[LinkKind, ...] = ("nvlink", "xgmi")
    for here, each in enumerate(placed):
        position = {other.device.busid: i for i, other in enumerate(placed) if other.device.busid}
        for element in [] if each.element is None else each.element.children:
            kind = next((kind for kind in kinds if kind == element.tag), None)
            count = 1 if kind is None else whole(element, "count", path)
            if kind is None or count == 0:
                continue
            target = element.attributes.get("target", "").strip().lower()
            tclass = element.attributes.get("tclass", "").strip().lower()
            one = _Stated(1 if count is None else count, Place(path, element.line), kind)
            if target in position:
                _add(stated, (here, position[target]), one)
            elif tclass.startswith(_SWITCH) and not tclass.startswith(_CPU):
                _add(to_switch, here, one)
    found.has_switch = bool(to_switch)
    for here, one in to_switch.items():
        found.links.append(GpuLink(one.place, here, None, one.kind, one.count))
    for (here, there), one in stated.items():
        other = stated.get((there, here))
        if here < there and other is not None:
            found.links.append(GpuLink(one.place, here, there, one.kind, min(one.count, other.count)))
    return found


def _add(stated: dict, key, one: _Stated) -> None:  # type: ignore[type-arg, no-untyped-def]
    if key in stated:
        stated[key].count += one.count
    else:
        stated[key] = one
