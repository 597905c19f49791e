"""Machines described by hand in YAML (docs/machines/yaml.md shows the language).

A machine of nodes has a `node` template, a number of `nodes`, a `fabric` between the NICs of all
nodes, and perhaps a `domain` of nodes that share a switch. A machine without nodes has the template's
keys at the top level.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import TopologyError
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MB, MIN_BETA_US_PER_MB
from taccl.support.arguments import is_whole, shown
from taccl.topologies.devices import MAX_GPUS, MAX_LINKS, Device, DeviceKind, Link
from taccl.topologies.executor_section import read_executor
from taccl.topologies.fabric import Fabric, joined, one_switch_for_nodes
from taccl.topologies.fabric_costs import links_with_costs
from taccl.topologies.fabric_yaml import read_domain, read_levels
from taccl.topologies.machines import check_nodes
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.strict_yaml import Node, load_yaml, nearest, parse_yaml

#: Key of a template -> the kind of its devices, and the name that a counted one starts with.
_KINDS: dict[str, tuple[DeviceKind, str]] = {
    "gpus": ("gpu", "gpu"),
    "helpers": ("helper", "helper"),
    "switches": ("switch", "switch"),
    "nics": ("nic", "nic"),
    "pcie": ("pcie", "pcie"),
}
_TEMPLATE_KEYS = (*_KINDS, "links")
_NODES_KEYS = ("node", "nodes", "fabric", "domain")
_MACHINE_KEYS = ("name", "occupancy", "executor")
_COST_KEYS = ("alpha_us", "beta_us_per_mb", "bandwidth_gbps")
Devices = dict[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class _Template:
    """The devices of one node, by key (`gpus`, ...), the links among them, and what helpers cannot do."""

    devices: Devices
    links: tuple[Link, ...]
    can: dict[str, dict[str, bool]]

    def place(self, node: int, prefix: str) -> tuple[list[Device], list[Link]]:
        """The devices and links of one node, their names preceded by `prefix`."""
        devices = [
            Device(prefix + name, _KINDS[key][0], node, local, **self.can.get(name, {}))
            for key, names in self.devices.items()
            for local, name in enumerate(names)
        ]
        links = [
            Link(prefix + link.src, prefix + link.dst, link.alpha_us, link.beta_us_per_mb)
            for link in self.links
        ]
        return devices, links


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
    return PhysicalTopology(name, tuple(devices), tuple(links), occupancy, executor=executor)


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
    return devices, links


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
    known = given.mapping((*_COST_KEYS, "levels"), required=("alpha_us",))
    cost = _cost(given, known)
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
    for key, names in devices.items():
        for name in names:
            if name in line_of:
                raise keys[key].error(f"the name {name!r} is already given on line {line_of[name]}")
            line_of[name] = keys[key].line
    can = _abilities(keys["helpers"]) if "helpers" in keys else {}
    return _Template(devices, _links(keys["links"], devices) if "links" in keys else (), can)


def _abilities(helpers: Node) -> dict[str, dict[str, bool]]:
    """What helpers say of themselves: `{name: relay, sums: false}`."""
    can = {}
    for item in helpers.elements() if helpers.kind == "list" else ():
        if item.kind == "mapping":
            keys = item.mapping(("name", "sums", "copies"), required=("name",))
            known = {"sums": "may_sum", "copies": "may_copy"}
            can[keys["name"].raw] = {known[key]: keys[key].boolean() for key in known if key in keys}
    return can


def _device_names(node: Node, prefix: str) -> tuple[str, ...]:
    """Names from a count or from a list of names."""
    if node.kind == "list":
        items = [_named(item) if prefix == "helper" else item for item in node.elements()]
        names = tuple(item.string() for item in items)
        for name, item in zip(names, items, strict=True):
            stands_for_others = name in _KINDS and names != (prefix,)  # one PCIe bridge may be called pcie
            if not _NAME.fullmatch(name) or stands_for_others:
                raise item.error(
                    f"{name!r} cannot name a device", hint="letters, digits and _, starting with a letter"
                )
    else:
        names = tuple(f"{prefix}{i}" for i in range(node.integer(minimum=0, maximum=MAX_GPUS)))
    if not names and prefix == "gpu":
        raise node.error(f"{node.name} must be 1 or more")
    return names


def _named(helper: Node) -> Node:
    """The name of a helper, which may say more of itself."""
    return helper.keys("name")["name"] if helper.kind == "mapping" else helper


def _links(node: Node, devices: Devices) -> tuple[Link, ...]:
    links: list[Link] = []
    for entry in node.elements():
        keys = entry.mapping(("from", "to", "pairs", "match", "one_way", *_COST_KEYS), required=("alpha_us",))
        alpha, beta = _cost(entry, keys)
        links += [Link(src, dst, alpha, beta) for src, dst in _ends(entry, keys, devices)]
        if len(links) > MAX_LINKS:
            raise entry.error(f"a node has more than {MAX_LINKS} links")
    return tuple(links)


def _cost(entry: Node, keys: dict[str, Node]) -> tuple[float, float]:
    alpha = keys["alpha_us"].number(minimum=0, maximum=MAX_ALPHA_US)
    given = [keys[key] for key in ("beta_us_per_mb", "bandwidth_gbps") if key in keys]
    if len(given) != 1:
        verb = "lacks" if not given else "has both"
        joined = "beta_us_per_mb or bandwidth_gbps" if not given else "beta_us_per_mb and bandwidth_gbps"
        raise entry.error(f"{entry.name} {verb} {joined}", hint="give one of them")
    beta = given[0].number(above=0)
    if "bandwidth_gbps" in keys:
        beta = MB / (beta * 1e3)
    if not MIN_BETA_US_PER_MB <= beta <= MAX_BETA_US_PER_MB:
        raise given[0].error(f"{given[0].name} is out of range: {given[0].raw}")
    return alpha, beta


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
        if item.raw in _KINDS:
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
    return tuple(
        (entry, tuple(_ends(entry, entry.keys(), devices)))
        for entry in (keys["links"].elements() if "links" in keys else ())
    )
