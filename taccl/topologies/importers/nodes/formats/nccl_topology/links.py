"""NVLinks and xGMI links of a topology XML: each end states its own, and a link needs both ends.

No link is made that the file does not state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import GpuLink, LinkKind, normal_busid
from taccl.topologies.importers.nodes.formats.nccl_topology.devices import PlacedGpu
from taccl.topologies.importers.nodes.formats.nccl_topology.tree import GPU_CLASSES, whole

_SWITCH, _CPU = "0x0680", "0x068001"
#: A target that a virtual machine hides, or that is in another tray: fffffff:ffff:ff.
_HIDDEN = re.compile(r"f{5,}:[f0-9:.]*")
_KINDS: dict[str, LinkKind] = {"nvlink": "nvlink", "xgmi": "xgmi"}


@dataclass(frozen=True)
class Stated:
    """What one GPU says of its links to another: how many, of which kind, and on which line."""

    count: int
    place: FileLine
    kind: LinkKind

    def and_more(self, other: Stated | None) -> Stated:
        return self if other is None else replace(other, count=self.count + other.count)


@dataclass
class Links:
    """The links of all GPUs, and what is odd about them. A GPU's own number stands for links to itself."""

    between: dict[tuple[int, int], Stated] = field(default_factory=dict)
    to_switch: dict[int, Stated] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def has_switch(self) -> bool:
        return bool(self.to_switch)

    def as_facts(self) -> tuple[GpuLink, ...]:
        direct = [
            GpuLink(one.place, a, b, one.kind, one.count) for (a, b), one in sorted(self.between.items())
        ]
        switched = [GpuLink(at.place, a, None, at.kind, at.count) for a, at in sorted(self.to_switch.items())]
        return (*direct, *switched)


def find_links(placed: Sequence[PlacedGpu], path: str | None) -> Links:
    """The links between GPUs, each pair once with what both ends agree on, and those to the switch.

    Raises
    ------
    TopologyError : a count that is no number, or is negative.
    """
    found = Links()
    stated: dict[tuple[int, int], Stated] = {}
    position = {(each.device.host, each.device.busid): i for i, each in enumerate(placed)}
    for here, each in enumerate(placed):
        for element in () if each.element is None else each.element.children:
            if element.tag not in _KINDS:
                continue
            place = FileLine(path, element.line)
            count = whole(element, "count", path)
            count = 1 if count is None else count
            if count < 0:
                what = f"<{element.tag}> has a count of {count}"
                raise FileLine(path, element.line).error(what, "counts are 0 or more")
            if count == 0:
                continue
            one = Stated(count, place, _KINDS[element.tag])
            target = element.attributes.get("target", "").strip().lower()
            target = normal_busid(target) or target
            tclass = element.attributes.get("tclass", "").strip().lower()
            there = position.get((each.device.host, target))
            if tclass.startswith(_CPU):
                found.warnings.append(
                    f"{place}: {count} links of GPU {here} lead to its CPU: no way to another GPU"
                )
            elif there is not None and not tclass.startswith(_SWITCH):
                stated[here, there] = one.and_more(stated.get((here, there)))
            elif tclass.startswith(_SWITCH) or _HIDDEN.fullmatch(target):
                found.to_switch[here] = one.and_more(found.to_switch.get(here))
            else:
                which = "a GPU" if tclass.startswith(GPU_CLASSES) else "a device"
                found.warnings.append(
                    f"{place}: {count} links of GPU {here} lead to {target or 'nowhere'},"
                    f" {which} that is not in this file; they are left out"
                )
    _share(placed, found)
    _agree(stated, found, len(placed))
    _pair_by_order(stated, placed, found)
    _tell_uneven(placed, found)
    return found


def _share(placed: Sequence[PlacedGpu], found: Links) -> None:
    """Several GPUs of one device (its halves, or ranks on it) each state all of its links, and share them."""
    for device in dict.fromkeys(each.device for each in placed):
        parts = [i for i, each in enumerate(placed) if each.device is device]
        if len(parts) < 2:
            continue
        which = ", ".join(map(str, parts))
        found.warnings.append(
            f"{placed[parts[0]].gpu.place}: GPUs {which} are parts of one device, {device.busid}:"
            " they share its links"
        )
        for part in parts:
            if part in found.to_switch:
                one = found.to_switch[part]
                found.to_switch[part] = replace(one, count=max(1, one.count // len(parts)))


def _agree(stated: dict[tuple[int, int], Stated], found: Links, gpus: int) -> None:
    """Keeps of each pair what both ends state."""
    for a in range(gpus):
        for b in range(a + 1, gpus):
            one, other = stated.get((a, b)), stated.get((b, a))
            if one is None or other is None:
                silent, reported = (b, one) if one is not None else (a, other)
                if reported is None:
                    continue
                found.warnings.append(
                    f"{reported.place}: {reported.count} links between GPUs {a} and {b}, GPU {silent} states "
                    "none: they are down, and left out"
                )
                continue
            if one.count != other.count:
                found.warnings.append(
                    f"{one.place}: GPU {a} states {one.count} links to GPU {b}, which states {other.count}"
                    f" ({other.place}): links are down, {min(one.count, other.count)} are taken"
                )
            found.between[a, b] = one if one.count <= other.count else other


def _pair_by_order(stated: dict[tuple[int, int], Stated], placed: Sequence[PlacedGpu], found: Links) -> None:
    """Bridges whose far end a virtual machine hides: each GPU states links to itself.

    An NVLink bridge joins two neighbouring cards. So if all GPUs state as many links to themselves and no
    others, they are taken in pairs by bus id. Otherwise such links lead nowhere that is reported.
    """
    own = {a: one for (a, b), one in stated.items() if a == b}
    if not own:
        return
    alone = len(own) == len(stated) == len(placed) and not found.to_switch
    if alone and len(own) % 2 == 0 and len({one.count for one in own.values()}) == 1:
        order = sorted(own, key=lambda gpu: (placed[gpu].device.host, placed[gpu].device.busid))
        for a, b in zip(order[::2], order[1::2], strict=True):
            found.between[min(a, b), max(a, b)] = own[min(a, b)]
        pairs = ", ".join(f"{a}-{b}" for a, b in zip(order[::2], order[1::2], strict=True))
        found.warnings.append(
            f"{own[0].place}: every GPU states links to itself, as in virtual machines that hide the far"
            f" end of NVLink bridges: inferred that neighbours are bridged ({pairs})"
        )
        return
    for gpu, one in own.items():
        found.warnings.append(f"{one.place}: {one.count} links of GPU {gpu} to itself are left out")


def _tell_uneven(placed: Sequence[PlacedGpu], found: Links) -> None:
    totals = [0] * len(placed)
    for (a, b), one in found.between.items():
        totals[a] += one.count
        totals[b] += one.count
    for gpu, one in found.to_switch.items():
        totals[gpu] += one.count
    most = max(totals, default=0)
    for gpu, total in enumerate(totals):
        if found.to_switch and total < most:
            what = (
                f"has {total} links where others have {most}"
                if total
                else f"has no links, others have {most}"
            )
            found.warnings.append(f"{placed[gpu].gpu.place}: GPU {gpu} {what}: links of it are down")
