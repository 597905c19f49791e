"""`helpers:` of a machine file: what each can do, where it is, and what a transfer to or from it costs.

A helper is part of a switch (`at:`), or a device of its own: linked by the entries of `links`, or by one link
to a switch (`to:`, of a server the fabric).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from taccl.topologies.devices import MAX_GPUS, NO_NODE, Device, Link
from taccl.topologies.helpers import ABILITIES, MAX_MEMORY_MB, ONE_FACE, Ability, abilities
from taccl.topologies.link_costs import COST_KEYS, read_alpha, read_beta, read_cost
from taccl.topologies.machines import both_directions
from taccl.topologies.strict_yaml import Node, nearest

_KEYS = ("name", "at", "to", "can", "count", "memory_mb", "slots_mb", "behind", *COST_KEYS)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class Helpers:
    """The helpers of a node or of a machine, their links and what these need, by the names in the node.

    Parameters
    ----------
    devices : the helpers; of a host that serves several, also the two ends of its memory.
    links : of helpers that are servers with a link of their own.
    linked : the names of those that `links` of the file may name.
    """

    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    linked: tuple[str, ...] = ()

    def place(self, node: int, prefix: str) -> tuple[list[Device], list[Link]]:
        """The same of one node, their names and those of its devices preceded by `prefix`."""
        devices = [
            replace(
                each,
                name=prefix + each.name,
                node=node,
                at=None if each.at is None else prefix + each.at,
                behind=None if each.behind is None else (prefix + each.behind[0], prefix + each.behind[1]),
            )
            for each in self.devices
        ]
        return devices, [replace(each, src=prefix + each.src, dst=prefix + each.dst) for each in self.links]


@dataclass(frozen=True)
class Surroundings:
    """What helpers can be at, or be linked to.

    Parameters
    ----------
    switches : the devices that pass data on.
    home : where a server's link leads unless it says so, and the alpha of that link; None: nowhere.
    has_links : whether `links` can name helpers.
    """

    switches: Sequence[str]
    home: tuple[str, float] | None = None
    has_links: bool = True


def read_helpers(node: Node, around: Surroundings) -> Helpers:
    """The helpers that a file lists: a number, names, or mappings.

    Raises
    ------
    TopologyError : with the line.
    """
    if node.kind != "list":
        names = [f"helper{i}" for i in range(node.integer(minimum=0, maximum=MAX_GPUS))]
        if names and not around.has_links:
            raise node.error(
                f"{node.name} must say what each helper can do", hint="[{name: server, can: [reduce, copy]}]"
            )
        return _numbered([Device(name, "helper", 0, 0) for name in names], (), names)
    devices: list[Device] = []
    links: list[Link] = []
    linked: list[str] = []
    for item in node.elements():
        read = _entry(item, around)
        devices += read.devices
        links += read.links
        linked += read.linked
    return _numbered(devices, links, linked)


def _numbered(devices: Sequence[Device], links: Sequence[Link], linked: Sequence[str]) -> Helpers:
    """With a `local` number for each device among those of its kind."""
    numbers = {"helper": 0, "pcie": MAX_GPUS}  # the ends of a host's memory are no PCIe bridges of the node
    numbered = []
    for device in devices:
        numbered.append(replace(device, local=numbers[device.kind]))
        numbers[device.kind] += 1
    return Helpers(tuple(numbered), tuple(links), tuple(linked))


def _entry(item: Node, around: Surroundings) -> Helpers:
    if item.kind != "mapping":
        return _device_of_its_own(item, {"name": item}, around)
    keys = item.mapping(_KEYS)
    if "at" in keys:
        return _at_switch(item, keys, around)
    return _device_of_its_own(item, keys, around)


def _at_switch(item: Node, keys: dict[str, Node], around: Surroundings) -> Helpers:
    """A helper that is part of a switch: one rank, or a sum face and a copy face."""
    for key in ("to", "count", "behind"):
        if key in keys:
            raise keys[key].error(f"{keys[key].name} is of servers, and this helper is part of a switch")
    if "can" not in keys:
        raise item.error(f"{item.name} lacks the key 'can'", hint="can: [reduce, copy]")
    switch = _switch(keys["at"], around.switches)
    faces = abilities(_can(keys["can"]))
    if "name" in keys:
        names = [_name(keys["name"]) + face.suffix for face in faces]
    else:
        names = [switch + (face.suffix or ONE_FACE) for face in faces]
    alpha = read_alpha(keys["alpha_us"]) if "alpha_us" in keys else None
    beta = read_beta(item, keys) if {"beta_us_per_mb", "bandwidth_gbps"} & keys.keys() else None
    made = [
        replace(_helper(name, face, keys), at=switch, alpha_us=alpha, beta_us_per_mb=beta)
        for name, face in zip(names, faces, strict=True)
    ]
    return Helpers(tuple(made))


def _device_of_its_own(item: Node, keys: dict[str, Node], around: Surroundings) -> Helpers:
    """Servers with a link each to a switch, or with the links that `links` gives them."""
    if "name" not in keys:
        raise item.error(f"{item.name} lacks the key 'name', or 'at'", hint="name: server, or at: a switch")
    name = _name(keys["name"])
    names = [name]
    if "count" in keys:
        names = [f"{name}{i}" for i in range(keys["count"].integer(minimum=0, maximum=MAX_GPUS))]
    faces = abilities(_can(keys["can"]) if "can" in keys else ("reduce", "copy"))
    if len(faces) > 1:
        raise keys["can"].error(
            f"{keys['can'].name}: only a switch is a sum face and a copy face",
            hint="[reduce, copy], or at: a switch",
        )
    devices = [_helper(each, faces[0], keys) for each in names]
    if around.has_links and not {"to", *COST_KEYS} & keys.keys():
        if "behind" in keys:
            raise keys["behind"].error(f"{keys['behind'].name} needs the servers' link", hint="to: a switch")
        return Helpers(tuple(devices), (), tuple(names))
    to, alpha, beta = _way_out(item, keys, around)
    links = [link for each in names for link in both_directions(each, to, alpha, beta)]
    if "behind" in keys:
        memory, link = _memory_of_host(name, keys["behind"])
        devices = [*(replace(each, behind=(link.src, link.dst)) for each in devices), *memory]
        links.append(link)
    return Helpers(tuple(devices), tuple(links))


def _way_out(item: Node, keys: dict[str, Node], around: Surroundings) -> tuple[str, float, float]:
    """Where a server's link leads, and its alpha and beta."""
    if around.home is None and "to" not in keys:
        raise item.error(f"{item.name} lacks the key 'to'", hint=f"to: {nearest('', around.switches[:5])}")
    home, alpha = around.home or ("", None)
    to = _switch(keys["to"], around.switches) if "to" in keys else home
    if alpha is None or "alpha_us" in keys:
        return to, *read_cost(item, keys)
    return to, alpha, read_beta(item, keys)


