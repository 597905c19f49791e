"""The GPUs of a topology XML in the order of the machine, and its ports without those that no job uses."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from taccl.support.tables import FileLine
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import Gpu, Nic
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
        place=FileLine(path, element.line),
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
    place = FileLine(path, net.line)
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


#: Interfaces that are made by software: bridges, tunnels and the ends of containers.
_VIRTUAL = re.compile(
    r"(veth|br-|docker|cali|tunl|virbr|flannel|cni|cilium|lxc|lxdbr|podman|vnet|vxlan|vmnet|kube|nodelocaldns"
    r"|dummy|ifb|tap|tailscale|zt|wg|ovs|nerdctl|weave|sit|gre|ip6tnl|teql|erspan).*|lo|tun\d*|br\d*",
    re.IGNORECASE,
)
#: 10 Gb/s: no faster than this, a port is one for logins where there is a faster one.
_SLOW_GBPS = 1.25


def unreal(nics: Sequence[Nic]) -> dict[int, str]:
    """Positions of the ports to leave out, and why.

    Those with a virtual interface's name, and those of at most 10 Gb/s where a faster one exists.
    """
    dropped = {i: "a virtual interface" for i, nic in enumerate(nics) if _VIRTUAL.fullmatch(nic.name)}
    speeds = [nic.gbps for i, nic in enumerate(nics) if i not in dropped and nic.gbps is not None]
    fastest = max(speeds, default=0.0)
    for i, nic in enumerate(nics):
        if i not in dropped and nic.gbps is not None and nic.gbps <= _SLOW_GBPS and nic.gbps < fastest:
            dropped[i] = f"{nic.gbps * 8:g} Gb/s, where others have {fastest * 8:g}"
    return dropped
