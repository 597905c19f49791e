"""What AMD's TransferBench prints of its presets p2p and a2a: bandwidths between CPUs and GPUs, text or CSV.

Copies are small, so a bandwidth also holds what a copy costs before it moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Ends, Matrix, Measured
from taccl.calibration.benchmarks.text import TextLine, lines_of, wrong_width
from taccl.errors import MeasurementError
from taccl.support.tables import number_of

_CORNER = re.compile(r"SRC(?:\+EXE)?\\{1,2}DST")
_DEVICE = re.compile(r"\b(CPU|GPU)\s*(\d{1,3})\b")
_BYTES = re.compile(r"Bytes Per Direction\D{0,20}(\d{1,18})|\[(\d{1,18}) bytes per Transfer\]")
#: The sums at the end of each row, where all GPUs copy to all at once.
_SUMS = re.compile(r"\bSTotal\b")
_ROW = re.compile(r"^\s*(?P<device>(?:CPU|GPU)\s*\d{1,3})\s*(?P<arrow><->|->|<-)?\s+(?P<cells>\S.*)$")
Device = tuple[str, int]


@dataclass
class _Table:
    """A table as far as it is read; `rows` are by the device and the arrow behind its name.

    `has_sums` : the table is of all GPUs to all at once, and its rows end with their sums.
    """

    line: int
    devices: list[Device]
    both_directions: bool
    has_sums: bool
    rows: dict[tuple[Device, str], list[float | None]] = field(default_factory=dict)

    def take(self, row: re.Match[str], line: TextLine, path: str | None) -> None:
        words = row["cells"].split()
        if self.has_sums:
            words = words[: len(self.devices)]
        if len(words) != len(self.devices):
            raise wrong_width(words, len(self.devices), path, line, table="table")
        device = _devices(row["device"])[0]
        self.rows[device, row["arrow"] or "->"] = [number_of(word) for word in words]


def looks_like(text: str) -> bool:
    """Whether the corner of a matrix is in it."""
    return _CORNER.search(text) is not None


def read(text: str, path: str | None) -> Measured:
    """For each table, a matrix among the GPUs and those between hosts and GPUs; of both directions, each
    apart.

    Raises
    ------
    MeasurementError : a row has another number of cells than the table columns, or there is none.
    """
    size, tables = _tables(text, path)
    matrices = tuple(matrix for table in tables for matrix in _matrices(table, path, size))
    if not matrices:
        raise MeasurementError("no table of TransferBench has a row", path=path, line=1)
    return Measured(("transferbench",), (), matrices)


def _tables(text: str, path: str | None) -> tuple[int | None, list[_Table]]:
    """The bytes of a copy, if the text says so, and the tables."""
    size: int | None = None
    tables: list[_Table] = []
    is_bidirectional = False
    for line in lines_of(text):
        plain = line.text.replace(",", "   ")
        if (reported := _BYTES.search(plain)) is not None:
            size = int(reported[1] or reported[2])
        if re.search(r"\b(Uni|Bi)directional copy", plain) is not None:
            is_bidirectional = "Bidirectional" in plain
        if "NIC Device" in plain and tables:
            raise MeasurementError(
                "TransferBench's tables of NICs are not read",
                path=path,
                line=line.number,
                hint="its presets p2p and a2a are; NICs are measured by perftest",
            )
        if _CORNER.search(plain) is not None:
            has_sums = _SUMS.search(plain) is not None
            tables.append(_Table(line.number, _devices(plain), is_bidirectional, has_sums))
        elif tables and (row := _ROW.match(plain)) is not None:
            tables[-1].take(row, line, path)
    return size, tables


def _devices(text: str) -> list[Device]:
    return [(kind, int(number)) for kind, number in _DEVICE.findall(text)]


def _matrices(table: _Table, path: str | None, size: int | None) -> Iterator[Matrix]:
    if table.has_sums:
        if table.rows:
            yield _totals(table, path, size)
        return
    kinds: tuple[Ends, ...] = ("gpu to gpu", "host to gpu", "gpu to host")
    for ends in kinds:
        matrix = _matrix(table, ends, path, size)
        if matrix is not None:
            yield matrix


def _totals(table: _Table, path: str | None, size: int | None) -> Matrix:
    """What each GPU sends to all others together while all of them do: its port, not its links."""
    sums = tuple(sum(cell or 0.0 for cell in cells) or None for cells in table.rows.values())
    return Matrix(
        *(path, table.line, "transferbench", "a2a out of", "bandwidth_gbps", "gpu totals"),
        *((0,), tuple(number for (_, number), _ in table.rows), (sums,)),
        at_once=True,
        size_bytes=size,
    )


def _matrix(table: _Table, ends: Ends, path: str | None, size: int | None) -> Matrix | None:
    from_kind, to_kind = ("CPU" if end == "host" else "GPU" for end in ends.split(" to "))
    sources = [device for device, arrow in table.rows if arrow == "->" and device[0] == from_kind]
    columns = [at for at, device in enumerate(table.devices) if device[0] == to_kind]
    cells = tuple(
        tuple(None if source == table.devices[at] else table.rows[source, "->"][at] or None for at in columns)
        for source in sources
    )
    if not sources or not columns or all(cell is None for row in cells for cell in row):
        return None
    return Matrix(
        path,
        table.line,
        "transferbench",
        "bidirectional copy" if table.both_directions else "unidirectional copy",
        "bandwidth_gbps",
        ends,
        tuple(number for _, number in sources),
        tuple(table.devices[at][1] for at in columns),
        cells,
        both_directions=table.both_directions,
        size_bytes=size,
    )
