"""What callers hand over, taken or refused in one sentence: numbers, words and names of files.

Every refusal is a `TacclError` of the kind that the caller names, with what it was given and what to give
instead. Numbers of NumPy are numbers; true and false are none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from taccl.errors import FileError, TacclError

#: So much of a wrong value is shown.
_SHOWN = 60

#: A word out of a fixed choice, such as a Literal.
_Word = TypeVar("_Word", bound=str)


def whole_number(
    value: object,
    what: str,
    error: type[TacclError],
    *,
    least: int,
    most: int,
    hint: str | None = None,
) -> int:
    """A whole number from `least` to `most`; `what` is how the message begins, as in `the seed`."""
    if is_whole(value) and least <= int(value) <= most:
        return int(value)
    raise error(f"{what} must be a whole number from {least} to {most}, not {shown(value)}", hint=hint)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number, whole or not, finite or not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number(
    value: object,
    what: str,
    error: type[TacclError],
    *,
    least: float = 0.0,
    above: float | None = None,
    most: float,
    below: float | None = None,
    unit: str = "",
    hint: str | None = None,
) -> float:
    """A number from `least` (or larger than `above`) to `most` (or smaller than `below`)."""
    if is_number(value):
        given = _as_float(value)
        is_enough = given >= least if above is None else given > above
        if is_enough and (given <= most if below is None else given < below):
            return given
    low = f"from {least:g}" if above is None else "positive and" if above == 0 else f"more than {above:g} and"
    high = f"at most {most:g}" if below is None else f"less than {below:g}"
    if above is None:
        high = f"to {most:g}" if below is None else f"up to, and not, {below:g}"
    raise error(f"{what} must be {low} {high}{unit and ' ' + unit}, not {shown(value)}", hint=hint)


def word(
    value: object, what: str, options: Sequence[_Word], error: type[TacclError], *, hint: str | None = None
) -> _Word:
    """One of the words in `options`."""
    for option in options:
        if isinstance(value, str) and option == value:
            return option
    raise error(f"unknown {what} {shown(value)}", hint=hint or f"one of {', '.join(options)}")


def text(value: object, what: str, error: type[TacclError]) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise error(f"{what} must be a text, not {shown(value)}")


def tuple_of(value: object, kind: type, what: str, error: type[TacclError]) -> tuple[Any, ...]:
    """A sequence of objects of one kind, as a tuple."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        wrong = {each for each in set(map(type, value)) if not issubclass(each, kind)}
        if wrong:
            each = next(each for each in value if type(each) in wrong)
            raise error(f"{what} must be of kind {kind.__name__}, not {shown(each)}")
        return tuple(value)
    raise error(f"{what} must be a sequence, not {shown(value)}")


def file_path(value: object, error: type[TacclError] = FileError) -> Path:
    """The path of a file, from a text or a path."""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise error(f"the name of a file must be a text or a path, not {shown(value)}")


def column(values: object, what: str, error: type[TacclError], *, kinds: str) -> NDArray[Any]:
    """A column of numbers; `kinds`: what NumPy may call them, `iu` for whole ones, `fiu` for any."""
    dtype: type = np.float64 if "f" in kinds else np.int64
    try:
        array = np.asarray(values)
        if array.ndim == 1 and (array.dtype.kind in kinds or not array.size):
            return array.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise error(f"{what} must be a column of {'' if 'f' in kinds else 'whole '}numbers, not {shown(values)}")


def shown(value: object) -> str:
    """A wrong value as a message shows it: short ones as they are, long ones by their beginning."""
    if isinstance(value, int) and not -(10**_SHOWN) < value < 10**_SHOWN:
        return f"a number of more than {_SHOWN} digits"  # Python refuses to spell very long ones
    try:
        words = f"{value:g}" if isinstance(value, float) else repr(value)
    except ValueError:  # a very long number inside
        return f"a {type(value).__name__}"
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def has_repeats(numbers: NDArray[np.integer]) -> bool:
    """Whether a number is there twice; `np.unique` takes several times as long."""
    ordered = np.sort(numbers)
    return bool((ordered[1:] == ordered[:-1]).any())
