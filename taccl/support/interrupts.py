"""Ctrl-C that became another exception on its way.

Machine code that returns calls Python once more. A KeyboardInterrupt that is raised in there comes out as a
SystemError with that as its cause; whoever notes exceptions and goes on must not take it for a bug.
"""

from __future__ import annotations


def is_interrupt(fault: BaseException) -> bool:
    """Whether a fault is a KeyboardInterrupt, or was caused by one."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return True
        cause = cause.__cause__
    return False
