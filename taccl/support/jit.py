"""Compiles functions over arrays with numba, and keeps what was compiled where that is possible."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from taccl.support.interrupts import heard_after

#: From this many rows on, a loop over them is compiled: that takes a second or two, the first time.
_WORTH_COMPILING = 20_000


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, kept on disk unless no folder can be written to."""
    return _compiled(function, {})


def compiled_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that makes no array and only changes those that it is given.

    It counts no references to them, so it may be called millions of times with tuples of columns: counting
    took more time than what the functions do.
    """
    return _compiled(function, {"_nrt": False})


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a part of the compiled functions that call it.

    A call costs as long as it takes to copy the tuples of columns that it is given: in a loop that does
    little for each event, several times what it does.
    """
    from numba import njit

    made: Callable[..., Any] = njit(inline="always")(function)
    return made


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    from numba import njit  # here, for importing it takes longer than looking at a small file

    try:
        made: Callable[..., Any] = njit(cache=True, **options)(function)
        if made is function:  # NUMBA_DISABLE_JIT
            return made
        for index in _indices(made):
            _drop_if_old(index, made)
    except (RuntimeError, OSError):  # numba found no folder for its cache, or one of others
        made = njit(**options)(function)
    return made


def is_at_hand(function: Any) -> bool:
    """Whether a compiled function is machine code already, here or on disk; making it so takes seconds."""
    return hasattr(function, "signatures") and (bool(function.signatures) or any(_indices(function)))


def _indices(function: Any) -> Iterator[Path]:
    """The files that say which machine code of a function is kept on disk."""
    folder = function.stats.cache_path
    name = f"{function.py_func.__module__.rpartition('.')[2]}.{function.py_func.__name__}-"
    if folder is not None:
        yield from (path for path in Path(folder).glob("*.nbi") if path.name.startswith(name))


def _drop_if_old(index: Path, function: Any) -> None:
    """Remove a stale index, so that `is_at_hand` does not report machine code that numba would compile again.

    Numba ignores an index of another source, and fails on an index with classes that no longer exist.
    """
    try:
        source = function._cache._impl.locator.get_source_stamp()
    except AttributeError:  # in numba 0.68 it is there
        source = None
    try:
        with index.open("rb") as file:
            pickle.load(file)  # numba's version
            made_of, _ = pickle.load(file)  # and types of arguments, by the names of their classes
        is_old = source is not None and made_of != source
    except Exception:
        is_old = True
    if is_old:
        index.unlink(missing_ok=True)


#: Where set: every loop is machine code, however few its rows, and says whether it was available before.
_ahead: ContextVar[dict[Loop, bool] | None] = ContextVar("_ahead", default=None)


@contextmanager
def ahead_of_time() -> Iterator[dict[Loop, bool]]:
    """Every loop called in here becomes machine code.

    Yields the loops that were called, and whether each was machine code before it was.
    """
    called = dict[Loop, bool]()
    token = _ahead.set(called)
    try:
        yield called
    finally:
        _ahead.reset(token)


def runs_compiled(rows: int) -> bool:
    """Whether loops over this many rows are machine code."""
    return _ahead.get() is not None or rows >= _WORTH_COMPILING


class Loop:
    """A function over columns: machine code where rows are many, and run as it stands where they are few.

    Parameters
    ----------
    function : it uses only what numba knows. Of what it is given it changes tables only: as it stands, it
        gets columns of one dimension, alone or in a NamedTuple, as lists, whose elements Python reaches
        sooner.
    parts : functions that it calls, and that they call; they become part of its machine code.
    eager : with few rows too, it is machine code where that is there already, in memory or on disk.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        parts: Sequence[Callable[..., Any]] = (),
        *,
        eager: bool = False,
    ) -> None:
        self.function, self._parts, self._eager = function, parts, eager
        self._has_run_compiled = False

    @property
    def is_compiled(self) -> bool:
        """Whether it is machine code already, in memory or on disk."""
        return self._has_run_compiled or self._is_on_disk

    def runs_compiled(self, rows: int) -> bool:
        """Whether a call with this many rows is machine code."""
        return runs_compiled(rows) or (self._eager and self.is_compiled)

    @cached_property
    def _machine_code(self) -> Any:
        from numba.extending import register_jitable

        for part in self._parts:
            register_jitable(forceinline=True)(part)
        return compiled(self.function)

    @cached_property
    def _is_on_disk(self) -> bool:
        return is_at_hand(self._machine_code)

    def __call__(self, rows: int, /, **values: Any) -> Any:
        """What the function makes of the values; `rows` says how long its columns are."""
        called = _ahead.get()
        if called is not None and self not in called:
            called[self] = is_at_hand(self._machine_code)
        if self.runs_compiled(rows):
            if not self.is_compiled:
                self._compile_for(values)  # which takes seconds, so Ctrl-C is heard at once
            self._has_run_compiled = True
            return heard_after(self._machine_code, **values)
        return self.function(**{name: _listed(value) for name, value in values.items()})

    def _compile_for(self, values: Mapping[str, Any]) -> None:
        """Make machine code for values of these types, unless numba is told to make none."""
        if self._machine_code is self.function:
            return
        import numba

        typeof: Callable[[Any], Any] = numba.typeof
        names = signature(self.function).parameters
        self._machine_code.compile(tuple(typeof(values[name]) for name in names))


def _listed(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_listed, value))
    return value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value


def flat(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Rows of several numbers as two columns: where each row starts (and the last ends), and all numbers."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
    numbers = np.fromiter((number for row in rows for number in row), np.int64, int(starts[-1]))
    return starts, numbers
