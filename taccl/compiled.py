"""Compiles functions over arrays with numba, and keeps what was compiled where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, kept on disk unless no folder can be written to."""
    return _compiled(function, {})


def compiled_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that makes no array and only changes those that it is given.

    It counts no references to them, so it may be called millions of times with tuples of columns: counting
    took more time than what the functions do.
    """
    return _compiled(function, {"_nrt": False})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    try:
        made: Callable[..., Any] = njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder for its cache
        made = njit(**options)(function)
    return made


def is_at_hand(function: Any) -> bool:
    """Whether a compiled function is machine code already, here or on disk; making it so takes seconds."""
    if function.signatures:
        return True
    folder = function.stats.cache_path
    name = f"{function.py_func.__module__.rpartition('.')[2]}.{function.py_func.__name__}-"
    return folder is not None and any(path.name.startswith(name) for path in Path(folder).glob("*.nbi"))
