"""Where the outputs of several tools that stand below each other in one text begin.

It knows no format inside: each says of a text whether it is one. People paste `nvidia-smi topo -m` and
`nvidia-smi nvlink -s` into one file, or a job's log holds both and a topology file too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: What people paste together is short. A longer text is one output, as far as it is looked at here.
_MOST_BYTES = 2**20
_LINE_END = re.compile(r"\r+\n|\n|\r")
#: A line that begins what stands below it: a prompt or a title with a tool's name, an XML's first line.
_BEGINS = re.compile(
    r"^\s*<[?!]|\b(?:nvidia-smi|rocm-smi|amd-smi|lstopo|hwloc-ls)\b|\bcat\s+\S+\.xml\b"
    r"|^\s*={3,}|^\s*[\[{]\s*$"
)
#: A line of a log, whose lines above tell of the same.
_LOGGED = re.compile(r"\bNCCL (?:INFO|WARN)\b")
#: The first and the last line of a file in XML.
_ROOT = re.compile(r"<(?:!DOCTYPE|system|graphs|topology)\b")
_ENDS = re.compile(r"</(?:system|graphs|topology)\s*>")


@dataclass(frozen=True)
class Part:
    """One output.

    Parameters
    ----------
    kind : which of the kinds that were asked for, by position.
    line : where it begins, from 1.
    text : it alone, below so many empty lines that its own lines keep their numbers.
    """

    kind: int
    line: int
    text: str


def parts_of(text: str, kinds: Sequence[Callable[[str], bool]]) -> list[Part]:
    """The outputs in a text by where they begin; none where there are not two kinds of them.

    Parameters
    ----------
    kinds : of each kind, whether a text holds one.
    """
    if len(text) > _MOST_BYTES:
        return []
    lines = text.split("\n")
    starts: list[tuple[int, int]] = []  # kind, first line
    kind, looked, is_over = None, 0, True
    while (found := _next(lines, looked, kinds, kind)) is not None:
        kind, mark, seen = found
        starts.append((kind, looked if is_over else _first_line(lines, mark, looked)))
        end = _end_of_xml(lines, mark, seen)
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
            found.append((*_told(lines, looked, looks_like), kind))
    if not found:
        return None
    mark, seen, kind = min(found)
    return kind, mark, seen


def _told(lines: Sequence[str], looked: int, looks_like: Callable[[str], bool]) -> tuple[int, int]:
    """The first line of what tells a kind, and the one behind it."""
    seen = _boundary(looked, len(lines), lambda end: looks_like("\n".join(lines[looked:end])))
    return _boundary(seen, looked, lambda begin: looks_like("\n".join(lines[begin:seen]))), seen


def _boundary(no: int, yes: int, holds: Callable[[int], bool]) -> int:
    """A number that holds beside one, towards `no`, that does not; `yes` is taken to hold."""
    while abs(yes - no) > 1:
        middle = (no + yes) // 2
        no, yes = (no, middle) if holds(middle) else (middle, yes)
    return yes


def _first_line(lines: Sequence[str], mark: int, looked: int) -> int:
    """Where an output begins: at what tells it, or at the lines above that name its tool."""
    first, begins = mark, _LOGGED if _LOGGED.search(lines[mark]) else _BEGINS
    for above in range(mark - 1, looked - 1, -1):
        if begins.search(lines[above]):
            first = above
        elif lines[above].strip():
            break
    return first


def _end_of_xml(lines: Sequence[str], mark: int, seen: int) -> int | None:
    """Behind the last line of an XML that is told by these lines; None of anything else."""
    if not any(_ROOT.search(line) for line in lines[mark:seen]):
        return None
    return next((at + 1 for at in range(mark, len(lines)) if _ENDS.search(lines[at])), len(lines))


def _part(lines: Sequence[str], kind: int, first: int, end: int) -> Part:
    above = sum(1 + len(_LINE_END.findall(line.removesuffix("\r"))) for line in lines[:first])
    own = list(lines[first:end])
    declared = own[0].lstrip() if above and own[0].lstrip().startswith("<?xml") else ""
    if declared:  # nothing may stand above an XML's declaration, so it goes to the first line
        return Part(kind, above + 1, "\n".join([declared, *[""] * above, *own[1:]]))
    return Part(kind, above + 1, "\n".join([*[""] * above, *own]))
