"""The text of a JSON file as values, and the lines where they stand.

Strict JSON in UTF-8 is taken, and all else refused: comments, NaN, text after the end. Values have places as
`gpus[0].threadblocks[1]`, which `lines_of` finds in the text again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

from taccl.errors import TacclError

#: A plan of 64 ranks and 10,000 operations has three million bytes.
MAX_BYTES = 256 * 2**20
MAX_BYTES_FOR_LINES = 16 * 2**20
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)
#: Python converts at least this many digits.
_LONG_NUMBER = 640
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class Twice(dict[str, Any]):
    """An object that has a key more than once; the last one counts.

    `twice` : one such key.
    """

    twice: str = ""


def parse_json(
    data: str | bytes,
    path: str | None,
    error: type[TacclError],
    hint: str,
    look: Callable[[], None] = lambda: None,
    *,
    once: bool = False,
) -> tuple[object, str]:
    """The value in a JSON file, and its text.

    Parameters
    ----------
    error, hint : of the refusals.
    look : is called at the end of each object, and may raise.
    once : whether a key that an object has twice is refused; otherwise that object is a `Twice`.

    Raises
    ------
    TacclError : it is too large, no text in UTF-8 or no JSON, or nests too deep; with the line where known.
    """

    def refuse(message: str, line: int | None = None, advice: str = hint) -> NoReturn:
        raise error(message, path=path, line=line, hint=advice) from None

    text = _text(data, refuse)
    if not text.strip():
        refuse("the file is empty")

    def constant(spelling: str) -> NoReturn:
        line = _line_where(text, lambda token: token == spelling)
        refuse(f"{spelling} is no number in JSON", line, "write digits")

    def fraction(spelling: str) -> float:
        value = float(spelling)
        if math.isinf(value):
            line = _line_where(text, lambda token: token == spelling)
            refuse("a number is out of range", line, "write a smaller one")
        return value

    def read(items: list[tuple[str, object]]) -> dict[str, object]:
        look()
        values = _object(items)
        if once and isinstance(values, Twice):
            refuse(f"the key {values.twice!r} is given twice")
        return values

    try:
        content = json.loads(text, object_pairs_hook=read, parse_constant=constant, parse_float=fraction)
        return content, text
    except json.JSONDecodeError as fault:
        refuse(f"this is not JSON: {fault.msg}", fault.lineno)
    except RecursionError:
        refuse("lists and objects are nested too deep")
    except ValueError:  # Python converts no number of this many digits
        line = _line_where(text, lambda token: token[0] != '"' and len(token) > _LONG_NUMBER)
        refuse("a number has too many digits", line)


def _text(data: str | bytes, refuse: Callable[..., NoReturn]) -> str:
    if len(data) > MAX_BYTES:
        refuse(f"the file is larger than {MAX_BYTES // 2**20} MB")
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        refuse("the file is not text in UTF-8", data.count(b"\n", 0, fault.start) + 1)


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
