"""Lines of a log as a tool printed them, without what launchers, terminals and libraries wrote between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.errors import MeasurementError
from taccl.support.tables import plain_lines, whole_of

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


@dataclass(frozen=True)
class TextLine:
    """A line of the file, cleaned; `number` counts from 1."""

    number: int
    text: str


def lines_of(text: str) -> list[TextLine]:
    """The lines that are not empty once the marks of launchers and the messages of NCCL are gone."""
    lines = [_BEFORE.sub("", _TAG.sub("", raw[:_LONGEST])) for raw in plain_lines(text)]
    hosts = Counter(match[1] for line in lines if (match := _HOST.match(line)))
    host, times = hosts.most_common(1)[0] if hosts else ("", 0)
    is_on_all = 2 * times > sum(1 for line in lines if line.strip())
    found = []
    for number, line in enumerate(lines, 1):
        cleaned = _TASK.sub("", line.removeprefix(f"{host}: ") if is_on_all else line)
        message = _NCCL.search(cleaned)
        kept = cleaned if message is None else cleaned[: message.start()]
        if kept.strip():
            found.append(TextLine(number, kept.rstrip()))
    return found


def decimal_comma(text: str) -> int | None:
    """The first line of a table whose numbers have decimal commas; None where there is no such table."""
    found = []
    for line in lines_of(text):
        words = line.text.split()
        if whole_of(words[0]) is not None and any(_COMMA.fullmatch(word) for word in words[1:]):
            found.append(line.number)
    return found[0] if len(found) >= _COMMA_ROWS else None


def wrong_width(
    cells: Sequence[str],
    columns: int,
    path: str | None,
    line: TextLine,
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
