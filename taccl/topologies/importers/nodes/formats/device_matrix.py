"""A square table of devices as tools print it on a terminal, from text that a paste may have damaged.

Headers and rows may be wrapped, joined, prefixed by launchers, or lost. What a cell means is the reader's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NoReturn

from taccl.support.tables import FileLine, plain_lines

GPU = re.compile(r"GPU\d+")
_DEVICE = re.compile(r"[A-Za-z][\w.:+-]*")
_JOINED = re.compile(r"(?:(?:GPU|NIC)\d+){2,}")
_BEFORE_AFFINITY = re.compile(r"(?<=\w)(?=(?:CPU|NUMA) ?Affinity)")
_BEFORE_NUMBERS = re.compile(r"([A-Z]*[A-Z])((?:\d|N/A).*)")
_LETTER = re.compile("[A-Za-z]")
_TAIL_WORDS = ("CPU", "NUMA", "GPU", "Affinity", "ID", "CPUAffinity", "NUMAAffinity")
#: A header may be wrapped, and a paste may double the line ends: so far below it the first row must stand.
_HEADER_LINES = 8
#: No node has more devices, and no two cells joined have more letters.
_MOST_DEVICES, _LONGEST = 1024, 16
#: Lines of other text that may stand between two rows.
_NOISE = 256


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Parameters
    ----------
    line : where it begins, from 1.
    cells : one for each column of devices, from the left.
    tail : what stands behind the cells, by the title of its column; titles without text are missing.
    split : names of the columns whose cell stood joined to the one before it.
    """

    line: int
    cells: tuple[str, ...]
    tail: dict[str, str] = field(default_factory=dict)
    split: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceMatrix:
    """The first table of a text: `rows[name].cells[i]` is what `name` has towards `columns[i]`.

    `end` is the line after the last row; `another` the line where a second table begins. Of a table without
    a header, the columns are named by where its rows have themselves, and the others NIC0, NIC1, ...
    """

    line: int
    columns: tuple[str, ...]
    rows: dict[str, Row]
    end: int
    another: int | None
    is_headless: bool


@dataclass(frozen=True)
class _Table:
    """What the rows of a table have in common: `titles` are those of the columns behind the devices."""

    columns: tuple[str, ...]
    titles: tuple[str, ...]
    is_cell: Callable[[str], bool]
    path: str | None


def has_matrix(text: str, is_cell: Callable[[str], bool]) -> bool:
    """Whether a table whose cells are such words stands in the text."""
    if GPU.search(text) is None:
        return False  # logs of hundreds of megabytes are distinguished by this
    lines = plain_lines(text)
    return _find(lines, 0, is_cell) is not None or _headless(lines, is_cell) is not None


def read_matrix(
    lines: Sequence[str], is_cell: Callable[[str], bool], what: str, path: str | None
) -> DeviceMatrix:
    """The first table of devices in these lines.

    Parameters
    ----------
    lines : of `plain_lines`.
    is_cell : whether a word is a cell; what `GPU0` has towards itself is `X`.
    what : the table's name, for messages.
    path : for messages only.

    Raises
    ------
    TopologyError : no table, a cell that is none, a row of another length, a row missing or reported twice.
    """
    with_header = _find(lines, 0, is_cell)
    found = with_header or _headless(lines, is_cell)
    if found is None:
        raise FileLine(path, 1).error(
            f"no table of {what} stands here", "give the tool's output as it was printed"
        )
    header, columns, titles, first = found
    for index, name in enumerate(columns):
        if name in columns[:index]:
            _refuse(f"{name} has two columns", path, header + 1)
    rows, end = _rows(lines, first, _Table(columns, titles, is_cell, path))
    missing = [name for name in columns if GPU.fullmatch(name) and name not in rows]
    if missing:
        message = f"the table of {what} has a column for {missing[0]} and no row"
        raise FileLine(path, end).error(message, "give the whole table, as it was printed")
    another = _find(lines, end, is_cell)
    next_begins = None if another is None else another[0] + 1
    return DeviceMatrix(header + 1, columns, rows, end + 1, next_begins, with_header is None)


_Header = tuple[int, tuple[str, ...], tuple[str, ...], int]


