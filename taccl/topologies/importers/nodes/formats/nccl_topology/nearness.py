"""How far devices of a PCIe tree are from each other, and which bridges they share.

Two-level switches of one chip are one switch here, as in NCCL: all their ports run at full speed, so a GPU
and a NIC on them are past one bridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taccl.topologies.importers.nodes.facts import Nearness, SharedBridge
from taccl.topologies.importers.nodes.formats.nccl_topology.devices import PlacedGpu, PlacedNic
from taccl.topologies.importers.nodes.formats.nccl_topology.tree import Device, all_below

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
