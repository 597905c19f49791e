"""A topology XML as a `Dump`: its parts, put together."""

from __future__ import annotations

import re

from taccl.dumps.facts import Dump
from taccl.dumps.formats.nccl_topology.gpus import find_gpus, find_links
from taccl.dumps.formats.nccl_topology.nearness import nearness
from taccl.dumps.formats.nccl_topology.nics import find_nics
from taccl.dumps.formats.nccl_topology.tree import parse_tree

_ROOT = re.compile(r"<system[\s>/]")
#: Comments may stand before the first element, but no chapters.
_BEGINNING = 2**16


def looks_like(text: str) -> bool:
    """Whether a `<system>` begins near the start."""
    return _ROOT.search(text, 0, _BEGINNING) is not None


def read(text: str, path: str | None) -> Dump:
    """What the file tells.

    Raises
    ------
    TopologyError : what is wrong with it, with the line.
    """
    cpus = parse_tree(text, path)
    placed, order = find_gpus(cpus, path)
    links = find_links(placed, path)
    nics = find_nics(cpus, path)
    return Dump(
        format="nccl-topology",
        gpus=tuple(each.gpu for each in placed),
        nics=tuple(each.nic for each in nics),
        links=tuple(links.links),
        has_switch=links.has_switch,
        gpu_nearness=tuple(tuple(nearness(a.device, b.device) for b in placed) for a in placed),
        nic_nearness=tuple(tuple(nearness(a.device, b.device) for b in nics) for a in placed),
        order=order,
        warnings=tuple(links.warnings),
    )
