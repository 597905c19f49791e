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
from taccl.topologies.devices import NO_NODE, Device, DeviceKind, Link
from taccl.topologies.executor_section import executor_lines
from taccl.topologies.helpers_text import helper_entries
from taccl.topologies.model import PhysicalTopology

_KEYS: dict[DeviceKind, str] = {
    "gpu": "gpus",
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
    helpers: Sequence[str] = (),
) -> Iterator[str]:
    """The lines of a node: its devices by their number or names, and its links.

    `comments` : about the GPUs, below their line. `helpers` : the entries of `helpers`.
    """
    for kind, key in _KEYS.items():
        names = devices.get(kind)
        if names:
            yield f"{indent}{key}: {names if isinstance(names, int) else '[' + ', '.join(names) + ']'}"
        if kind == "gpu":
            yield from (f"{indent}# {comment_of(comment)}" for comment in comments)
    if helpers:
        yield f"{indent}helpers:"
        yield from (f"{indent}  - {entry}" for entry in helpers)
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
    if machine.gpu is not None:
        lines.append(f"gpu: {_quoted(machine.gpu)}")
    if all(gpu.name.startswith(f"node{gpu.node}.") for gpu in machine.gpus[: machine.num_members]):
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
    helpers, servers = _outside_nodes(machine)
    machine = replace(
        machine,
        devices=tuple(device for device in machine.devices if device not in helpers),
        links=tuple(link for link in machine.links if link not in servers),
    )
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
    if helpers:
        yield "helpers:"
        yield from (f"  - {entry}" for entry in helper_entries(helpers, servers, are_servers=True))


def _outside_nodes(machine: PhysicalTopology) -> _Node:
    """The helpers of no node with the memory that they are behind, and the links of these."""
    helpers = [device for device in machine.devices if device.kind == "helper" and device.node == NO_NODE]
    memory = {end for helper in helpers for end in helper.behind or ()}
    devices = [device for device in machine.devices if device in helpers or device.name in memory]
    names = {device.name for device in devices}
    return devices, [link for link in machine.links if {link.src, link.dst} & names]


def _without_prefix(machine: PhysicalTopology, prefix: str) -> _Node:
    """The devices and links of one node, by the names that they have in it."""
    node = None if not prefix else int(prefix.removeprefix("node").removesuffix("."))
    inside = {
        device.name: device.name.removeprefix(prefix)
        for device in machine.devices
        if node is None or device.node == node
    }
    kind_of = {device.name: device.kind for device in machine.devices}
    memory = {end for device in machine.devices for end in device.behind or ()}
    for full, name in inside.items():
        if kind_of[full] != "helper" and full not in memory and not _NAME.fullmatch(name):
            raise _cannot(machine, f"no device can be called {name!r}")
    devices = [
        replace(
            device,
            name=inside[device.name],
            node=0,
            at=None if device.at is None else inside.get(device.at, device.at),
            behind=None if device.behind is None else (inside[device.behind[0]], inside[device.behind[1]]),
        )
        for device in machine.devices
        if device.name in inside
    ]
    links = [
        Link(inside[link.src], inside[link.dst], link.alpha_us, link.beta_us_per_mb)
        for link in machine.links
        if link.src in inside and link.dst in inside
    ]
    return devices, links


def _template(node: _Node, indent: str) -> Iterator[str]:
    devices, links = node
    helpers = [device for device in devices if device.kind == "helper"]
    memory = {end for helper in helpers for end in helper.behind or ()}
    served = {helper.name for helper in helpers if helper.behind is not None} | memory
    entries_of_helpers = helper_entries(helpers, links)
    devices = [device for device in devices if device.name not in memory]
    links = [link for link in links if not {link.src, link.dst} & served]
    listed: dict[DeviceKind, int | Sequence[str]] = {}
    for kind in _KEYS:
        names = [device.name for device in devices if device.kind == kind]
        counted = names == [f"{kind}{number}" for number in range(len(names))]
        listed[kind] = len(names) if counted else names
    entries = []
    for pairs, is_one_way, alpha, beta in _entries(links):
        ends = _all_to_all(pairs, devices, is_one_way)
        ends = ends or pairs_lines([f"{src}-{dst}" for src, dst in pairs])
        entries.append(LinkEntry(ends, (f"alpha_us: {alpha!r}", f"beta_us_per_mb: {beta!r}"), is_one_way))
    return template_lines(listed, entries, indent, helpers=entries_of_helpers)


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
    names = {**_KEYS, "helper": "helpers"}
    return [f"from: {names[src_kind]}", f"to: {names[dst_kind]}"] if len(pairs) == whole else []


def _quoted(name: str) -> str:
    """A name as YAML reads it back as a text."""
    return "'" + name.replace("'", "''") + "'"


def _cannot(machine: PhysicalTopology, why: str) -> TopologyError:
    return TopologyError(
        f"{machine.name} cannot be written as a file: {why}", hint="put the numbers into its own file"
    )
