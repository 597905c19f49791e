"""SIGTERM is Ctrl-C: schedulers send it before they end a process, and what was found by then is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from taccl.errors import TacclError


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, unless whoever started this process has it ignored.

    A library that makes another exception of a KeyboardInterrupt (z3 does while it is loaded) does not hide
    it. Only the main thread hears signals; elsewhere nothing is changed.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    requested: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        requested.append(number)
        raise KeyboardInterrupt

    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except (TacclError, click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as fault:
        if requested:
            raise KeyboardInterrupt from fault
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let what is short be done in spite of one Ctrl-C or SIGTERM, which then changes nothing; not of two."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    requested: list[int] = []

    def not_yet(number: int, frame: FrameType | None) -> None:
        requested.append(number)
        if len(requested) > 1:
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
