"""Compiles functions over arrays with numba, and keeps what was compiled where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, kept on disk unless no folder can be written to."""
    try:
        made: Callable[..., Any] = njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache
        made = njit(function)
    return made


def is_at_hand(function: Any) -> bool:
    """Whether a compiled function is machine code already, here or on disk; making it so takes seconds."""
    if function.signatures:
        return True
    folder = function.stats.cache_path
    name = f"{function.py_func.__module__.rpartition('.')[2]}.{function.py_func.__name__}-"
    return folder is not None and any(path.name.startswith(name) for path in Path(folder).glob("*.nbi"))
