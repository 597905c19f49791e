"""What nccl-tests and rccl-tests print: a row for each size, out of place and in place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import takewhile

from taccl.calibration.benchmarks.facts import Measured, Point, Scope, Sweep
from taccl.calibration.benchmarks.text import TextLine, lines_of
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of

_HEADER = re.compile(r"\bsize\s+count\s.*\btype\b.*\b(cpu)?time\s+algbw\s+busbw\b")
_TEST = re.compile(r"\b([a-z]{2,12}(?:_[a-z]{1,12}){0,3})_perf\b")
_DEVICE = re.compile(r"#\s*Rank\s+(\d+)\s.*\bon\s+(\S+)\s+device\b")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)")
#: Behind an error of older rccl-tests that is too large.
_TOO_FAR = "*"
#: Why the times of a run with -C are of no use here.
CPU_TIMES = "the times are those of the CPU that starts the calls (-C), not of the data"
_TYPE = re.compile(r"u?int\d{0,2}|char|half|float\d{0,2}|double|bfloat16|bf16|f?p?8\w*|fp\d\w*")
_OPERATION = re.compile(r"[a-z][a-z_]*")
#: Columns behind type and operation, by how many a row has, where a paste lost its header.
_HALF = ["time", "algbw", "busbw", "#wrong"]
_WITHOUT_HEADER = {
    **{3: _HALF[:3], 4: _HALF, 5: ["root", *_HALF], 6: 2 * _HALF[:3]},
    **{7: ["root", *2 * _HALF[:3]], 8: 2 * _HALF, 9: ["root", *2 * _HALF]},
}


@dataclass
class Rows:
    """What the rows of one run say, whatever file has them.

    Parameters
    ----------
    busbw_gbps : the largest, and its size in bytes.
    fault : the first reason why the times must not be used, and its line.
    """

    points: list[Point] = field(default_factory=list)
    busbw_gbps: tuple[float, int] | None = None
    fault: tuple[str, int] | None = None

    def add(self, point: Point, busbw_gbps: float | None) -> None:
        self.points.append(point)
        if busbw_gbps and (self.busbw_gbps is None or busbw_gbps > self.busbw_gbps[0]):
            self.busbw_gbps = (busbw_gbps, point.size_bytes)

    def blame(self, why: str, line: int) -> None:
        self.fault = self.fault or (why, line)


@dataclass
class _Table:
    """What has been read of one table."""

    header: TextLine | None
    columns: list[str] | None
    test: str | None
    hosts: dict[int, str]
    rows: Rows = field(default_factory=Rows)
    factors: list[float] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether the header of a table is in it."""
    return _HEADER.search(text) is not None


def read(text: str, path: str | None) -> Measured:
    """The tables of a log, each as a sweep; the two halves of a row are repeats of each other.

    Raises
    ------
    MeasurementError : there is no row in it.
    """
    tables: list[_Table] = []
    warnings: list[str] = []
    test: str | None = None
    hosts: dict[int, str] = {}
    row: tuple[int, list[str]] | None = None  # where a row began, and its words so far

    def finish() -> None:
        nonlocal row
        if row is not None and not _take(tables, row[0], row[1], test, hosts):
            warnings.append(f"{path or '<text>'}:{row[0]}: a row of this table is cut; it is left out")
        row = None

    for line in lines_of(text):
        words = line.text.split()
        begins = _beginning_of_row(words)
        if (header := _HEADER.search(line.text)) is not None:
            finish()
            tables.append(_Table(line, _columns(line.text), test, dict(hosts)))
            if header[1]:
                tables[-1].rows.fault = (CPU_TIMES, line.number)
            test = None  # the next run has a name of its own
        elif "nThread" in line.text:  # another run begins
            finish()
            hosts = {}
        elif (device := _DEVICE.search(line.text)) is not None:
            hosts[int(device[1][:9])] = device[2]
        elif begins is not None:
            finish()
            row = (line.number, words[begins:])
        elif (bounds := _OUT_OF_BOUNDS.search(line.text)) is not None:
            finish()
            if int(bounds[1]) and tables:
                tables[-1].rows.fault = (f"{bounds[1]} values were out of bounds", line.number)
        elif row is not None and all(_is_cell(word) for word in words):
            row[1].extend(words)  # the rest of a row that another output tore
        if (named := _TEST.search(line.text)) is not None and "concluded" not in line.text:
            finish()
            test = named[1]
    finish()
    sweeps = tuple(_sweep(table, path) for table in tables if table.rows.points)
    if not sweeps:
        raise MeasurementError(
            "there is a header of nccl-tests, but no row with a time", path=path, line=_first_line(tables)
        )
    return Measured(("nccl-tests",), sweeps, (), tuple(warnings))


def _first_line(tables: list[_Table]) -> int:
    return next((table.header.number for table in tables if table.header is not None), 1)


def _columns(header: str) -> list[str]:
    """The names of the columns behind type and operation."""
    names = header.replace("#wrong", "wrong").replace("#", " ").replace("cputime", "time").split()
    names = [name for name in names if name != "timestamp"]  # behind all numbers, in two words
    first = names.index("redop") if "redop" in names else names.index("type")
    return names[first + 1 :]


