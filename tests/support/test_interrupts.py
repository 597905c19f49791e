"""Ctrl-C while machine code runs is heard when it is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from taccl.support.interrupts import heard_after, is_interrupt


@pytest.fixture
def interrupting() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, whatever whoever started the tests does with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_heard_after_the_call_and_whoever_heard_it_before_does_so_again(
    interrupting: None,
) -> None:
    done = list[int]()

    def interrupted(times: int) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append(times)

    with pytest.raises(KeyboardInterrupt):
        heard_after(interrupted, times=2)
    assert done == [2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_nobody_interrupts_returns_and_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert heard_after(lambda: signal.raise_signal(signal.SIGINT)) is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_hears_no_signals() -> None:
    made = list[int]()
    thread = threading.Thread(target=lambda: made.append(heard_after(lambda call: call, call=7)))
    thread.start()
    thread.join()
    assert made == [7]


def test_an_error_caused_by_an_interrupt_is_one() -> None:
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as cause:
            raise SystemError from cause
    except SystemError as fault:
        assert is_interrupt(fault)
    assert not is_interrupt(SystemError())
