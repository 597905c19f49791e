"""Machines described by hand in YAML (docs/machines/yaml.md shows the language).

A machine of nodes has a `node` template, a number of `nodes`, a `fabric` between the NICs of all
nodes, and perhaps a `domain` of nodes that share a switch. A machine without nodes has the template's
keys at the top level.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import TopologyError
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.support.arguments import is_whole, shown
from taccl.topologies.devices import MAX_GPUS, MAX_LINKS, NO_NODE, Device, DeviceKind, Link
from taccl.topologies.executor_section import read_executor
from taccl.topologies.fabric import Fabric, joined, one_switch_for_nodes
from taccl.topologies.fabric_costs import links_with_costs
from taccl.topologies.fabric_matrices import has_matrices, links_with_matrices
from taccl.topologies.fabric_yaml import read_domain, read_levels
from taccl.topologies.helpers_yaml import Helpers, Surroundings, read_helpers
from taccl.topologies.link_costs import COST_KEYS, read_alpha, read_cost
from taccl.topologies.machines import check_nodes
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import Node, load_yaml, nearest, parse_yaml

#: Key of a template -> the kind of its devices, and the name that a counted one starts with.
_KINDS: dict[str, tuple[DeviceKind, str]] = {
    "gpus": ("gpu", "gpu"),
    "switches": ("switch", "switch"),
    "nics": ("nic", "nic"),
    "pcie": ("pcie", "pcie"),
}
_TEMPLATE_KEYS = (*_KINDS, "helpers", "links")
_NODES_KEYS = ("node", "nodes", "fabric", "domain", "helpers")
_MACHINE_KEYS = ("name", "gpu", "occupancy", "executor")
Devices = dict[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class _Template:
    """The devices of one node, by key (`gpus`, ...), the links among them, and the helpers."""

    devices: Devices
    links: tuple[Link, ...]
    helpers: Helpers

    def place(self, node: int, prefix: str) -> tuple[list[Device], list[Link]]:
        """The devices and links of one node, their names preceded by `prefix`."""
        devices = [
            Device(prefix + name, _KINDS[key][0], node, local)
            for key, names in self.devices.items()
            for local, name in enumerate(names)
        ]
        links = [
            Link(prefix + link.src, prefix + link.dst, link.alpha_us, link.beta_us_per_mb)
            for link in self.links
        ]
        helpers, their_links = self.helpers.place(node, prefix)
        return [*devices, *helpers], [*links, *their_links]


def load_topology_file(path: str | Path, nodes: int | None = None) -> PhysicalTopology:
    """The machine in a YAML file, with `nodes` nodes where that is given.

    Raises
    ------
    FileError : the file cannot be read.
    TopologyError : what is wrong in it, with the line.
    """
    return _read(load_yaml(path, TopologyError), nodes)


def parse_topology(text: str, nodes: int | None = None, path: str | Path | None = None) -> PhysicalTopology:
    """The machine in a YAML text; `path` is for messages. Raises as `load_topology_file` does."""
    return _read(parse_yaml(text, path, TopologyError), nodes)


def _read(root: Node, nodes: int | None) -> PhysicalTopology:
    given = {key.raw for key, _ in root.items()}
    if "node_betas_list" in given:
        raise root.error(
            "this is a profile of costs, not a machine", hint="name a machine, such as ndv2, too"
        )
    has_nodes = not given.isdisjoint(("node", "nodes", "fabric", "domain"))
    if has_nodes and "node" not in given:
        raise root.error(
            "a machine of several nodes has its GPUs and links under 'node:'", hint="add 'node: ...'"
        )
    if has_nodes:
        keys = root.mapping((*_MACHINE_KEYS, *_NODES_KEYS), required=("name", "node"))
    else:
        known = (*_TEMPLATE_KEYS, *_MACHINE_KEYS, *_NODES_KEYS)
        keys = root.mapping(known, required=("name", "gpus", "links"))
    occupancy: Occupancy = "serial"
    if "occupancy" in keys:
        occupancy = keys["occupancy"].choice(OCCUPANCIES)
    name = keys["name"].string()
    devices, links = _nodes(root, keys, nodes) if has_nodes else _flat(root, keys, nodes)
    executor = read_executor(keys["executor"]) if "executor" in keys else None
    gpu = keys["gpu"].string() if "gpu" in keys else None
    return PhysicalTopology(name, tuple(devices), tuple(links), occupancy, executor=executor, gpu=gpu)


def _flat(root: Node, keys: dict[str, Node], nodes: int | None) -> tuple[list[Device], list[Link]]:
    if nodes is not None and not (is_whole(nodes) and nodes == 1):
        raise root.error(
            f"this machine has no nodes, so it cannot have {shown(nodes)}",
            hint="describe one node under 'node:'",
        )
    return _template(keys).place(0, "")


def _nodes(root: Node, keys: dict[str, Node], nodes: int | None) -> tuple[list[Device], list[Link]]:
    template = _template(keys["node"].mapping(_TEMPLATE_KEYS, required=("gpus",)))
    default = keys["nodes"].integer(minimum=1) if "nodes" in keys else 1
    nodes = default if nodes is None else nodes
    check_nodes(nodes, len(template.devices["gpus"]))
    if nodes * len(template.links) > MAX_LINKS:
        raise root.error(f"{nodes} nodes have more than {MAX_LINKS} links")
    devices: list[Device] = []
    links: list[Link] = []
    for node in range(nodes):
        more_devices, more_links = template.place(node, f"node{node}.")
        devices += more_devices
        links += more_links
    if "domain" in keys:
        switch, groups = read_domain(keys["domain"], nodes, template.devices.get("switches", ()))
        devices, links = one_switch_for_nodes(devices, links, switch, groups)
        needs_fabric = len(groups) > 1
    else:
        needs_fabric = nodes > 1
    fabric = _fabric(keys, template, nodes)
    if needs_fabric and fabric is None:
        raise root.error(f"{nodes} nodes have no fabric between them", hint="add 'fabric: ...'")
    if nodes > 1 and fabric is not None:
        more_devices, more_links = fabric
        devices += more_devices
        links += more_links
    if "helpers" in keys:
        more_devices, more_links = _helpers_of_machine(keys, devices)
        devices += more_devices
        links += more_links
    _check_names(root, devices)
    return devices, links


def _helpers_of_machine(keys: dict[str, Node], devices: Sequence[Device]) -> tuple[list[Device], list[Link]]:
    """Helpers that belong to no node: of the fabric, or servers with a link to it."""
    switches = [
        device.name for device in devices if device.node == NO_NODE and device.kind in ("switch", "fabric")
    ]
    if not switches:
        raise keys["helpers"].error(
            "helpers of the machine are at the fabric or linked to it, and there is none between these nodes",
            hint="more nodes, or 'helpers' of the node",
        )
    fabrics = [device.name for device in devices if device.kind == "fabric"]
    home = None
    if len(fabrics) == 1 and keys["fabric"].kind == "mapping":
        home = fabrics[0], read_alpha(keys["fabric"].keys()["alpha_us"]) / 2
    return read_helpers(keys["helpers"], Surroundings(switches, home, has_links=False)).place(NO_NODE, "")


def _check_names(place: Node, devices: Sequence[Device]) -> None:
    """Raise TopologyError where a helper of the machine has the name of another device."""
    names = {device.name for device in devices}
    if len(names) < len(devices):
        twice = next(name for name, many in Counter(device.name for device in devices).items() if many > 1)
        raise place.error(f"the name {twice!r} is given twice")


def _fabric(keys: dict[str, Node], template: _Template, nodes: int) -> tuple[list[Device], list[Link]] | None:
    """The devices and links between the nodes, whatever number of nodes there are."""
    if "fabric" not in keys:
        return None
    given, nics = keys["fabric"], template.devices.get("nics", ())
    if not nics:
        raise given.error("a fabric joins the nodes' NICs, but the node has none", hint="nics: 1")
    names = [[f"node{node}.{nic}" for nic in nics] for node in range(nodes)]
    if given.kind == "text":
        return links_with_costs(given, names)
    known = given.mapping((*COST_KEYS, "levels"), required=("alpha_us",))
    if has_matrices(known):
        return links_with_matrices(given, known, names)
    cost = read_cost(given, known)
    if "levels" not in known:
        return joined(Fabric(*cost), names)
    fabric = read_levels(known["levels"], cost, nodes, nics)
    try:
        return joined(fabric, names)
    except TopologyError as fault:
        raise known["levels"].error(fault.message, hint=fault.hint) from None


def _template(keys: dict[str, Node]) -> _Template:
    devices = {key: _device_names(keys[key], prefix) for key, (_, prefix) in _KINDS.items() if key in keys}
    line_of: dict[str, int] = {}
    helpers = Helpers()
    if "helpers" in keys:
        switches = [name for key in ("switches", "nics", "pcie") for name in devices.get(key, ())]
        helpers = read_helpers(keys["helpers"], Surroundings(switches))
    own = tuple(device.name for device in helpers.devices)
    for key, names in (*devices.items(), ("helpers", own)):
        for name in names:
            if name in line_of:
                raise keys[key].error(f"the name {name!r} is already given on line {line_of[name]}")
            line_of[name] = keys[key].line
    ends = {**devices, "helpers": helpers.linked} if helpers.linked else devices
    return _Template(devices, _links(keys["links"], ends) if "links" in keys else (), helpers)


def _device_names(node: Node, prefix: str) -> tuple[str, ...]:
    """Names from a count or from a list of names."""
    if node.kind == "list":
        items = node.elements()
        names = tuple(item.string() for item in items)
        for name, item in zip(names, items, strict=True):
            stands_for_others = name in (*_KINDS, "helpers") and names != (
                prefix,
            )  # one PCIe bridge may be called pcie
            if not _NAME.fullmatch(name) or stands_for_others:
                raise item.error(
                    f"{name!r} cannot name a device", hint="letters, digits and _, starting with a letter"
                )
    else:
        names = tuple(f"{prefix}{i}" for i in range(node.integer(minimum=0, maximum=MAX_GPUS)))
    if not names and prefix == "gpu":
        raise node.error(f"{node.name} must be 1 or more")
    return names


def _links(node: Node, devices: Devices) -> tuple[Link, ...]:
    links: list[Link] = []
    for entry in node.elements():
        keys = entry.mapping(("from", "to", "pairs", "match", "one_way", *COST_KEYS), required=("alpha_us",))
        alpha, beta = read_cost(entry, keys)
        links += [Link(src, dst, alpha, beta) for src, dst in _ends(entry, keys, devices)]
        if len(links) > MAX_LINKS:
            raise entry.error(f"a node has more than {MAX_LINKS} links")
    return tuple(links)


def _ends(entry: Node, keys: dict[str, Node], devices: Devices) -> list[tuple[str, str]]:
    """The (source, destination) pairs of an entry, none twice."""
    if ("pairs" in keys) == ("from" in keys or "to" in keys) or ("from" in keys) != ("to" in keys):
        raise entry.error(f"{entry.name} must have either 'pairs', or 'from' and 'to'")
    if "pairs" in keys:
        if "match" in keys:
            raise keys["match"].error("'match' goes with 'from' and 'to', not with 'pairs'")
        pairs = [_pair(item, devices) for item in keys["pairs"].elements()]
    else:
        pairs = _matched(entry, keys, devices)
    if "one_way" not in keys or not keys["one_way"].boolean():
        pairs = [end for a, b in pairs for end in ((a, b), (b, a))]
    return list(dict.fromkeys(pairs))


def _matched(entry: Node, keys: dict[str, Node], devices: Devices) -> list[tuple[str, str]]:
    sources, targets = (_selected(keys[key], devices) for key in ("from", "to"))
    if "match" in keys and keys["match"].choice(["all", "even"]) == "even":
        many = max(len(sources), len(targets))
        pairs = [(sources[i * len(sources) // many], targets[i * len(targets) // many]) for i in range(many)]
    elif len(sources) * len(targets) > MAX_LINKS:
        raise entry.error(f"{entry.name} makes more than {MAX_LINKS} links")
    else:
        pairs = [(a, b) for a in sources for b in targets]
    ends = [(a, b) for a, b in pairs if a != b]
    if not ends:
        raise entry.error(f"{entry.name} leads from {sources[0]} to itself")
    return ends


def _selected(node: Node, devices: Devices) -> list[str]:
    """The devices that `gpus`, `nic0`, 3, or a list of such, stand for."""
    items = node.elements() if node.kind == "list" else (node,)
    selected: list[str] = []
    for item in items:
        if item.raw in (*_KINDS, "helpers"):
            if item.raw not in devices:
                raise item.error(f"{item.name} is {item.raw!r}, but the machine has none")
            selected += devices[item.raw]
        else:
            selected.append(_device(item, item.raw, devices))
    if not selected:
        raise node.error(f"{node.name} names no device")
    return selected


def _pair(node: Node, devices: Devices) -> tuple[str, str]:
    """The two ends of `0-1`, `gpu0-nic0` or [gpu0, nic0]."""
    if node.kind == "list":
        ends = [_device(end, end.raw, devices) for end in node.elements(length=2)]
    else:
        words = [word.strip() for word in node.raw.split("-")]
        if len(words) != 2:
            raise node.error(f"{node.name} must be a pair such as 0-1 or gpu0-nic0, not {node.described}")
        ends = [_device(node, word, devices) for word in words]
    if ends[0] == ends[1]:
        raise node.error(f"{node.name} leads from {ends[0]} to itself")
    return ends[0], ends[1]


def _device(node: Node, word: str, devices: Devices) -> str:
    """A device by its name, or a GPU by its number."""
    if re.fullmatch(r"[0-9]{1,6}", word):
        if int(word) >= len(devices["gpus"]):
            raise node.error(f"{node.name} names GPU {word}, but there are only {len(devices['gpus'])}")
        return devices["gpus"][int(word)]
    if not any(word in names for names in devices.values()):
        known = [name for names in devices.values() for name in names]
        raise node.error(
            f"{node.name} must name a device, not {word!r}" if word else f"{node.name} must name a device",
            hint=nearest(word, known[:20]),
        )
    return word


def link_entries(root: Node) -> tuple[tuple[Node, tuple[tuple[str, str], ...]], ...]:
    """Each entry of `links`, with the devices that it links, in each direction, as the template names them.

    `root` must be a machine that `parse_topology` takes.
    """
    keys = root.keys()
    if "node" in keys:
        keys = keys["node"].keys()
    devices = {key: _device_names(keys[key], prefix) for key, (_, prefix) in _KINDS.items() if key in keys}
    if "helpers" in keys:
        switches = [name for key in ("switches", "nics", "pcie") for name in devices.get(key, ())]
        devices["helpers"] = read_helpers(keys["helpers"], Surroundings(switches)).linked
    return tuple(
        (entry, tuple(_ends(entry, entry.keys(), devices)))
        for entry in (keys["links"].elements() if "links" in keys else ())
    )
