"""Ctrl-C next to machine code.

Machine code that returns calls Python once more, to make the tuples that it returns. A KeyboardInterrupt in
there ends the process, as nobody looks whether there is a tuple, or it comes out as a SystemError with that
as its cause; whoever notes exceptions and goes on must not take it for a bug.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def heard_after(call: Callable[..., _Result], /, **values: Any) -> _Result:
    """What a call returns; Ctrl-C and SIGTERM meanwhile are heard when it is done."""
    if threading.current_thread() is not threading.main_thread():
        return call(**values)
    heard = list[tuple[int, FrameType | None]]()

    def note(number: int, frame: FrameType | None) -> None:
        heard.append((number, frame))

    before = dict[int, Callable[[int, FrameType | None], Any]]()
    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, note)
        return call(**values)
    finally:
        _set(tuple(before.items()))
        for each, frame in heard:
            before[each](each, frame)


def _set(handlers: tuple[tuple[int, Any], ...]) -> None:
    """Set all of them, though one that is set is called at once and raises."""
    if handlers:
        try:
            signal.signal(*handlers[0])
        finally:
            _set(handlers[1:])


def ends_what_is_extra(fault: BaseException) -> bool:
    """Whether a fault is an interrupt, or no memory: work that only adds to what was found ends there."""
    return isinstance(fault, MemoryError) or is_interrupt(fault)


def is_interrupt(fault: BaseException) -> bool:
    """Whether a fault is a KeyboardInterrupt, or was caused by one."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return True
        cause = cause.__cause__
    return False
