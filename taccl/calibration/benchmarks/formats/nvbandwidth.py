"""What NVIDIA's nvbandwidth prints, as text or with -j: a matrix for each test case.

It knows its descriptions, whose arrow says which way data goes; the arrow differs between versions.
"""

from __future__ import annotations

import re

from taccl.calibration.benchmarks.facts import Ends, Matrix, Measured, Quantity
from taccl.calibration.benchmarks.text import Line, check_width, lines_of, number_of, whole_of
from taccl.errors import MeasurementError
from taccl.topologies.strict_yaml import Node, parse_yaml

_RUNNING = re.compile(r"^\s*Running\s+(?:benchmark\s+)?([a-z][a-z0-9_]{3,80})\.?\s*$", re.IGNORECASE)
#: Where JSON begins; what a shell or a launcher wrote may stand before it.
_JSON = re.compile(r"^\s*(?P<json>\{\s*\"nvbandwidth\"\s*:)", re.MULTILINE)
_END = r"(?:[CG]PU\((?:row|column)s?\)|All\s+G\w+)"
_DESCRIPTION = re.compile(
    rf"(?P<left>{_END})\s*(?P<arrow><->|->|<-)\s*(?P<right>{_END})(?P<rest>.{{0,80}})\((?P<unit>GB/s|ns|us)\)",
    re.IGNORECASE,
)
_SIZE_BYTES = 512 * 2**20


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
    matrices: list[Matrix] = []
    warnings: list[str] = []
    test, has_begun = "", False
    description: tuple[Line, re.Match[str]] | None = None
    targets: tuple[int, ...] = ()
    sources: list[int] = []
    rows: list[tuple[float | None, ...]] = []

    def finish() -> None:
        nonlocal description, targets, sources, rows
        if description is not None and rows:
            line, found = description
            matrices.append(_matrix(path, line.number, test, found, sources, targets, rows))
        description, targets, sources, rows = None, (), [], []

    for line in lines_of(text):
        words = line.text.split()
        running = _RUNNING.match(line.text)
        found = _DESCRIPTION.search(line.text)
        numbers = [whole_of(word) for word in words]
        if running is not None or words[0] in ("SUM", "Waived:", "ERROR:", "NOTE:"):
            if words[0] == "SUM" and not has_begun and len(words) > 1:
                test = words[1]  # the beginning of the log is lost
            finish()
            if running is not None:
                test, has_begun = running[1], True
            elif words[0] == "ERROR:":
                warnings.append(f"{path or '<text>'}:{line.number}: {test} failed; it is left out")
        elif found is not None:
            finish()
            description = (line, found)
        elif description is not None and not targets and None not in numbers:
            targets = tuple(number for number in numbers if number is not None)
        elif description is not None and targets and numbers[0] is not None:
            cells = words[1:]
            check_width(len(cells), len(targets), "matrix", path, line.number)
            sources.append(numbers[0])
            rows.append(tuple(number_of(cell) for cell in cells))
    finish()
    return matrices, warnings


def _json(text: str, path: str | None) -> tuple[list[Matrix], list[str]]:
    root = parse_yaml(text, path, MeasurementError)
    body = dict(_named(root)).get("nvbandwidth", root)
    matrices: list[Matrix] = []
    warnings: list[str] = []
    if (failed := dict(_named(body)).get("error")) is not None and "testcases" not in dict(_named(body)):
        raise failed.error(f"nvbandwidth failed: {failed.raw[:200]}")
    cases = dict(_named(body)).get("testcases")
    for case in cases.elements() if cases is not None else ():
        matrix = _of_case(case, path, warnings)
        if matrix is not None:
            matrices.append(matrix)
    return matrices, warnings


def _of_case(case: Node, path: str | None, warnings: list[str]) -> Matrix | None:
    """The matrix of a test case; None: it has none that tells of links."""
    keys = dict(_named(case))
    name = keys["name"].raw if "name" in keys else ""
    status = keys["status"].raw if "status" in keys else "Passed"
    if status == "Error":
        warnings.append(f"{path or '<text>'}:{case.line}: {name} failed; it is left out")
    if status != "Passed" or "bandwidth_matrix" not in keys or "bandwidth_description" not in keys:
        return None
    about = keys["bandwidth_description"].raw[:400]
    if "memcpy local" in about:
        return None  # copies inside a GPU
    found = _DESCRIPTION.search(about)
    rows = [
        tuple(number_of(cell.raw.strip()) for cell in row.elements())
        for row in keys["bandwidth_matrix"].elements()
    ]
    width = len(rows[0]) if rows else 0
    if found is None or not width:
        warnings.append(f"{path or '<text>'}:{case.line}: {name} is not understood; it is left out")
        return None
    if any(len(row) != width for row in rows):
        raise keys["bandwidth_matrix"].error("the rows of this matrix differ in length")
    line = keys["bandwidth_matrix"].line
    return _matrix(path, line, name, found, list(range(len(rows))), tuple(range(width)), rows)


def _named(node: Node) -> list[tuple[str, Node]]:
    return [(key.raw, value) for key, value in node.items()]


def _matrix(
    path: str | None,
    line: int,
    test: str,
    found: re.Match[str],
    rows: list[int],
    columns: tuple[int, ...],
    cells: list[tuple[float | None, ...]],
) -> Matrix:
    """Turned so that data goes from rows to columns, and latencies in microseconds."""
    left, right, arrow = found["left"].lower(), found["right"].lower(), found["arrow"]
    unit, rest = found["unit"].lower(), found["rest"].lower().replace("bandwidth", "").split()
    quantity: Quantity = "bandwidth_gbps" if unit == "gb/s" else "latency_us"
    scale = 1e-3 if unit == "ns" else 1.0
    source = right if arrow == "<-" else left
    ends: Ends = "gpu to gpu"
    if "all" in (left[:3], right[:3]):
        ends = "gpu totals"
    elif "cpu" in left or "cpu" in right:
        # where the arrow has two heads, the first word of the test's name says which way was measured
        to_host = test.startswith(("device_to_host", "all_to_host")) if arrow == "<->" else "gpu" in source
        ends = "gpu to host" if to_host else "host to gpu"
    is_turned = ends != "gpu totals" and arrow != "<->" and "column" in source
    if arrow == "<->" and ends == "gpu to host":
        is_turned = True  # hosts are the rows
    sources, targets = (columns, tuple(rows)) if is_turned else (tuple(rows), columns)
    table = list(zip(*cells, strict=True)) if is_turned else cells
    values = tuple(
        tuple(
            None if not cell or (ends == "gpu to gpu" and a == b) else cell * scale
            for b, cell in zip(targets, row, strict=True)
        )
        for a, row in zip(sources, table, strict=True)
    )
    both_ways = arrow == "<->" or "bidirectional" in test
    return Matrix(
        path,
        line,
        "nvbandwidth",
        " ".join([test, *rest]) if both_ways else test,
        quantity,
        ends,
        sources,
        targets,
        values,
        both_ways=both_ways,
        sums_ways=both_ways and "total" in rest,
        peer=True if ends == "gpu to gpu" else None,
        at_once="all_to" in test or "to_all" in test or ends == "gpu totals",
        size_bytes=_SIZE_BYTES if quantity == "bandwidth_gbps" else None,
    )
