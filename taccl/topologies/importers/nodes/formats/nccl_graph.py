"""NCCL's graph XML (`NCCL_GRAPH_DUMP_FILE`): a plan of rings and trees, by which an import can be checked.

It tells no link and no speed of a machine, so nothing is made of it alone.
"""

from __future__ import annotations

import re

from taccl.errors import TopologyError
from taccl.support.tables import Location
from taccl.support.xml_elements import Dialect, Element, begins_with, parse_elements
from taccl.topologies.importers.nodes.facts import Dump, Gpu, LibraryChoice

NAME = "nccl-graph"
_DIALECT = Dialect(
    what="graph file of NCCL",
    hint="give the file as NCCL wrote it",
    max_bytes=64 * 2**20,
    max_depth=16,
    error=TopologyError,
)
_ROOT = re.compile(r"<graphs[\s>/]")
#: The pattern whose channels are rings.
_RING = 4


def looks_like(text: str) -> bool:
    """Whether `<graphs>` begins near the start."""
    return begins_with(_ROOT, text)


def read(text: str, path: str | None) -> Dump:
    """The GPUs of the plan by their `dev`, and the routes between neighbours in its rings.

    Raises
    ------
    TopologyError : it is not well formed, or has no GPU.
    """
    root = parse_elements(text.encode("utf-8", errors="replace"), path, _DIALECT, encoding="utf-8")[0]
    if root.tag != "graphs":
        raise Location(path, root.line).error(f"the first element is <{root.tag}>, not <graphs>")
    gpus: dict[int, Location] = {}
    paths: dict[tuple[int, int, str], Location] = {}
    for graph in (child for child in root.children if child.tag == "graph"):
        is_ring = graph.attributes.get("pattern", "").strip() == str(_RING)
        worst = graph.attributes.get("typeintra", "").strip().upper()
        for channel in (child for child in graph.children if child.tag == "channel"):
            devs = [(_dev(gpu, path), gpu.line) for gpu in channel.children if gpu.tag == "gpu"]
            for dev, line in devs:
                gpus.setdefault(dev, Location(path, line))
            closes = not any(child.tag == "net" for child in channel.children) and len(devs) > 2
            for (a, line), (b, _) in zip(devs, devs[1:] + (devs[:1] if closes else []), strict=False):
                if is_ring and a != b:
                    paths.setdefault((min(a, b), max(a, b), worst), Location(path, line))
    if not gpus:
        raise Location(path, root.line).error("the plan has no GPU")
    return Dump(
        NAME,
        tuple(Gpu(gpus[dev], dev=dev) for dev in sorted(gpus)),
        plan=LibraryChoice(tuple((place, a, b, worst) for (a, b, worst), place in paths.items())),
        order="by dev",
    )


def _dev(gpu: Element, path: str | None) -> int:
    text = gpu.attributes.get("dev", "").strip()
    found = re.fullmatch(r"(?:0[xX]([0-9a-fA-F]{1,8})|(\d{1,8}))", text)
    if found is None:
        raise Location(path, gpu.line).error(f"dev of <gpu> is {text[:40]!r}, which is no whole number")
    return int(found[1], 16) if found[1] else int(found[2])
