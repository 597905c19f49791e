"""The text of a JSON file as values, and the lines where they stand.

It takes what the runtime's own parser takes (strict JSON in UTF-8) and refuses the rest: comments, NaN, text
after the end. Values have places as `gpus[0].threadblocks[1]`, which `lines_of` finds in the text again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

from taccl.errors import PlanError

#: A plan of 64 ranks and 10,000 operations has three million bytes.
MAX_BYTES = 256 * 2**20
MAX_BYTES_FOR_LINES = 16 * 2**20
_HINT = "give the JSON file that a synthesizer or mscclpp's own language wrote, unedited"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)
#: Python converts at least this many digits.
_LONG_NUMBER = 640
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class Twice(dict[str, Any]):
    """An object that has a key more than once; the last one counts, as it does for the runtime.

    `twice` : one such key.
    """

    twice: str = ""


def parse_json(
    data: str | bytes, path: str | None, look: Callable[[], None] = lambda: None
) -> tuple[object, str]:
    """The value in a JSON file, and its text. `look` is called at the end of each object, and may raise.

    Raises
    ------
    PlanError : it is too large, no text in UTF-8 or no JSON, or nests too deep; with the line where known.
    """
    text = _text(data, path)
    if not text.strip():
        raise PlanError("the file is empty", path=path, hint=_HINT)

    def constant(spelling: str) -> NoReturn:
        line = _line_where(text, lambda token: token == spelling)
        raise PlanError(f"{spelling} is no number in JSON", path=path, line=line, hint="write digits")

    def fraction(spelling: str) -> float:
        value = float(spelling)
        if math.isinf(value):
            line = _line_where(text, lambda token: token == spelling)
            raise PlanError("a number is out of range", path=path, line=line, hint="write a smaller one")
        return value

    def read(items: list[tuple[str, object]]) -> dict[str, object]:
        look()
        return _object(items)

    try:
        content = json.loads(text, object_pairs_hook=read, parse_constant=constant, parse_float=fraction)
        return content, text
    except json.JSONDecodeError as fault:
        raise PlanError(f"this is not JSON: {fault.msg}", path=path, line=fault.lineno, hint=_HINT) from None
    except RecursionError:
        raise PlanError("lists and objects are nested too deep to be a plan", path=path, hint=_HINT) from None
    except ValueError:  # Python converts no number of this many digits
        line = _line_where(text, lambda token: token[0] != '"' and len(token) > _LONG_NUMBER)
        raise PlanError("a number has too many digits", path=path, line=line, hint=_HINT) from None


def _text(data: str | bytes, path: str | None) -> str:
    if len(data) > MAX_BYTES:
        raise PlanError(f"the file is larger than {MAX_BYTES // 2**20} MB", path=path, hint=_HINT)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise PlanError("the file is not text in UTF-8", path=path, line=line, hint=_HINT) from None


def _object(items: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(items)
    if len(values) == len(items):
        return values
    repeated = Twice(values)
    repeated.twice, _ = Counter(key for key, _ in items).most_common(1)[0]
    return repeated


def _line_where(text: str, wanted: Callable[[str], bool]) -> int | None:
    """The line of the first word, number, string or bracket of this kind."""
    for token in _TOKEN.finditer(text):
        if wanted(token.group()):
            return text.count("\n", 0, token.start()) + 1
    return None


def lines_of(text: str, places: Collection[str]) -> dict[str, int]:
    """On which line each of these places begins, from 1; of one that is not there, where its parent does.

    One pass through the text, which must be JSON; none through one of more than `MAX_BYTES_FOR_LINES`, which
    would take longer than all else.
    """
    if not places or len(text) > MAX_BYTES_FOR_LINES:
        return {}
    wanted = {place: _steps(place) for place in places}
    sought = {steps[:length] for steps in wanted.values() for length in range(len(steps) + 1)}
    found: dict[tuple[str | int, ...], int] = {}
    line, counted = 1, 0
    for steps, position in _values(text, max(map(len, sought))):
        if steps in sought:
            line += text.count("\n", counted, position)
            counted = position
            found[steps] = line
    return {
        place: next(found[steps[:length]] for length in range(len(steps), -1, -1) if steps[:length] in found)
        for place, steps in wanted.items()
        if found
    }


def _steps(place: str) -> tuple[str | int, ...]:
    return tuple(int(number) if number else name for name, number in _STEP.findall(place))


def _values(text: str, depth: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Where each value begins that is not deeper than this, by the keys and numbers that lead to it."""
    steps: list[str | int] = []
    key_is_next: list[bool] = []  # for each open object or list: whether a key comes next; of lists never
    begins = True  # whether a value comes next
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first == ",":
            if isinstance(steps[-1], int):
                steps[-1] += 1
                begins = True
            else:
                key_is_next[-1] = True
        elif first in "}]":
            steps.pop()
            key_is_next.pop()
        elif key_is_next and key_is_next[-1]:
            key = token.group()
            steps[-1] = json.loads(key) if "\\" in key else key[1:-1]
            key_is_next[-1], begins = False, True
        elif begins:
            if len(steps) <= depth:
                yield tuple(steps), token.start()
            begins = first == "["
            if first in "{[":
                steps.append("" if first == "{" else 0)
                key_is_next.append(first == "{")
