"""Helpers for tests of code that makes schedules: they fail with a message that says what is wrong."""

from __future__ import annotations

import numpy as np

from taccl.errors import ScheduleError
from taccl.model.schedule import Schedule
from taccl.model.schedule.problem_codec import problem_values

_COLUMNS = ("chunk", "link", "start_us", "end_us", "reduce", "group")


def assert_valid_schedule(schedule: Schedule) -> None:
    """Assert that a schedule computes its collective under its topology's cost model.

    Raises
    ------
    AssertionError : with the findings of `Schedule.check()`.
    """
    try:
        schedule.check()
    except ScheduleError as fault:
        raise AssertionError(str(fault)) from None


def assert_same_schedule(one: Schedule, other: Schedule) -> None:
    """Assert that two schedules answer the same problem with the same transfers at the same times.

    The order of the rows and the numbers of the groups do not matter; times must be equal to the bit.

    Raises
    ------
    AssertionError : with the first part of the problem, or the first row in order of time, that differs.
    """
    here, there = problem_values(one.problem), problem_values(other.problem)
    for part in here:
        if here[part] != there[part]:
            raise AssertionError(f"the problems differ in {part}")
    if len(one) != len(other):
        raise AssertionError(f"one schedule has {len(one)} transfers, the other {len(other)}")
    first, second = one.sorted(), other.sorted()
    differs = {name: np.flatnonzero(getattr(first, name) != getattr(second, name)) for name in _COLUMNS}
    faults = [(int(rows[0]), name) for name, rows in differs.items() if len(rows)]
    if faults:
        row, name = min(faults, key=lambda fault: fault[0])
        here, there = getattr(first, name)[row], getattr(second, name)[row]
        raise AssertionError(f"in order of time, row {row} differs in {name}: {here} and {there}")
