"""NCCL's graph XML (`NCCL_GRAPH_DUMP_FILE`): a plan of rings and trees, by which an import can be checked.

It tells no link and no speed of a machine, so nothing is made of it alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.support.xml_elements import Dialect, Element, begins_with, parse_elements
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, LibraryChoice, Nearness

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
        raise FileLine(path, root.line).error(f"the first element is <{root.tag}>, not <graphs>")
    gpus: dict[int, FileLine] = {}
    paths: dict[tuple[int, int, str], FileLine] = {}
    for graph in (child for child in root.children if child.tag == "graph"):
        is_ring = graph.attributes.get("pattern", "").strip() == str(_RING)
        worst = graph.attributes.get("typeintra", "").strip().upper()
        for channel in (child for child in graph.children if child.tag == "channel"):
            devs = [(_dev(gpu, path), gpu.line) for gpu in channel.children if gpu.tag == "gpu"]
            for dev, line in devs:
                gpus.setdefault(dev, FileLine(path, line))
            closes = not any(child.tag == "net" for child in channel.children) and len(devs) > 2
            for (a, line), (b, _) in zip(devs, devs[1:] + (devs[:1] if closes else []), strict=False):
                if is_ring and a != b:
                    paths.setdefault((min(a, b), max(a, b), worst), FileLine(path, line))
    if not gpus:
        raise FileLine(path, root.line).error("the plan has no GPU")
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
        raise FileLine(path, gpu.line).error(f"dev of <gpu> is {text[:40]!r}, which is no whole number")
    return int(found[1], 16) if found[1] else int(found[2])


#: The farthest two GPUs without NVLinks are, when the worst way of a ring is of this kind.
_FARTHEST = {"PIX": Nearness.PIX, "PXB": Nearness.PXB, "PHB": Nearness.NODE}


def disagreements(plan: Dump, machine: Dump) -> tuple[str, ...]:
    """What the plan says that the machine does not have, in plain sentences with both lines.

    Parameters
    ----------
    plan : a dump with `plan`.
    machine : another dump of the same machine. GPUs are the same if their `dev` is.
    """
    place = machine.gpus[0].place if machine.gpus else None
    if any(gpu.dev is None for gpu in machine.gpus):
        if len(plan.gpus) > len(machine.gpus):
            last = plan.gpus[-1].place
            return (f"{last}: the plan has {len(plan.gpus)} GPUs, the machine {len(machine.gpus)} ({place})",)
        return ()
    at = {gpu.dev: position for position, gpu in enumerate(machine.gpus)}
    found = [
        f"{gpu.place}: the plan has a GPU {gpu.dev}, the machine has none ({place})"
        for gpu in plan.gpus
        if gpu.dev not in at
    ]
    if plan.plan is not None and machine.links is not None:
        found += _paths_without_links(plan.plan, machine, machine.links, at)
    return tuple(found)


def _paths_without_links(
    plan: LibraryChoice, machine: Dump, links: Sequence[GpuLink], at: Mapping[int | None, int]
) -> Iterator[str]:
    """Paths of a plan between GPUs that are farther from each other than it says."""
    linked = {(link.a, link.b) for link in links if link.b is not None}
    switched = {link.a for link in links if link.b is None}
    for here, a, b, worst in plan.paths:
        if a not in at or b not in at:
            continue
        i, j = sorted((at[a], at[b]))
        if (i, j) in linked or {i, j} <= switched:
            continue
        near = None if machine.gpu_nearness is None else machine.gpu_nearness[i][j]
        there = machine.gpus[i].place
        if worst == "NVL":
            yield f"{here}: the plan goes from GPU {a} to GPU {b} by NVLink; there is none ({there})"
        elif near is not None and worst in _FARTHEST and near > _FARTHEST[worst]:
            by = f"by {worst} at worst; they are {near.name}"
            yield f"{here}: the plan goes from GPU {a} to GPU {b} {by} ({there})"
