"""A machine as a text in the language of `yaml_file`, which reads it back as the same machine.

A machine of equal nodes whose NICs meet in one fabric becomes a template, a number and a fabric; a machine of
one node becomes a list of devices and links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taccl.errors import TopologyError
from taccl.topologies.devices import Device, DeviceKind, Link
from taccl.topologies.executor_section import executor_lines
from taccl.topologies.model import PhysicalTopology

_KEYS: dict[DeviceKind, str] = {
    "gpu": "gpus",
    "helper": "helpers",
    "switch": "switches",
    "nic": "nics",
    "pcie": "pcie",
}
#: Comments are cut where no one reads on, and lists of pairs are wrapped.
_LONGEST_COMMENT, _WIDTH = 240, 90
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class LinkEntry:
    """An entry of `links:`.

    Parameters
    ----------
    ends : `pairs: [...]`, or `from:` and `to:`, in lines.
    costs : the keys of its alpha and its bandwidth or beta, perhaps with comments behind them.
    comment : what the links are; none where it is empty.
    """

    ends: Sequence[str]
    costs: Sequence[str]
    one_way: bool = False
    comment: str = ""


def template_lines(
    devices: Mapping[DeviceKind, int | Sequence[str]],
    entries: Sequence[LinkEntry],
    indent: str,
    comments: Sequence[str] = (),
) -> Iterator[str]:
    """The lines of a node: its devices by their number or names, and its links.

    `comments` : about the GPUs, below their line.
    """
    for kind, key in _KEYS.items():
        names = devices.get(kind)
        if names:
            yield f"{indent}{key}: {names if isinstance(names, int) else '[' + ', '.join(names) + ']'}"
        if kind == "gpu":
            yield from (f"{indent}# {comment_of(comment)}" for comment in comments)
    yield f"{indent}links:" if entries else f"{indent}links: []"
    for entry in entries:
        if entry.comment:
            yield f"{indent}  # {entry.comment}"
        yield f"{indent}  - {entry.ends[0]}"
        one_way = ["one_way: true"] if entry.one_way else []
        yield from (f"{indent}    {line}" for line in (*entry.ends[1:], *one_way, *entry.costs))


def pairs_lines(pairs: Sequence[str]) -> list[str]:
    """`pairs: [...]`, in lines that fit on a screen."""
    lines, line = [], "pairs: ["
    for index, pair in enumerate(pairs):
        word = pair + ("]" if index == len(pairs) - 1 else ",")
        if len(line) + len(word) > _WIDTH:
            lines.append(line.rstrip())
            line = "  "
        line += word + " "
    return [*lines, line.rstrip()]


def comment_of(text: str) -> str:
    """One line of it that a comment can hold, whatever names of files and models have in them."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_COMMENT else line[: _LONGEST_COMMENT - 3] + "..."


def topology_text(machine: PhysicalTopology, comment: Sequence[str] = ()) -> str:
    """The text of a machine's file, with lines of comment before it.

    Raises
    ------
    TopologyError : nodes that differ, or several fabrics: the text cannot say that.
    """
    lines = [f"# {line}".rstrip() for line in comment]
    lines += [f"name: {_quoted(machine.name)}", f"occupancy: {machine.occupancy}"]
    if all(gpu.name.startswith(f"node{gpu.node}.") for gpu in machine.gpus):
        lines += _nodes(machine)
    elif machine.num_nodes == 1:
        lines += _template(_without_prefix(machine, ""), "")
    else:
        raise _cannot(machine, "its devices are not called node0.gpu0, ...")
    if machine.executor is not None:
        lines += executor_lines(machine.executor)
    return "\n".join(lines) + "\n"


_Node = tuple[list[Device], list[Link]]


def _nodes(machine: PhysicalTopology) -> Iterator[str]:
    parts = [_without_prefix(machine, f"node{node}.") for node in range(machine.num_nodes)]
    if any(part != parts[0] for part in parts[1:]):
        raise _cannot(machine, "its nodes differ")
    fabrics = [device.name for device in machine.devices if device.kind == "fabric"]
    costs = {
        (link.alpha_us, link.beta_us_per_mb)
        for link in machine.links
        if link.src in fabrics or link.dst in fabrics
    }
    inside = sum(len(part[1]) for part in parts)
    nics = sum(device.kind == "nic" for device in machine.devices)
    is_one = len(fabrics) == len(costs) == 1 and inside + 2 * nics == len(machine.links)
    if not is_one and (fabrics or inside != len(machine.links)):
        raise _cannot(machine, "its nodes are joined by more than one fabric to all NICs")
    yield "node:"
    yield from _template(parts[0], "  ")
    yield f"nodes: {machine.num_nodes}"
    for alpha, beta in costs:
        yield f"fabric: {{alpha_us: {2 * alpha!r}, beta_us_per_mb: {beta!r}}}"


