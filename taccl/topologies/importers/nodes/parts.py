"""Where the outputs of tools that describe a machine begin and end in one text, which people paste together.

It knows how their first and last lines look, and nothing of what is between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def first_line(lines: Sequence[str], mark: int, looked: int) -> int:
    """Where an output begins: at what tells it, or at the lines above that name its tool."""
    first, begins = mark, _LOGGED if _LOGGED.search(lines[mark]) else _BEGINS
    for above in range(mark - 1, looked - 1, -1):
        if begins.search(lines[above]):
            first = above
        elif lines[above].strip():
            break
    return first


def end_line(lines: Sequence[str], mark: int, seen: int) -> int | None:
    """Behind the last line of an XML that is told by these lines; None of anything else."""
    if not any(_ROOT.search(line) for line in lines[mark:seen]):
        return None
    return next((at + 1 for at in range(mark, len(lines)) if _ENDS.search(lines[at])), len(lines))
