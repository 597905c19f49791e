"""Tables with a row and a column for each GPU, as AMD's tools print them: text to cells with their lines.

It knows how such tables are laid out and damaged, and not what any cell means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from taccl.errors import TopologyError

#: What a terminal adds (colours) and what a page adds to a table (bars, stars and quotes of Markdown).
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FURNITURE = re.compile(r"[|`*]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NOT_SUPPORTED = re.compile(r"not supported", re.IGNORECASE)
#: No node has this many GPUs, or partitions of GPUs.
MOST_GPUS = 256


@dataclass(frozen=True)
class Cell:
    """What stands in a table for two GPUs, and the line where."""

    text: str
    line: int


@dataclass(frozen=True)
class PairTable:
    """One table, or what another layout says in its place.

    Parameters
    ----------
    kind : what it tells, a word of the reader.
    line : where it begins.
    names : of the GPUs, in the order of the tool.
    cells : by the names of a row and a column; those of a row that was cut off are missing.
    """

    kind: str
    line: int
    names: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @property
    def is_whole(self) -> bool:
        return all(
            (a, b) in self.cells or (b, a) in self.cells for a in self.names for b in self.names if a != b
        )


@dataclass(frozen=True)
class Layout:
    """How a tool prints its tables.

    Parameters
    ----------
    title : the kind of the table that begins on a line; "" if one begins that is not of interest, None if
        none does.
    name : a GPU's name in the one form that is used from here on; None if the word is no name.
    """

    title: Callable[[str], str | None]
    name: Callable[[str], str | None]


def lines_of(text: str) -> list[str]:
    """The lines as editors count them; `str.splitlines` also splits at form feeds and the like."""
    return _LINE_END.split(text)


def clean_lines(text: str) -> list[str]:
    """The lines of a paste without colours and without the furniture of tables on web pages."""
    return [_FURNITURE.sub(" ", _ESCAPES.sub("", line)) for line in lines_of(text)]


def read_tables(lines: Sequence[str], layout: Layout, path: str | None) -> list[PairTable]:
    """Every table of interest, in the order of the text.

    Raises
    ------
    TopologyError : a table is damaged, with the line.
    """
    return [_table(kind, lines, begin, end, layout, path) for kind, begin, end in _sections(lines, layout)]


def table_of_kind(tables: Sequence[PairTable], kind: str, path: str | None) -> PairTable | None:
    """The only table of a kind; None where there is none.

    Raises
    ------
    TopologyError : several of them say different things.
    """
    found = [table for table in tables if table.kind == kind]
    for other in found[1:]:
        for pair, cell in other.cells.items():
            first = found[0].cells.get(pair)
            if first is None or first.text != cell.text:
                said = "nothing" if first is None else f"{first.text} on line {first.line}"
                raise TopologyError(
                    f"a second table of the {kind} says {cell.text} for {pair[0]} and {pair[1]}, "
                    f"the one that begins on line {found[0].line} says {said}",
                    path=path,
                    line=cell.line,
                    hint="give the output of one machine in a file",
                )
    return found[0] if found else None


@dataclass
class _Open:
    """A table while its rows are read."""

    names: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)


def _sections(lines: Sequence[str], layout: Layout) -> Iterator[tuple[str, int, int]]:
    begin, kind = 0, ""
    for number, line in enumerate(lines):
        title = layout.title(line)
        if title is not None:
            if kind:
                yield kind, begin, number
            begin, kind = number, title
    if kind:
        yield kind, begin, len(lines)


def _table(
    kind: str, lines: Sequence[str], begin: int, end: int, layout: Layout, path: str | None
) -> PairTable:
    table = _Open()
    for number in range(begin + 1, end):
        words = _NOT_SUPPORTED.sub("N/A", lines[number]).split()
        names = [layout.name(word) for word in words]
        if not words or names[0] is None:
            continue
        if not table.names:
            _begin(table, kind, words, names, path, number + 1)
        else:
            _add_row(table, names[0], words[1:], path, number + 1)
    if not table.names:
        raise TopologyError(f"the table of the {kind} that begins here is empty", path=path, line=begin + 1)
    return PairTable(kind, begin + 1, tuple(table.names), table.cells)


def _begin(
    table: _Open, kind: str, words: Sequence[str], names: Sequence[str | None], path: str | None, line: int
) -> None:
    for word, name in zip(words, names, strict=True):
        if name is None:
            raise TopologyError(
                f"the first row of the table of the {kind} names its columns, and {word[:40]!r} is no GPU",
                path=path,
                line=line,
                hint="paste the table with the row above it",
            )
        if name in table.names:
            raise TopologyError(f"{name} has two columns in this table", path=path, line=line)
        table.names.append(name)
    if len(table.names) > MOST_GPUS:
        raise TopologyError(f"the table has more than {MOST_GPUS} GPUs", path=path, line=line)


def _add_row(table: _Open, name: str, cells: Sequence[str], path: str | None, line: int) -> None:
    if name not in table.names:
        raise TopologyError(f"{name} has a row in this table and no column", path=path, line=line)
    if name in table.rows:
        raise TopologyError(
            f"{name} has a second row in this table, after the one on line {table.rows[name]}",
            path=path,
            line=line,
        )
    if len(cells) != len(table.names):
        raise TopologyError(
            f"the row of {name} has {len(cells)} cells for {len(table.names)} columns",
            path=path,
            line=line,
            hint="paste it again, from a terminal wide enough",
        )
    table.rows[name] = line
    for column, cell in zip(table.names, cells, strict=True):
        table.cells[name, column] = Cell(cell, line)
