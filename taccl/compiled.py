"""Compiles functions over arrays with numba, and keeps what was compiled where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, kept on disk unless no folder can be written to."""
    try:
        made: Callable[..., Any] = njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache
        made = njit(function)
    return made
