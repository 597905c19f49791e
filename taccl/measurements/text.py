"""Lines of a log as a tool printed them, without what launchers, terminals and libraries wrote between.

It knows the marks of mpirun, srun, terminals and NCCL's own messages, and no table of any tool.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: mpirun's tags, which may stand in the middle of a row: `[1,0]<stdout>:`.
_TAG = re.compile(r"\[\d+,\d+\]<std(?:out|err)>:? ?")
#: srun's: the number of the task at the beginning of the line.
_TASK = re.compile(r"^ *\d+: (?=\s*\S)")
#: A message of NCCL from where it begins, often right behind half a row: `n013:7841:7842 [0] NCCL INFO ...`.
_NCCL = re.compile(
    r"(?:\[[^\]\n]{0,40}\] {0,4})?[A-Za-z][\w.-]{0,80}:\d{1,9}:\d{1,9} (?:\[\w{1,9}\] )?[^\n]{0,60}?"
    r"NCCL (?:INFO|WARN|TRACE|VERSION)"
)
#: No tool prints a longer line that tells anything here.
_LONGEST = 4000
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Line:
    """A line of the file, cleaned; `number` counts from 1."""

    number: int
    text: str


def lines_of(text: str) -> list[Line]:
    """The lines that are not empty once the marks of launchers and the messages of NCCL are gone."""
    found = []
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = _TASK.sub("", _TAG.sub("", _ANSI.sub("", raw[:_LONGEST])).replace("\x00", ""))
        message = _NCCL.search(line)
        if message is not None:
            line = line[: message.start()]
        if line.strip():
            found.append(Line(number, line.rstrip()))
    return found


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
