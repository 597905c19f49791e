"""The network between nodes as levels of switches, and switches that join GPUs of several nodes.

A level joins groups of NICs: a leaf the NICs of a few nodes, with rails only those at one place of each
node, a spine those of many leaves. Every switch becomes a device and all uplinks of a switch together one
link each way, which is a port with a rate of its own: two nodes at one leaf do not pass the spine, and the
nodes of a leaf share its uplinks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from taccl.errors import TopologyError
from taccl.model.units import beta_from_bandwidth
from taccl.topologies.devices import NO_NODE, Device, Link
from taccl.topologies.helpers import moved_to
from taccl.topologies.machines import both_directions

#: A NIC by its node and its place among the NICs of that node.
Nic = tuple[int, int]


@dataclass(frozen=True)
class LevelSwitch:
    """One switch of a level; real switches that work as one, such as the spines of a fat tree, are one.

    Parameters
    ----------
    name : how its device is called.
    nics : the NICs below it, also those of nodes that a smaller machine lacks.
    up_gbps : what its uplinks carry together, GB/s each way; None at the top.
    """

    name: str
    nics: frozenset[Nic]
    up_gbps: float | None = None


@dataclass(frozen=True)
class Level:
    """Switches that join parts of the network, each NIC below exactly one of them.

    Parameters
    ----------
    name : `leaf`, `spine`, ...
    switches : in the order of their numbers.
    alpha_us : what passing on to the level above adds to a way, half of it up and half of it down.
    """

    name: str
    switches: tuple[LevelSwitch, ...]
    alpha_us: float = 0.0


@dataclass(frozen=True)
class Fabric:
    """The network between nodes.

    Parameters
    ----------
    alpha_us : from NIC to NIC below one switch of the lowest level.
    beta_us_per_mb : of a NIC, each way.
    levels : from the NICs upwards; without any, one switch joins all NICs.
    """

    alpha_us: float
    beta_us_per_mb: float
    levels: tuple[Level, ...] = ()


def joined(fabric: Fabric, nics: Sequence[Sequence[str]]) -> tuple[list[Device], list[Link]]:
    """The devices and links of a fabric.

    Parameters
    ----------
    nics : the names of the NICs of each node.

    Raises
    ------
    TopologyError : a NIC that no switch of a level or several have, or a switch whose parts are not all
        below the same switch of the level above.
    """
    name_of = {(node, place): name for node, names in enumerate(nics) for place, name in enumerate(names)}
    levels = fabric.levels or (Level("fabric", (LevelSwitch("fabric", frozenset(name_of)),)),)
    devices: list[Device] = []
    links: list[Link] = []
    below: dict[str, frozenset[Nic]] = {name: frozenset((nic,)) for nic, name in name_of.items()}
    alpha_us = fabric.alpha_us
    beta_of = dict.fromkeys(below, fabric.beta_us_per_mb)
    for number, level in enumerate(levels):
        used = [switch for switch in level.switches if not switch.nics.isdisjoint(name_of)]
        _check(level, used, name_of)
        devices += [Device(each.name, "fabric", NO_NODE, len(devices) + i) for i, each in enumerate(used)]
        switch_of = {nic: switch for switch in used for nic in switch.nics}
        for name, part in below.items():
            above = {switch_of[nic].name for nic in part if nic in name_of}
            if len(above) > 1:
                raise TopologyError(
                    f"{name} is below both {' and '.join(sorted(above)[:2])}",
                    hint=f"a group of the level {level.name} holds whole groups of the level below it",
                )
            links += both_directions(name, above.pop(), alpha_us / 2, beta_of[name])
        if len(used) == 1 or number == len(levels) - 1:
            break  # what is above a switch that joins all is on no way
        below = {switch.name: switch.nics & name_of.keys() for switch in used}
        beta_of = {switch.name: beta_from_bandwidth(_up_gbps(level, switch)) for switch in used}
        alpha_us = level.alpha_us
    return devices, links


def _check(level: Level, used: Sequence[LevelSwitch], nics: Collection[Nic]) -> None:
    """Raise TopologyError unless each NIC is below exactly one switch."""
    found: dict[Nic, str] = {}
    for switch in used:
        for nic in sorted(switch.nics & set(nics)):
            if nic in found:
                raise TopologyError(
                    f"NIC {nic[1]} of node {nic[0]} is below both {found[nic]} and {switch.name}"
                )
            found[nic] = switch.name
    for nic in nics:
        if nic not in found:
            raise TopologyError(f"NIC {nic[1]} of node {nic[0]} is below no switch of the level {level.name}")


def _up_gbps(level: Level, switch: LevelSwitch) -> float:
    if switch.up_gbps is None:
        raise TopologyError(f"{switch.name} has no uplinks, but there is a level above {level.name}")
    return switch.up_gbps


def one_switch_for_nodes(
    devices: Sequence[Device], links: Sequence[Link], switch: str, groups: Sequence[Collection[int]]
) -> tuple[list[Device], list[Link]]:
    """The nodes with one switch for each group of them, in place of a switch in each node.

    Parameters
    ----------
    switch : the switch as one node calls it; of node 3 it is the device `node3.<switch>`.
    groups : nodes, each in exactly one group.
    """
    shared = {
        f"node{node}.{switch}": f"{switch}{number}" for number, group in enumerate(groups) for node in group
    }
    kept = [device for device in devices if device.name not in shared and device.at not in shared]
    made = dict.fromkeys(shared[device.name] for device in devices if device.name in shared)
    kept += [Device(name, "switch", NO_NODE, local) for local, name in enumerate(made)]
    at_it = [device for device in devices if device.at in shared]
    helpers = {
        each.name: each
        for each in (moved_to(device, shared[device.at], switch) for device in at_it if device.at)
    }
    kept += [replace(helper, local=local) for local, helper in enumerate(helpers.values())]
    moved = [
        Link(
            shared.get(link.src, link.src), shared.get(link.dst, link.dst), link.alpha_us, link.beta_us_per_mb
        )
        for link in links
    ]
    return kept, moved
