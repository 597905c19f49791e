"""An engine that answers a Scatter as the Gather that it is backwards.

Both take as long, but what comes from many ranks to one is easier to find than what goes from one to many: on
a torus of 8x8, 1 MB takes list scheduling 8.24 us and 10.07, and textbooks 10.6 and 33.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taccl.encoding.core.backwards import read_backwards, turned_round
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import AcrossChunks, Run
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def turned(run: Run) -> Run:
    """The engine; what it proves of the Gather is left out."""

    def answers(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        if not _is_turned(instance):
            yield from run(instance, options, budget, incumbent)
            return
        back = instance.once(_turned)
        best_us = float("inf") if incumbent is None else incumbent.makespan_us
        known = None if incumbent is None else read_backwards(back.problem, incumbent)
        for update in run(back, options, budget, known):
            if update.note:
                yield Update(update.stage, note=update.note)
            if update.schedule is None:
                continue
            schedule = read_backwards(instance.problem, update.schedule)
            if schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = schedule.makespan_us
                yield replace(update, schedule=schedule, lower_bound_us=0.0, note="")

    return answers


def turned_across(across: AcrossChunks) -> AcrossChunks:
    """The same of answers for several numbers of chunks."""

    def answers(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
        if not all(_is_turned(each) for each in instances):
            yield from across(instances, budget)
            return
        back = [each.once(_turned) for each in instances]
        stated = {each.problem: instance.problem for each, instance in zip(back, instances, strict=True)}
        for schedule in across(back, budget):
            yield read_backwards(stated[schedule.problem], schedule)

    return answers


def _is_turned(instance: Instance) -> bool:
    """Whether it is a Scatter of which nothing else is requested, and takes as long backwards."""
    problem, limits = instance.problem, instance.problem.limits
    is_plain = not instance.features and not problem.symmetry
    is_free = limits.may_use is None and limits.own_first is None
    return is_plain and is_free and problem.topology.reads_backwards and instance.demand.delivers


def _turned(instance: Instance) -> Instance:
    return Instance(turned_round(instance.problem))
