"""Lists of names as schedulers write them, `srv[01-04,07],x1`, and the order of names with numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from taccl.errors import TopologyError

#: More names than this are a slip of the pen.
MAX_NAMES = 65_536
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")


def expanded(text: str) -> tuple[str, ...]:
    """The names that a list stands for, each as often as it names it.

    Raises
    ------
    TopologyError : a bracket that does not close, a range that is none, more than MAX_NAMES names.
    """
    names: list[str] = []
    for word in _words(text):
        choices: list[Sequence[str]] = []
        at, count = 0, 1
        while at < len(word):
            match = _PART.match(word, at)
            if match is None:
                raise TopologyError(f"{word[:60]!r} is no list of names", hint="n[01-04,07]")
            choices.append(_numbers(match[1], word) if match[2] is None else (match[2],))
            count *= len(choices[-1])
            if len(names) + count > MAX_NAMES:
                raise TopologyError(f"{word[:60]!r} stands for more than {MAX_NAMES} names")
            at = match.end()
        names += map("".join, product(*choices))
    return tuple(names)


def _words(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    words, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append(text[start:at])
            start = at + 1
    words.append(text[start:])
    return [word.strip() for word in words if word.strip()]


def _numbers(inside: str, word: str) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise TopologyError(
                f"[{inside[:40]}] in {word[:60]!r} is no range of numbers", hint="n[01-04,07]"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MAX_NAMES:
            raise TopologyError(f"{word[:60]!r} stands for more than {MAX_NAMES} names")
        width = len(match[1])
        numbers += [str(number).zfill(width) for number in range(first, last + 1)]
    return numbers


def shortened(names: Sequence[str]) -> str:
    """The list that stands for names in their order: `srv[01-04]`, the last number of each in brackets."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(run[0] if len(run) == 1 else _run(run) for run in runs)


def _split(name: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"(.*?)(\d{1,12})(\D*)", name)
    return (name, "", "") if match is None else (match[1], match[2], match[3])


def _follows(before: str, name: str) -> bool:
    a, b = _split(before), _split(name)
    return (
        bool(a[1])
        and bool(b[1])
        and a[0] == b[0]
        and a[2] == b[2]
        and len(a[1]) == len(b[1])
        and (int(b[1]) == int(a[1]) + 1)
    )


def _run(run: Sequence[str]) -> str:
    head, first, tail = _split(run[0])
    return f"{head}[{first}-{_split(run[-1])[1]}]{tail}"
