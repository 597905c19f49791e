"""The PCI devices of an hwloc file, each with the bridges above it and its part of the machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.support.xml_elements import Dialect, Element, parse_elements
from taccl.topologies.importers.nodes.facts import Cpu, Nearness

DIALECT = Dialect(
    what="hwloc file",
    hint="give the file that `lstopo topology.xml` wrote, whole",
    max_bytes=64 * 2**20,
    max_depth=256,
    error=TopologyError,
    may_name_type=True,
    may_hold_text=True,
)

#: hwloc's GB/s of a lane are those of the wire; NCCL reckons 12 where it has 15.753846, and so do the facts.
_NCCL_SHARE = 12 / 15.753846
_PCI_TYPE = re.compile(r"\s*(?:0x)?([0-9a-f]{4})\s*\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_SPEED = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,9})?)")
_WORD = re.compile(r"(?:0x)?([0-9a-f]{1,8})?", re.IGNORECASE)
#: Broadcom's switches of PCIe 4 and 5 show as a switch in a switch and run at full speed between all ports.
_ONE_CHIP = ("1000:c010", "1000:c030")
#: Bridges of this vendor are on the cards of its GPUs and have only the GPU below them.
_ON_CARD = "1002:"


@dataclass(frozen=True, eq=False)
class Software:
    """A device as the operating system or a driver names it: `mlx5_0`, `nvml3`."""

    name: str
    element: Element
    infos: dict[str, str]


@dataclass(eq=False)
class PciDevice:
    """A device, with the bridges above it from near to far.

    Parameters
    ----------
    busid : lower case, with its domain; empty where it is not stated.
    kind : the class in four digits, `0302`; empty where it is not stated.
    chip : vendor and device, `10de:1db8`.
    bridges : objects of PCI bridges, the nearest first.
    root : the host bridge; None for a device that is below none.
    part : the nearest object above that is of the machine and not of its I/O.
    nodes : NUMA nodes of that part, a set of bits; None where they are not stated.
    software : of the device and of what is below it.
    """

    element: Element
    busid: str
    kind: str
    chip: str
    bridges: tuple[Element, ...]
    root: Element | None
    part: Element
    nodes: int | None
    software: list[Software] = field(default_factory=list)

    @property
    def numa(self) -> int | None:
        """The one NUMA node that it belongs to."""
        if self.nodes is None or self.nodes <= 0 or self.nodes & (self.nodes - 1):
            return None
        return self.nodes.bit_length() - 1

    @property
    def raw_gbps(self) -> float | None:
        """Of its link, as hwloc has it: the speed at the time."""
        return _speed(self.element)

    def here(self, path: str | None) -> FileLine:
        return FileLine(path, self.element.line)


@dataclass
class Tree:
    """All of a file that an import can use.

    Parameters
    ----------
    loose : software devices that are below no PCI device.
    cpus : the NUMA nodes with their processors.
    matrices : the elements of distances, by their name.
    """

    root: Element
    devices: list[PciDevice] = field(default_factory=list)
    loose: list[Software] = field(default_factory=list)
    cpus: list[Cpu] = field(default_factory=list)
    matrices: dict[str, Element] = field(default_factory=dict)


@dataclass(frozen=True)
class _Above:
    """What is above an object while the tree is walked."""

    part: Element
    nodes: int | None
    infos: dict[str, str]
    bridges: tuple[Element, ...] = ()
    root: Element | None = None
    device: PciDevice | None = None


def parse_tree(text: str, path: str | None) -> Tree:
    """The devices and matrices of a file.

    Raises
    ------
    TopologyError : it is not well formed, or is no topology.
    """
    roots = parse_elements(text.lstrip().encode("utf-8", errors="replace"), path, DIALECT, encoding="utf-8")
    root = roots[0]
    if root.tag not in ("topology", "root"):
        raise FileLine(path, root.line).error(f"the first element is <{root.tag}>, not <topology>")
    tree = Tree(root)
    for element in root.children:
        if element.tag == "object":
            _walk(element, _Above(element, _nodes(element), _infos(root)), tree, path)
        elif element.tag in ("distances2", "distances2hetero"):
            tree.matrices.setdefault(element.attributes.get("name", ""), element)
    return tree


def way_gbps(links: Sequence[Element], least: float = 0.0) -> float | None:
    """The narrowest of some links, each named by the object below it, GB/s as NCCL reckons them.

    None if one of them is not stated, or is below `least` (hwloc's GB/s): links of idle devices are slow.
    """
    speeds = [speed for speed in map(_speed, links) if speed is not None and speed >= least]
    return round(min(speeds) * _NCCL_SHARE, 3) if speeds and len(speeds) == len(links) else None


def bridges_between(a: PciDevice, b: PciDevice) -> int:
    """Bridges that two devices pass on their way to the lowest one above both; 0 where there is none."""
    shared = _shared_bridge(a, b)
    return 0 if shared is None else sum(_between(device, shared) for device in (a, b))


def nearness(a: PciDevice, b: PciDevice) -> Nearness:
    """How far two devices are from each other, by the lowest place where their routes up meet."""
    if a is b:
        return Nearness.SELF
    shared = _shared_bridge(a, b)
    if shared is not None:
        far = any(_passed(device, shared) > 1 for device in (a, b))
        return Nearness.PXB if far else Nearness.PIX
    if a.root is not None and a.root is b.root:
        return Nearness.PHB
    if a.part is b.part or (a.nodes is not None and b.nodes is not None and a.nodes & b.nodes):
        return Nearness.NODE
    return Nearness.SYS


def _walk(element: Element, above: _Above, tree: Tree, path: str | None) -> None:
    kind = element.attributes.get("type", "")
    below = above
    if kind == "Bridge":
        if element.attributes.get("bridge_type", "").startswith("0-"):
            below = replace(above, root=element)
        else:
            below = replace(above, bridges=(element, *above.bridges))
    elif kind == "PCIDev":
        device = _device(element, above)
        tree.devices.append(device)
        below = replace(above, device=device)
    elif kind == "OSDev":
        (tree.loose if above.device is None else above.device.software).append(_software(element))
    elif above.root is None and above.device is None and kind != "Misc":
        nodes = _nodes(element)
        below = _Above(element, above.nodes if nodes is None else nodes, {**above.infos, **_infos(element)})
        if kind == "NUMANode":
            tree.cpus.append(_cpu(element, below, path))
    for child in element.children:
        if child.tag == "object":
            _walk(child, below, tree, path)


def _cpu(element: Element, here: _Above, path: str | None) -> Cpu:
    index, family, model = (
        int(text) if re.fullmatch("[0-9]{1,6}", text) else None
        for text in (
            element.attributes.get("os_index", ""),
            here.infos.get("CPUFamilyNumber", ""),
            here.infos.get("CPUModelNumber", ""),
        )
    )
    arch = here.infos.get("Architecture", "")
    power = here.infos.get("CPUModel", "").startswith("POWER")
    return Cpu(
        FileLine(path, element.line),
        numa=index,
        arch="ppc64" if power or arch.startswith("ppc") else "arm64" if arch == "aarch64" else arch or None,
        vendor=here.infos.get("CPUVendor") or None,
        family=family,
        model=model,
    )


def _infos(element: Element) -> dict[str, str]:
    return {
        child.attributes.get("name", ""): child.attributes.get("value", "")
        for child in element.children
        if child.tag == "info"
    }


def _device(element: Element, above: _Above) -> PciDevice:
    match = _PCI_TYPE.match(element.attributes.get("pci_type", ""))
    return PciDevice(
        element,
        busid=element.attributes.get("pci_busid", "").strip().lower(),
        kind="" if match is None else match[1].lower(),
        chip="" if match is None else f"{match[2]}:{match[3]}".lower(),
        bridges=above.bridges,
        root=above.root,
        part=above.part,
        nodes=above.nodes,
    )


def _software(element: Element) -> Software:
    return Software(element.attributes.get("name", "").strip(), element, _infos(element))


def _shared_bridge(a: PciDevice, b: PciDevice) -> Element | None:
    return next((bridge for bridge in a.bridges if any(bridge is other for other in b.bridges)), None)


def _between(device: PciDevice, shared: Element) -> int:
    """Bridges between a device and one above it, those on its own card apart."""
    return len(_chips_between(device, shared))


def _passed(device: PciDevice, shared: Element) -> int:
    """As `_between`, but the bridges of one chip count as the one port that they are."""
    chips = _chips_between(device, shared)
    return 1 if _chip(shared) in _ONE_CHIP and {*chips} == {_chip(shared)} else len(chips)


def _chips_between(device: PciDevice, shared: Element) -> list[str]:
    until = next(count for count, bridge in enumerate(device.bridges) if bridge is shared)
    return [chip for bridge in device.bridges[:until] if not (chip := _chip(bridge)).startswith(_ON_CARD)]


def _chip(bridge: Element) -> str:
    match = _PCI_TYPE.match(bridge.attributes.get("pci_type", ""))
    return "" if match is None else f"{match[2]}:{match[3]}".lower()


def _speed(element: Element) -> float | None:
    """Raw GB/s of the link above; 0 in the file is one that hwloc does not know."""
    match = _SPEED.match(element.attributes.get("pci_link_speed", ""))
    return None if match is None or float(match[1]) <= 0 else float(match[1])


def _nodes(element: Element) -> int | None:
    """A set of NUMA nodes: words of 32 bits in hexadecimal, the highest first; `0xf...f` goes on for ever."""
    text = element.attributes.get("nodeset", "").strip()
    if not text or len(text) > 4096:
        return None
    words = text.replace("0xf...f", "0xffffffff").split(",")
    value = 0
    for word in words:
        match = _WORD.fullmatch(word.strip())
        if match is None:
            return None
        value = value << 32 | int(match[1] or "0", 16)
    return value
