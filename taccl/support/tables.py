"""What tools print on terminals, from text to lines and cells: colours, line ends, numbers and lists.

Pastes pass terminals, launchers and web pages on their way, so what those add is taken off in one module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from taccl.errors import TopologyError

_TERMINAL_CODE = re.compile(r"(?:\x1b|\^\[|␛)\[[0-9;?]*[A-Za-z]|\x1b\(B|\[\d{0,2}(?:;\d{1,2})*m")
_UNSEEN = re.compile("[\ufeff\u200b\x00\x0f]")
#: As editors count lines; `str.splitlines` also splits at form feeds and the like.
_LINE_END = re.compile(r"\r+\n|\n|\r")
#: What people put in the place of lines: `...`, `[snip]`, `(16 more links)`, `Link ...`.
_ELIDED = re.compile(
    r"[\s\[(<{#*-]*(?:Link\s+)?(?:\.{3}|…|⋮|(?:\d+|some|many) (?:more|others?|lines?)\b"
    r"|(?:snip(?:ped)?|omitted|truncated|skipped)\b)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class FileLine:
    """A line of a file; `line` counts from 1, and is None of the whole file."""

    path: str | None
    line: int | None

    def __str__(self) -> str:
        name = self.path or "<text>"
        return name if self.line is None else f"{name}:{self.line}"

    def error(self, message: str, hint: str | None = None) -> TopologyError:
        """The error to raise for a fault of this line."""
        return TopologyError(message, path=self.path, line=self.line, hint=hint)


def lines_of(text: str) -> list[str]:
    """The lines of a text, whichever line ends it has."""
    return _LINE_END.split(text)


def plain(text: str) -> str:
    """A text without the codes that colour a terminal, on the same lines."""
    return _UNSEEN.sub("", _TERMINAL_CODE.sub("", text)).replace("\xa0", " ")


def plain_lines(text: str) -> list[str]:
    """The lines of a text without a terminal's codes; line k of the file is at k - 1."""
    return lines_of(plain(text))


def is_elided(line: str) -> bool:
    """Whether a line stands for others that somebody left out of a paste."""
    return _ELIDED.match(line) is not None


def number_of(word: str) -> float | None:
    """A finite number, or None."""
    if not _NUMBER.fullmatch(word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def whole_of(word: str) -> int | None:
    """A whole number of up to 18 digits, or None."""
    return int(word) if re.fullmatch(r"\d{1,18}", word) else None


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and the line where."""

    text: str
    line: int


@dataclass(frozen=True)
class SquareTable:
    """A table with a row and a column for each device.

    Parameters
    ----------
    title : what it tells, a word of the reader.
    line : where it begins.
    names : of the devices, in the order of the tool.
    cells : by the names of a row and a column; those of a row that was cut off are missing.
    """

    title: str
    line: int
    names: tuple[str, ...]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether every two devices have a cell in one direction or the other."""
        return all(
            (a, b) in self.cells or (b, a) in self.cells for a in self.names for b in self.names if a != b
        )


def square_tables(
    lines: Sequence[str],
    title_of: Callable[[str], str | None],
    name_of: Callable[[str], str | None],
    path: str | None,
    most: int,
) -> list[SquareTable]:
    """The tables below titles, each with a row of names above rows that begin with a name.

    Parameters
    ----------
    title_of : the title of the table that begins on a line; "" for one of no interest, None for no title.
    name_of : a device's name in the one form that is used from here on; None for a word that is no name.
    most : devices in a table.

    Raises
    ------
    TopologyError : a table is damaged, with the line.
    """
    tables = []
    for title, begin, end in _sections(lines, title_of):
        table: SquareTable | None = None
        rows: dict[str, int] = {}
        for number in range(begin + 1, end):
            words, here = lines[number].split(), FileLine(path, number + 1)
            names = [name_of(word) for word in words]
            if not words or names[0] is None:
                continue
            if table is None:
                table = SquareTable(title, begin + 1, _columns(title, words, names, here, most))
            else:
                _add_row(table, rows, names[0], words[1:], here)
        if table is None:
            raise FileLine(path, begin + 1).error(f"the table of the {title} that begins here is empty")
        tables.append(table)
    return tables


def _sections(lines: Sequence[str], title_of: Callable[[str], str | None]) -> Iterator[tuple[str, int, int]]:
    titles = [(number, title) for number, line in enumerate(lines) if (title := title_of(line)) is not None]
    ends = [begin for begin, _ in titles[1:]] + [len(lines)]
    for (begin, title), end in zip(titles, ends, strict=False):
        if title:
            yield title, begin, end


def _columns(
    title: str,
    words: Sequence[str],
    names: Sequence[str | None],
    here: FileLine,
    most: int,
) -> tuple[str, ...]:
    columns: list[str] = []
    for word, name in zip(words, names, strict=True):
        if name is None:
            message = (
                f"the first row of the table of the {title} names its columns, and {word[:40]!r} is no GPU"
            )
            raise here.error(message, "paste the table with the row above it")
        if name in columns:
            raise here.error(f"{name} has two columns in this table")
        columns.append(name)
    if len(columns) > most:
        raise here.error(f"the table has more than {most} GPUs")
    return tuple(columns)


def _add_row(
    table: SquareTable,
    rows: dict[str, int],
    name: str,
    words: Sequence[str],
    here: FileLine,
) -> None:
    if name not in table.names:
        raise here.error(f"{name} has a row in this table and no column")
    if name in rows:
        raise here.error(f"{name} has a second row in this table, after the one on line {rows[name]}")
    if len(words) != len(table.names):
        message = f"the row of {name} has {len(words)} cells for {len(table.names)} columns"
        raise here.error(message, "paste it again, from a terminal wide enough")
    rows[name] = here.line or 0
    for column, word in zip(table.names, words, strict=True):
        table.cells[name, column] = Cell(word, rows[name])
