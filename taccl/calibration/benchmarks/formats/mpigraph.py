"""What LLNL's mpiGraph prints: how fast each rank sends to each other while all ranks send at once.

It knows its tab-separated matrices. Ranks of one host are no pair of nodes, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from taccl.calibration.benchmarks.facts import Matrix, Measured
from taccl.calibration.benchmarks.text import check_width, lines_of, number_of
from taccl.errors import MeasurementError
from taccl.model.units import MB

_SIZE = re.compile(r"^\s*MsgSize\s+(\d{1,18})\b")
_HEADER = re.compile(r"^\s*(Send|Recv)\s+(\S+:\d{1,9}(?:\s+\S+:\d{1,9})*)\s*$")
_ROW = re.compile(r"^\s*(\S+):(\d{1,9})\s+(to|from)\s+(\S.*)$")


def looks_like(text: str) -> bool:
    """Whether its first line is in it, or a header of its sends with a row below."""
    if re.search(r"\bSTART mpiGraph\b", text) is not None:
        return True
    return re.search(r"^.{0,40}\bSend\s+\S+:0\s.*\n.{0,40}\S+:0 +to\s", text, re.MULTILINE) is not None


def read(text: str, path: str | None) -> Measured:
    """The matrix of sends; that of receives tells the same transfers from the other side.

    Raises
    ------
    MeasurementError : a row has another number of cells than there are columns, or there is none.
    """
    size: int | None = None
    columns: list[tuple[str, int]] = []
    first = 1
    rows: dict[tuple[str, int], list[float | None]] = {}
    lines = lines_of(text)
    for line in lines:
        header, row, told = _HEADER.match(line.text), _ROW.match(line.text), _SIZE.match(line.text)
        if told is not None:
            size = int(told[1])
        elif header is not None and header[1] == "Send":
            first = line.number
            columns = [(word.rpartition(":")[0], int(word.rpartition(":")[2])) for word in header[2].split()]
        elif row is not None and row[3] == "to" and columns:
            words = row[4].split()
            if len(words) < len(columns) and line is lines[-1]:
                break  # the log ends inside a row
            check_width(len(words), len(columns), "matrix", path, line.number)
            rows[row[1], int(row[2])] = [number_of(word) for word in words]
    if not rows:
        raise MeasurementError("there is no matrix of sends of mpiGraph", path=path, line=first)
    matrix = Matrix(
        *(path, first, "mpiGraph", "send", "bandwidth_gbps", "rank to rank"),
        *(tuple(rank for _, rank in rows), tuple(rank for _, rank in columns), _gbps(columns, rows)),
        at_once=True,
        size_bytes=size,
    )
    warnings = []
    if len(rows) < len(columns):
        whole = f"{len(rows)} rows of {len(columns)}"
        warnings.append(f"{path or '<text>'}:{first}: the matrix has {whole}; the others are lost")
    return Measured(("mpigraph",), (), (matrix,), tuple(warnings))


def _gbps(
    columns: Sequence[tuple[str, int]], rows: Mapping[tuple[str, int], Sequence[float | None]]
) -> tuple[tuple[float | None, ...], ...]:
    """Bandwidths between hosts; None inside of one."""
    return tuple(
        tuple(
            cell * MB / 1e9 if cell and to[0] != host else None
            for to, cell in zip(columns, values, strict=True)
        )
        for (host, _), values in rows.items()
    )
