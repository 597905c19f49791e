"""What perftest prints (ib_write_bw, ib_send_lat, ...): a row for each size, between two network cards.

It knows its headers and units. Server and client often write into one log, so rows may stand twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.text import lines_of, number_of, numbers_of, whole_of
from taccl.errors import MeasurementError

_TITLE = re.compile(
    r"\b((?:RDMA_)?(?:Write|Read|Send|Atomic\w*)\w*\s+(?:Bidirectional\s+|Post List )?"
    r"(?:BW|Latency))\s+Test\b"
)
_BANDWIDTH = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>[A-Za-z]+/sec)\]\s+BW average\[")
_LATENCY = re.compile(r"#bytes\s+#iterations\s+t_min\[usec\]")
_LATENCY_AVERAGE = re.compile(r"#bytes\s+#iterations\s+t_avg\[usec\]")
#: Bytes a second of one of its units.
UNITS = {"mb/sec": 2.0**20, "mib/sec": 2.0**20, "gb/sec": 1e9 / 8}


#: Both ports of a card at once; what is printed is their sum.
_DUAL_PORT = re.compile(r"\bDual-port\s*:\s*(ON|OFF)\b")


@dataclass
class Table:
    """One run: `ports` of a card at once, `column` of the number that counts, in `unit`."""

    line: int
    title: str
    unit: str  # `us`, or one of UNITS
    column: int
    ports: int = 1
    points: list[Point] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether the header of a table is in it."""
    return any(kind.search(text) is not None for kind in (_BANDWIDTH, _LATENCY, _LATENCY_AVERAGE))


def read(text: str, path: str | None) -> Measured:
    """A sweep for each table; a header that stands twice in a row belongs to one.

    Raises
    ------
    MeasurementError : an unknown unit, or no table has a row.
    """
    tables: list[Table] = []
    title, ports = "", 1
    for line in lines_of(text):
        bandwidth, latency = _BANDWIDTH.search(line.text), _LATENCY.search(line.text)
        words = line.text.split()
        if (named := _TITLE.search(line.text)) is not None:
            title, ports = " ".join(named[1].split()), 1
        elif (dual := _DUAL_PORT.search(line.text)) is not None:
            ports = 2 if dual[1] == "ON" else 1
        elif bandwidth is not None:
            unit = bandwidth["unit"].lower()
            if unit not in UNITS:
                raise MeasurementError(
                    f"a bandwidth in {bandwidth['unit']} is not known", path=path, line=line.number
                )
            _open(tables, Table(line.number, title, unit, 3, ports))
        elif latency is not None or _LATENCY_AVERAGE.search(line.text) is not None:
            _open(tables, Table(line.number, title, "us", 4 if latency is not None else 2))
        elif tables and len(words) > tables[-1].column and whole_of(words[0]) and whole_of(words[1]):
            size, values = int(words[0]), numbers_of(words[: tables[-1].column + 1])
            if values is not None and (value := number_of(words[tables[-1].column])):
                point = Point(size, time_us(size, value, tables[-1]), line.number)
                if point not in tables[-1].points[-1:]:
                    tables[-1].points.append(point)
    sweeps = tuple(sweep_of(table, path) for table in tables if table.points)
    if not sweeps:
        raise MeasurementError(
            "no table of perftest has a row", path=path, line=tables[0].line if tables else 1
        )
    return Measured(("perftest",), sweeps)


def _open(tables: list[Table], table: Table) -> None:
    if tables and not tables[-1].points and tables[-1].unit == table.unit:
        return  # the other side's header
    tables.append(table)


def time_us(size: int, value: float, table: Table) -> float:
    """Of a message one way: a bandwidth is the sum of all routes and ports."""
    title = table.title.lower()
    if table.unit == "us":
        # a read is timed there and back, a write and a send one way
        return value / (2 if "read" in title or "atomic" in title else 1)
    routes = 2 if "bidirectional" in title else 1
    return size * routes * table.ports / (value * UNITS[table.unit]) * 1e6


def sweep_of(table: Table, path: str | None) -> Sweep:
    """The sweep of one table."""
    notes = []
    if not table.title:
        notes.append(
            "the log has no title: if this is a read, a time is there and back, and alpha at most half of it"
            if table.unit == "us"
            else "the log has no title: one way is taken"
        )
    if table.ports == 2:
        notes.append("both ports of the cards at once; a time is for one message each")
    return Sweep(
        path,
        table.line,
        "perftest",
        table.title or ("latency" if table.unit == "us" else "bandwidth"),
        tuple(table.points),
        "one way" if table.unit == "us" else "back to back",
        scope="nodes",
        pairs=table.ports,
        notes=tuple(notes),
    )
