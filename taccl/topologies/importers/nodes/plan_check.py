"""Whether a plan that NCCL made fits a machine that was read elsewhere.

Compares two dumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taccl.topologies.importers.nodes.facts import Dump, GpuLink, LibraryChoice, Nearness

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
