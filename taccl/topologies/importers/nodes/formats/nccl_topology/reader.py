"""A topology XML as a `Dump`: how far its devices are from each other, and all its parts put together.

Two-level switches of one chip are one switch here, as in NCCL: all their ports run at full speed, so a GPU
and a NIC on them are past one bridge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from taccl.support.tables import FileLine
from taccl.support.xml_elements import begins_with
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness, SharedBridge, nearest_ports
from taccl.topologies.importers.nodes.formats.nccl_topology.devices import (
    PlacedGpu,
    PlacedNic,
    find_gpus,
    find_hinted_gpus,
    find_hinted_nics,
    find_nics,
)
from taccl.topologies.importers.nodes.formats.nccl_topology.links import find_links
from taccl.topologies.importers.nodes.formats.nccl_topology.tree import (
    Device,
    all_below,
    cut_out,
    parse_tree,
    processor,
)

#: Broadcom PEX switches of generation 4 and 5, which show as switches in a switch.
_TWO_LEVELS = ("0x1000:0xc010", "0x1000:0xc030")


def switch_of(bridge: Device) -> Device:
    """The switch that a bridge is a part of: the highest of its chip above it, or itself."""
    while bridge.above is not None and bridge.chip in _TWO_LEVELS and bridge.above.chip == bridge.chip:
        bridge = bridge.above
    return bridge


def switches_above(device: Device) -> tuple[Device, ...]:
    """The bridges above a device, the nearest first, those of one chip once."""
    return tuple(dict.fromkeys(switch_of(bridge) for bridge in device.bridges))


def nearness(a: Device, b: Device) -> Nearness:
    """By the lowest place where their routes up meet."""
    if a is b:
        return Nearness.SELF
    if a.cpu is not b.cpu:
        return Nearness.SYS
    between = _between(switches_above(a), switches_above(b))
    if between is None:
        return Nearness.PHB
    return Nearness.PIX if between <= 1 else Nearness.PXB


def port_nearness(gpu: PlacedGpu, nic: PlacedNic) -> Nearness:
    """From a GPU to a port."""
    return min(nearness(gpu.device, device) for device in nic.devices)


def bridges_between(a: Device, b: Device) -> int | None:
    """How many bridges a message passes, those of one chip each; None if it passes the CPU."""
    return _between(a.bridges, b.bridges)


def _between(mine: Sequence[Device], others: Sequence[Device]) -> int | None:
    shared = next((bridge for bridge in mine if bridge in others), None)
    return None if shared is None else mine.index(shared) + others.index(shared) + 1


def shared_bridges(
    cpus: Sequence[Device], gpus: Sequence[PlacedGpu], nics: Sequence[PlacedNic], path: str | None
) -> tuple[SharedBridge, ...]:
    """Bridges with two or more GPUs or cards below, the lowest of those with the same below them.

    The speed of the way up is the narrowest of the bridges that have the same below them.
    """
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], SharedBridge] = {}
    bridges = dict.fromkeys(switch_of(each) for cpu in cpus for each in all_below(cpu) if each.below)
    for bridge in sorted(bridges, key=lambda each: -len(each.bridges)):
        below = (
            tuple(i for i, gpu in enumerate(gpus) if bridge in gpu.device.bridges),
            tuple(i for i, nic in enumerate(nics) if bridge in nic.device.bridges),
        )
        if len(below[0]) + len({nics[i].device for i in below[1]}) < 2:
            continue
        one = SharedBridge(bridge.here(path), bridge.busid, *below, bridge.gbps if bridge.reported else None)
        lower = found.get(below)
        if lower is not None:
            reported = [gbps for gbps in (lower.gbps, one.gbps) if gbps is not None]
            one = replace(lower, gbps=min(reported, default=None))
        found[below] = one
    return tuple(found.values())


def own_link(device: Device, shared: Sequence[SharedBridge]) -> Device | None:
    """Whose link is the narrowest reported from a device up to the first shared bridge, or to its CPU."""
    names = {bridge.name for bridge in shared}
    links = [device] if device.reported else []
    for bridge in device.bridges:
        if switch_of(bridge).busid in names:
            break
        links += [bridge] if bridge.reported else []
    return min(links, key=lambda link: link.gbps, default=None)


NAME = "nccl-topology"
_ROOT = re.compile(r"<system[\s>/]")
#: NVLink domains have up to 576 GPUs.
_MOST_DEVICES = 1024


def looks_like(text: str) -> bool:
    """Whether a `<system>` begins near the start."""
    return begins_with(_ROOT, text)


def read(text: str, path: str | None) -> Dump:
    """What the file tells; one without `<gpu>` is a hint that somebody wrote to place devices.

    Raises
    ------
    TopologyError : what is wrong with it, with the line; or there is no GPU in it.
    """
    text, left_out = cut_out(text, path)
    cpus = parse_tree(text, path)
    gpus, order = find_gpus(cpus, path)
    if not gpus:
        return _hint(cpus, path, left_out)
    _check_number([gpu.gpu.place for gpu in gpus], "GPUs")
    links = find_links(gpus, path)
    nics, odd = find_nics(cpus, path)
    _check_number([nic.nic.place for nic in nics], "network ports")
    bridges = shared_bridges(cpus, gpus, nics, path)
    return Dump(
        format=NAME,
        gpus=tuple(_with_pcie(gpu, own_link(gpu.device, bridges), path) for gpu in gpus),
        nics=tuple(nic.nic for nic in nics),
        links=links.as_facts(),
        has_switch=links.has_switch,
        gpu_nearness=tuple(tuple(nearness(a.device, b.device) for b in gpus) for a in gpus),
        nic_nearness=nic_nearness(gpus, nics),
        nearest_nics=nearest_nics(gpus, nics),
        bridges=bridges,
        cpus=tuple(processor(cpu, path) for cpu in cpus),
        order=order,
        warnings=(
            *links.warnings,
            *odd,
            *_of_several_hosts(cpus),
            *_without_links(gpus, links.as_facts()),
            *left_out,
        ),
    )


def _hint(cpus: Sequence[Device], path: str | None, left_out: Sequence[str]) -> Dump:
    """PCI devices by their class: where they are, and nothing else that could be believed."""
    gpus = find_hinted_gpus(cpus, path)
    if not gpus:
        devices = [device for cpu in cpus for device in all_below(cpu)]
        what = "it has no <gpu>, and no PCI device in it is a GPU by its class"
        if devices and not any(device.kind for device in devices):
            what = f"it has no <gpu>, and none of its {len(devices)} PCI devices has a class that tells a GPU"
        raise FileLine(path, devices[0].element.line if devices else cpus[0].element.line).error(
            f"there is nothing to import: {what}",
            "the file that a job wrote with NCCL_TOPO_DUMP_FILE on such a machine",
        )
    nics, odd = find_nics(cpus, path)
    nics = nics or find_hinted_nics(cpus, path)
    _check_number([gpu.gpu.place for gpu in gpus], "GPUs")
    _check_number([nic.nic.place for nic in nics], "network ports")
    return Dump(
        format=NAME,
        gpus=tuple(gpu.gpu for gpu in gpus),
        nics=tuple(nic.nic if nic.nic.gbps else replace(nic.nic, card_gbps=None) for nic in nics),
        gpu_nearness=tuple(tuple(nearness(a.device, b.device) for b in gpus) for a in gpus),
        nic_nearness=nic_nearness(gpus, nics),
        nearest_nics=nearest_nics(gpus, nics),
        bridges=tuple(
            replace(shared_bridge, gbps=None) for shared_bridge in shared_bridges(cpus, gpus, nics, path)
        ),
        cpus=tuple(processor(cpu, path) for cpu in cpus),
        is_hint=True,
        order="by bus id",
        warnings=(
            f"{gpus[0].gpu.place}: this is a hint that somebody wrote (it has no <gpu>): it places devices,"
            " and tells no NVLink, no speed of a NIC and no true speed of PCIe",
            *odd,
            *left_out,
        ),
    )


def _check_number(places: Sequence[FileLine], what: str) -> None:
    if len(places) > _MOST_DEVICES:
        place = places[_MOST_DEVICES]
        raise place.error(
            f"more than {_MOST_DEVICES} {what} are in this file: no node and no NVLink domain has this many"
        )


def nic_nearness(
    gpus: Sequence[PlacedGpu], nics: Sequence[PlacedNic]
) -> tuple[tuple[Nearness | None, ...], ...]:
    """From each GPU to each port."""
    return tuple(tuple(port_nearness(gpu, nic) for nic in nics) for gpu in gpus)


def nearest_nics(gpus: Sequence[PlacedGpu], nics: Sequence[PlacedNic]) -> tuple[tuple[int, ...], ...]:
    """As `nearest_ports`.

    Bridges are counted only where no CPU is passed, and each level of a switch counts, so that of two ports
    on one large switch the one next to the GPU is nearest.
    """
    return nearest_ports(
        [(port_nearness(gpu, nic), bridges_between(gpu.device, nic.device) or 0) for nic in nics]
        for gpu in gpus
    )


def _with_pcie(placed: PlacedGpu, link: Device | None, path: str | None) -> Gpu:
    if link is None:
        return placed.gpu
    return replace(placed.gpu, pcie_gbps=link.gbps, pcie_place=link.here(path))


def _of_several_hosts(cpus: Sequence[Device]) -> list[str]:
    hosts = {cpu.host for cpu in cpus if cpu.host}
    if len(hosts) < 2:
        return []
    return [f"{len(hosts)} hosts stand in this file: one NVLink domain, which is taken as one node"]


def _without_links(gpus: Sequence[PlacedGpu], links: Sequence[GpuLink]) -> list[str]:
    """GPUs of kinds that mostly have NVLinks, and none of them has."""
    first = gpus[0].gpu
    if links or len(gpus) < 2 or first.arch not in ("sm60", "sm70", "sm80", "sm90", "sm100", "sm103"):
        return []
    return [
        f"{first.place}: no NVLink is stated for GPUs of {first.arch}: PCIe cards, links that are down,"
        " or a file written by hand"
    ]
