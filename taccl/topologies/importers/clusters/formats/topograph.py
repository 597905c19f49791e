"""topograph's model of a cluster: switches, and blocks of nodes below them.

Both of its layouts are read: `switches` as a mapping with `blocks` that name their switch, and, of older
versions, as a list with `capacity_blocks`.
"""

from __future__ import annotations

import re

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.formats.labels import DOMAIN_LABEL
from taccl.topologies.importers.clusters.scheduler import Blocks, SwitchTree, names_under
from taccl.topologies.strict_yaml import Node, parse_yaml

_LOOKS = re.compile(r"^(switches|blocks|capacity_blocks)\s*:", re.MULTILINE)
#: Labels and annotations that name the domain of NVLinks that a block is.
_DOMAIN = re.compile(r"(^|[./])(accelerator|domain|nvlink|level-0)$")


def looks_like(text: str) -> bool:
    """Whether one of the model's keys stands at the left."""
    return _LOOKS.search(text) is not None


def read(text: str, path: str | None) -> ClusterFacts:
    """The cluster that the model describes.

    Raises
    ------
    TopologyError : with the line.
    """
    root = parse_yaml(text, path, TopologyError)
    keys = root.keys()
    tree, blocks = SwitchTree(), Blocks()
    hosts_of: dict[str, list[str]] = {}
    block_hosts: dict[str, tuple[str, ...]] = {}
    for key in ("blocks", "capacity_blocks"):
        for name, block in _named(keys[key]) if key in keys else ():
            own = block.keys()
            hosts = names_under(own, "nodes")
            called = name or (own["switch"].raw if "switch" in own else f"block{len(block_hosts)}")
            block_hosts[called] = (*block_hosts.get(called, ()), *hosts)
            if "switch" in own:
                hosts_of.setdefault(own["switch"].raw, []).extend(hosts)
            domain = _domain(own)
            place = FileLine(path, block.line)
            blocks.add(place, domain or called, hosts, is_nvlink=domain is not None)
    for name, switch in _named(keys["switches"]) if "switches" in keys else ():
        own = switch.keys() if switch.kind == "mapping" else {}
        if name is None:
            raise switch.error(f"{switch.name} has no name")
        below = [*hosts_of.pop(name, ()), *names_under(own, "nodes")]
        for block_name in names_under(own, "capacity_blocks"):
            if block_name not in block_hosts:
                raise switch.error(f"there is no capacity block {block_name!r}")
            below += block_hosts[block_name]
        tree.add(FileLine(path, switch.line), name, names_under(own, "switches"), tuple(dict.fromkeys(below)))
    for leaf, below in hosts_of.items():  # leaves that no other line describes
        tree.add(FileLine(path, keys["blocks"].line), leaf, (), tuple(below))
    if tree:
        tree.add_undescribed()  # racks without nodes have no entry of their own
        return tree.cluster("topograph", path, blocks.all())
    if blocks:
        return blocks.cluster("topograph")
    raise root.error("the model has no switches and no blocks")


def _named(node: Node) -> list[tuple[str | None, Node]]:
    """The (name, value) pairs of a mapping, or of a list whose items may have a `name`."""
    if node.kind == "mapping":
        return [(key.raw, value) for key, value in node.items()]
    if node.kind == "null":
        return []
    named: list[tuple[str | None, Node]] = []
    for item in node.elements():
        own = item.keys()
        named.append((own["name"].raw if "name" in own else None, item))
    return named


def _domain(keys: dict[str, Node]) -> str | None:
    """The name of the domain of NVLinks of a block, by its key `nvlink` or a label or annotation."""
    if "nvlink" in keys and keys["nvlink"].raw:
        return keys["nvlink"].raw
    for where in ("labels", "annotations"):
        if where in keys and keys[where].kind == "mapping":
            for key, value in keys[where].items():
                if (key.raw == DOMAIN_LABEL or _DOMAIN.search(key.raw)) and value.raw:
                    return value.raw
    return None
