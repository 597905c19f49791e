"""What other packages add: values that they name as entry points of a group, such as `taccl.engines`.

Whatever fails in another package is reported as its failure, and not as one of taccl: while it is loaded, and
whenever a function of its values is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache, wraps
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from taccl.errors import TacclError

_Kind = TypeVar("_Kind")

#: Hears the name of an entry point and why its value is not there.
Note = Callable[[str, TacclError], object]

#: What is not the failure of whoever is requested.
_NOT_THEIRS = (TacclError, MemoryError, KeyboardInterrupt, GeneratorExit)
_HINT = "repair or remove that package"


def added(group: str, kind: type[_Kind], note: Note | None = None) -> tuple[_Kind, ...]:
    """The values of that kind that installed packages add to a group, by the names of their entry points.

    `note` hears of those that cannot be loaded or are of another kind, and the others are there all the same.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    values = []
    for point in _points(group, _path_now()):
        try:
            values.append(_loaded(point, group, kind))
        except TacclError as fault:
            if note is None:
                raise
            note(point.name, fault)
    return tuple(values)


def _path_now() -> tuple[tuple[str, int], ...]:
    """Where packages are looked for, and when each folder last changed: installing one changes its folder."""
    folders = []
    for place in sys.path:
        try:
            folders.append((place, Path(place).stat().st_mtime_ns))
        except OSError:
            folders.append((place, 0))
    return tuple(folders)


@lru_cache(maxsize=16)
def _points(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name. To look for them reads a file of each installed package."""
    return tuple(sorted(entry_points(group=group), key=lambda point: point.name))


@contextmanager
def reported_as_of(who: str) -> Iterator[None]:
    """Whatever fails here is reported as the failure of `who`, which an installed package adds.

    Raises
    ------
    TacclError : in place of any error of theirs.
    """
    try:
        yield
    except _NOT_THEIRS:
        raise
    except BaseException as fault:  # whatever the other package does; SystemExit, too
        text = f"{who}, which an installed package adds, failed: {_in_words(fault)}"
        raise TacclError(text, hint=_HINT) from fault


def _loaded(point: EntryPoint, group: str, kind: type[_Kind]) -> _Kind:
    """The value of an entry point, whose functions' failures are reported as those of its package."""
    what = f"{point.value!r}, which an installed package adds to {group},"
    try:
        value = point.load()
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as fault:  # whatever the other package does; SystemExit, too
        raise TacclError(f"{what} cannot be loaded: {_in_words(fault)}", hint=_HINT) from fault
    if not isinstance(value, kind):
        raise TacclError(f"{what} is no {kind.__name__}", hint=_HINT)
    name = getattr(value, "name", point.name)
    return _reported(value, f"the {kind.__name__.lower()} {name!r} ({point.value})")


def _reported(value: _Kind, who: str) -> _Kind:
    """The same dataclass with each function in it reported as of `who`."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    named = ((field.name, getattr(value, field.name)) for field in fields(value) if field.init)
    functions = {name: _reported_function(held, who) for name, held in named if callable(held)}
    return replace(value, **functions)


def _reported_function(function: Callable[..., Any], who: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        with reported_as_of(who):
            result = function(*args, **keywords)
        return _reported_stream(result, who) if isinstance(result, Iterator) else result

    return call


def _reported_stream(values: Iterator[Any], who: str) -> Iterator[Any]:
    with reported_as_of(who):
        yield from values


def _in_words(fault: BaseException) -> str:
    return str(fault) if isinstance(fault, TacclError) else f"{type(fault).__name__}: {fault}"