def _beginning_of_row(words: list[str]) -> int | None:
    """Where `size count type` stands in a line; a launcher may have written before it."""
    for at in range(min(len(words) - 2, 8)):
        are_whole = whole_of(words[at]) is not None and whole_of(words[at + 1]) is not None
        if are_whole and _TYPE.fullmatch(words[at + 2]):
            return at
    return None


def _is_cell(word: str) -> bool:
    return word == "N/A" or number_of(word.removesuffix(_TOO_FAR)) is not None


def _take(tables: list[_Table], line: int, words: list[str], test: str | None, hosts: dict[int, str]) -> bool:
    """Put a row into the last table; False if it lacks cells."""
    size, cells = whole_of(words[0]), _cells(words[3:])
    if not tables:
        tables.append(_Table(None, None, test, dict(hosts)))
    table = tables[-1]
    columns = table.columns or _WITHOUT_HEADER.get(len(cells))
    if size is None or columns is None or len(cells) < len(columns):
        return False
    for at, half in enumerate(_halves(columns, cells)):
        _take_half(table, size, half, line, in_place=at == 1)
    return True


def _cells(words: list[str]) -> list[str]:
    """The numbers behind the type, and behind the operation where a row has one."""
    if words and _OPERATION.fullmatch(words[0]):
        words = words[1:]
    return list(takewhile(_is_cell, words))


def _take_half(table: _Table, size: int, half: dict[str, str], line: int, *, in_place: bool) -> None:
    time_us, algbw, busbw = (number_of(half.get(name, "N/A")) for name in ("time", "algbw", "busbw"))
    wrong = number_of(half.get("wrong", half.get("#wrong", "N/A")))
    if half.get("error", "").endswith(_TOO_FAR):
        table.rows.blame("results are off by more than they may be", line)
    if wrong:
        table.rows.blame(f"{wrong:g} wrong values", line)
    if time_us is None or time_us <= 0:
        return
    table.rows.add(Point(size, time_us, line, in_place, None if wrong is None else int(wrong)), busbw)
    if algbw and busbw and algbw > 5:  # of three digits or more, so that the quotient means something
        table.factors.append(busbw / algbw)


def _halves(columns: list[str], cells: list[str]) -> list[dict[str, str]]:
    """The cells by their columns' names, out of place and in place apart."""
    halves: list[dict[str, str]] = []
    for name, cell in zip(columns, cells, strict=False):
        if name == "time":
            halves.append({})
        if halves:
            halves[-1][name] = cell
    return halves


def _sweep(table: _Table, path: str | None) -> Sweep:
    test = table.test or _test_of(table)
    line = table.rows.points[0].line if table.header is None else table.header.number
    ranks = max(table.hosts, default=-1) + 1
    hosts = list(table.hosts.values()) if len(table.hosts) == ranks else []  # a paste may leave some out
    sweep = sweep_of_run(path, line, test, hosts, table.rows, ranks or None)
    if table.test is None and test is not None:
        note = f"the log does not name its test; its bus bandwidths are those of {test}"
        return replace(sweep, notes=(*sweep.notes, note))
    return sweep


def sweep_of_run(
    path: str | None,
    line: int,
    test: str | None,
    hosts: list[str],
    rows: Rows,
    ranks: int | None = None,
) -> Sweep:
    """The sweep of one run, whatever file reported it: `test` without `_perf`, and a host for each rank."""
    ranks = len(hosts) or ranks
    fault = rows.fault
    if ranks == 1 and fault is None:
        fault = ("one rank alone sends nothing to another", line)
    is_hop = test == "sendrecv"
    scope = scope_of(hosts) if is_hop else None
    notes = []
    if is_hop and len(hosts) > 2:
        notes.append(f"a ring of {len(hosts)} ranks sends at once; the time is that of its slowest edge")
    return Sweep(
        path,
        line,
        "nccl-tests",
        test or "unnamed",
        tuple(rows.points),
        "launched",
        scope=scope,
        collective=None if is_hop else test or "unnamed",
        ranks=ranks,
        busbw_gbps=rows.busbw_gbps,
        fault=fault,
        notes=tuple(notes),
    )


def test_in(text: str) -> str | None:
    """The test that a text names, `all_reduce`."""
    named = _TEST.search(text)
    return None if named is None else named[1]


def scope_of(hosts: list[str]) -> Scope | None:
    """Whom a ring of sends joins when its ranks run on these hosts."""
    if len(hosts) < 2:
        return None
    if len(set(hosts)) == 1:
        return "gpus"
    return "nodes" if len(set(hosts)) == len(hosts) else "mixed"


def _test_of(table: _Table) -> str | None:
    """The test, from bus bandwidth over algorithm bandwidth, where only one can be meant: 2 (n - 1) / n."""
    n = max(table.hosts, default=-1) + 1
    if n < 3 or not table.factors:
        return None
    factor = sorted(table.factors)[len(table.factors) // 2]
    return "all_reduce" if abs(factor - 2 * (n - 1) / n) < 0.01 else None