def _without_prefix(machine: PhysicalTopology, prefix: str) -> _Node:
    """The devices and links of one node, by the names that they have in it."""
    node = None if not prefix else int(prefix.removeprefix("node").removesuffix("."))
    inside = {
        device.name: device.name.removeprefix(prefix)
        for device in machine.devices
        if node is None or device.node == node
    }
    for name in inside.values():
        if not _NAME.fullmatch(name):
            raise _cannot(machine, f"no device can be called {name!r}")
    devices = [
        replace(device, name=inside[device.name], node=0)
        for device in machine.devices
        if device.name in inside
    ]
    links = [
        Link(inside[link.src], inside[link.dst], link.alpha_us, link.beta_us_per_mb)
        for link in machine.links
        if link.src in inside and link.dst in inside
    ]
    return devices, links


def _with_abilities(device: Device) -> str:
    """A device's name, and of a helper what it cannot do."""
    cannot = [key for key, can in (("sums", device.may_sum), ("copies", device.may_copy)) if not can]
    return (
        f"{{name: {device.name}, {', '.join(f'{key}: false' for key in cannot)}}}" if cannot else device.name
    )


def _template(node: _Node, indent: str) -> Iterator[str]:
    devices, links = node
    listed: dict[DeviceKind, int | Sequence[str]] = {}
    for kind in _KEYS:
        names = [_with_abilities(device) for device in devices if device.kind == kind]
        counted = names == [f"{kind}{number}" for number in range(len(names))]
        listed[kind] = len(names) if counted else names
    entries = []
    for pairs, is_one_way, alpha, beta in _entries(links):
        ends = _all_to_all(pairs, devices, is_one_way)
        ends = ends or pairs_lines([f"{src}-{dst}" for src, dst in pairs])
        entries.append(LinkEntry(ends, (f"alpha_us: {alpha!r}", f"beta_us_per_mb: {beta!r}"), is_one_way))
    return template_lines(listed, entries, indent)


_Pairs = list[tuple[str, str]]


def _entries(links: Sequence[Link]) -> Iterator[tuple[_Pairs, bool, float, float]]:
    """Links of one cost together: those with a link back at that cost, and those without."""
    cost = {(link.src, link.dst): (link.alpha_us, link.beta_us_per_mb) for link in links}
    entries: dict[tuple[bool, float, float], dict[tuple[str, str], None]] = {}
    for (src, dst), (alpha, beta) in cost.items():
        is_one_way = cost.get((dst, src)) != (alpha, beta)
        pairs = entries.setdefault((is_one_way, alpha, beta), {})
        if is_one_way or (dst, src) not in pairs:
            pairs[src, dst] = None
    for (is_one_way, alpha, beta), pairs in entries.items():
        yield list(pairs), is_one_way, alpha, beta


def _all_to_all(pairs: _Pairs, devices: Sequence[Device], is_one_way: bool) -> list[str]:
    """`from:` and `to:` where these pairs join each device of one kind with each of another, else empty."""
    kind_of = {device.name: device.kind for device in devices}
    kinds = {(kind_of[src], kind_of[dst]) for src, dst in pairs}
    if len(kinds) != 1 or kinds <= {("fabric", "fabric")}:
        return []
    src_kind, dst_kind = kinds.pop()
    many = Counter(kind_of.values())
    if src_kind == dst_kind:
        whole = many[src_kind] * (many[src_kind] - 1) // (1 if is_one_way else 2)
    else:
        whole = many[src_kind] * many[dst_kind]
    return [f"from: {_KEYS[src_kind]}", f"to: {_KEYS[dst_kind]}"] if len(pairs) == whole else []


def _quoted(name: str) -> str:
    """A name as YAML reads it back as a text."""
    return "'" + name.replace("'", "''") + "'"


def _cannot(machine: PhysicalTopology, why: str) -> TopologyError:
    return TopologyError(
        f"{machine.name} cannot be written as a file: {why}", hint="put the numbers into its own file"
    )
