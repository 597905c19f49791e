"""A machine before it is written down: names of devices, wires between them, and a network.

The noun of what an import makes. Every number is a `Figure`, which says how it is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from taccl.topologies.as_yaml import LinkEntry, comment_of, pairs_lines, template_lines
from taccl.topologies.devices import DeviceKind
from taccl.topologies.importers.nodes.facts import Known, Nic
from taccl.topologies.machines.figures import Figure

#: What YAML would not read as a name, and words that stand for all devices of a kind in a machine file.
_RESERVED = re.compile(
    r"null|true|false|gpus?\d*|switches|nics|pcie|nvswitch\d*|(cpu|bridge|card|slot)\d+(_in|_out)?|fabric",
    re.IGNORECASE,
)
_LONGEST = 40


@dataclass(frozen=True)
class Wire:
    """A link between two devices, both directions if not said otherwise.

    Parameters
    ----------
    a, b : names of devices.
    what : for people, the same for wires that are equivalent: `NVLink to the switch`.
    alpha_us, gbps : microseconds, and GB/s each way.
    """

    a: str
    b: str
    what: str
    alpha_us: Figure
    gbps: Figure
    one_way: bool = False


@dataclass
class NodeLayout:
    """One node.

    Parameters
    ----------
    gpus, switches, nics, pcie : names, in the order of the machine.
    summing : switches that sum and copy, and GB/s of a GPU through their sums.
    nic_of : position of a port in the dump -> its name here.
    fabric : alpha and GB/s of the network; None without a NIC.
    gpu : the model of the GPUs and how it is known; None where that is not known, or they differ.
    """

    gpus: tuple[str, ...]
    switches: list[str] = field(default_factory=list)
    nics: tuple[str, ...] = ()
    pcie: list[str] = field(default_factory=list)
    summing: dict[str, Figure] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    nic_of: dict[int, str] = field(default_factory=dict)
    fabric: tuple[Figure, Figure] | None = None
    gpu: Known | None = None
    warnings: list[str] = field(default_factory=list)

    def add_pcie(self, name: str) -> str:
        """A PCIe device of this name, once."""
        if name not in self.pcie:
            self.pcie.append(name)
        return name

    def wire(
        self, ends: tuple[str, str], what: str, alpha_us: Figure, gbps: Figure, *, one_way: bool = False
    ) -> None:
        """One more wire."""
        self.wires.append(Wire(*ends, what, alpha_us, gbps, one_way))


def nic_names(nics: Sequence[Nic], used: Collection[int]) -> dict[int, str]:
    """Names for ports that a machine file can hold: their own, as far as it can."""
    names: dict[int, str] = {}
    for i in used:
        name = re.sub(r"[^A-Za-z0-9_]", "_", nics[i].name)[:_LONGEST]
        if not re.match(r"[A-Za-z]", name) or _RESERVED.fullmatch(name):
            name = f"nic_{name}"[:_LONGEST]
        while name in names.values():
            name = f"{name[: _LONGEST - 8]}_{i}"
        names[i] = name
    return names


def narrowest(*figures: Figure) -> Figure:
    """The least of several GB/s; where they differ, the rule that it is the least is how it is known."""
    least = min(figures, key=lambda figure: figure.value)
    if all(figure.value == least.value for figure in figures) or len(figures) == 1:
        return least
    return Figure(
        least.value, "inferred", f"the narrowest of {len(figures)} links: {least.how} {least.source}"
    )


def machine_yaml(
    layout: NodeLayout, name: str, nodes: int, header: Iterable[str], gpu_comments: Sequence[str]
) -> str:
    """The text of the machine.

    Parameters
    ----------
    header : lines of comments to begin with.
    gpu_comments : for each GPU, what it is.
    """
    lines = [f"# {comment_of(line)}" for line in header]
    lines.append(f"name: {json.dumps(name)}")
    if layout.gpu is not None:
        how = comment_of(f"{layout.gpu.how}: {layout.gpu.source}")
        lines.append(f"gpu: {json.dumps(layout.gpu.value)}  # {how}")
    lines += [f"nodes: {nodes}", "node:"]
    devices: dict[DeviceKind, int | Sequence[str]] = {
        "gpu": len(layout.gpus),
        "switch": layout.switches,
        "nic": layout.nics,
        "pcie": layout.pcie,
    }
    entries = [_entry(wires, layout) for wires in _equivalent(layout.wires)]
    helpers = [_helper(switch, gbps) for switch, gbps in layout.summing.items()]
    lines += template_lines(devices, entries, "  ", gpu_comments, helpers)
    if layout.fabric is not None:
        lines.append("fabric:")
        lines += [f"  {line}" for line in _costs(*layout.fabric)]
    return "\n".join(lines) + "\n"


def _equivalent(wires: Sequence[Wire]) -> list[list[Wire]]:
    """Wires that one entry can hold, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Wire]] = {}
    for wire in wires:
        key = (wire.what, wire.alpha_us.value, wire.gbps.value, wire.gbps.how, wire.one_way)
        groups.setdefault(key, []).append(wire)
    return list(groups.values())


def _entry(wires: Sequence[Wire], layout: NodeLayout) -> LinkEntry:
    first = wires[0]
    if len({wire.b for wire in wires}) == 1 and tuple(wire.a for wire in wires) == layout.gpus:
        ends = ["from: gpus", f"to: {first.b}"]
    else:
        numbers = {gpu: str(i) for i, gpu in enumerate(layout.gpus)}
        ends = pairs_lines([f"{numbers.get(wire.a, wire.a)}-{numbers.get(wire.b, wire.b)}" for wire in wires])
    more = len({wire.gbps.source for wire in wires}) - 1
    return LinkEntry(ends, _costs(first.alpha_us, first.gbps, more), first.one_way, first.what)


def _helper(switch: str, gbps: Figure) -> str:
    """A switch that sums to one GPU and copies to all, as a file's `helpers` has it."""
    does = f"{{at: {switch}, can: [reduce-to-one, copy], bandwidth_gbps: {gbps.value:.9g}}}"
    return f"{does}  # {comment_of(gbps.origin)}"


def _costs(alpha_us: Figure, gbps: Figure, more: int = 0) -> list[str]:
    others = f" (and {more} more equivalent)" if more else ""
    return [
        f"alpha_us: {alpha_us.value:.6g}  # {comment_of(alpha_us.origin)}",
        f"bandwidth_gbps: {gbps.value:.9g}  # {comment_of(gbps.origin)}{others}",
    ]
