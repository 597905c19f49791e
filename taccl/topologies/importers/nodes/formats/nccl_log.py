"""The graph block of an `NCCL_DEBUG` log as a dump: GPUs, ports and links, in bandwidths that NCCL assumes.

The tree itself is read in `nccl_log_tree`; how many links a bandwidth stands for is inferred here, since the
log has only their sum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import (
    Cpu,
    Dump,
    Gpu,
    GpuLink,
    LinkKind,
    Nearness,
    Nic,
    SharedBridge,
)
from taccl.topologies.importers.nodes.formats.device_matrix import GPU
from taccl.topologies.importers.nodes.formats.nccl_log_tree import (
    LogBlock,
    Node,
    find_block,
    has_block,
    host_of,
    message_of,
)
from taccl.topologies.machines import rates

NAME = "nccl-log"
#: GB/s that versions of NCCL and RCCL take for one link, and the most such links that a GPU has.
_ONE_LINK: dict[LinkKind, tuple[tuple[float, int], ...]] = {
    "nvlink": (
        *((rates.NVLINK5.gbps, 18), (22.0, 12), (21.0, 6), (rates.NVLINK4.gbps, 18)),
        *((rates.NVLINK3.gbps, 12), (rates.NVLINK1.gbps, 4), (rates.NVLINK_BRIDGE.gbps, 4)),
    ),
    "xgmi": ((rates.XGMI_MI300X.gbps, 7), (rates.XGMI_MI250X.gbps, 4), (rates.XGMI_MI50.gbps, 3)),
    "pcie": (),
}
#: What NCCL writes for a way inside a device; of a port without a card, it stands for no card at all.
_NO_CARD_GBPS = 1000.0
_INIT = re.compile(r"\brank (\d{1,7}) n[rR]anks \d+.*?(?:\bnvmlDev (\d{1,4}) )?busId ([0-9a-fA-F]{1,12})\b")
_DEVICE = re.compile(
    r"#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device\s+\d+\s+\[(0x[0-9a-fA-F]{1,4}|[0-9a-fA-F:]{5,16})\]\s+(.*)"
)
_USING = re.compile(r"\[(\d{1,4})\]([^\s:\[\]]+):")
_PORT = re.compile(r"\[(\d{1,4})\] (?:name=)?([^\s:]+?)(?::\S*)?(?= ).*?\bspeed=(\d{1,9})\b")
_FILLED = re.compile(r"Filled (\S+) in topo with pciPath=\S*/([0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+)")


@dataclass
class _Named:
    """What lines outside the block say of devices of its host."""

    ranks: dict[str, int] = field(default_factory=dict)  #: of a GPU by bus id
    devs: dict[str, int] = field(default_factory=dict)  #: likewise
    models: dict[str, str] = field(default_factory=dict)  #: likewise
    ports: dict[int, str] = field(default_factory=dict)  #: by NCCL's number of the port
    gbps: dict[str, float] = field(default_factory=dict)  #: of a port by its name
    cards: dict[str, list[str]] = field(default_factory=dict)  #: names of ports by bus id


def looks_like(text: str) -> bool:
    """Whether it has a graph block, or is a log without one: then tables of other tools in it tell more."""
    return has_block(text) or ("NCCL INFO" in text and GPU.search(text) is None)


def read(text: str, path: str | None) -> Dump:
    """What the first block tells; every rank prints one, and those of one node are the same.

    Raises
    ------
    TopologyError : there is no block, or none with a GPU.
    """
    block = find_block(text, path)
    named = _named(text, block.host)
    gpus, order = _in_order(block, named)
    if not gpus:
        raise FileLine(path, block.place.line).error("no GPU stands in the graph block that begins here")
    warnings = list(block.warnings)
    hosts = {node.system for node in gpus}
    if len(hosts) > 1:
        warnings.append(
            f"{block.place}: GPUs of {len(hosts)} nodes share one NVLink domain; they are read as one machine"
        )
    links = _links(block, gpus, warnings)
    shared = _shared(block, gpus)
    ports = _ports(block, named, shared)
    return Dump(
        NAME,
        tuple(_gpu(node, named, shared) for node in gpus),
        nics=tuple(nic for nic, _ in ports),
        links=links,
        has_switch=any(link.b is None for link in links),
        gpu_nearness=tuple(tuple(_nearness(a, b, block) for b in gpus) for a in gpus),
        nic_nearness=tuple(tuple(_nearness(a, b, block) for _, b in ports) for a in gpus),
        bridges=_bridges(shared, gpus, [node for _, node in ports]),
        cpus=tuple(_cpu(node) for node in block.nodes if node.kind == "CPU"),
        order=order,
        warnings=tuple(warnings),
    )


def busid_of(identifier: str) -> str | None:
    """`81000` -> 0000:81:00.0, as NCCL writes bus ids without their separators; None of what is no bus id."""
    digits = identifier.rpartition("-")[2].lower()
    if not re.fullmatch(r"[0-9a-f]{4,13}", digits):
        return None
    digits = digits.rjust(9, "0")
    return f"{digits[:-5]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


def _named(text: str, host: str | None) -> _Named:
    named = _Named()
    for line in text.splitlines():
        device = _DEVICE.search(line) if "device" in line else None
        if device is not None and (host is None or device[1] in (host, host.partition(".")[0])):
            named.models.setdefault(_bus(device[2]), device[3].strip().removeprefix("NVIDIA "))
        if "NCCL INFO" not in line or host_of(line) != host:
            continue
        message = message_of(line)
        init = _INIT.search(message) if "busId" in message else None
        if init is not None:
            busid = busid_of(init[3]) or ""
            named.ranks.setdefault(busid, int(init[1]))
            if init[2]:
                named.devs.setdefault(busid, int(init[2]))
        if message.startswith("NET/"):
            _name_ports(message, named)
        filled = _FILLED.search(message) if "pciPath" in message else None
        if filled is not None and filled[1] not in named.cards.setdefault(filled[2].lower(), []):
            named.cards[filled[2].lower()].append(filled[1])
    return named


def _name_ports(message: str, named: _Named) -> None:
    if ": Using" in message:
        for number, name in _USING.findall(message.partition("; OOB")[0]):
            named.ports.setdefault(int(number), name)
    port = _PORT.search(message) if "speed=" in message else None
    if port is not None:
        named.gbps.setdefault(port[2], int(port[3]) / 8000)
        if "virtual" in message:
            named.ports[int(port[1])] = port[2]


def _bus(text: str) -> str:
    """A device's bus: `0000:17:00` and `0x17` -> 17."""
    return text[2:].lower().rjust(2, "0") if text.startswith("0x") else text.lower().split(":")[-2]


