"""What rccl-tests -x FILE writes with -Z csv or -Z json: one row for each size and each half."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Measured, Point, Sweep
from taccl.calibration.benchmarks.formats.nccl_tests import Rows, sweep_of_run
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of

#: More ranks are not spread out to tell who shares a node.
_MOST_RANKS = 65536
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
        self.rows.add(Point(size, time_us, line), number_of(row.get("busbw", "")))
        if wrong := number_of(row.get("wrong", "")):
            self.rows.blame(f"{wrong:g} wrong values", line)

    def sweep(self, path: str | None) -> Sweep:
        # which rank is where is not stated, only how many nodes there are
        ranks = min(self.ranks, _MOST_RANKS) if self.nodes else 0
        hosts = [f"node{rank * self.nodes // ranks}" for rank in range(ranks)]
        return sweep_of_run(path, self.line, self.test or None, hosts, self.rows, self.ranks or None)


def looks_like(text: str) -> bool:
    """Whether it is a CSV or JSON with a column `numCycle`."""
    return '"numCycle"' in text or _HEADER.search(text) is not None


def read(text: str, path: str | None) -> Measured:
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
