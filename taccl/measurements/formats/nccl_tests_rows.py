"""What rccl-tests -x FILE writes with -Z csv or -Z json: one row for each size and each half.

It knows the names of its columns; sweeps are made as for the text.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator

from taccl.errors import MeasurementError
from taccl.measurements.facts import Measured, Point, Sweep
from taccl.measurements.formats.nccl_tests import sweep_of_run
from taccl.measurements.text import number_of, whole_of

_ROW = re.compile(r"\{[^{}]{0,4000}\}")
_HEADER = re.compile(r"^\W{0,4}numcycle\W+", re.IGNORECASE | re.MULTILINE)


def looks_like(text: str) -> bool:
    """Whether it is a CSV or JSON with a column `numCycle`."""
    return '"numCycle"' in text or _HEADER.search(text) is not None


def read(text: str, path: str | None) -> Measured:
    """A sweep for each test and number of ranks in the file; its halves and cycles are repeats.

    Raises
    ------
    MeasurementError : no row has a size and a time.
    """
    runs: dict[tuple[str, int], tuple[list[Point], list[tuple[str, int]], list[tuple[float, int]], int]] = {}
    nodes: dict[tuple[str, int], int] = {}
    warnings = []
    for line, row in _rows(text):
        size, time_us = whole_of(row.get("size", "")), number_of(row.get("time", ""))
        if size is None or time_us is None or time_us <= 0:
            warnings.append(f"{path or '<text>'}:{line}: a row without size and time is left out")
            continue
        ranks = whole_of(row.get("nranks", row.get("ranks", ""))) or 0
        key = (row.get("name", "").lower().replace("_perf", ""), ranks)
        points, faults, buses, _ = runs.setdefault(key, ([], [], [], line))
        points.append(Point(size, time_us, line))
        wrong = number_of(row.get("wrong", row.get("error", "0")))
        if wrong and "wrong" in row:
            faults.append((f"{wrong:g} wrong values", line))
        if (bus := number_of(row.get("busbw", ""))) is not None:
            buses.append((bus, size))
        nodes[key] = whole_of(row.get("nnodes", row.get("nodes", ""))) or 0
    if not runs:
        raise MeasurementError("no row has a size and a time", path=path, line=1)
    sweeps: list[Sweep] = []
    for key, (points, faults, buses, line) in runs.items():
        test = re.sub(r"[^a-z]", "", key[0]) or None
        if test is not None:
            test = "sendrecv" if test == "sendrecv" else key[0]
        # which rank is where is not told, only how many nodes there are
        hosts = (
            [f"node{rank * nodes[key] // key[1]}" for rank in range(min(key[1], 65536))] if nodes[key] else []
        )
        busbw = max(buses, default=None)
        fault = faults[0] if faults else None
        sweeps.append(sweep_of_run(path, line, test, hosts, points, busbw, fault, ranks=key[1] or None))
    return Measured(("nccl-tests-rows",), tuple(sweeps), (), tuple(warnings))


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
