"""Published measurements of collectives on machines of the catalogue, each table with its source.

The figures lie in `measured.json` next to this module: one object a table, its rows `[size, value]` or
`[size, least, most]` in the table's quantity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from taccl.model.collective import busbw_factor
from taccl.model.units import parse_size

#: What a table states: microseconds, or 10**9 bytes per second as nccl-tests counts them.
Quantity = Literal["time_us", "algbw_gbps", "busbw_gbps"]


@dataclass(frozen=True)
class MeasuredRow:
    """One size, in nccl-tests' sense, and the microseconds that it took: from `least_us` to `most_us`."""

    size_bytes: int
    least_us: float
    most_us: float

    @property
    def time_us(self) -> float:
        """The middle of the range."""
        return (self.least_us + self.most_us) / 2


@dataclass(frozen=True)
class MeasuredTable:
    """What one source measured of one library, one collective and one number of ranks.

    Parameters
    ----------
    machine, nodes : the machine of the catalogue, by name, and how many nodes of it.
    ranks : how many GPUs took part; fewer than the machine has where only some of a node did.
    library : NCCL, RCCL, MSCCL++, or the kernel.
    quantity : what the source states; rows hold times, computed from bandwidths where it states these.
    release, algorithm : of the library, where the source states them.
    note : under which conditions.
    """

    machine: str
    nodes: int
    ranks: int
    collective: str
    library: str
    source: str
    quantity: Quantity
    rows: tuple[MeasuredRow, ...]
    release: str = ""
    algorithm: str = ""
    note: str = ""


@cache
def measured_tables() -> tuple[MeasuredTable, ...]:
    """All tables, in the order of the file."""
    text = files(__package__).joinpath("measured.json").read_text(encoding="utf-8")
    return tuple(_table(entry) for entry in json.loads(text))


def _table(entry: dict[str, Any]) -> MeasuredTable:
    factor = busbw_factor(entry["collective"], entry["ranks"]) if entry["quantity"] == "busbw_gbps" else 1.0
    rows = tuple(_row(cells, entry["quantity"], factor) for cells in entry["rows"])
    return MeasuredTable(**{**entry, "rows": rows})


def _row(cells: Sequence[Any], quantity: Quantity, factor: float) -> MeasuredRow:
    size = parse_size(cells[0])
    values = [float(value) for value in cells[1:]]
    if quantity != "time_us":
        values = sorted(size * factor / (value * 1e3) for value in values)
    return MeasuredRow(size, values[0], values[-1])
