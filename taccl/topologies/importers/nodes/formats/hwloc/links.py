"""The links between GPUs that hwloc's matrices tell: `NVLinkBandwidth`, and `XGMIBandwidth` if it is real."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from taccl.support.lists import few
from taccl.support.tables import FileLine
from taccl.support.xml_elements import Element
from taccl.topologies.importers.nodes.facts import GpuLink, LinkKind
from taccl.topologies.importers.nodes.formats.hwloc.devices import PlacedGpu, has_nvswitch, is_nvswitch
from taccl.topologies.importers.nodes.formats.hwloc.tree import Tree
from taccl.topologies.importers.nodes.gpus import arch_of_model, is_without_nvlink

#: MB/s that hwloc's NVML backend puts down for one NVLink: generation 1, generations 2 to 4, generation 5.
_NVLINK_FIRST, _NVLINK, _NVLINK_FIFTH = 20_000, 25_000, 50_000
#: MB/s that the ROCm driver states for one xGMI link.
_XGMI = 50_000
#: What hwloc put down for every two GPUs of a hive, linked or not, before it requested the driver.
_XGMI_PLACEHOLDER = 100_000
_MOST_OBJECTS = 1024


@dataclass
class Links:
    """The links; None where the file does not tell them."""

    links: list[GpuLink] | None = None
    has_switch: bool | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Matrix:
    """Values in MB/s, and what the rows are: a GPU's position, `switch`, or None for what is neither."""

    place: FileLine
    ends: tuple[int | str | None, ...]
    values: tuple[int, ...]


def find_links(tree: Tree, placed: Sequence[PlacedGpu], path: str | None) -> Links:
    """The links that both ends state.

    Raises
    ------
    TopologyError : a matrix is damaged.
    """
    nvlink, xgmi = tree.matrices.get("NVLinkBandwidth"), tree.matrices.get("XGMIBandwidth")
    if nvlink is not None:
        return _nvlinks(_matrix(nvlink, tree, placed, path), placed)
    if xgmi is not None:
        return _xgmi_links(_matrix(xgmi, tree, placed, path), placed)
    if all(_has_no_links(each) for each in placed):
        return Links([], False)
    found = Links(has_switch=True if has_nvswitch(tree) else None)
    hives = _hives(placed)
    if hives:
        found.warnings.append(f"which GPUs have an xGMI link to each other is not stated; {hives}")
    elif len(placed) > 1:
        found.warnings.append(
            "NVLink and xGMI are not stated: this file has no matrix of bandwidths (hwloc without NVML or "
            "ROCm SMI); add `nvidia-smi topo -m`, `rocm-smi --showtopo` or NCCL's topology XML"
        )
    return found


def _nvlinks(matrix: _Matrix, placed: Sequence[PlacedGpu]) -> Links:
    warnings: list[str] = []
    links: list[GpuLink] = []
    to_switch: dict[int, int] = {}
    for a, b, value in _pairs(matrix, warnings):
        if b is None:
            to_switch[a] = to_switch.get(a, 0) + value
        else:
            links.append(_link(matrix.place, a, b, "nvlink", value, _one_nvlink(placed[a], value), warnings))
    for a, value in sorted(to_switch.items()):
        links.append(_link(matrix.place, a, None, "nvlink", value, _one_nvlink(placed[a], value), warnings))
    most = max(to_switch.values(), default=0)
    fewer = [str(a) for a in range(len(placed)) if to_switch.get(a, 0) < most]
    if fewer:
        warnings.append(
            f"{matrix.place}: these GPUs have fewer links to the NVSwitches than others, "
            f"which may be down: {' '.join(fewer)}"
        )
    return Links(links, any(end == "switch" for end in matrix.ends), warnings)


def _xgmi_links(matrix: _Matrix, placed: Sequence[PlacedGpu]) -> Links:
    warnings: list[str] = []
    pairs = [(a, b, value) for a, b, value in _pairs(matrix, warnings) if b is not None]
    if pairs and all(value == _XGMI_PLACEHOLDER for _, _, value in pairs):
        reported = (
            f"{matrix.place}: XGMIBandwidth has {_XGMI_PLACEHOLDER} for every pair, linked or not, "
            f"so which GPUs have an xGMI link is not stated; {_hives(placed)}"
        )
        return Links(None, False, [reported])
    links = [_link(matrix.place, a, b, "xgmi", value, _XGMI, warnings) for a, b, value in pairs]
    return Links(links, False, warnings)


