"""An hwloc file as a `Dump`: its parts, put together."""

from __future__ import annotations

import re

from taccl.support.tables import FileLine
from taccl.support.xml_elements import begins_with
from taccl.topologies.importers.nodes.facts import Dump
from taccl.topologies.importers.nodes.formats.hwloc.devices import (
    find_gpus,
    find_nics,
    nearest_nics,
    shared_bridges,
    with_pcie,
)
from taccl.topologies.importers.nodes.formats.hwloc.links import find_links
from taccl.topologies.importers.nodes.formats.hwloc.tree import nearness, parse_tree

_ROOT = re.compile(r"<!DOCTYPE\s+topology\b|<topology[\s>/]|<object\s+type=\"(?:Machine|System)\"")
#: Every GPU is compared with every other GPU and port.
_MOST_DEVICES = 256


def looks_like(text: str) -> bool:
    """Whether a `<topology>` begins near the start."""
    return begins_with(_ROOT, text)


def read(text: str, path: str | None) -> Dump:
    """What the file tells.

    Raises
    ------
    TopologyError : what is wrong with it, with the line; or it has no GPU.
    """
    tree = parse_tree(text, path)
    warnings: list[str] = []
    placed, order = find_gpus(tree, path, warnings)
    if not placed:
        raise FileLine(path, tree.root.line).error(
            "there is no GPU in this hwloc file",
            "write it on a node with GPUs, with I/O: `lstopo --whole-io topology.xml`",
        )
    nics = find_nics(tree, path, warnings)
    for what, found in (("GPUs", len(placed)), ("network ports", len(nics))):
        if found > _MOST_DEVICES:
            raise FileLine(path, tree.root.line).error(
                f"{found} {what} are more than the {_MOST_DEVICES} that a node can have here"
            )
    links = find_links(tree, placed, path)
    if not nics:
        warnings.append("there is no network port in this file; hwloc leaves them out when it filters I/O")
    devices = [each.device for each in placed if each.device is not None]
    known = len(devices) == len(placed)
    bridges = shared_bridges(devices, nics, path) if known else None
    nic_near = tuple(tuple(nearness(a, b.device) for b in nics) for a in devices)
    return Dump(
        format="hwloc",
        gpus=tuple(with_pcie(i, each, bridges or ()) for i, each in enumerate(placed)),
        nics=tuple(nic.nic for nic in nics) if nics else None,
        links=None if links.links is None else tuple(links.links),
        has_switch=links.has_switch,
        gpu_nearness=tuple(tuple(nearness(a, b) for b in devices) for a in devices) if known else None,
        nic_nearness=nic_near if known and nics else None,
        nearest_nics=nearest_nics(devices, nics) if known else None,
        bridges=bridges,
        cpus=tuple(tree.cpus),
        order=order,
        warnings=(*warnings, *links.warnings),
    )
