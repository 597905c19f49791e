"""What AMD's TransferBench prints of its presets p2p and a2a: bandwidths between CPUs and GPUs, text or CSV.

It knows its rows and arrows. Copies are small, so a bandwidth also holds what a copy costs before it moves.
"""

from __future__ import annotations

import re

from taccl.calibration.benchmarks.facts import Ends, Matrix, Measured
from taccl.calibration.benchmarks.text import Line, check_width, lines_of, number_of
from taccl.errors import MeasurementError

_CORNER = re.compile(r"SRC(?:\+EXE)?\\{1,2}DST")
_DEVICE = re.compile(r"\b(CPU|GPU)\s*(\d{1,3})\b")
_BYTES = re.compile(r"Bytes Per Direction\D{0,20}(\d{1,18})|\[(\d{1,18}) bytes per Transfer\]")
#: The sums at the end of each row, where all GPUs copy to all at once.
_SUMS = re.compile(r"\bSTotal\b")
_ROW = re.compile(r"^\s*(?P<device>(?:CPU|GPU)\s*\d{1,3})\s*(?P<arrow><->|->|<-)?\s+(?P<cells>\S.*)$")
Device = tuple[str, int]


def looks_like(text: str) -> bool:
    """Whether the corner of a matrix is in it."""
    return _CORNER.search(text) is not None


#: Between what the matrices of a table are, one after the other.
_ENDS: tuple[Ends, ...] = ("gpu to gpu", "host to gpu", "gpu to host")


def read(text: str, path: str | None) -> Measured:
    """For each table, a matrix among the GPUs and those between hosts and GPUs; of both ways, each apart.

    Raises
    ------
    MeasurementError : a row has another number of cells than the table columns, or there is none.
    """
    size: int | None = None
    tables: list[tuple[Line, list[Device], dict[tuple[Device, str], list[float | None]]]] = []
    both_ways: list[bool] = []
    to_all: list[bool] = []
    is_bidirectional = False
    for line in lines_of(text):
        plain = line.text.replace(",", "   ")
        if (told := _BYTES.search(plain)) is not None:
            size = int(told[1] or told[2])
        if re.search(r"\b(Uni|Bi)directional copy", plain) is not None:
            is_bidirectional = "Bidirectional" in plain
        row = _ROW.match(plain)
        if "NIC Device" in plain and tables:
            raise MeasurementError(
                "TransferBench's tables of NICs are not read",
                path=path,
                line=line.number,
                hint="its presets p2p and a2a are; NICs are measured by perftest",
            )
        if _CORNER.search(plain) is not None:
            devices = [(kind, int(number)) for kind, number in _DEVICE.findall(plain)]
            tables.append((line, devices, {}))
            to_all.append(_SUMS.search(plain) is not None)
            both_ways.append(is_bidirectional)
        elif row is not None and tables:
            _, devices, rows = tables[-1]
            words = row["cells"].split()
            if to_all[-1] and len(words) > len(devices):
                words = words[: len(devices)]
            check_width(len(words), len(devices), "table", path, line.number)
            kind, number = _DEVICE.findall(row["device"])[0]
            rows[(kind, int(number)), row["arrow"] or "->"] = [number_of(word) for word in words]
    matrices: list[Matrix] = []
    for (line, devices, rows), both, is_to_all in zip(tables, both_ways, to_all, strict=True):
        if is_to_all:
            matrices += [_totals(path, line, devices, rows, size)] if rows else []
        else:
            of_ends = (_matrix(path, line, devices, rows, both, ends, size) for ends in _ENDS)
            matrices += [matrix for matrix in of_ends if matrix is not None]
    if not matrices:
        raise MeasurementError("no table of TransferBench has a row", path=path, line=1)
    return Measured(("transferbench",), (), tuple(matrices))


def _totals(
    path: str | None,
    line: Line,
    devices: list[Device],
    rows: dict[tuple[Device, str], list[float | None]],
    size: int | None,
) -> Matrix:
    """What each GPU sends to all others together while all of them do: its port, not its links."""
    sums = tuple(sum(cell or 0.0 for cell in cells) or None for cells in rows.values())
    return Matrix(
        *(path, line.number, "transferbench", "a2a out of", "bandwidth_gbps", "gpu totals"),
        *((0,), tuple(number for (_, number), _ in rows), (sums,)),
        at_once=True,
        size_bytes=size,
    )


def _matrix(
    path: str | None,
    line: Line,
    devices: list[Device],
    rows: dict[tuple[Device, str], list[float | None]],
    both_ways: bool,
    ends: Ends,
    size: int | None,
) -> Matrix | None:
    from_kind, to_kind = ("CPU" if end == "host" else "GPU" for end in ends.split(" to "))
    sources = [device for device, arrow in rows if arrow == "->" and device[0] == from_kind]
    columns = [at for at, device in enumerate(devices) if device[0] == to_kind]
    cells = tuple(
        tuple(None if source == devices[at] else rows[source, "->"][at] or None for at in columns)
        for source in sources
    )
    if not sources or not columns or all(cell is None for row in cells for cell in row):
        return None
    return Matrix(
        path,
        line.number,
        "transferbench",
        "bidirectional copy" if both_ways else "unidirectional copy",
        "bandwidth_gbps",
        ends,
        tuple(number for _, number in sources),
        tuple(devices[at][1] for at in columns),
        cells,
        both_ways=both_ways,
        size_bytes=size,
    )
