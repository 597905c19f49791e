"""Values of JSON objects by key and type, with a fault for each that is not what it should be. Every fault
has a place, and reading goes on with a guess.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from taccl.support.arguments import shown
from taccl.support.json_text import Twice

#: Bits of a number, and characters of a value, that a message still shows.
_LONG_NUMBER, _SHOWN = 100, 40

_ChoiceT = TypeVar("_ChoiceT", bound=Enum)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that cannot be understood.

    Parameters
    ----------
    place : where, as `gpus[0].threadblocks[1].ops[2].src_buff[0].index`.
    message : what is wrong there; it follows the place.
    missing : a key that is needed is not there.
    guessed : what was read has a guess in its place, and means nothing. Otherwise it has what a reader that
        does not ask takes.
    """

    place: str
    message: str
    hint: str | None
    missing: bool
    guessed: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """A key that no reader looks at."""

    place: str
    key: str


class Values:
    """Reads values, and holds the faults found and the keys skipped.

    A format says in its own words what its reader does with a key that is there twice or missing, and with
    fractions: a class below this one gives these texts.
    """

    twice_message = "is given twice"
    missing_hint = "add it: {what}"
    fraction_hint: str | None = None

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.ignored: list[Ignored] = []

    def look(self, row: dict[str, object], place: str, known: Collection[str]) -> None:
        """Note the keys of an object that are not known, and one that is there twice."""
        if isinstance(row, Twice):
            self.fault(join(place, row.twice), self.twice_message, "remove one of them", guessed=False)
        self.ignored += [Ignored(place, key) for key in row if key not in known]

    def each(
        self,
        row: dict[str, object],
        key: str,
        place: str,
        read: Callable[[dict[str, object], str], _T],
        needed: bool = True,
    ) -> tuple[_T, ...]:
        """Each object of a list, read by `read`, which is given its place."""
        if not needed and key not in row:
            return ()
        objects = []
        for number, value in enumerate(self.sequence(row, key, place)):
            where = f"{join(place, key)}[{number}]"
            if isinstance(value, dict):
                objects.append(read(value, where))
            else:
                self.fault(where, f"must be an object, not {spelled(value)}")
        return tuple(objects)

    def sequence(self, row: dict[str, object], key: str, place: str) -> list[object]:
        """The list at a key."""
        value = row.get(key)
        if isinstance(value, list):
            return value
        self.wrong(row, key, place, "a list")
        return []

    def inside(
        self, row: dict[str, object], key: str, place: str, known: Collection[str]
    ) -> dict[str, object] | None:
        """The object at a key; None if there is none."""
        if key not in row:
            return None
        value = row[key]
        if not isinstance(value, dict):
            self.wrong(row, key, place, "an object")
            return None
        self.look(value, join(place, key), known)
        return value

    def numbers(self, row: dict[str, object], key: str, place: str, needed: bool = True) -> tuple[int, ...]:
        if not needed and key not in row:
            return ()
        where = join(place, key)
        values = self.sequence(row, key, place)
        return tuple(self.as_whole(value, f"{where}[{number}]") for number, value in enumerate(values))

    def whole(self, row: dict[str, object], key: str, place: str, default: int | None = None) -> int:
        if key not in row:
            if default is None:
                self.wrong(row, key, place, "a whole number")
            return default or 0
        return self.as_whole(row[key], join(place, key))

    def as_whole(self, value: object, place: str) -> int:
        if type(value) is not int:
            hint = self.fraction_hint if isinstance(value, float) else None
            self.fault(place, f"must be a whole number, not {spelled(value)}", hint)
            return 0
        if not -(2**63) <= value < 2**64:
            self.fault(place, f"is {spelled(value)}, which does not fit in 64 bits")
            return 0
        return value

    def boolean(self, row: dict[str, object], key: str, place: str, default: bool | None) -> bool:
        value = row.get(key, default)
        if not isinstance(value, bool):
            self.wrong(row, key, place, "true or false")
            return False
        return value

    def text(self, row: dict[str, object], key: str, place: str) -> str:
        value = row.get(key)
        if not isinstance(value, str):
            self.wrong(row, key, place, "a text")
            return ""
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            self.fault(join(place, key), "has half of a surrogate pair, which is no text")
            return ""
        return value

    def choice(
        self, row: dict[str, object], key: str, place: str, members: dict[str, _ChoiceT]
    ) -> _ChoiceT | None:
        if key not in row:
            self.wrong(row, key, place, f"one of {', '.join(members)}")
            return None
        return self.chosen(row[key], join(place, key), members)

    def chosen(self, value: object, place: str, members: dict[str, _ChoiceT]) -> _ChoiceT | None:
        """One of some words; None, and a fault, for any other."""
        member = members.get(value) if isinstance(value, str) else None
        if member is None:
            self.fault(
                place, f"is {spelled(value)}, which means nothing there", f"one of {', '.join(members)}"
            )
        return member

    def wrong(self, row: dict[str, object], key: str, place: str, what: str) -> None:
        if key in row:
            self.fault(join(place, key), f"must be {what}, not {spelled(row[key])}")
            return
        self.fault(join(place, key), "is missing", self.missing_hint.format(what=what), missing=True)

    def fault(
        self,
        place: str,
        message: str,
        hint: str | None = None,
        *,
        missing: bool = False,
        guessed: bool = True,
    ) -> None:
        self.faults.append(Fault(place, message, hint, missing, guessed))


def join(place: str, key: str) -> str:
    """The place of a key of the object at `place`."""
    return f"{place}.{key}" if place else key


def spelled(value: object) -> str:
    """A value in a message: short ones as JSON writes them, long ones by their kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number out of range"
    if isinstance(value, int) and value.bit_length() > _LONG_NUMBER:
        return shown(value)
    written = json.dumps(value)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."
