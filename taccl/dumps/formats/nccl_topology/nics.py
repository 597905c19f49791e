"""The network ports of a topology XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.dumps.facts import Nic, Place
from taccl.dumps.formats.nccl_topology.tree import Device, all_below, whole


@dataclass(frozen=True, eq=False)
class PlacedNic:
    """A port, and the PCI device (or, of a port of no card, the CPU) that it hangs at."""

    nic: Nic
    device: Device


def find_nics(cpus: Sequence[Device], path: str | None) -> list[PlacedNic]:
    """The ports in the order of the file."""
    found = []
    for cpu in cpus:
        for device in (cpu, *all_below(cpu)):
            for nic in device.children("nic"):
                for net in (child for child in nic.children if child.tag == "net"):
                    speed = whole(net, "speed", path)
                    found.append(
                        PlacedNic(
                            Nic(
                                Place(path, net.line),
                                net.attributes.get("name", "").strip() or f"net{len(found)}",
                                gbps=None if speed is None else (speed if speed > 0 else 10_000) / 8000,
                                card=None if device.is_cpu else device.busid.partition(".")[0] or None,
                                card_gbps=None if device.is_cpu else device.gbps,
                                numa=device.numa,
                            ),
                            device,
                        )
                    )
    return found
