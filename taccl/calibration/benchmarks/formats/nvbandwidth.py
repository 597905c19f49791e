"""What NVIDIA's nvbandwidth prints, as text or with -j: a matrix for each test case."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Ends, Matrix, Measured, Quantity
from taccl.calibration.benchmarks.text import TextLine, lines_of, wrong_width
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of
from taccl.topologies.strict_yaml import Node, parse_yaml

_RUNNING = re.compile(r"^\s*Running\s+(?:benchmark\s+)?([a-z][a-z0-9_]{3,80})\.?\s*$", re.IGNORECASE)
#: Where JSON begins; what a shell or a launcher wrote may stand before it.
_JSON = re.compile(r"^\s*(?P<json>\{\s*\"nvbandwidth\"\s*:)", re.MULTILINE)
_END = r"(?:[CG]PU\((?:row|column)s?\)|All\s+G\w+)"
_DESCRIPTION = re.compile(
    rf"(?P<left>{_END})\s*(?P<arrow><->|->|<-)\s*(?P<right>{_END})(?P<rest>.{{0,80}})\((?P<unit>GB/s|ns|us)\)",
    re.IGNORECASE,
)
#: Words that begin a line between two test cases.
_BETWEEN = ("SUM", "Waived:", "ERROR:", "NOTE:")
_SIZE_BYTES = 512 * 2**20


@dataclass
class _Table:
    """The matrix of a test case as it is printed, as far as it is read; `description` is a match."""

    line: int
    description: re.Match[str]
    columns: tuple[int, ...] = ()
    rows: list[int] = field(default_factory=list)
    cells: list[tuple[float | None, ...]] = field(default_factory=list)

    def take(self, line: TextLine, path: str | None) -> None:
        """Read the numbers of the columns, then row after row."""
        first, *words = line.text.split()
        numbers = [whole_of(word) for word in (first, *words)]
        if not self.columns:
            if None not in numbers:
                self.columns = tuple(number for number in numbers if number is not None)
        elif numbers[0] is not None:
            if len(words) != len(self.columns):
                raise wrong_width(words, len(self.columns), path, line)
            self.rows.append(numbers[0])
            self.cells.append(tuple(number_of(word) for word in words))


@dataclass
class _Log:
    """What a text tells, as far as it is read: `test` is the case that runs, if the log names one."""

    path: str | None
    matrices: list[Matrix] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    test: str = ""
    has_begun: bool = False
    table: _Table | None = None

    def finish_table(self) -> None:
        if self.table is not None and self.table.cells:
            self.matrices.append(_matrix(self.path, self.test, self.table))
        self.table = None

    def take_end(self, line: TextLine) -> None:
        """Read what ends a test case."""
        words = line.text.split()
        if words[0] == "SUM" and not self.has_begun and len(words) > 1:
            self.test = words[1]  # the beginning of the log is lost
        self.finish_table()
        if words[0] == "ERROR:":
            self.warnings.append(_left_out(self.path, line.number, f"{self.test} failed"))


def looks_like(text: str) -> bool:
    """Whether its name is in it with a test case, or JSON with its key."""
    if _json_in(text) is not None:
        return True
    is_named = re.search(r"^.{0,80}\b(?:Running|SUM)\s+\w", text, re.MULTILINE) is not None
    return "(column" in text and is_named


def read(text: str, path: str | None) -> Measured:
    """A matrix for each test case that ran.

    Raises
    ------
    MeasurementError : it is no JSON, a matrix has a row of another length, or none ran; with the line.
    """
    json = _json_in(text)
    matrices, warnings = _text(text, path) if json is None else _json(json, path)
    if not matrices:
        raise MeasurementError("no test case of nvbandwidth has a matrix", path=path, line=1)
    return Measured(("nvbandwidth",), (), tuple(matrices), tuple(warnings))


def _json_in(text: str) -> str | None:
    """The JSON of a log, without what launchers wrote around it, on its own lines; None if there is none."""
    if '"nvbandwidth"' not in text:
        return None
    plain = [""] * (text.count("\n") + 1)
    for line in lines_of(text):
        plain[line.number - 1] = line.text
    log = "\n".join(plain)
    found = _JSON.search(log)
    if found is None or "}" not in log[found.start("json") :]:
        return None
    before = "\n" * log.count("\n", 0, found.start("json"))
    return before + log[found.start("json") : log.rindex("}") + 1]


def _text(text: str, path: str | None) -> tuple[list[Matrix], list[str]]:
    log = _Log(path)
    for line in lines_of(text):
        if (running := _RUNNING.match(line.text)) is not None:
            log.finish_table()
            log.test, log.has_begun = running[1], True
        elif line.text.split()[0] in _BETWEEN:
            log.take_end(line)
        elif (description := _DESCRIPTION.search(line.text)) is not None:
            log.finish_table()
            log.table = _Table(line.number, description)
        elif log.table is not None:
            log.table.take(line, path)
    log.finish_table()
    return log.matrices, log.warnings


def _json(text: str, path: str | None) -> tuple[list[Matrix], list[str]]:
    root = parse_yaml(text, path, MeasurementError)
    body = root.keys().get("nvbandwidth", root)
    matrices: list[Matrix] = []
    warnings: list[str] = []
    keys = body.keys()
    if (failed := keys.get("error")) is not None and "testcases" not in keys:
        raise failed.error(f"nvbandwidth failed: {failed.raw[:200]}")
    cases = body.keys().get("testcases")
    for case in cases.elements() if cases is not None else ():
        keys = case.keys()
        name = keys["name"].raw if "name" in keys else ""
        status = keys["status"].raw if "status" in keys else "Passed"
        if status == "Error":
            warnings.append(_left_out(path, case.line, f"{name} failed"))
        if status != "Passed" or "bandwidth_matrix" not in keys or "bandwidth_description" not in keys:
            continue
        about = keys["bandwidth_description"].raw[:400]
        if "memcpy local" in about:
            continue  # copies inside a GPU
        table = _table_in_json(keys["bandwidth_matrix"], about)
        if table is None:
            warnings.append(_left_out(path, case.line, f"{name} is not understood"))
        else:
            matrices.append(_matrix(path, name, table))
    return matrices, warnings


def _table_in_json(matrix: Node, about: str) -> _Table | None:
    """A matrix and its description; None where either tells nothing."""
    cells = [tuple(number_of(cell.raw.strip()) for cell in row.elements()) for row in matrix.elements()]
    width = len(cells[0]) if cells else 0
    description = _DESCRIPTION.search(about)
    if description is None or not width:
        return None
    if any(len(row) != width for row in cells):
        raise matrix.error("the rows of this matrix differ in length")
    return _Table(matrix.line, description, tuple(range(width)), list(range(len(cells))), cells)


def _left_out(path: str | None, line: int, what: str) -> str:
    return f"{path or '<text>'}:{line}: {what}; it is left out"


def _matrix(path: str | None, test: str, table: _Table) -> Matrix:
    """Turned so that data goes from rows to columns, and latencies in microseconds."""
    found = table.description
    unit, rest = found["unit"].lower(), found["rest"].lower().replace("bandwidth", "").split()
    quantity: Quantity = "bandwidth_gbps" if unit == "gb/s" else "latency_us"
    scale = 1e-3 if unit == "ns" else 1.0
    ends, is_turned = _direction(test, found)
    rows = tuple(table.rows)
    sources, targets = (table.columns, rows) if is_turned else (rows, table.columns)
    cells = list(zip(*table.cells, strict=True)) if is_turned else table.cells
    values = tuple(
        tuple(
            None if not cell or (ends == "gpu to gpu" and a == b) else cell * scale
            for b, cell in zip(targets, row, strict=True)
        )
        for a, row in zip(sources, cells, strict=True)
    )
    both_directions = found["arrow"] == "<->" or "bidirectional" in test
    return Matrix(
        path,
        table.line,
        "nvbandwidth",
        " ".join([test, *rest]) if both_directions else test,
        quantity,
        ends,
        sources,
        targets,
        values,
        both_directions=both_directions,
        sums_directions=both_directions and "total" in rest,
        peer=True if ends == "gpu to gpu" else None,
        at_once="all_to" in test or "to_all" in test or ends == "gpu totals",
        size_bytes=_SIZE_BYTES if quantity == "bandwidth_gbps" else None,
    )


def _direction(test: str, description: re.Match[str]) -> tuple[Ends, bool]:
    """Where data goes, and whether the columns are its sources."""
    left, right, arrow = description["left"].lower(), description["right"].lower(), description["arrow"]
    source = right if arrow == "<-" else left
    if "all" in (left[:3], right[:3]):
        return "gpu totals", False
    is_both = arrow == "<->"
    if "cpu" not in left and "cpu" not in right:
        return "gpu to gpu", not is_both and "column" in source
    # where the arrow has two heads, the first word of the test's name says which way was measured
    to_host = test.startswith(("device_to_host", "all_to_host")) if is_both else "gpu" in source
    is_turned = to_host if is_both else "column" in source  # of two heads, hosts are the rows
    return "gpu to host" if to_host else "host to gpu", is_turned
