"""The PCIe tree of a topology XML: CPUs, bridges and devices, each with the link above it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.errors import TopologyError
from taccl.support.tables import FileLine, is_elided
from taccl.support.xml_elements import Dialect, Element, parse_elements
from taccl.topologies.importers.nodes.facts import Cpu, normal_busid

DIALECT = Dialect(
    what="topology file",
    hint="give the file that NCCL_TOPO_DUMP_FILE named, whole and unedited",
    max_bytes=64 * 2**20,
    max_depth=64,
    error=TopologyError,
)

#: NCCL's figures: 100 Mb/s of one lane for each generation, by the transfer rate that sysfs prints.
_LANE = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}
#: What NCCL takes for a link whose rate or width is not stated: x16 of generation 3.
_UNKNOWN_LANE, _UNKNOWN_WIDTH = 60, 16
_SPEED = re.compile(r"\s*([0-9]{1,4}(?:\.[0-9]{1,4})?)\s*GT/s", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BETWEEN_ELEMENTS = re.compile(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^>]*>", re.DOTALL)
_NUMBER = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]{1,16})|([0-9]{1,18}))\s*")

#: This many times slower than a link below it, a bridge's way up is a reading that firmware makes up.
_UNBELIEVABLE = 6

GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
NIC_CLASSES = ("0x02",)


@dataclass(eq=False)
class Device:
    """A CPU, a bridge, or a device below one; CPUs have no `above`.

    Parameters
    ----------
    busid : lower case; empty for a CPU.
    kind : `0x060400` and the like, lower case; empty where it is not stated.
    chip : vendor and device, `0x1000:0xc030`; empty where they are not stated.
    gbps : of the link to `above`, GB/s each way, as NCCL reckons it.
    reported : whether the file has the rate or the width of that link; NCCL has a default for the other.
    numa : of the CPU that it is attached to.
    host : tells the machines of a multi-node NVLink domain apart.
    """

    element: Element
    above: Device | None
    busid: str = ""
    kind: str = ""
    chip: str = ""
    gbps: float = math.inf
    reported: bool = False
    numa: int | None = None
    host: str = ""
    below: list[Device] = field(default_factory=list)

    @property
    def is_cpu(self) -> bool:
        return self.element.tag == "cpu"

    @property
    def is_gpu_class(self) -> bool:
        return self.kind.startswith(GPU_CLASSES)

    @property
    def is_nic_class(self) -> bool:
        return self.kind.startswith(NIC_CLASSES)

    @property
    def bridges(self) -> tuple[Device, ...]:
        """The bridges between it and its CPU, the nearest first."""
        found = []
        above = self.above
        while above is not None and not above.is_cpu:
            found.append(above)
            above = above.above
        return tuple(found)

    @property
    def cpu(self) -> Device:
        device = self
        while device.above is not None:
            device = device.above
        return device

    def here(self, path: str | None) -> FileLine:
        return FileLine(path, self.element.line)

    def children(self, tag: str) -> Iterator[Element]:
        return (child for child in self.element.children if child.tag == tag)


def cut_out(text: str, path: str | None) -> tuple[str, tuple[str, ...]]:
    """The file in a paste that has text around it, on the lines where it stands, and a warning of that."""
    begin = re.search(r"<system[\s>/]", text)
    end = text.rfind("</system>")
    if begin is None or end < begin.start():
        return text, ()
    end += len("</system>")
    before, after = text[: begin.start()], text[end:]
    around = [_BETWEEN_ELEMENTS.sub("", part).strip("\ufeff \t\r\n") for part in (before, after)]
    if not any(around):
        return text, ()
    kept = "\n" * before.count("\n") + text[begin.start() : end]
    line = 1 if around[0] else kept.count("\n") + 1
    return kept, (f"{FileLine(path, line)}: text next to <system> is left out",)


def parse_tree(text: str, path: str | None) -> tuple[Device, ...]:
    """The CPUs of a file, with everything below them.

    Raises
    ------
    TopologyError : it is not well formed, is no topology, or has no CPU.
    """
    for comment in _COMMENT.finditer(text):
        if is_elided(comment[0].removeprefix("<!--")):
            line = text.count("\n", 0, comment.start()) + 1
            raise FileLine(path, line).error("elements were left out here", "give the file whole")
    # NCCL's reader skips comments whatever is in them; in XML they may hold no two hyphens.
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text.lstrip("\ufeff"))
    roots = parse_elements(text.encode("utf-8", errors="replace"), path, DIALECT, encoding="utf-8")
    root = roots[0]
    if root.tag != "system":
        raise FileLine(path, root.line).error(f"the first element is <{root.tag}>, not <system>")
    if len(roots) > 1:
        raise FileLine(path, roots[1].line).error(
            f"a second element, <{roots[1].tag}>, begins after </system>", "give one file for each machine"
        )
    cpus = tuple(_cpu(element, path) for element in root.children if element.tag == "cpu")
    if not cpus:
        raise FileLine(path, root.line).error("<system> has no <cpu> in it")
    return cpus


def all_below(device: Device) -> Iterator[Device]:
    """Every PCI device below, in the order of the file."""
    for child in device.below:
        yield child
        yield from all_below(child)


def whole(element: Element, name: str, path: str | None) -> int | None:
    """A whole number, decimal or 0x; None where the attribute is missing or empty.

    Raises
    ------
    TopologyError : it is something else.
    """
    text = element.attributes.get(name, "")
    if not text.strip():
        return None
    match = _NUMBER.fullmatch(text)
    if match is None:
        what = f"{name} of <{element.tag}> is {text[:40]!r}, which is no whole number"
        raise FileLine(path, element.line).error(what)
    value = int(match[2], 16) if match[2] else int(match[3])
    return -value if match[1] == "-" else value


def processor(cpu: Device, path: str | None) -> Cpu:
    """What the file tells of a CPU. A vendor's spaces around its name are dropped."""
    vendor, arch = (cpu.element.attributes.get(name, "").strip() or None for name in ("vendor", "arch"))
    family, model = (whole(cpu.element, name, path) for name in ("familyid", "modelid"))
    return Cpu(cpu.here(path), cpu.numa, arch, vendor, family, model)


def _cpu(element: Element, path: str | None) -> Device:
    host = element.attributes.get("host_hash", "").strip().lower()
    cpu = Device(element, None, numa=whole(element, "numaid", path), host=host)
    _add_below(cpu, path)
    return cpu


def _add_below(device: Device, path: str | None) -> None:
    for element in device.children("pci"):
        lane, reported_rate = _lane(element.attributes.get("link_speed", ""))
        width = whole(element, "link_width", path) or 0
        vendor, chip = (element.attributes.get(name, "").strip().lower() for name in ("vendor", "device"))
        child = Device(
            element,
            device,
            busid=_busid(element),
            kind=element.attributes.get("class", "").strip().lower(),
            chip=f"{vendor}:{chip}" if vendor and chip else "",
            gbps=(width if width > 0 else _UNKNOWN_WIDTH) * lane / 80,
            reported=reported_rate or width > 0,
            numa=device.numa,
            host=device.host,
        )
        device.below.append(child)
        _add_below(child, path)
        if child.gbps * _UNBELIEVABLE <= max((each.gbps for each in child.below), default=0.0):
            child.reported = False


def _busid(element: Element) -> str:
    text = element.attributes.get("busid", "").strip().lower()
    return normal_busid(text) or text


def _lane(text: str) -> tuple[int, bool]:
    match = _SPEED.match(text)
    lane = None if match is None else _LANE.get(float(match[1]))
    return (_UNKNOWN_LANE, False) if lane is None else (lane, True)
