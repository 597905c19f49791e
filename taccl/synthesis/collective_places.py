"""Where the chunks of a file start and where they are wanted, how large they are, and when."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.errors import UnitError
from taccl.model import units
from taccl.topologies.strict_yaml import Node

#: No buffer is larger, in chunks.
MAX_OFFSET = 2**31


def size_of(node: Node) -> int:
    """Bytes."""
    try:
        return units.parse_size(node.raw)
    except UnitError as error:
        raise node.error(f"{node.name}: {error.message}", hint=error.hint) from error


def time_of(node: Node) -> float:
    """Microseconds; 0 is a time, too."""
    if node.kind in ("integer", "number"):
        return node.number(minimum=0, maximum=units.MAX_TIME_US)
    try:
        return units.parse_time_us(node.raw if node.kind == "text" else "")
    except UnitError as error:
        raise node.error(f"{node.name}: {error.message}", hint=error.hint) from error


@dataclass(frozen=True)
class Places:
    """The ranks of one `from`, `sum` or `to`, and their offsets where the file gives them."""

    node: Node
    offsets: dict[int, int | None]

    @staticmethod
    def read(node: Node, num_ranks: int) -> Places:
        """Raises what `Node.error` is, with the line."""
        last = num_ranks - 1
        offsets: dict[int, int | None] = {}
        if node.kind == "text":
            node.choice(("all",))
            offsets = dict.fromkeys(range(num_ranks))
        elif node.kind == "mapping":
            offsets = {key.integer(0, last): value.integer(0, MAX_OFFSET) for key, value in node.items()}
        else:
            for rank in node.elements() if node.kind == "list" else (node,):
                if rank.integer(0, last) in offsets:
                    raise rank.error(f"rank {rank.raw} is named twice in {node.name}")
                offsets[rank.integer(0, last)] = None
        if not offsets:
            raise node.error(f"{node.name} names no rank")
        return Places(node, offsets)
