"""JSON read strictly: each value by its key and type, and nothing that was not requested.

Faults are `FileError`s that name the value as `transfers.start_us[3]` and say what should stand there.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NoReturn

import numpy as np

from taccl.errors import FileError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.json_text import parse_json
from taccl.support.json_values import spelled


@dataclass(frozen=True)
class Fields:
    """An object of a JSON file.

    Parameters
    ----------
    values : its keys and values, as the json module reads them.
    name : how messages call it; empty for the file's outermost object.
    path : of the file, where known.
    """

    values: dict[str, object]
    name: str
    path: str | None

    @staticmethod
    def parse(text: str, path: str | Path | None = None) -> Fields:
        """The outermost object of a JSON text.

        Raises
        ------
        FileError : the text is no JSON object, has a key twice, NaN or an infinity, or nests too deep.
        """
        where = None if path is None else str(path)
        content, _ = parse_json(
            text, where, FileError, "give a schedule that taccl wrote, unedited", once=True
        )
        if not isinstance(content, dict):
            raise FileError("this is not a JSON object", path=where)
        return Fields(content, "", where)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise `FileError` with the file's path."""
        raise FileError(message, path=self.path, hint=hint)

    def expect(self, keys: Collection[str], optional: Collection[str] = ()) -> None:
        """Fail unless the object has exactly these keys, and perhaps some of the optional ones."""
        missing = [key for key in keys if key not in self.values]
        if missing:
            self.fail(f"{self._label(missing[0])} is missing")
        for key in self.values:
            if key not in keys and key not in optional:
                near = difflib.get_close_matches(key, [*keys, *optional], n=1)
                self.fail(f"unknown key {self._label(key)}", hint=f"{near[0]}" if near else None)

    def inner(self, key: str) -> Fields:
        """The object at `key`."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            self._wrong(key, "an object")
        return Fields(value, self._label(key), self.path)

    def text(self, key: str) -> str:
        """The string at `key`."""
        value = self.values.get(key)
        return value if isinstance(value, str) else self._wrong(key, "a text")

    def boolean(self, key: str) -> bool:
        """The boolean at `key`."""
        value = self.values.get(key)
        return value if isinstance(value, bool) else self._wrong(key, "true or false")

    def integer(self, key: str, minimum: int, maximum: int) -> int:
        """The whole number at `key`, from `minimum` to `maximum`."""
        value = self.values.get(key)
        if type(value) is not int or not minimum <= value <= maximum:
            self._wrong(key, f"a whole number from {minimum} to {maximum}")
        return value

    def number(self, key: str) -> float:
        """The finite number at `key`."""
        value = self.values.get(key)
        if type(value) not in (int, float):
            self._wrong(key, "a number")
        return float(self._floats([value], self._label(key))[0])

    def sequence(self, key: str) -> Sequence[object]:
        """The list at `key`."""
        value = self.values.get(key)
        return value if isinstance(value, list) else self._wrong(key, "a list")

    def integers(self, key: str, length: int | None = None, limit: int = 2**62) -> IntArray:
        """A column of whole numbers from 0 up to, not including, `limit`."""
        return self._integers(self._column(key, length), self._label(key), 0, limit)

    def shifts(self, key: str, length: int) -> IntArray:
        """A column of whole numbers that may be negative."""
        return self._integers(self._column(key, length), self._label(key), -(2**62), 2**62)

    def integer_lists(self, key: str, length: int | None = None) -> list[IntArray]:
        """A column of lists of whole numbers, none negative."""
        column, label = self._column(key, length), self._label(key)
        self._all_of(column, (list,), label, "a list")
        lists = [row for row in column if isinstance(row, list)]
        joined = self._integers(list(chain.from_iterable(lists)), f"{label} (joined)", 0, 2**62)
        return np.split(joined, np.cumsum([len(row) for row in lists])[:-1]) if lists else []

    def float_lists(self, key: str, length: int | None = None) -> list[FloatArray]:
        """A column of lists of finite numbers."""
        column, label = self._column(key, length), self._label(key)
        self._all_of(column, (list,), label, "a list")
        lists = [row for row in column if isinstance(row, list)]
        joined = self._floats(list(chain.from_iterable(lists)), f"{label} (joined)")
        return np.split(joined, np.cumsum([len(row) for row in lists])[:-1]) if lists else []

    def floats(self, key: str, length: int | None = None) -> FloatArray:
        """A column of finite numbers."""
        return self._floats(self._column(key, length), self._label(key))

    def limits(self, key: str, length: int | None = None) -> FloatArray:
        """A column of finite numbers, or null for infinity."""
        column = self._column(key, length)
        numbers = iter(self._floats([value for value in column if value is not None], self._label(key)))
        return np.array([np.inf if value is None else next(numbers) for value in column], dtype=np.float64)

    def booleans(self, key: str, length: int | None = None) -> BoolArray:
        """A column of booleans."""
        column = self._column(key, length)
        self._all_of(column, (bool,), self._label(key), "true or false")
        return np.array(column, dtype=np.bool_)

    def texts(self, key: str, length: int | None = None) -> tuple[str, ...]:
        """A column of strings."""
        column = self._column(key, length)
        self._all_of(column, (str,), self._label(key), "a text")
        return tuple(str(value) for value in column)

    def _column(self, key: str, length: int | None) -> Sequence[object]:
        column = self.sequence(key)
        if length is not None and len(column) != length:
            self.fail(f"{self._label(key)} must have {length} entries, not {len(column)}")
        return column

    def _integers(self, column: Sequence[object], label: str, minimum: int, limit: int) -> IntArray:
        self._all_of(column, (int,), label, "a whole number")
        try:
            values = np.array(column, dtype=np.int64)
            bad = np.flatnonzero((values < minimum) | (values >= limit))
        except OverflowError:
            self.fail(f"a value of {label} is out of range")
        if len(bad):
            self.fail(f"{label}[{bad[0]}] is {values[bad[0]]}, which is outside {minimum} .. {limit - 1}")
        return values

    def _floats(self, column: Sequence[object], label: str) -> FloatArray:
        self._all_of(column, (int, float), label, "a number")
        try:
            values = np.array(column, dtype=np.float64)
        except OverflowError:
            self.fail(f"a value of {label} is out of range")
        if not np.isfinite(values).all():
            self.fail(f"a value of {label} is out of range", hint="times and costs are finite numbers")
        return values

    def _all_of(self, column: Sequence[object], kinds: tuple[type, ...], label: str, what: str) -> None:
        if not set(map(type, column)) <= set(kinds):
            bad = next(i for i, value in enumerate(column) if type(value) not in kinds)
            self.fail(f"{label}[{bad}] must be {what}, not {spelled(column[bad])}")

    def _wrong(self, key: str, what: str) -> NoReturn:
        if key not in self.values:
            self.fail(f"{self._label(key)} is missing")
        self.fail(f"{self._label(key)} must be {what}, not {spelled(self.values[key])}")

    def _label(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key
