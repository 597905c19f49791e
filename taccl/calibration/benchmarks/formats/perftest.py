"""What perftest prints (ib_write_bw, ib_send_lat, ...) or writes with --out_json, between two network cards.

Server and client often write into one log, so rows may stand twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.text import lines_of
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of
from taccl.topologies.strict_yaml import Node, parse_yaml

_TITLE = re.compile(
    r"\b((?:RDMA_)?(?:Write|Read|Send|Atomic\w*)\w*\s+(?:Bidirectional\s+|Post List )?"
    r"(?:BW|Latency))\s+Test\b"
)
_BANDWIDTH = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>[A-Za-z]+/sec)\]\s+BW average\[")
_LATENCY = re.compile(r"#bytes\s+#iterations\s+t_min\[usec\]")
_LATENCY_AVERAGE = re.compile(r"#bytes\s+#iterations\s+t_avg\[usec\]")
#: Bytes a second of one of its units.
_UNITS = {"mb/sec": 2.0**20, "mib/sec": 2.0**20, "gb/sec": 1e9 / 8}
#: The bandwidth of a file in JSON, which does not tell its unit, is what its rate of messages says, within
#: this share.
_RATE = 0.02
#: Both ports of a card at once; what is printed is their sum.
_DUAL_PORT = re.compile(r"\bDual-port\s*:\s*(ON|OFF)\b")


@dataclass
class _Table:
    """One run: `ports` of a card at once, `column` of the number that counts, in `unit`."""

    line: int
    title: str
    unit: str  # `us`, or one of _UNITS
    column: int
    ports: int = 1
    points: list[Point] = field(default_factory=list)

    def take(self, words: list[str], line: int) -> None:
        """Read a row, unless it stands twice."""
        cells = [number_of(word) for word in words[: self.column + 1]]
        if len(cells) <= self.column or None in cells or not cells[-1]:
            return
        size, iterations = whole_of(words[0]), whole_of(words[1])
        if size and iterations:
            point = Point(size, self.time_us(size, cells[-1]), line)
            self.points += [point] if point not in self.points[-1:] else []

    def time_us(self, size: int, value: float) -> float:
        """Of a message one way: a bandwidth is the sum of both directions and all ports."""
        title = self.title.lower()
        if self.unit == "us":
            # a read is timed there and back, a write and a send one way
            return value / (2 if "read" in title or "atomic" in title else 1)
        directions = 2 if "bidirectional" in title else 1
        return size * directions * self.ports / (value * _UNITS[self.unit]) * 1e6

    def sweep(self, path: str | None) -> Sweep:
        """The sweep of the table."""
        notes = []
        if not self.title:
            notes.append(
                "the log has no title: if this is a read, a time is there and back, and alpha at most half of"
                " it"
                if self.unit == "us"
                else "the log has no title: one way is taken"
            )
        if self.ports == 2:
            notes.append("both ports of the cards at once; a time is for one message each")
        return Sweep(
            path,
            self.line,
            "perftest",
            self.title or ("latency" if self.unit == "us" else "bandwidth"),
            tuple(self.points),
            "one way" if self.unit == "us" else "back to back",
            scope="nodes",
            pairs=self.ports,
            notes=tuple(notes),
        )


def looks_like(text: str) -> bool:
    """Whether the header of a table is in it."""
    return any(kind.search(text) is not None for kind in (_BANDWIDTH, _LATENCY, _LATENCY_AVERAGE))


def read(text: str, path: str | None) -> Measured:
    """A sweep for each table; a header that stands twice in a row belongs to one.

    Raises
    ------
    MeasurementError : an unknown unit, or no table has a row.
    """
    tables: list[_Table] = []
    title, ports = "", 1
    for line in lines_of(text):
        bandwidth, latency = _BANDWIDTH.search(line.text), _LATENCY.search(line.text)
        if (named := _TITLE.search(line.text)) is not None:
            title, ports = " ".join(named[1].split()), 1
        elif (dual := _DUAL_PORT.search(line.text)) is not None:
            ports = 2 if dual[1] == "ON" else 1
        elif bandwidth is not None:
            unit = bandwidth["unit"].lower()
            if unit not in _UNITS:
                raise MeasurementError(
                    f"a bandwidth in {bandwidth['unit']} is not known", path=path, line=line.number
                )
            _open(tables, _Table(line.number, title, unit, 3, ports))
        elif latency is not None or _LATENCY_AVERAGE.search(line.text) is not None:
            _open(tables, _Table(line.number, title, "us", 4 if latency is not None else 2))
        elif tables:
            tables[-1].take(line.text.split(), line.number)
    sweeps = tuple(table.sweep(path) for table in tables if table.points)
    if not sweeps:
        raise MeasurementError(
            "no table of perftest has a row", path=path, line=tables[0].line if tables else 1
        )
    return Measured(("perftest",), sweeps)


def _open(tables: list[_Table], table: _Table) -> None:
    if tables and not tables[-1].points and tables[-1].unit == table.unit:
        return  # the other side's header
    tables.append(table)


def is_json(text: str) -> bool:
    """Whether its first key is at the beginning."""
    return re.match(r"\s*\{\s*\"?test_info\"?\s*:", text) is not None


def read_json(text: str, path: str | None) -> Measured:
    """A sweep of one size; files of several sizes are put together by who reads them.

    Raises
    ------
    MeasurementError : it is damaged, has no result, or a bandwidth whose unit cannot be stated; with the
    line.
    """
    root = parse_yaml(text, path, MeasurementError)
    top = root.keys()
    info = top["test_info"].keys() if "test_info" in top else {}
    name = next((top[key] for key in ("results", "results_local") if key in top), None)
    if name is None:
        raise root.error("there are no results in this JSON of perftest")
    results = name.keys()
    size = whole_of(results["MsgSize"].raw) if "MsgSize" in results else None
    if size is None:
        raise name.error("the results have no MsgSize in bytes")
    title = info["test"].raw.replace("_", " ").removesuffix(" Test") if "test" in info else ""
    title = title.replace("RDMA ", "RDMA_")
    ports = 2 if "Dual_port" in info and info["Dual_port"].raw.upper() == "ON" else 1
    latency = next((found for key in ("t_typical", "t_avg") if (found := _number(results, key))), None)
    if latency is not None:
        table, value = _Table(name.line, title, "us", 0), latency
    else:
        gbps, rate = _number(results, "BW_average"), _number(results, "MsgRate")
        if not gbps:
            raise name.error("the results have neither a bandwidth nor a latency")
        table, value = _Table(name.line, title, _unit(name, size, gbps, rate), 0, ports), gbps
    table.points.append(Point(size, table.time_us(size, value), name.line))
    return Measured(("perftest-json",), (table.sweep(path),))


def _unit(results: Node, size: int, value: float, rate: float | None) -> str:
    """The unit in which the bandwidth is that of this many million messages a second."""
    for unit in ("mb/sec", "gb/sec"):
        if rate and abs(value * _UNITS[unit] / (rate * 1e6 * size) - 1) <= _RATE:
            return unit
    raise results.error(
        "this file does not tell whether BW_average is in MB/s or Gb/s, and MsgRate fits neither"
    )


def _number(keys: dict[str, Node], key: str) -> float | None:
    return number_of(keys[key].raw.strip()) if key in keys else None
