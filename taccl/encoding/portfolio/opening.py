"""The first schedule: of the first engine that has one at once, without helpers where there is a way."""

from __future__ import annotations

from dataclasses import replace

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.registry import first_engines
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.rounds import begun
from taccl.support.budget import Budget


def opened(instance: Instance, options: SearchOptions, budget: Budget, journal: Journal) -> Update | None:
    """The first schedule of the first engine that has one; None: none has.

    Members alone have one sooner, and it is never slower than that of a machine without helpers.
    """
    members, alone = instance.members, instance.members_instance
    if members is not None and alone is not None:
        first = opened(alone, options, budget, journal)
        if first is not None and first.schedule is not None:
            return replace(first, schedule=members.lifted(first.schedule), lower_bound_us=0.0)
    for engine in first_engines(instance, journal.fails):
        run = engine.at_once or engine.run
        run = run if engine.takes_sums else by_phases(run)
        updates = begun(run, instance, options, budget.share(0.0), None)
        first = next(journal.kept(engine.name, instance, budget, updates), None)
        if first is not None and first.schedule is not None:
            return first
    return None
