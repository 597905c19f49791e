"""NetQ's computeNodes.json: which trays share a domain of NVLinks."""

from __future__ import annotations

from dataclasses import replace

from taccl.errors import TopologyError
from taccl.support.tables import FileLine
from taccl.topologies.importers.clusters.facts import ClusterFacts
from taccl.topologies.importers.clusters.scheduler import Blocks
from taccl.topologies.strict_yaml import parse_yaml


def looks_like(text: str) -> bool:
    """Whether it is JSON with the key `DomainUUID`."""
    return '"DomainUUID"' in text


def read(text: str, path: str | None) -> ClusterFacts:
    """The domains, their trays in the order of their slots.

    Raises
    ------
    TopologyError : with the line; trays with different numbers of GPUs are reported as a warning.
    """
    root = parse_yaml(text, path, TopologyError)
    trays: list[tuple[str, int, str, FileLine]] = []
    gpus: dict[int, FileLine] = {}
    for item in root.elements() if root.kind == "list" else (root,):
        keys = item.keys()
        domain, name = item.named("DomainUUID"), item.named("Name")
        place = FileLine(path, keys["DomainUUID"].line)
        slot = 0
        if "LocationInfo" in keys and keys["LocationInfo"].kind == "mapping":
            location = keys["LocationInfo"].keys()
            if "SlotID" in location and location["SlotID"].kind == "integer":
                slot = location["SlotID"].integer()
        trays.append((domain, slot, name, place))
        if "GpuIDList" in keys and keys["GpuIDList"].kind == "list":
            gpus.setdefault(len(keys["GpuIDList"].elements()), place)
    if not trays:
        raise root.error("there is no tray in the file")
    blocks = Blocks()
    for domain, _, name, place in sorted(trays, key=lambda tray: (tray[0], tray[1])):
        blocks.add(place, domain, (name,), is_nvlink=True)
    cluster = blocks.cluster("netq", gpus=next(iter(gpus)) if len(gpus) == 1 else None)
    if len(gpus) > 1:
        reported = ", ".join(f"{count} ({place})" for count, place in gpus.items())
        return replace(cluster, warnings=(f"trays have different numbers of GPUs: {reported}",))
    return cluster
