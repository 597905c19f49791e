"""A machine in a few lines: what a prompt or a notebook shows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from taccl.model.units import MB, bandwidth_gbps, format_count
from taccl.topologies.devices import Device, DeviceKind, Link


@dataclass(frozen=True)
class LinkClass:
    """Links between the same kinds of devices, at the same cost."""

    src_kind: DeviceKind
    dst_kind: DeviceKind
    alpha_us: float
    beta_us_per_mb: float
    count: int

    @property
    def gbps(self) -> float:
        """The bandwidth of one link, in GB/s."""
        return bandwidth_gbps(MB, self.beta_us_per_mb)


def link_classes(devices: Sequence[Device], links: Sequence[Link]) -> tuple[LinkClass, ...]:
    """The classes of links, in the order in which the machine has them."""
    kind = {device.name: device.kind for device in devices}
    counts = Counter((kind[link.src], kind[link.dst], link.alpha_us, link.beta_us_per_mb) for link in links)
    return tuple(LinkClass(*key, count=count) for key, count in counts.items())


def headline(name: str, devices: Sequence[Device], links: Sequence[Link], occupancy: str) -> str:
    """For example: ndv2: 2 nodes, 16 GPUs, 2 pcie, 2 NICs, 1 fabric, 80 links, serial."""
    kinds = Counter(device.kind for device in devices)
    nodes = len({device.node for device in devices if device.kind == "gpu"})
    names = {
        "gpu": "GPU",
        "helper": "helper",
        "nic": "NIC",
        "switch": "switch",
        "pcie": "PCIe bridge",
        "fabric": "fabric",
    }
    parts = [format_count(nodes, "node"), *(format_count(kinds[kind], names[kind]) for kind in kinds)]
    return f"{name}: {', '.join([*parts, format_count(len(links), 'link')])}, {occupancy}"


def as_html(name: str, devices: Sequence[Device], links: Sequence[Link], occupancy: str) -> str:
    """The headline, and a table of the classes of links."""
    rows = "".join(
        f"<tr><td>{c.src_kind} &rarr; {c.dst_kind}</td><td>{c.count}</td><td>{c.alpha_us:g}</td>"
        f"<td>{c.beta_us_per_mb:g}</td><td>{c.gbps:.4g}</td></tr>"
        for c in link_classes(devices, links)
    )
    return (
        f"<p>{escape(headline(name, devices, links, occupancy))}</p><table><thead><tr><th>links</th>"
        "<th>count</th><th>alpha (us)</th><th>beta (us/MB)</th><th>GB/s each</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
