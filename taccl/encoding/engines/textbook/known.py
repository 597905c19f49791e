"""Schedules that are known to all, next to what a search finds best: some may suit a file better.

It knows textbook algorithms and which of them are fast by the costs of a problem; it knows no files.
"""

from __future__ import annotations

from taccl.encoding.engines.textbook.engine import built, serves
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError
from taccl.model.schedule import Schedule
from taccl.model.schedule.schedule import compacted
from taccl.support.budget import Budget


def textbook_schedules(instance: Instance, budget: Budget, most: int) -> list[Schedule]:
    """At most this many valid textbook schedules, the fastest first; none where no textbook has any."""
    if not serves(instance):
        return []
    fastest = sorted((schedule for _, schedule in built(instance, budget)), key=lambda each: each.makespan_us)
    return [compacted(each) for each in fastest[:most] if _is_valid(each)]


def _is_valid(schedule: Schedule) -> bool:
    try:
        schedule.check()
    except ScheduleError:
        return False
    return True