def _find(lines: Sequence[str], begin: int, is_cell: Callable[[str], bool]) -> _Header | None:
    """Index of the header, device columns, titles behind them, and index of the first row."""
    for index in range(begin, len(lines)):
        if "GPU" not in lines[index]:
            continue
        columns = _header_words(lines[index])
        if columns is None:
            continue
        devices, titles = list(columns[0]), list(columns[1])
        first: int | None = None
        for below in range(index + 1, min(len(lines), index + _HEADER_LINES)):
            if not _LETTER.search(lines[below]):
                continue  # what is left of a blank line behind the mark of a quotation
            words = _row_words(lines[below], devices, is_cell)
            place = _row_name(words, devices, is_cell)
            if place is not None:
                first = below if first is None else first
                if _is_of_this_kind(words[place + 1 :], devices, is_cell):
                    return index, tuple(devices), tuple(titles), first
                continue
            more = _header_words(lines[below], wrapped=True)
            if first is not None or more is None or any(is_cell(word) for word in words):
                break
            if more[0] and (titles or set(more[0]) & set(devices)):
                break  # devices behind the affinities, or again: this is another header
            devices += more[0]
            titles += more[1]
    return None


def _headless(lines: Sequence[str], is_cell: Callable[[str], bool]) -> _Header | None:
    """As `_find`, of a table whose first rows are there and whose header is not."""
    names: dict[int, str] = {}
    first = width = 0
    for index, line in enumerate(lines):
        words = _words(line) if "X" in line else []
        start = next((place for place, word in enumerate(words) if _DEVICE.fullmatch(word)), 0)
        cells = list(takewhile(is_cell, words[start + 1 : start + 2 + _MOST_DEVICES]))
        if not cells or is_cell(words[start]):
            if names and line.strip():
                break
            continue
        if not names:
            first, width = index, len(cells)
        if len(cells) != width or cells.count("X") != 1 or cells.index("X") in names:
            break
        names[cells.index("X")] = words[start]
    gpus = [place for place, name in names.items() if GPU.fullmatch(name)]
    if len(gpus) < 2 or gpus != list(range(len(gpus))):
        return None
    columns = [names.get(place, f"NIC{place - len(gpus)}") for place in range(width)]
    return first, tuple(columns), ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID"), first


def _words(line: str) -> list[str]:
    return line.replace("|", " ").replace("│", " ").split()


def _header_words(line: str, wrapped: bool = False) -> tuple[list[str], list[str]] | None:
    """The devices and the titles behind them that a line of a header names; None if it is none."""
    words: list[str] = []
    for word in _words(_BEFORE_AFFINITY.sub(" ", line)):
        words += re.findall(r"(?:GPU|NIC)\d+", word) if _JOINED.fullmatch(word) else [word]
    if not wrapped:
        start = next((place for place, word in enumerate(words) if GPU.fullmatch(word)), None)
        if start is None:
            return None
        words = words[start:]
    devices: list[str] = []
    while words and words[0] not in _TAIL_WORDS and _DEVICE.fullmatch(words[0]):
        devices.append(words.pop(0))
    if len(devices) > _MOST_DEVICES or any(word not in _TAIL_WORDS for word in words):
        return None
    rest = " ".join(words).replace("CPUAffinity", "CPU Affinity").replace("NUMAAffinity", "NUMA Affinity")
    return devices, re.findall(r"CPU Affinity|GPU NUMA ID|NUMA Affinity", rest)


def _row_name(words: list[str], columns: Sequence[str], is_cell: Callable[[str], bool]) -> int | None:
    """Where the name of a row stands among the words of its line; a launcher may have put words before it."""
    place = next((place for place, word in enumerate(words) if word in columns), None)
    if place is None or place + 1 >= len(words):
        return None
    cells = words[place + 1 : place + 1 + len(columns)]
    likely = sum(1 for word in cells if _taken_apart(word, is_cell))
    return place if _taken_apart(cells[0], is_cell) or 2 * likely > len(cells) else None


def _row_words(line: str, columns: Sequence[str], is_cell: Callable[[str], bool]) -> list[str]:
    """The words of a line, the name of its row apart from a first cell that lost the space before it."""
    words = _words(line)
    if any(word in columns for word in words):
        return words
    for place, word in enumerate(words[:_LONGEST]):
        for name in columns:
            if word.startswith(name) and is_cell(word[len(name) :]):
                return [*words[:place], name, word[len(name) :], *words[place + 1 :]]
    return words


def _is_of_this_kind(words: Sequence[str], columns: Sequence[str], is_cell: Callable[[str], bool]) -> bool:
    """Whether a row has a cell besides its X, which tables of every kind have."""
    return len(columns) == 1 or any(
        word != "X" and _taken_apart(word, is_cell) for word in words[: len(columns)]
    )


def _taken_apart(word: str, is_cell: Callable[[str], bool]) -> tuple[str, ...]:
    """A cell, or two that lost the space between them in the one way that makes cells of both."""
    if is_cell(word):
        return (word,)
    if len(word) > _LONGEST:
        return ()
    routes = [(word[:k], word[k:]) for k in range(1, len(word)) if is_cell(word[:k]) and is_cell(word[k:])]
    return routes[0] if len(routes) == 1 else ()


