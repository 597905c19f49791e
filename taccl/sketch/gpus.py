"""Reading GPU numbers: lists of them, and maps from one to a list."""

from __future__ import annotations

from taccl.topologies.strict_yaml import Node


def gpu_list(node: Node) -> tuple[int, ...]:
    """One or more local GPU indices, none twice."""
    gpus: list[int] = []
    for element in node.elements():
        gpu = element.integer(minimum=0)
        if gpu in gpus:
            raise element.error(f"{node.name} names GPU {gpu} twice")
        gpus.append(gpu)
    if not gpus:
        raise node.error(f"{node.name} must name at least one GPU")
    return tuple(gpus)


def gpu_map(node: Node) -> tuple[tuple[int, tuple[int, ...], int], ...]:
    """(GPU, the GPUs it is mapped to, line) for each entry of a mapping, keys in quotes or not."""
    entries: list[tuple[int, tuple[int, ...], int]] = []
    for key, value in node.items():
        if not (key.raw.isascii() and key.raw.isdecimal()):
            raise key.error(f"a key of {node.name} must be the number of a GPU, not {key.described}")
        gpu = int(key.raw)
        if any(gpu == other for other, _, _ in entries):
            raise key.error(f"{node.name} has two entries for GPU {gpu}")
        entries.append((gpu, gpu_list(value), key.line))
    if not entries:
        raise node.error(f"{node.name} must have at least one entry")
    return tuple(entries)
