"""Measured times of MSCCL-XML files, as a table of comma-separated values: one row per file and size."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import FileError
from taccl.model.units import MAX_SIZE_BYTES, MAX_TIME_US
from taccl.support.arguments import shown
from taccl.support.lists import few

#: The name of the table in a folder of runs.
TIMES = "times.csv"

_HINT = "a header such as file,size_bytes,in_place_us and a row per file and size"
_DELIMITERS = ",;\t"
#: This many columns are named where one is missing.
_MOST_NAMES = 12
#: What stands in a cell where nothing was measured.
_NOTHING = frozenset(
    (
        *("", "-", "--", "?", "n/a", "na", "nan", "none", "null", "inf", "dnf", "oom", "killed"),
        *("timeout", "timed out", "timed-out", "timedout", "hang", "hangs", "hung"),
        *("fail", "fails", "failed", "failure", "err", "error", "abort", "aborted", "crash", "crashed"),
    )
)
_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{0,19})?(?:[eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True)
class FileTime:
    """One measured call.

    Parameters
    ----------
    file : the name of the program's file; None in a table of one file, which does not name it.
    size_bytes : what nccl-tests prints as `size`.
    time_us : microseconds.
    path, line : where it stands.
    """

    file: str | None
    size_bytes: int
    time_us: float
    path: str
    line: int


@dataclass(frozen=True)
class FileTimes:
    """The rows that hold a time, and sentences about those that do not."""

    rows: tuple[FileTime, ...]
    notes: tuple[str, ...] = ()


def looks_like_file_times(text: str) -> bool:
    """Whether its first line that is no comment is a header with a size or a time, or both.

    Where one of the two has another name, that is better said of a table than looked for in other formats.
    """
    first = next(_lines(text), None)
    if first is None:
        return False
    names = _names(first[1])
    return len(names) > 1 and (_column(names, ("size_bytes", "size")), _time_column(names)) != (None, None)


def read_file_times(text: str, path: str | Path) -> FileTimes:
    """The rows of a table with the columns file, size_bytes, and in_place_us or time_us.

    Further columns are skipped, but for `wrong_in` (or `wrong`): a row with wrong results is left out with a
    note, and so is one without a time. Lines that begin with # are comments; columns may be parted by commas,
    semicolons or tabs.

    Raises
    ------
    FileError : a column that is missing, a row that is cut short, a size or time that is no number, with
        the line.
    """
    lines = list(_lines(text))
    if not lines:
        raise FileError("holds no table of times", path=path, hint=_HINT)
    header_line, header = lines[0]
    delimiter, names = _delimiter(header), _names(header)
    size, time = _column(names, ("size_bytes", "size")), _time_column(names)
    if size is None or time is None:
        missing = "size_bytes" if size is None else "in_place_us or time_us"
        there = ", ".join(names[:_MOST_NAMES])
        raise FileError(
            f"the table has no column {missing}; its columns are {there}",
            path=path,
            line=header_line,
            hint=_HINT,
        )
    file, wrong = _column(names, ("file",)), _column(names, ("wrong_in", "wrong"))
    rows: list[FileTime] = []
    unmeasured, faulty = [], []
    for line, text_of_row in lines[1:]:
        cells = _cells(text_of_row, delimiter)
        if len(cells) < max(each for each in (size, time, file, wrong) if each is not None) + 1:
            raise FileError(f"a row of {len(cells)} cells under {len(names)} columns", path=path, line=line)
        if cells == _cells(header, delimiter):  # tables put one after the other
            continue
        size_bytes = _size(cells[size], path, line)
        if size_bytes == 0 or cells[time].lower() in _NOTHING:
            unmeasured.append(line)
        elif wrong is not None and _is_wrong(cells[wrong]):
            faulty.append(line)
        else:
            name = None if file is None else cells[file]
            rows.append(FileTime(name, size_bytes, _time(cells[time], path, line), str(path), line))
    return FileTimes(tuple(rows), tuple(_notes(unmeasured, faulty, path)))


def _notes(unmeasured: Sequence[int], faulty: Sequence[int], path: str | Path) -> Iterator[str]:
    for lines, what in ((unmeasured, "no time, or size 0"), (faulty, "wrong results")):
        if lines:
            yield f"{path}: {what} in {len(lines)} rows (line {few(lines, 5)}): left out"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are neither empty nor comments, counted from 1."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        stripped = line.strip(" \r")
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        row: list[str] = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a cell without an end
        row = [line]
    return [cell.strip() for cell in row]


def _names(header: str) -> list[str]:
    return [name.lower() for name in _cells(header, _delimiter(header))]


def _column(names: Sequence[str], known: Sequence[str]) -> int | None:
    return next((names.index(name) for name in known if name in names), None)


def _time_column(names: Sequence[str]) -> int | None:
    return _column(names, ("in_place_us", "time_us"))


def _size(cell: str, path: str | Path, line: int) -> int:
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not value.is_integer() or value > MAX_SIZE_BYTES:
        raise FileError(f"{shown(cell)} is no size in bytes", path=path, line=line)
    return int(value)


def _time(cell: str, path: str | Path, line: int) -> float:
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not 0 < value <= MAX_TIME_US:
        raise FileError(f"{shown(cell)} is no time in microseconds", path=path, line=line)
    return value


def _is_wrong(cell: str) -> bool:
    """Whether a count of wrong elements says so; `N/A` says that nobody looked."""
    return _NUMBER.fullmatch(cell) is not None and float(cell) > 0