def _rows(lines: Sequence[str], first: int, table: _Table) -> tuple[dict[str, Row], int]:
    columns, is_cell = table.columns, table.is_cell
    rows: dict[str, Row] = {}
    end = index = first
    while index < min(len(lines), end + _NOISE) and len(rows) < len(columns):
        words = _row_words(lines[index], columns, is_cell)
        place = _row_name(words, columns, is_cell)
        if place is None:
            if words and words[0].startswith("Legend"):
                break
            index += 1
            continue
        name, line = words[place], index + 1
        if name in rows:
            if all(column in rows for column in columns if GPU.fullmatch(column)):
                break
            message = f"a second row of {name}; the first stands in line {rows[name].line}"
            raise FileLine(table.path, line).error(message, "give one table")
        words = words[place + 1 :]
        index += 1
        while len(words) < len(columns) and index < len(lines):
            more = _words(lines[index])
            if not more or not _taken_apart(more[0], is_cell):
                break
            words += more
            index += 1
        rows[name] = _row(name, line, lines[line - 1], words, table)
        end = index
    _no_more(lines, end, table)
    return rows, end


def _no_more(lines: Sequence[str], end: int, table: _Table) -> None:
    """Refuse a table whose next row is of a device without a column: its lines were cut at the right."""
    columns = table.columns
    words = _words(lines[end]) if end < len(lines) else []
    gpus = sum(1 for name in columns if GPU.fullmatch(name))
    if not words or words[0] in columns or not re.fullmatch(r"(?:GPU|NIC)\d+", words[0]):
        return
    if words[0] == f"GPU{gpus}" or words[0].startswith("NIC"):
        cells = words[1 : len(columns) + 1]
        if len(cells) == len(columns) and all(map(table.is_cell, cells)):
            _refuse(f"{words[0]} has a row and no column: the lines were cut", table.path, end + 1)


def _row(name: str, line: int, text: str, words: Sequence[str], table: _Table) -> Row:
    columns, path = table.columns, table.path
    cells, rest, split = _cells(name, line, words, table)
    if not re.search(rf"{re.escape(name)}(?![^\s|])", text):
        split = [columns[0], *split]
    if rest and _taken_apart(rest[0], table.is_cell):
        _refuse(f"row {name} has more cells than the header has devices ({len(columns)})", path, line)
    for column, cell in zip(columns, cells, strict=True):
        if (cell == "X") != (column == name):
            _refuse(f"row {name}, column {column}: {cell!r} cannot stand here", path, line)
    tail = _tail(name, rest, [] if split else text.split("\t"), table)
    return Row(line, tuple(cells), tail, tuple(split))


def _cells(
    name: str, line: int, words: Sequence[str], table: _Table
) -> tuple[list[str], list[str], list[str]]:
    """The cells of a row, the words behind them, and the columns that stood joined to the one before."""
    columns = table.columns
    cells: list[str] = []
    split: list[str] = []
    rest = list(words)
    while len(cells) < len(columns):
        where = f"row {name}, column {columns[len(cells)]}"
        if not rest:
            _refuse(f"{where}: the row ends before this cell", table.path, line)
        word = rest.pop(0)
        parts = _taken_apart(word, table.is_cell)
        last = _BEFORE_NUMBERS.fullmatch(word) if len(cells) + 1 == len(columns) else None
        if not parts and last is not None and table.is_cell(last[1]):
            parts = (last[1],)
            split.append("CPU Affinity")
            rest.insert(0, last[2])
        if not parts or len(cells) + len(parts) > len(columns):
            _refuse(f"{where}: {word[:40]!r} is no cell of such a table", table.path, line)
        if len(parts) == 2:
            split.append(columns[len(cells) + 1])
        cells += parts
    return cells, rest, split


def _tail(name: str, rest: Sequence[str], fields: Sequence[str], table: _Table) -> dict[str, str]:
    """What stands behind the cells, by title; `fields` are those of the whole row, where tabs part them."""
    fields = [part.strip() for part in fields]
    behind = fields.index(name) + 1 + len(table.columns) if name in fields else len(fields)
    tail = rest
    if len(fields) > behind:
        tail = fields[behind:]
    elif len(tail) < len(table.titles) and not (tail and re.search("[-,]", tail[0]) and tail[0] != "N/A"):
        tail = []  # spaces do not tell which of them is missing
    return {title: value for title, value in zip(table.titles, tail, strict=False) if value}


def _refuse(message: str, path: str | None, line: int) -> NoReturn:
    raise FileLine(path, line).error(message, "the paste may be damaged: give the output as it was printed")
