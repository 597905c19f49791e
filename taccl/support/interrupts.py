"""Ctrl-C that became another exception on its way.

Machine code that returns calls Python once more. A KeyboardInterrupt that is raised in there comes out as a
SystemError with that as its cause; whoever notes exceptions and goes on must not take it for a bug.
"""

from __future__ import annotations


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
