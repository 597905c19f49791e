"""`fabric:` and `domain:` of a machine file: levels of switches between nodes, switches over several nodes.

It reads YAML into `fabric.Fabric`; what a node is, but for the names of its NICs and switches, is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from taccl.errors import UnitError
from taccl.model.units import MAX_ALPHA_US, MB, beta_from_bandwidth
from taccl.topologies.devices import MAX_LINKS
from taccl.topologies.fabric import Fabric, Level, LevelSwitch, Nic
from taccl.topologies.strict_yaml import Node

_LEVEL_KEYS = ("name", "nodes", "groups", "rails", "alpha_us", "oversubscription", "uplinks", "uplink_gbps")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_NODES = re.compile(r"(?:node)?([0-9]{1,6})(?:\s*-\s*(?:node)?([0-9]{1,6}))?")
_NIC = re.compile(r"(?:node)?([0-9]{1,6})\.([A-Za-z][A-Za-z0-9_]{0,39})")

Rails = tuple[tuple[int, ...], ...]


def read_levels(levels: Node, cost: tuple[float, float], nodes: int, nics: Sequence[str]) -> Fabric:
    """The fabric that `levels` describes.

    Parameters
    ----------
    levels : the value of `fabric.levels`, from the NICs upwards.
    cost : the alpha and beta of the fabric.
    nodes : how many nodes the machine has.
    nics : the NICs of one node.

    Raises
    ------
    TopologyError : with the line.
    """
    read: list[Level] = []
    share = MB / (cost[1] * 1e3)  # GB/s on the way up for each NIC below
    entries = levels.elements()
    if not entries:
        raise levels.error(
            f"{levels.name} is empty", hint="a fabric without levels is one switch; leave it out"
        )
    railed = True
    for number, entry in enumerate(entries):
        is_top = number == len(entries) - 1
        keys = entry.mapping(_LEVEL_KEYS, required=("name",))
        name = _level_name(keys["name"], [level.name for level in read])
        rails = _rails(keys["rails"], nics) if "rails" in keys else None
        if rails is not None and not railed:
            raise keys["rails"].error(f"the rails are already joined by the level {read[-1].name}")
        railed = rails is not None
        groups = list(_groups(entry, keys, is_top, nodes, nics, rails))
        gbps = _uplinks(entry, keys, is_top, groups, share)
        switches = tuple(
            LevelSwitch(f"{name}{label}", part, None if gbps is None else gbps[i])
            for i, (label, part) in enumerate(groups)
        )
        if gbps is not None:
            share = min(each / max(1, len(part)) for each, (_, part) in zip(gbps, groups, strict=True))
        alpha = keys["alpha_us"].number(minimum=0, maximum=MAX_ALPHA_US) if "alpha_us" in keys else 0.0
        if is_top and "alpha_us" in keys:
            raise keys["alpha_us"].error(
                f"{keys['alpha_us'].name} is that of the way up, and {name} is the top level",
                hint="put it on the level below",
            )
        read.append(Level(name, switches, alpha))
    return Fabric(*cost, tuple(read))


def read_domain(node: Node, nodes: int, switches: Sequence[str]) -> tuple[str, list[frozenset[int]]]:
    """The switch of the node template that several nodes share, and the nodes that share one."""
    keys = node.mapping(("switch", "nodes", "groups"), required=("switch",))
    switch = keys["switch"].string()
    if switch not in switches:
        known = f"one of {', '.join(switches)}" if switches else "add 'switches: [nvswitch]' to the node"
        raise keys["switch"].error(f"{keys['switch'].name} must name a switch of the node", hint=known)
    if ("nodes" in keys) == ("groups" in keys):
        raise node.error(f"{node.name} must have either 'nodes' or 'groups'")
    if "nodes" in keys:
        count = keys["nodes"].integer(minimum=1)
        return switch, [frozenset(range(i, min(i + count, nodes))) for i in range(0, nodes, count)]
    groups = [_node_group(item) for item in keys["groups"].elements()]
    _check_each_once(keys["groups"], groups, nodes)
    return switch, [group for group in groups if min(group) < nodes]


def _check_each_once(place: Node, groups: Sequence[frozenset[int]], nodes: int) -> None:
    seen: set[int] = set()
    for group, item in zip(groups, place.elements(), strict=True):
        if group & seen:
            raise item.error(f"node {min(group & seen)} is in two of the groups of {place.name}")
        seen |= group
    for each in range(nodes):
        if each not in seen:
            raise place.error(f"{place.name} leaves out node {each}")


def _level_name(node: Node, before: Sequence[str]) -> str:
    name = node.string()
    if not _NAME.fullmatch(name):
        raise node.error(
            f"{name!r} cannot name a level", hint="letters, digits and _, starting with a letter"
        )
    if name in before:
        raise node.error(f"there is already a level {name!r} below")
    return name


def _rails(node: Node, nics: Sequence[str]) -> Rails | None:
    """The NICs of each rail by their places in the node; None for `false`."""
    if node.kind != "list":
        return tuple((place,) for place in range(len(nics))) if node.boolean() else None
    rails = []
    seen: set[int] = set()
    for item in node.elements():
        rail = []
        for word in item.elements() if item.kind == "list" else (item,):
            place = nics.index(word.raw) if word.raw in nics else word.integer(0, len(nics) - 1)
            if place in seen:
                raise word.error(f"{word.name} is NIC {word.raw}, which is already on a rail")
            seen.add(place)
            rail.append(place)
        rails.append(tuple(rail))
    missing = [name for place, name in enumerate(nics) if place not in seen]
    if missing:
        raise node.error(f"{node.name} leaves out {missing[0]}")
    return tuple(rails)


def _groups(
    entry: Node, keys: dict[str, Node], is_top: bool, nodes: int, nics: Sequence[str], rails: Rails | None
) -> Iterator[tuple[str, frozenset[Nic]]]:
    """What each switch of a level is called after the level's name, and the NICs below it."""
    if "nodes" in keys and "groups" in keys:
        raise entry.error(f"{entry.name} must have either 'nodes' or 'groups'")
    if "groups" in keys:
        yield from _listed_groups(keys["groups"], nics, rails)
        return
    if "nodes" not in keys and not is_top:
        raise entry.error(f"{entry.name} lacks the nodes below one switch", hint="nodes: 4")
    count = keys["nodes"].integer(minimum=1, maximum=MAX_LINKS // len(nics)) if "nodes" in keys else nodes
    for number, first in enumerate(range(0, nodes, count)):
        yield from _by_rail(str(number), range(first, first + count), nics, rails)


def _by_rail(
    number: str, group: Sequence[int], nics: Sequence[str], rails: Rails | None
) -> Iterator[tuple[str, frozenset[Nic]]]:
    if rails is None:
        yield number, frozenset((node, place) for node in group for place in range(len(nics)))
    else:
        for rail, places in enumerate(rails):
            yield f"{number}.rail{rail}", frozenset((node, place) for node in group for place in places)


def _listed_groups(
    node: Node, nics: Sequence[str], rails: Rails | None
) -> Iterator[tuple[str, frozenset[Nic]]]:
    items = node.elements()
    for number, item in enumerate(items):
        parts = item.elements() if item.kind == "list" else (item,)
        if any(_NIC.fullmatch(part.raw) for part in parts):
            if rails is not None:
                raise item.error(
                    "a level with groups of NICs has no 'rails'", hint="name nodes, or leave rails out"
                )
            yield str(number), frozenset(_nic(part, nics) for part in parts)
        else:
            yield from _by_rail(str(number), sorted(_node_group(item)), nics, rails)


def _node_group(item: Node) -> frozenset[int]:
    """The nodes that `0-3`, 5 or a list of these name."""
    group: set[int] = set()
    for part in item.elements() if item.kind == "list" else (item,):
        match = None if isinstance(part.content, tuple) else _NODES.fullmatch(part.raw.strip())
        if match is None:
            raise part.error(f"{part.name} must be a node or a range such as 0-3, not {part.described}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MAX_LINKS:
            raise part.error(f"{part.name} is no range of nodes: {part.raw}")
        group.update(range(first, last + 1))
    if not group:
        raise item.error(f"{item.name} names no node")
    return frozenset(group)


def _nic(part: Node, nics: Sequence[str]) -> Nic:
    match = None if isinstance(part.content, tuple) else _NIC.fullmatch(part.raw.strip())
    if match is None or match[2] not in nics:
        raise part.error(f"{part.name} must name a NIC such as node0.{nics[0]}, not {part.described}")
    return int(match[1]), nics.index(match[2])


def _uplinks(
    entry: Node,
    keys: dict[str, Node],
    is_top: bool,
    groups: Sequence[tuple[str, frozenset[Nic]]],
    share: float,
) -> list[float] | None:
    """GB/s of all uplinks of each switch together; None at the top."""
    given = [key for key in ("oversubscription", "uplinks", "uplink_gbps") if key in keys]
    if is_top:
        if given:
            raise keys[given[0]].error(
                f"{keys[given[0]].name} leads nowhere: this is the top level",
                hint="a level with uplinks has another level above it",
            )
        return None
    if given == ["oversubscription"]:
        ratio = keys["oversubscription"].number(above=0)
        return [_possible(keys["oversubscription"], len(part) * share / ratio) for _, part in groups]
    if given != ["uplinks", "uplink_gbps"]:
        raise entry.error(
            f"{entry.name} must say what its uplinks carry",
            hint="oversubscription: 2, or uplinks: 8 and uplink_gbps: 50",
        )
    gbps = keys["uplink_gbps"].number(above=0)
    if keys["uplinks"].kind != "list":
        return [_possible(keys["uplinks"], keys["uplinks"].integer(1, MAX_LINKS) * gbps)] * len(groups)
    counts = keys["uplinks"].elements()
    if len(counts) < len(groups):
        raise keys["uplinks"].error(
            f"{keys['uplinks'].name} has {len(counts)} values for {len(groups)} switches",
            hint="one for each switch, or one number for all",
        )
    return [_possible(one, one.integer(1, MAX_LINKS) * gbps) for one in counts[: len(groups)]]


def _possible(place: Node, gbps: float) -> float:
    try:
        beta_from_bandwidth(gbps)
    except UnitError as fault:
        raise place.error(f"{place.name} cannot be: {fault}") from None
    return gbps
