"""SIGTERM is Ctrl-C: schedulers send it before they end a process, and what was found by then is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, unless whoever started this process has it ignored.

    Only the main thread hears signals; elsewhere nothing is changed.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let what is short be done in spite of one Ctrl-C or SIGTERM, which then changes nothing; not of two."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []

    def not_yet(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    before = {
        number: signal.signal(number, not_yet)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
