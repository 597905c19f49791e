"""A schedule that was found under costs of thread blocks, by the costs of links."""

from __future__ import annotations

from dataclasses import replace

from taccl.encoding.bounds import quick_bound
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.model.network import LogicalTopology
from taccl.model.schedule import SavedSchedule, Schedule


def by_links(schedule: Schedule, machine: LogicalTopology) -> SavedSchedule:
    """The same sends in the same order on a machine as it is, checked, with a bound for it.

    So a file of it can be used with the machine's file, like any other.
    """
    problem = replace(schedule.problem, topology=machine)
    timed = in_order(problem, decisions_of(schedule))
    timed.check()
    bound = quick_bound(problem)
    return SavedSchedule(timed, bound.value_us, bound.witness)
