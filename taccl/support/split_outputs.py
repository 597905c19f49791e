"""A text that holds the outputs of several tools below each other, taken apart.

Callers pass the functions that detect a format, and where an output begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: What people paste together is short. A longer text is one output, as far as it is looked at here.
_MOST_BYTES = 2**20
_LINE_END = re.compile(r"\r+\n|\n|\r")
#: The lines, the one that tells what an output is of, and the first that may belong to it -> its first line.
FirstLine = Callable[[Sequence[str], int, int], int]
#: The lines, the first that tells what an output is of, and the one behind the last -> that behind its end;
#: None where the output does not tell where it ends.
EndLine = Callable[[Sequence[str], int, int], int | None]


@dataclass(frozen=True)
class OutputPart:
    """One output.

    Parameters
    ----------
    kind : which of the kinds that were requested, by position.
    line : where it begins, from 1.
    text : it alone, below this many empty lines that its own lines keep their numbers.
    """

    kind: int
    line: int
    text: str


def parts_of(
    text: str,
    kinds: Sequence[Callable[[str], bool]],
    first_line: FirstLine,
    end_line: EndLine = lambda lines, mark, seen: None,
) -> list[OutputPart]:
    """The outputs in a text by where they begin; none where there are not two kinds of them.

    Parameters
    ----------
    kinds : of each kind, whether a text holds one.
    first_line, end_line : where outputs begin and end.
    """
    if len(text) > _MOST_BYTES:
        return []
    lines = text.split("\n")
    starts: list[tuple[int, int]] = []  # kind, first line
    kind, looked, is_over = None, 0, True
    while (found := _next(lines, looked, kinds, kind)) is not None:
        kind, mark, seen = found
        starts.append((kind, looked if is_over else first_line(lines, mark, looked)))
        end = end_line(lines, mark, seen)
        looked, is_over = (seen, False) if end is None else (end, True)
    if len(starts) < 2:
        return []
    ends = [first for _, first in starts[1:]] + [len(lines)]
    return [_part(lines, kind, first, end) for (kind, first), end in zip(starts, ends, strict=True)]


def _next(
    lines: Sequence[str], looked: int, kinds: Sequence[Callable[[str], bool]], but: int | None
) -> tuple[int, int, int] | None:
    """The first output of another kind below a line: its kind, and where what tells it begins and ends."""
    found = []
    for kind, looks_like in enumerate(kinds):
        if kind != but and looks_like("\n".join(lines[looked:])):
            found.append((*_reported(lines, looked, looks_like), kind))
    if not found:
        return None
    mark, seen, kind = min(found)
    return kind, mark, seen


def _reported(lines: Sequence[str], looked: int, looks_like: Callable[[str], bool]) -> tuple[int, int]:
    """The first line of what tells a kind, and the one behind it."""
    seen = _boundary(looked, len(lines), lambda end: looks_like("\n".join(lines[looked:end])))
    return _boundary(seen, looked, lambda begin: looks_like("\n".join(lines[begin:seen]))), seen


def _boundary(no: int, yes: int, holds: Callable[[int], bool]) -> int:
    """A number that holds next to one, towards `no`, that does not; `yes` is taken to hold."""
    while abs(yes - no) > 1:
        middle = (no + yes) // 2
        no, yes = (no, middle) if holds(middle) else (middle, yes)
    return yes


def _part(lines: Sequence[str], kind: int, first: int, end: int) -> OutputPart:
    above = sum(1 + len(_LINE_END.findall(line.removesuffix("\r"))) for line in lines[:first])
    own = list(lines[first:end])
    declared = own[0].lstrip() if above and own[0].lstrip().startswith("<?xml") else ""
    if declared:  # nothing may stand above an XML's declaration, so it goes to the first line
        return OutputPart(kind, above + 1, "\n".join([declared, *[""] * above, *own[1:]]))
    return OutputPart(kind, above + 1, "\n".join([*[""] * above, *own]))
