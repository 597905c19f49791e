"""What nccl-tests -J and rccl-tests -x FILE -Z csv|json write: rows of a table as JSON or CSV."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.formats.nccl_tests import CPU_TIMES, Rows, sweep_of_run, test_in
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of
from taccl.topologies.strict_yaml import Node, parse_yaml

#: Of a half of a row, the first that is there: what a run takes, and not what its slowest repeat does.
_TIMES = ("p50_us", "min_us", "time")
#: More ranks are not spread out to tell who shares a node.
_MOST_RANKS = 65536


def looks_like(text: str) -> bool:
    """Whether it is JSON with rows that have two halves."""
    return text.lstrip()[:1] == "{" and '"results"' in text and '"out_of_place"' in text


def read(text: str, path: str | None) -> Measured:
    """The one sweep of the file.

    Raises
    ------
    MeasurementError : it is not JSON, or has no row with a time; with the line.
    """
    try:
        root = parse_yaml(text, path, MeasurementError)
    except MeasurementError as failure:
        hint = "a run that is stopped leaves its file without an end; its text has the rows"
        raise MeasurementError(
            "this JSON of nccl-tests is cut or damaged", path=path, line=failure.line, hint=hint
        ) from None
    top = root.keys()
    if "results" not in top:
        raise root.error("this JSON of nccl-tests has no 'results'")
    hosts = _hosts(top)
    rows = Rows()
    for row in top["results"].elements():
        keys = row.keys()
        size = whole_of(keys["size"].raw) if "size" in keys else None
        if size is None:
            raise row.error(f"{row.name} has no size in bytes")
        for half in ("out_of_place", "in_place"):
            if half in keys and keys[half].kind == "mapping":
                iterations = keys.get(f"{half}_per_iter")
                values = keys[half].keys()
                _take_half(rows, size, values, iterations, row.line, in_place=half == "in_place")
    if not rows.points:
        raise root.error("this JSON of nccl-tests has no row with a time")
    bounds = _count_out_of_bounds(top.get("out_of_bounds"))
    if bounds:
        rows.blame(f"{bounds:g} values were out of bounds", top["out_of_bounds"].line)
    sweep = sweep_of_run(path, root.line, test_in(text), hosts, rows)
    return Measured(("nccl-tests-json",), (sweep,))


def _take_half(
    rows: Rows, size: int, values: dict[str, Node], iterations: Node | None, line: int, *, in_place: bool
) -> None:
    """Put one half of a row into the rows; what it says of single iterations goes before its averages."""
    if "cpu_time" in values:
        rows.blame(CPU_TIMES, line)
    if iterations is not None and iterations.kind == "mapping":
        values = values | iterations.keys()
    wrong = _number(values.get("nwrong"))
    if wrong:
        rows.blame(f"{wrong:g} wrong values", line)
    time_us = next((found for name in _TIMES if (found := _number(values.get(name)))), None)
    if time_us is None:
        time_us = _number(values.get("cpu_time"))
    if time_us is not None and time_us > 0:
        point = Point(size, time_us, line, in_place, None if wrong is None else int(wrong))
        rows.add(point, _number(values.get("bus_bw")))


def _hosts(top: dict[str, Node]) -> list[str]:
    """A host for each rank.

    The devices stand in `config`, in some files at the top. Of each process only the first GPU is listed,
    so listed ranks are `nthreads` x `ngpus` apart.
    """
    config = top["config"].keys() if "config" in top and top["config"].kind == "mapping" else {}
    devices = top.get("devices", config.get("devices"))
    listed = [device.keys() for device in devices.elements()] if devices is not None else []
    hosts = [device["hostname"].raw for device in listed if "hostname" in device]
    each = 1
    for name in ("nthreads", "ngpus"):
        each *= max(1, int(_number(config.get(name)) or 1))
    ranks = [_number(device.get("rank")) for device in listed]
    is_first_only = ranks == [process * each for process in range(len(ranks))]
    if each > 1 and is_first_only and len(hosts) * each <= _MOST_RANKS:
        return [host for host in hosts for _ in range(each)]
    return hosts


def _count_out_of_bounds(node: Node | None) -> float | None:
    if node is not None and node.kind == "mapping":
        return next((_number(value) for key, value in node.items() if key.raw in ("count", "errors")), None)
    return _number(node)


def _number(node: Node | None) -> float | None:
    return None if node is None or isinstance(node.content, tuple) else number_of(node.raw.strip())


_ROW = re.compile(r"\{[^{}]{0,4000}\}")
_HEADER = re.compile(r"^\W{0,4}numcycle\W+", re.IGNORECASE | re.MULTILINE)


@dataclass
class _Run:
    """The rows of one test among this many ranks."""

    line: int
    test: str
    ranks: int
    nodes: int
    rows: Rows = field(default_factory=Rows)

    def add(self, size: int, time_us: float, line: int, row: dict[str, str]) -> None:
        wrong, place = number_of(row.get("wrong", "")), row.get("inplace")
        in_place = None if place is None else place.lower() in ("1", "true")
        point = Point(size, time_us, line, in_place, None if wrong is None else int(wrong))
        self.rows.add(point, number_of(row.get("busbw", "")))
        if wrong:
            self.rows.blame(f"{wrong:g} wrong values", line)

    def sweep(self, path: str | None) -> Sweep:
        # which rank is where is not stated, only how many nodes there are
        ranks = min(self.ranks, _MOST_RANKS) if self.nodes else 0
        hosts = [f"node{rank * self.nodes // ranks}" for rank in range(ranks)]
        return sweep_of_run(path, self.line, self.test or None, hosts, self.rows, self.ranks or None)


def looks_like_rows(text: str) -> bool:
    """Whether it is a CSV or JSON with a column `numCycle`."""
    return '"numCycle"' in text or _HEADER.search(text) is not None


def read_rows(text: str, path: str | None) -> Measured:
    """A sweep for each test and number of ranks in the file; its halves and cycles are repeats.

    Raises
    ------
    MeasurementError : no row has a size and a time.
    """
    runs: dict[tuple[str, int], _Run] = {}
    warnings = []
    for line, row in _rows(text):
        size, time_us = whole_of(row.get("size", "")), number_of(row.get("time", ""))
        if size is None or time_us is None or time_us <= 0:
            warnings.append(f"{path or '<text>'}:{line}: a row without size and time is left out")
            continue
        processes = whole_of(row.get("nranks", row.get("ranks", ""))) or 0
        ranks = processes * (whole_of(row.get("gpusperrank", "")) or 1)  # its ranks are processes
        nodes = whole_of(row.get("nnodes", row.get("nodes", ""))) or 0
        test = row.get("name", "").lower().removesuffix("_perf")
        runs.setdefault((test, ranks), _Run(line, test, ranks, nodes)).add(size, time_us, line, row)
    if not runs:
        raise MeasurementError("no row has a size and a time", path=path, line=1)
    sweeps = tuple(run.sweep(path) for run in runs.values())
    return Measured(("nccl-tests-rows",), sweeps, (), tuple(warnings))


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows with their lines; names of columns in lower case, without marks."""
    if '"numCycle"' in text:
        for match in _ROW.finditer(text):
            try:
                values = json.loads(match[0])
            except ValueError:
                values = {}
            yield text.count("\n", 0, match.start()) + 1, {_name(k): str(v) for k, v in values.items()}
        return
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in next(csv.reader([line[:4000]]), [])]
        if _HEADER.match(line):
            names = [_name(cell) for cell in cells]
        elif names and len(cells) > 1:
            yield number, dict(zip(names, cells, strict=False))


def _name(word: str) -> str:
    return re.sub(r"[^a-z]", "", word.lower())
