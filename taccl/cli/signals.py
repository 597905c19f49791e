"""SIGTERM is Ctrl-C: schedulers send it before they end a process, and what was found by then is kept."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from taccl.errors import TacclError

#: Until an interrupt that was lost comes again: what could not raise has ended by then.
_AGAIN_S = 0.01


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, unless whoever started this process has it ignored.

    A library that makes another exception of a KeyboardInterrupt (z3 does while it is loaded) does not hide
    it, nor does code that cannot raise (callbacks of weak references, as imports have them): it comes again.
    Only the main thread hears signals; elsewhere nothing is changed.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    requested: list[int] = []
    main, timers = threading.get_ident(), list[threading.Timer]()

    def interrupt(number: int, frame: FrameType | None) -> None:
        requested.append(number)
        raise KeyboardInterrupt

    def again(lost: sys.UnraisableHookArgs) -> None:
        if requested and issubclass(lost.exc_type, KeyboardInterrupt):
            # To the main thread: while it waits, it hears no signal that another thread gets.
            timer = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, requested[-1]))
            timers.append(timer)
            timer.start()
        else:
            unraisable(lost)

    unraisable, sys.unraisablehook = sys.unraisablehook, again
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
        sys.unraisablehook = unraisable
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process: Python runs no handler while a C++ library waits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [
        each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
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