def _memory_of_host(name: str, behind: Node) -> tuple[tuple[Device, ...], Link]:
    """The memory of a host as one link: what its servers receive and send passes it, one after another."""
    keys = behind.mapping(("beta_us_per_mb", "bandwidth_gbps"))
    bus, memory = (Device(f"{name}.{end}", "pcie", NO_NODE, 0) for end in ("bus", "memory"))
    return (bus, memory), Link(bus.name, memory.name, 0.0, read_beta(behind, keys))


def _helper(name: str, face: Ability, keys: dict[str, Node]) -> Device:
    given = [keys[key] for key in ("memory_mb", "slots_mb") if key in keys]
    if len(given) > 1:
        raise given[1].error(f"{given[1].name} and memory_mb are one thing", hint="give one of them")
    memory = given[0].number(above=0, maximum=MAX_MEMORY_MB) if given else None
    can = (face.may_sum, face.may_copy)
    return Device(name, "helper", 0, 0, *can, loops_back=face.loops_back, memory_mb=memory)


def _can(node: Node) -> tuple[str, ...]:
    """What a helper can do."""
    can = tuple(item.choice(ABILITIES) for item in node.elements())
    if not can:
        raise node.error(f"{node.name} is empty", hint="can: [store], of a helper that only passes on")
    if {"reduce", "reduce-to-one"} <= set(can):
        raise node.error(
            f"{node.name} has both reduce and reduce-to-one",
            hint="reduce, copy: a sum goes on to many at once; reduce-to-one, copy: to one rank",
        )
    return can


def _switch(node: Node, switches: Collection[str]) -> str:
    if node.raw not in switches:
        raise node.error(
            f"{node.name} must name a switch, not {node.described}",
            hint=nearest(node.raw, list(switches)[:20]) if switches else "switches: [nvswitch]",
        )
    return node.raw


def _name(node: Node) -> str:
    name = node.string()
    if not _NAME.fullmatch(name):
        raise node.error(
            f"{name!r} cannot name a device", hint="letters, digits and _, starting with a letter"
        )
    return name
