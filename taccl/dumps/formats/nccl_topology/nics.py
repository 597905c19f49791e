"""The network ports of a topology XML, without those that no job uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.dumps.facts import Nic, Place
from taccl.dumps.formats.nccl_topology.tree import Device, all_below, whole
from taccl.dumps.real_nics import unreal
from taccl.xml_elements import Element

#: What NCCL takes for a speed that is 0 or less, and above which none is believed, Mb/s.
_UNKNOWN_MBPS, _MOST_MBPS = 10_000, 1_600_000


@dataclass(frozen=True, eq=False)
class PlacedNic:
    """A port, and the PCI device (or, of a port of no card, the CPU) that it hangs at."""

    nic: Nic
    device: Device


def find_nics(cpus: Sequence[Device], path: str | None) -> tuple[list[PlacedNic], list[str]]:
    """The ports in the order of the file, and what is odd about them or was left out.

    A port that hangs at two places (one of each host of a domain) stands for itself each time.
    """
    found: list[PlacedNic] = []
    warnings: list[str] = []
    for cpu in cpus:
        for device in (cpu, *all_below(cpu)):
            for nic in device.children("nic"):
                for net in (child for child in nic.children if child.tag == "net"):
                    found.append(_port(net, device, len(found), warnings, path))
    dropped = unreal([each.nic for each in found])
    for reason in dict.fromkeys(dropped.values()):
        which = [i for i, why in dropped.items() if why == reason]
        names = ", ".join(found[i].nic.name for i in which)
        warnings.append(f"{found[which[0]].nic.place}: left out as {reason}: {names}")
    return [each for i, each in enumerate(found) if i not in dropped], warnings


def find_hinted_nics(cpus: Sequence[Device], path: str | None) -> list[PlacedNic]:
    """PCI devices that are NICs by their class, by bus id, the domain first, called nic0, nic1, ..."""
    devices = [device for cpu in cpus for device in all_below(cpu) if device.is_nic_class]
    devices.sort(key=lambda device: device.busid)
    return [
        PlacedNic(Nic(at.here(path), f"nic{i}", card=_card(at), numa=at.numa), at)
        for i, at in enumerate(devices)
    ]


def _port(net: Element, device: Device, number: int, warnings: list[str], path: str | None) -> PlacedNic:
    place = Place(path, net.line)
    name = net.attributes.get("name", "").strip() or f"net{number}"
    mbps = whole(net, "speed", path)
    if mbps is not None and mbps > _MOST_MBPS:
        warnings.append(f"{place}: {name} states {mbps} Mb/s, more than any port has (kb/s, perhaps)")
    if mbps is not None and mbps <= 0:
        warnings.append(f"{place}: {name} states {mbps} Mb/s: {_UNKNOWN_MBPS} are taken, as NCCL does")
        mbps = _UNKNOWN_MBPS
    card_gbps = device.gbps if device.told else None
    gbps = None if mbps is None else mbps / 8000
    return PlacedNic(Nic(place, name, gbps, _card(device), card_gbps, device.numa, device.here(path)), device)


def _card(device: Device) -> str | None:
    """A bus id without its function; its ports may be several functions."""
    return None if device.is_cpu else device.busid.rpartition(".")[0] or device.busid or None
