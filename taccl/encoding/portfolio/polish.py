"""The last improvements: groups anew for the orders of a schedule, then orders anew for its groups."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: The part of the time that is left for groups, each time.
_GROUPS = 0.5


def polished(
    instance: Instance, best: Schedule, options: SearchOptions, budget: Budget, journal: Journal
) -> Iterator[Update]:
    """Better schedules with the routes of `best`, in turns, as long as that helps."""
    groups, orders = engine_named("groups"), engine_named("orders")
    if not (groups.can(instance) and orders.can(instance)):
        return
    time_us = float("inf")
    while best.makespan_us < time_us and budget.remaining_s():
        regrouped = groups.run(instance, options, budget.share(_GROUPS), best)
        before = best
        for update in journal.kept(groups.name, instance, budget, regrouped):
            yield update
            best = journal.accepted(update) or best
        if best is before and time_us < float("inf"):
            return
        time_us = best.makespan_us
        reordered = orders.run(instance, options, budget, best)
        for update in journal.kept(orders.name, instance, budget, reordered):
            yield update
            best = journal.accepted(update) or best
