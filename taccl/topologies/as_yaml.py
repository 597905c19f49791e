"""A machine as a text in the language of `yaml_file`, which reads it back as the same machine.

A machine of equal nodes whose NICs meet in one fabric becomes a template, a number and a fabric; a machine of
one node becomes a list of devices and links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from taccl.errors import TopologyError
from taccl.topologies.devices import Device, Link
from taccl.topologies.executor_section import executor_lines
from taccl.topologies.model import PhysicalTopology

_KEYS = {"gpu": "gpus", "switch": "switches", "nic": "nics", "pcie": "pcie"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


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
        Device(inside[device.name], device.kind, 0, device.local)
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
    for kind, key in _KEYS.items():
        names = [device.name for device in devices if device.kind == kind]
        if names:
            counted = names == [f"{kind}{number}" for number in range(len(names))]
            yield f"{indent}{key}: {len(names) if counted else '[' + ', '.join(names) + ']'}"
    if not links:
        yield f"{indent}links: []"
        return
    yield f"{indent}links:"
    for pairs, is_one_way, alpha, beta in _entries(links):
        all_to_all = _all_to_all(pairs, devices, is_one_way)
        if all_to_all is None:
            yield f"{indent}  - pairs: [{', '.join(f'{src}-{dst}' for src, dst in pairs)}]"
        else:
            yield f"{indent}  - from: {all_to_all[0]}"
            yield f"{indent}    to: {all_to_all[1]}"
        yield f"{indent}    alpha_us: {alpha!r}"
        yield f"{indent}    beta_us_per_mb: {beta!r}"
        if is_one_way:
            yield f"{indent}    one_way: true"


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


def _all_to_all(pairs: _Pairs, devices: Sequence[Device], is_one_way: bool) -> tuple[str, str] | None:
    """The kinds that these pairs join, each device of the one with each of the other; None if they do not."""
    kind_of = {device.name: device.kind for device in devices}
    kinds = {(kind_of[src], kind_of[dst]) for src, dst in pairs}
    if len(kinds) != 1 or kinds <= {("fabric", "fabric")}:
        return None
    src_kind, dst_kind = kinds.pop()
    many = Counter(kind_of.values())
    if src_kind == dst_kind:
        whole = many[src_kind] * (many[src_kind] - 1) // (1 if is_one_way else 2)
    else:
        whole = many[src_kind] * many[dst_kind]
    return (_KEYS[src_kind], _KEYS[dst_kind]) if len(pairs) == whole else None


def _quoted(name: str) -> str:
    """A name as YAML reads it back as a text."""
    return "'" + name.replace("'", "''") + "'"


def _cannot(machine: PhysicalTopology, why: str) -> TopologyError:
    return TopologyError(
        f"{machine.name} cannot be written as a file: {why}", hint="put the numbers into its own file"
    )
