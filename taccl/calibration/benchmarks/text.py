"""Lines of a log as a tool printed them, without what launchers, terminals and libraries wrote between.

It knows the marks of mpirun, srun, terminals and NCCL's own messages, and no table of any tool.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.errors import MeasurementError

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: mpirun's tags, which may stand in the middle of a row: `[1,0]<stdout>:`, `[prterun-n013-78@1,0]<stdout>:`.
_TAG = re.compile(r"\[(?:[\w.-]{1,80}@)?\d+,\d+\]<std(?:out|err)>:? ?")
#: srun's and Hydra's: the number of the task at the beginning of the line, `0: ` or `[0] `.
_TASK = re.compile(r"^ *(?:\d+: |\[\d{1,6}\] )(?=\s*\S)")
#: What log collectors and quotes put before each line: a time, perhaps with a stream's name, or `> `.
_BEFORE = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,]{5,20}(?:Z|[+-]\d\d:?\d\d)? ?(?:std(?:out|err) [FP] )?|(?:> ?){1,4})"
)
#: What pdsh puts before each line: the name of the host.
_HOST = re.compile(r"^([\w.-]{1,60}): ")
#: A message of NCCL from where it begins, often right behind half a row: `n013:7841:7842 [0] NCCL INFO ...`.
_NCCL = re.compile(
    r"(?:\[[^\]\n]{0,40}\] {0,4})?[A-Za-z][\w.-]{0,80}:\d{1,9}:\d{1,9} (?:\[\w{1,9}\] )?[^\n]{0,60}?"
    r"NCCL (?:INFO|WARN|TRACE|VERSION)"
)
#: This many rows with decimal commas are no accident.
_COMMA_ROWS = 2
#: No tool prints a longer line that tells anything here.
_LONGEST = 4000
#: A number with a decimal comma. Three digits behind it may be thousands.
_COMMA = re.compile(r"\d+,(?:\d{1,2}|\d{4,})")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Line:
    """A line of the file, cleaned; `number` counts from 1."""

    number: int
    text: str


def without_colours(text: str) -> str:
    """The text without a terminal's marks; its lines stay where they are."""
    return _ANSI.sub("", text)


def lines_of(text: str) -> list[Line]:
    """The lines that are not empty once the marks of launchers and the messages of NCCL are gone."""
    lines = [
        _BEFORE.sub("", _TAG.sub("", _ANSI.sub("", raw[:_LONGEST])).replace("\x00", ""))
        for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ]
    hosts = Counter(match[1] for line in lines if (match := _HOST.match(line)))
    host, times = hosts.most_common(1)[0] if hosts else ("", 0)
    is_on_all = 2 * times > sum(1 for line in lines if line.strip())
    found = []
    for number, line in enumerate(lines, 1):
        cleaned = _TASK.sub("", line.removeprefix(f"{host}: ") if is_on_all else line)
        message = _NCCL.search(cleaned)
        kept = cleaned if message is None else cleaned[: message.start()]
        if kept.strip():
            found.append(Line(number, kept.rstrip()))
    return found


def decimal_comma(text: str) -> int | None:
    """The first line of a table whose numbers have decimal commas; None where there is no such table."""
    found = []
    for line in lines_of(text):
        words = line.text.split()
        if whole_of(words[0]) is not None and any(_COMMA.fullmatch(word) for word in words[1:]):
            found.append(line.number)
    return found[0] if len(found) >= _COMMA_ROWS else None


def number_of(word: str) -> float | None:
    """A finite number, or None."""
    if not _NUMBER.fullmatch(word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def numbers_of(words: list[str]) -> list[float] | None:
    """All of them as numbers, or None if one is none."""
    values = [number_of(word) for word in words]
    return None if None in values else [value for value in values if value is not None]


def whole_of(word: str) -> int | None:
    """A whole number of up to 18 digits, or None."""
    return int(word) if re.fullmatch(r"\d{1,18}", word) else None


def wrong_width(
    cells: Sequence[str],
    columns: int,
    path: str | None,
    line: Line,
    *,
    table: str = "matrix",
    hint: str | None = None,
) -> MeasurementError:
    """The error of a row that has more or fewer cells than its table has columns."""
    return MeasurementError(
        f"a row has {len(cells)} cells, but the {table} has {columns} columns",
        path=path,
        line=line.number,
        hint=hint,
    )
