"""Tuner files of whoever made them, read line by line as the libraries do."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The first words of a line that is a rule, or was meant to be.
_LINE = re.compile(r"^[A-Za-z_ ]+,[^,]*,.*,.*,")
_NUMBER = re.compile(r"-?[0-9]{1,20}")
_INTERVAL = re.compile(r"([\[(])\s*([0-9]*)\s*,\s*([0-9]*)\s*([\])])")
_SPLIT = re.compile(r",(?![^\[(]*[\])])")
#: Larger than any size.
ENDLESS = 2**63


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_any(self) -> bool:
        """Whether all numbers are in it."""
        return self.first <= 0 and self.last >= ENDLESS


ANY = Interval(0, ENDLESS)


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line with its number, its length, and its cells."""

    number: int
    length: int
    cells: tuple[str, ...]


def is_tuner_file(content: bytes) -> bool:
    """Whether the first line that is neither blank nor a comment looks like a rule or a header of rules."""
    text = content[:8192].decode("utf-8", "replace").lstrip("\ufeff")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and _LINE.match(lines[0]) is not None


def is_of_ncclx(lines: list[FoundLine]) -> bool:
    """Whether sizes are intervals, or any: then these are NCCLX's columns."""
    return any(len(line.cells) > 1 and (line.cells[1][:1] in ("[", "(", "*")) for line in lines)


def lines_of(text: str) -> list[FoundLine]:
    """All lines but comments and blank ones, cut at the commas that are in no bracket."""
    return [
        FoundLine(number, len(line), tuple(cell.strip() for cell in _SPLIT.split(line)))
        for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def number_of(cell: str) -> int | None:
    """A whole number; None: it is none."""
    return int(cell) if _NUMBER.fullmatch(cell) else None


def interval_of(cell: str) -> Interval | None:
    """NCCLX's `*`, a number, or an interval with brackets; None: it is none of these, or empty."""
    if cell == "*":
        return ANY
    alone = number_of(cell)
    if alone is not None:
        return Interval(alone, alone) if alone >= 0 else None
    matched = _INTERVAL.fullmatch(cell)
    if matched is None:
        return None
    opens, least, most, closes = matched.groups()
    first = 0 if not least else int(least) + (opens == "(")
    last = ENDLESS if not most else int(most) - (closes == ")")
    return Interval(first, last) if first <= last else None