def _in_order(block: LogBlock, named: _Named) -> tuple[list[Node], str]:
    found = [node for node in block.nodes if node.kind == "GPU"]
    ranks = [_rank(node, named) for node in found]
    known = [rank for rank in ranks if rank is not None]
    if len(set(known)) == len(found):
        ranked = sorted(zip(known, found, strict=True), key=lambda each: each[0])
        return [node for _, node in ranked], "by rank"
    return sorted(found, key=lambda node: busid_of(node.name) or node.name), "by bus id"


def _rank(node: Node, named: _Named) -> int | None:
    if re.fullmatch(r"\d{1,7}", node.note):
        return int(node.note)
    return named.ranks.get(busid_of(node.name) or "")


def _gpu(node: Node, named: _Named, shared: Sequence[Node]) -> Gpu:
    busid = busid_of(node.name)
    bus = "" if busid is None else busid.split(":")[1]
    return Gpu(
        node.place,
        busid=busid,
        model=named.models.get(bus),
        numa=node.numa,
        dev=named.devs.get(busid or ""),
        pcie_gbps=_own_gbps(node, shared),
    )


def _own_gbps(node: Node, shared: Sequence[Node]) -> float | None:
    """Of the narrowest PCIe link between a device and its CPU, or the first bridge that it shares."""
    own = takewhile(lambda each: each not in shared, node.routes_up)
    return min((each.gbps for each in own if each.link == "PCI"), default=None)


def _stated_links(
    block: LogBlock, gpus: Sequence[Node], warnings: list[str]
) -> tuple[dict[tuple[int, int | None], tuple[float, FileLine]], LinkKind]:
    """GB/s from each GPU to each other one, or to the switch (None), and where that is said first."""
    position = {node.name: index for index, node in enumerate(gpus)}
    stated: dict[tuple[int, int | None], tuple[float, FileLine]] = {}
    kind: LinkKind = "nvlink"
    for link in block.links:
        here = position.get(link.at)
        there = None if link.to_switch else position.get(link.to)
        if here is None or here == there or (there is None and not link.to_switch):
            what = f"links lead to {link.to[:40]}, which is no GPU of this block; left out"
            warnings.append(f"{link.place}: {what}")
            continue
        kind = link.kind
        gbps, place = stated.get((here, there), (0.0, link.place))
        stated[here, there] = (gbps + link.gbps, place)
    return stated, kind


