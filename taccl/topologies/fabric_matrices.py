"""Square tables of measured costs between nodes, as mpiGraph and OSU's pairs are laid out, as a fabric.

`fabric: {alpha_us: latency.csv, bandwidth_gbps: bandwidth.csv}`: row i and column j say what node i sends to
node j at. Either may be one number instead. Cells are apart by commas or blanks; the diagonal says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.reading import utf8_text
from taccl.topologies.devices import Device, Link
from taccl.topologies.fabric_costs import (
    MAX_BYTES,
    At,
    Cost,
    alongside,
    beta_of,
    checked_alpha,
    links_between,
)
from taccl.topologies.link_costs import COST_KEYS
from taccl.topologies.strict_yaml import Node

#: One cost: the value from one node to another, and where it is written.
_Costs = Callable[[int, int], tuple[float, At]]


def has_matrices(keys: dict[str, Node]) -> bool:
    """Whether some cost of a fabric is a file."""
    return any(keys[key].kind == "text" for key in COST_KEYS if key in keys)


def links_with_matrices(
    entry: Node, keys: dict[str, Node], nics: Sequence[Sequence[str]]
) -> tuple[list[Device], list[Link]]:
    """The devices and links between the NICs of a machine, as `fabric_costs.links_with_costs` has them.

    Raises
    ------
    FileError : a file cannot be read.
    TopologyError : a table that is not square, has fewer rows than there are nodes, or has a cell that is no
        cost; with its line.
    """
    columns = [key for key in COST_KEYS[1:] if key in keys]
    if len(columns) != 1 or "levels" in keys:
        raise entry.error(
            f"{entry.name} with costs in files has alpha_us and bandwidth_gbps", hint="and no levels"
        )
    alpha, rate = _costs(keys["alpha_us"], len(nics)), _costs(keys[columns[0]], len(nics))
    number = {name: node for node, names in enumerate(nics) for name in names}

    def cost(a: str, b: str) -> Cost:
        (alpha_us, at), (value, other) = alpha(number[a], number[b]), rate(number[a], number[b])
        return Cost(checked_alpha(at, alpha_us), beta_of(other, columns[0], value), at.line)

    return links_between(entry, nics, cost)


def _costs(node: Node, nodes: int) -> _Costs:
    """What a key says: one number for all pairs, or a table."""
    if node.kind != "text":
        value = node.number(minimum=0)
        here = At(None if node.source.path is None else Path(node.source.path), node.line)
        return lambda a, b: (value, here)
    path = alongside(node)
    rows = list(_rows(path))
    for line, row in rows:
        if len(row) != len(rows):
            raise TopologyError(
                f"the table is not square: this row has {len(row)} cells, and there are {len(rows)} rows",
                path=path,
                line=line,
            )
    if len(rows) < nodes:
        raise TopologyError(f"the table has {len(rows)} rows, and there are {nodes} nodes", path=path)
    return lambda a, b: (_number(path, rows[a][0], rows[a][1][b]), At(path, rows[a][0]))


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    lines = utf8_text(path, MAX_BYTES, TopologyError).split("\n")
    kept = [(number, text.split("#")[0].strip()) for number, text in enumerate(lines, start=1)]
    return [(number, text.replace(",", " ").split()) for number, text in kept if text]


def _number(path: Path, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TopologyError(f"{cell[:40]!r} is no number", path=path, line=line)
    return value
