"""What LLNL's mpiGraph prints: how fast each rank sends to each other while all ranks send at once.

Ranks of one host are no pair of nodes, and are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Matrix, Measured
from taccl.calibration.benchmarks.text import TextLine, lines_of, wrong_width
from taccl.errors import MeasurementError
from taccl.model.units import MB
from taccl.support.tables import number_of

_SIZE = re.compile(r"^\s*MsgSize\s+(\d{1,18})\b")
_HEADER = re.compile(r"^\s*(Send|Recv)\s+(\S+:\d{1,9}(?:\s+\S+:\d{1,9})*)\s*$")
_ROW = re.compile(r"^\s*(\S+):(\d{1,9})\s+(to|from)\s+(\S.*)$")
#: A host, and the number of a rank on it.
Rank = tuple[str, int]


@dataclass
class _Sends:
    """The matrix of sends, as far as it is read."""

    line: int = 1
    size: int | None = None
    columns: list[Rank] = field(default_factory=list)
    rows: dict[Rank, list[float | None]] = field(default_factory=dict)


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
    sends = _sends(lines_of(text), path)
    if not sends.rows:
        raise MeasurementError("there is no matrix of sends of mpiGraph", path=path, line=sends.line)
    warnings = []
    if len(sends.rows) < len(sends.columns):
        whole = f"{len(sends.rows)} rows of {len(sends.columns)}"
        warnings.append(f"{path or '<text>'}:{sends.line}: the matrix has {whole}; the others are lost")
    return Measured(("mpigraph",), (), (_matrix(sends, path),), tuple(warnings))


def _sends(lines: list[TextLine], path: str | None) -> _Sends:
    sends = _Sends()
    for line in lines:
        header, row, reported = _HEADER.match(line.text), _ROW.match(line.text), _SIZE.match(line.text)
        if reported is not None:
            sends.size = int(reported[1])
        elif header is not None and header[1] == "Send":
            sends.line = line.number
            names = [word.rpartition(":") for word in header[2].split()]
            sends.columns = [(host, int(rank)) for host, _, rank in names]
        elif row is not None and row[3] == "to" and sends.columns:
            words = row[4].split()
            if len(words) < len(sends.columns) and line is lines[-1]:
                break  # the log ends inside a row
            if len(words) != len(sends.columns):
                raise wrong_width(words, len(sends.columns), path, line)
            sends.rows[row[1], int(row[2])] = [number_of(word) for word in words]
    return sends


def _matrix(sends: _Sends, path: str | None) -> Matrix:
    cells = tuple(
        tuple(
            cell * MB / 1e9 if cell and to[0] != host else None
            for to, cell in zip(sends.columns, values, strict=True)
        )
        for (host, _), values in sends.rows.items()
    )
    return Matrix(
        *(path, sends.line, "mpiGraph", "send", "bandwidth_gbps", "rank to rank"),
        *(tuple(rank for _, rank in sends.rows), tuple(rank for _, rank in sends.columns), cells),
        at_once=True,
        size_bytes=sends.size,
    )