def _links(block: LogBlock, gpus: Sequence[Node], warnings: list[str]) -> tuple[GpuLink, ...]:
    """Links that both ends state, and those to the switch."""
    stated, kind = _stated_links(block, gpus, warnings)
    sums: list[tuple[int, int | None, float, FileLine]] = []
    for (a, b), (gbps, place) in stated.items():
        if b is None:
            sums += [(a, None, gbps, place)] if gbps else []
            continue
        back, back_place = stated.get((b, a), (0.0, place))
        if back != gbps and (a < b or not back):
            warnings.append(
                f"{place}: {gbps:g} GB/s lead from {gpus[a].name} to {gpus[b].name}, and {back:g} back"
                + (f" ({back_place})" if back else "")
                + f": {min(back, gbps):g} are taken"
            )
        if back and a < b:
            sums.append((a, b, min(back, gbps), place))
    one = one_link(kind, [gbps for _, _, gbps, _ in sums])
    if sums and one is None:
        warnings.append(f"{sums[0][3]}: how many links a bandwidth stands for is not known; taken as one")
    return tuple(
        GpuLink(place, a, b, kind, round(gbps / (one or gbps)), one or gbps)
        for a, b, gbps, place in sorted(sums, key=lambda each: each[0])
    )


def one_link(kind: LinkKind, sums: Sequence[float]) -> float | None:
    """GB/s of one link, when each of these is a whole number of them; the fastest that fits, None if none."""
    for gbps, most in _ONE_LINK[kind]:
        counts = [total / gbps for total in sums]
        if all(1 <= round(n) <= most and abs(n - round(n)) * gbps <= 0.06 for n in counts):
            return gbps
    return None


def _ports(block: LogBlock, named: _Named, shared: Sequence[Node]) -> list[tuple[Nic, Node]]:
    """The ports below each card; of cards whose ports NCCL left out, what the log says elsewhere."""
    found: list[tuple[Nic, Node]] = []
    for card in block.nodes:
        if card.kind != "NIC":
            continue
        real = card.gbps < _NO_CARD_GBPS
        busid = busid_of(card.name) if real else None
        ports: list[tuple[str, float | None, FileLine]] = [
            (_port_name(net, named), net.gbps or None, net.place) for net in card.below if net.kind == "NET"
        ]
        if not ports:
            unnamed = f"nic_{card.name.rpartition('-')[2].lower()}"
            names = _merged(named.cards.get(busid or "", [])) or [unnamed]
            ports = [(name, named.gbps.get(name), card.place) for name in names]
        for name, gbps, place in ports:
            nic = Nic(
                place,
                name,
                gbps=gbps,
                card=None if busid is None else busid.partition(".")[0],
                card_gbps=_own_gbps(card, shared) if real else None,
                numa=card.numa,
            )
            found.append((nic, card))
    return found


def _port_name(net: Node, named: _Named) -> str:
    digits = net.name.rpartition("-")[2]
    number = int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]{1,8}", digits) else -1
    return named.ports.get(number, f"net_{digits[:20].lower()}")


def _merged(names: Sequence[str]) -> list[str]:
    """Names without the parts of those that a library fused: mlx5_0, mlx5_1, mlx5_0+mlx5_1 -> the last."""
    parts = {part for name in names if "+" in name for part in name.split("+")}
    return [name for name in names if name not in parts]


def _cpu(node: Node) -> Cpu:
    """A CPU, with the slowest of its routes to others."""
    routes = [(other.gbps, other.place) for other in node.below if other.link == "SYS" and other.gbps]
    gbps, place = min(routes, key=lambda way: way[0], default=(None, node.place))
    return Cpu(place, numa=node.numa, gbps=gbps)


def _nearness(a: Node, b: Node, block: LogBlock) -> Nearness | None:
    """By the lowest bridge that is above both; None where the tree does not tell."""
    if a is b:
        return Nearness.SELF
    if a.cpu is not b.cpu or a.cpu is None:
        return Nearness.SYS
    if block.is_flat:
        return None
    mine, other = a.bridges, b.bridges
    if not any(bridge in other for bridge in mine):
        return Nearness.PHB
    return Nearness.PIX if mine[0] is other[0] else Nearness.PXB


def _shared(block: LogBlock, gpus: Sequence[Node]) -> list[Node]:
    """Bridges with several GPUs or cards below them."""
    devices = [*gpus, *(node for node in block.nodes if node.kind == "NIC")]
    above = Counter(id(bridge) for device in devices for bridge in device.bridges)
    return [node for node in block.nodes if above[id(node)] > 1]


def _bridges(shared: Sequence[Node], gpus: Sequence[Node], cards: Sequence[Node]) -> tuple[SharedBridge, ...]:
    return tuple(
        SharedBridge(
            bridge.place,
            busid_of(bridge.name) or bridge.name,
            tuple(place for place, node in enumerate(gpus) if bridge in node.bridges),
            tuple(place for place, node in enumerate(cards) if bridge in node.bridges),
            bridge.gbps,
        )
        for bridge in shared
    )
