"""Checks for tests of code that extends `taccl`: they fail with a message that says what is wrong.

from taccl.testing import check_engine
from my_package import ENGINE

def test_my_engine() -> None:
check_engine(ENGINE)
"""

from __future__ import annotations

from taccl.testing.contracts import (
    check_bound,
    check_engine,
    check_format,
    check_target,
    napkin_problems,
    napkin_schedules,
)
from taccl.testing.schedules import assert_same_schedule, assert_valid_schedule

__all__ = [
    "assert_same_schedule",
    "assert_valid_schedule",
    "check_bound",
    "check_engine",
    "check_format",
    "check_target",
    "napkin_problems",
    "napkin_schedules",
]
