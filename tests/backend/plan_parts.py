"""Parts of plans as their files have them, and the rules of structure that say something of a plan's text."""

from __future__ import annotations

from typing import Any

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.mscclpp import parse_plan_document
from taccl.backend.verify.mscclpp.document import check_document
from taccl.backend.verify.mscclpp.verifier import check_structure
from taccl.backend.verify.mscclpp.versions import NEWEST

#: Values by place; see `plans.edited`.
Places = dict[str, Any]


def own(index: int, size: int = 1, buffer: str = "i") -> dict[str, Any]:
    return {"type": buffer, "index": index, "size": size}


def remote(index: int, size: int = 1, number: int = 0) -> dict[str, Any]:
    return {"buffer_id": number, "index": index, "size": size}


def switch(index: int, size: int = 1) -> dict[str, Any]:
    return {"switch_channel_id": 0, "index": index, "size": size}


def op(name: str, sources: list[Any] | None = None, targets: list[Any] | None = None, **rest: Any) -> Any:
    said: dict[str, Any] = {"name": name, **rest}
    if sources is not None:
        said["src_buff"] = sources
    if targets is not None:
        said["dst_buff"] = targets
    return said


def found(text: str) -> tuple[Finding, ...]:
    """What structure alone says of a plan."""
    document = parse_plan_document(text)
    collector = Collector()
    check_document(document, collector)
    check_structure(document.plan, collector)
    return collector.findings()


def rules(text: str, severity: str = "error") -> set[str]:
    """The rules that say something of the newest release; warnings of older ones are kept."""
    return {
        each.rule
        for each in found(text)
        if each.severity == severity
        and (severity == "warning" or not each.runtimes or NEWEST.name in each.runtimes)
    }


def with_switches(members: tuple[list[int], ...] = ([0, 1], [0, 1]), buffer: str = "i") -> Places:
    """Places of the AllReduce of two that give each rank a switch channel, which its block uses."""
    places: Places = {}
    for rank, ranks in enumerate(members):
        groups = [{"size": len(ranks), "ranks": ranks}]
        places[f"g{rank}.channels.1"] = {
            "channel_type": "switch",
            "buffer_type": buffer,
            "rank_groups": groups,
        }
        places[f"g{rank}.b0.channels.1"] = {"channel_type": "switch", "channel_ids": [0]}
    return places


def pipeline(*inner: Any, unit: int = 1024, chunks: int = 1) -> Any:
    return {
        "name": "pipeline",
        "iter_context": {"unit_size": unit, "num_chunks": chunks},
        "ops": list(inner),
    }
