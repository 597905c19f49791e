"""JSON with the line on which each object begins, for messages."""

from __future__ import annotations

import json
import re
from typing import Any

from taccl.support.tables import FileLine

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\n]', re.DOTALL)
_BEGIN = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)


class Located(dict[str, Any]):
    """An object and the line on which it begins."""

    line: int = 1


def begins_json(text: str) -> bool:
    """Whether a text is JSON, perhaps below some lines that a tool printed first."""
    return _BEGIN.search(text) is not None


def parse_objects(text: str, path: str | None) -> Any:
    """The first JSON value that begins on a line of its own; its objects are `Located`.

    Raises
    ------
    TopologyError : there is none, or it is damaged, with the line.
    """
    match = _BEGIN.search(text)
    if match is None:
        raise FileLine(path, 1).error("there is no JSON here")
    begin = match.end() - 1
    ends = iter(_lines_by_end(text, begin))

    def located(pairs: list[tuple[str, Any]]) -> Located:
        # Objects are closed in the order in which their closing braces stand.
        found = Located(pairs)
        found.line = next(ends, 1)
        return found

    try:
        return json.JSONDecoder(object_pairs_hook=located).raw_decode(text, begin)[0]
    except json.JSONDecodeError as fault:
        raise FileLine(path, fault.lineno).error(
            f"this is not JSON: {fault.msg}", "give all that the tool printed, and nothing left out"
        ) from None
    except (RecursionError, ValueError) as fault:
        raise FileLine(path, text.count("\n", 0, begin) + 1).error(
            f"this JSON cannot be read: {type(fault).__name__}"
        ) from None


def _lines_by_end(text: str, begin: int) -> list[int]:
    """The lines on which objects begin, in the order in which they end."""
    line, opened, found = text.count("\n", 0, begin) + 1, [], []
    for match in _MARKS.finditer(text, begin):
        if match[0] == "{":
            opened.append(line)
        elif match[0] == "}":
            if not opened:
                break
            found.append(opened.pop())
        else:
            line += match[0].count("\n")
    return found
