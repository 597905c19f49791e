"""What the OSU micro-benchmarks print: a row for each size, of latency or of bandwidth."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep, Timing
from taccl.calibration.benchmarks.text import lines_of
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of

_TITLE = re.compile(r"#\s*OSU\s+(?P<name>.{3,80}?)\s+Test\b")
_COLUMNS = re.compile(r"^\s*#\s*Size\s+(?P<names>\S.*)$")
_PAIRS = re.compile(r"\[\s*pairs:\s*(\d{1,6})\s*\]")
#: Titles between two ends; those of collectives carry the collective's name.
_POINT_TO_POINT = re.compile(
    r"(?:MPI|[NR]CCL|xCCL)(?:-\w+)?\s+(?:Multi(?:-threaded|-process|ple)?\s+)?"
    r"(?:Latency|Bandwidth|Bi-Directional Bandwidth|Bandwidth / Message Rate)"
    r"|MPI_(?:Put|Get)(?:-\w+)?\s+(?:Latency|(?:Bi-directional )?Bandwidth)",
    re.IGNORECASE,
)
#: us, of a row's number of MB/s (10^6 bytes) and its bytes.
_Row = tuple[int, int, float]


@dataclass
class _Table:
    line: int
    name: str
    pairs: int = 1
    unit: str = ""
    on_device: bool = False
    rows: list[_Row] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether the title of a test is in it."""
    return _TITLE.search(text) is not None


def read(text: str, path: str | None) -> Measured:
    """A sweep for each table.

    Raises
    ------
    MeasurementError : no table has a row.
    """
    tables: list[_Table] = []
    for line in lines_of(text):
        title, columns, pairs = _TITLE.search(line.text), _COLUMNS.match(line.text), _PAIRS.search(line.text)
        if title is not None:
            tables.append(_Table(line.number, title["name"]))
        elif not tables:
            continue
        elif columns is not None:
            tables[-1].unit = _unit(columns["names"], tables[-1].name)
        elif pairs is not None:
            tables[-1].pairs = max(1, int(pairs[1]))
        elif "Send Buffer on DEVICE" in line.text and "Receive Buffer on DEVICE" in line.text:
            tables[-1].on_device = True
        elif tables[-1].unit:
            words = line.text.split()
            size, value = whole_of(words[0]), number_of(words[1]) if len(words) > 1 else None
            if size is not None and value is not None and value > 0:
                tables[-1].rows.append((line.number, size, value))
    sweeps = tuple(_sweep(table, path) for table in tables if table.rows)
    if not sweeps:
        raise MeasurementError(
            "no table of this OSU test has a row", path=path, line=tables[0].line if tables else 1
        )
    return Measured(("osu",), sweeps)


def _unit(names: str, title: str) -> str:
    return "us" if "us" in re.findall(r"[A-Za-z]+", names) or "latency" in title.lower() else "MB/s"


def _sweep(table: _Table, path: str | None) -> Sweep:
    name = table.name.lower()
    is_hop = _POINT_TO_POINT.fullmatch(table.name.strip()) is not None
    directions = 2 if "bi-directional" in name else 1
    timing: Timing = "one way" if table.unit == "us" else "back to back"
    if "ccl" in name.split()[0] and timing == "one way":
        timing = "launched"  # each message is a call that starts a kernel
    points = [
        Point(size, value if table.unit == "us" else size * table.pairs * directions / value, line)
        for line, size, value in table.rows
        if table.unit == "us" or size > 0
    ]
    notes = [] if table.on_device or "cuda" in name or "rocm" in name else ["between buffers of the hosts"]
    if directions == 2:
        notes.append("both directions at once; a time is for one message each way")
    return Sweep(
        path,
        table.line,
        "osu",
        table.name,
        tuple(points),
        timing,
        pairs=table.pairs,
        collective=None if is_hop else table.name,
        notes=tuple(notes),
    )
