"""The network ports of a topology XML, without those that no job uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.support.tables import Location
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import Nic
from taccl.topologies.importers.nodes.formats.nccl_topology.tree import Device, all_below, whole
from taccl.topologies.importers.nodes.real_nics import unreal

#: What NCCL takes for a speed that is 0 or less, and above which none is believed, Mb/s.
_UNKNOWN_MBPS, _MOST_MBPS = 10_000, 1_600_000


@dataclass(frozen=True, eq=False)
class PlacedNic:
    """A port, and the PCI device that it belongs to, or, of a port of no card, the CPUs that name it."""

    nic: Nic
    devices: tuple[Device, ...]

    @property
    def device(self) -> Device:
        return self.devices[0]


def find_nics(cpus: Sequence[Device], path: str | None) -> tuple[list[PlacedNic], list[str]]:
    """The ports in the order of the file, and what is odd about them or was left out.

    A port of no card (a socket's, in a virtual machine) that several CPUs of a host name is one.
    """
    found: list[PlacedNic] = []
    warnings: list[str] = []
    for cpu in cpus:
        for device in (cpu, *all_below(cpu)):
            for nic in device.children("nic"):
                for net in (child for child in nic.children if child.tag == "net"):
                    _add(found, _port(net, device, len(found), warnings, path))
    dropped = unreal([each.nic for each in found])
    for reason in dict.fromkeys(dropped.values()):
        which = [i for i, why in dropped.items() if why == reason]
        names = ", ".join(found[i].nic.name for i in which)
        warnings.append(f"{found[which[0]].nic.place}: left out as {reason}: {names}")
    return [each for i, each in enumerate(found) if i not in dropped], warnings


def _add(found: list[PlacedNic], port: PlacedNic) -> None:
    for i, known in enumerate(found):
        of_cpus = known.device.is_cpu and port.device.is_cpu and known.device.host == port.device.host
        if of_cpus and known.nic.name == port.nic.name:
            found[i] = PlacedNic(known.nic, (*known.devices, *port.devices))
            return
    found.append(port)


def find_hinted_nics(cpus: Sequence[Device], path: str | None) -> list[PlacedNic]:
    """PCI devices that are NICs by their class, by bus id, the domain first, called nic0, nic1, ..."""
    devices = [device for cpu in cpus for device in all_below(cpu) if device.is_nic_class]
    devices.sort(key=lambda device: device.busid)
    return [
        PlacedNic(Nic(at.here(path), f"nic{i}", card=_card(at), numa=at.numa), (at,))
        for i, at in enumerate(devices)
    ]


def _port(net: Element, device: Device, number: int, warnings: list[str], path: str | None) -> PlacedNic:
    place = Location(path, net.line)
    name = net.attributes.get("name", "").strip() or f"net{number}"
    mbps = whole(net, "speed", path)
    if mbps is not None and mbps > _MOST_MBPS:
        warnings.append(f"{place}: {name} states {mbps} Mb/s, more than any port has: taken as kb/s")
        mbps //= 1000
    if mbps is not None and mbps <= 0:
        warnings.append(f"{place}: {name} states {mbps} Mb/s: {_UNKNOWN_MBPS} are taken, as NCCL does")
        mbps = _UNKNOWN_MBPS
    card_gbps = device.gbps if device.reported else None
    gbps = None if mbps is None else mbps / 8000
    at = device.here(path)
    nic = Nic(place, name, gbps, _card(device), card_gbps, device.numa, at, device.host or None)
    return PlacedNic(nic, (device,))


def _card(device: Device) -> str | None:
    """A bus id without its function (its ports may be several functions), of its host where that is
    reported.
    """
    if device.is_cpu or not device.busid:
        return None
    bus = device.busid.rpartition(".")[0] or device.busid
    return f"{device.host} {bus}" if device.host else bus
