"""The vectorised checks against a slow second telling of the same rules."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from slow_rules import faults, makespan_us
from strategies_schedule import mutated, schedules
from studies import examples

from taccl.errors import ScheduleError
from taccl.model.schedule import Schedule

#: Words of the findings of rules that look at single sends or ports, and so must agree one by one.
LOCAL = {
    "group": "group",
    "cost": "duration",
    "use port": "port",
    "may not use": "limit",
    "starts before": "start",
}


def findings(schedule: Schedule) -> tuple[str, ...]:
    try:
        schedule.check()
    except ScheduleError as fault:
        assert fault.findings
        return fault.findings
    return ()


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(schedules())
def test_a_schedule_made_by_placing_sends_is_valid_for_both(schedule: Schedule) -> None:
    assert not findings(schedule)
    assert not faults(schedule)
    assert schedule.makespan_us == makespan_us(schedule)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(schedules(), st.integers(0, 2**32), st.integers(1, 3))
def test_checks_and_slow_rules_agree_on_mutated_schedules(schedule: Schedule, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        schedule = mutated(schedule, chance)
    found, expected = findings(schedule), faults(schedule)
    event("valid" if not expected else "not valid")
    assert bool(found) == bool(expected), (found, expected)
    if "start" in expected:  # found before all others, and alone
        return
    for words, kind in LOCAL.items():
        if kind == "group" or "group" not in expected:
            assert any(words in finding for finding in found) == (kind in expected), (kind, found, expected)


def findings_without_shortcuts(schedule: Schedule) -> tuple[str, ...]:
    """The same rules, each of them carried out in full, a few rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taccl.model.schedule.checks.is_later", lambda *_: False)
        patch.setattr("taccl.model.schedule.sum_rules.is_later", lambda *_: False)
        patch.setattr("taccl.model.schedule.checks.ascends", lambda _: False)
        patch.setattr("taccl.model.schedule.columns.rises", lambda _: False)
        patch.setattr("taccl.model.schedule.facts._CELLS_PER_PLACE", 0)
        patch.setattr("taccl.model.schedule.blocks._ROWS", 3)
        return findings(replace(schedule))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(schedules(), st.integers(0, 2**32), st.integers(0, 3))
def test_shortcuts_find_the_same_faults_in_the_same_words(schedule: Schedule, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        schedule = mutated(schedule, chance)
    found = findings(schedule)
    event(
        "circle" if any("circle" in finding for finding in found) else "valid" if not found else "not valid"
    )
    assert findings_without_shortcuts(schedule) == found
