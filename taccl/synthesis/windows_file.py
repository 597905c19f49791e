"""Windows of computing in a YAML file.

ready: {us_per_mb: 85}        # each rank makes its chunks in order; or ready: times.csv (offset, rank, us)
at_root: {us_per_mb: 9.3}     # work on a finished sum where it is made, before it is copied on
then: {us_per_mb: 20}         # what each rank still does with each chunk that it got
"""

from __future__ import annotations

import csv
from pathlib import Path

from taccl.errors import CollectiveError, FileError
from taccl.model.units import MAX_TIME_US
from taccl.model.windows import Windows
from taccl.support.arguments import shown
from taccl.support.reading import utf8_text
from taccl.topologies.strict_yaml import MAX_BYTES, Node, load_yaml

_HEADER = ["offset", "rank", "us"]


def load_windows(path: str | Path) -> Windows:
    """The windows in a YAML file; a table that it names lies next to it.

    Raises
    ------
    FileError, CollectiveError : with the line that is wrong.
    """
    keys = load_yaml(path, CollectiveError).mapping(allowed=("ready", "at_root", "then"))
    ready = 0.0
    table: tuple[tuple[int, int, float], ...] = ()
    if "ready" in keys:
        if keys["ready"].kind == "text":
            table = _table(Path(path).parent / keys["ready"].string())
        else:
            rate = keys["ready"].mapping(allowed=("us_per_mb", "order"), required=("us_per_mb",))
            if "order" in rate:
                rate["order"].choice(("chunk",))
            ready = _rate(rate["us_per_mb"])
    after = {
        name: _rate(keys[name].mapping(allowed=(), required=("us_per_mb",))["us_per_mb"])
        for name in ("at_root", "then")
        if name in keys
    }
    return Windows(ready, table, after.get("at_root", 0.0), after.get("then", 0.0))


def _rate(node: Node) -> float:
    return node.number(minimum=0.0, maximum=MAX_TIME_US)


def _table(path: Path) -> tuple[tuple[int, int, float], ...]:
    rows = list(csv.reader(utf8_text(path, MAX_BYTES, CollectiveError).splitlines()))
    if not rows or [cell.strip() for cell in rows[0]] != _HEADER:
        raise FileError("the table of moments begins with another line", path=path, hint=",".join(_HEADER))
    found: dict[tuple[int, int], float] = {}
    for line, row in enumerate(rows[1:], start=2):
        try:
            offset, rank, moment_us = int(row[0]), int(row[1]), float(row[2])
            if len(row) != len(_HEADER) or not 0 <= moment_us <= MAX_TIME_US:
                raise ValueError
        except (ValueError, IndexError):
            raise FileError(
                f"{shown(','.join(row))} is no offset, rank and moment from 0 on", path=path, line=line
            ) from None
        if (offset, rank) in found:
            raise FileError(f"offset {offset} of rank {rank} is there twice", path=path, line=line)
        found[offset, rank] = moment_us
    return tuple((offset, rank, moment_us) for (offset, rank), moment_us in found.items())