def _pairs(matrix: _Matrix, warnings: list[str]) -> Iterator[tuple[int, int | None, int]]:
    """GPU and GPU (the lower first), or GPU and None for a switch, with the MB/s of the slower direction."""
    size, odd = len(matrix.ends), []
    for row, end in enumerate(matrix.ends):
        for column in range(row + 1, size):
            other = matrix.ends[column]
            there, back = matrix.values[row * size + column], matrix.values[column * size + row]
            numbers = sorted(each for each in (end, other) if isinstance(each, int))
            if not numbers or end is None or other is None or end == other:
                continue
            if there != back:
                odd.append(f"{end} and {other} ({there} and {back})")
            if min(there, back) > 0:
                yield numbers[0], numbers[1] if len(numbers) > 1 else None, min(there, back)
    if odd:
        warnings.append(
            f"{matrix.place}: the two directions differ (a broken link), the weaker is taken: "
            f"{few(odd, 3, '; ')}"
        )


def _link(
    place: FileLine, a: int, b: int | None, kind: LinkKind, value: int, one: int, warnings: list[str]
) -> GpuLink:
    """As many links of `one` MB/s as the value has; one link of the value where that is no whole number."""
    if value % one == 0:
        return GpuLink(place, a, b, kind, value // one, one / 1000)
    warnings.append(f"{place}: {value} MB/s is no multiple of {one}, which is one link; taken as one link")
    return GpuLink(place, a, b, kind, 1, value / 1000)


def _one_nvlink(gpu: PlacedGpu, value: int) -> int:
    """MB/s of one link of this GPU: by its model, and where that is not stated by what divides the value."""
    arch = arch_of_model(gpu.gpu.model or "")
    if arch == "sm60":
        return _NVLINK_FIRST
    if arch == "sm100" and value % _NVLINK_FIFTH == 0:
        return _NVLINK_FIFTH
    return _NVLINK_FIRST if value % _NVLINK and not value % _NVLINK_FIRST else _NVLINK


def _has_no_links(gpu: PlacedGpu) -> bool:
    """Whether its model never had NVLink, or its driver says that it is in no hive of xGMI."""
    hive = gpu.info("XGMIHiveID")
    return is_without_nvlink(gpu.gpu.model or "") if hive is None else not hive.strip("0x")


def _hives(placed: Sequence[PlacedGpu]) -> str:
    groups: dict[str, list[str]] = {}
    for position, each in enumerate(placed):
        hive = each.info("XGMIHiveID")
        if hive is not None and hive.strip("0x"):
            groups.setdefault(hive, []).append(str(position))
    return "; ".join(f"GPUs {' '.join(group)} are one hive" for group in groups.values())


def _matrix(element: Element, tree: Tree, placed: Sequence[PlacedGpu], path: str | None) -> _Matrix:
    """A matrix with its objects found in the tree.

    Raises
    ------
    TopologyError : sizes do not agree, or something that should be a number is none.
    """
    keys = _words(element, "indexes")
    values = _words(element, "u64values")
    if not keys or len(keys) > _MOST_OBJECTS or len(values) != len(keys) ** 2:
        raise FileLine(path, element.line).error(
            f"{element.attributes.get('name', '')} has {len(keys)} objects and {len(values)} values",
            "give the file whole",
        )
    numbers = [int(value) for value in values if re.fullmatch("[0-9]{1,19}", value)]
    if len(numbers) < len(values):
        wrong = next(value for value in values if not re.fullmatch("[0-9]{1,19}", value))
        raise FileLine(path, element.line).error(f"{wrong[:40]!r} in this matrix is no number")
    ends = _ends(tree, placed)
    by = element.attributes.get("indexing", "gp")
    kind = element.attributes.get("type", "")
    found = tuple(ends.get((by, key if ":" in key else f"{kind}:{key}")) for key in keys)
    named = [end for end in found if isinstance(end, int)]
    if len({*named}) < len(named):
        raise FileLine(path, element.line).error("a GPU stands twice in this matrix")
    return _Matrix(FileLine(path, element.line), found, tuple(numbers))


def _words(element: Element, tag: str) -> list[str]:
    return [word for child in element.children if child.tag == tag for word in child.text.split()]


def _ends(tree: Tree, placed: Sequence[PlacedGpu]) -> dict[tuple[str, str], int | str]:
    """GPUs and switches, by how a matrix names them: (`gp`, `OSDev:802`)."""
    found: dict[tuple[str, str], int | str] = {}
    for device in tree.devices:
        if is_nvswitch(device):
            found["gp", f"PCIDev:{device.element.attributes.get('gp_index', '')}"] = "switch"
    for position, each in enumerate(placed):
        elements = [software.element for software in each.software]
        if each.device is not None:
            elements.append(each.device.element)
        for element in elements:
            kind = element.attributes.get("type", "")
            found["gp", f"{kind}:{element.attributes.get('gp_index', '')}"] = position
    return found
