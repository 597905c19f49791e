"""What GPUs and ports of an hwloc file share on their way to the CPU, and the ports nearest to each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taccl.support.tables import Location
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import Gpu, Nearness, SharedBridge
from taccl.topologies.importers.nodes.formats.hwloc.gpus import PlacedGpu
from taccl.topologies.importers.nodes.formats.hwloc.nics import PlacedNic
from taccl.topologies.importers.nodes.formats.hwloc.tree import PciDevice, bridges_between, nearness, way_gbps

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
            Location(path, bridges[0].line),
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
    """Of each GPU: of the ports of the least nearness, those past the fewest bridges; none on other CPUs."""
    found = []
    for gpu in gpus:
        far = {
            i: (near, bridges_between(gpu, nic.device))
            for i, nic in enumerate(nics)
            if (near := nearness(gpu, nic.device)) < Nearness.SYS
        }
        least = min(far.values(), default=None)
        found.append(tuple(i for i, one in far.items() if one == least))
    return tuple(found)
