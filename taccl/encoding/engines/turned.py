"""Answer a Scatter as the Gather that it is backwards.

Both take as long, but a Gather is easier to search for: of 1 MB on a torus of 8x8 list scheduling finds a
Scatter of 10.07 us and a Gather of 8.24, textbooks one of 33.5 and one of 10.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taccl.encoding.core.backwards import read_backwards, turned_round
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import without_dead_ends
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import AcrossChunks, Engine, Run, Several
from taccl.encoding.instance import Instance
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def turned(engine: Engine) -> Engine:
    """The engine, which searches for the Gather where a Scatter is requested; bounds of that are dropped."""
    return replace(
        engine,
        run=_run(engine.run),
        at_once=engine.at_once and _run(engine.at_once),
        across_chunks=engine.across_chunks and _across(engine.across_chunks),
        several=engine.several and _several(engine.several),
    )


def _run(run: Run) -> Run:
    def answers(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        if not _is_turned(instance):
            yield from run(instance, options, budget, incumbent)
            return
        back = instance.once(_turned)
        best_us = float("inf") if incumbent is None else incumbent.makespan_us
        known = None if incumbent is None else read_backwards(back.problem, without_dead_ends(incumbent))
        for update in run(back, options, budget, known):
            if update.schedule is None:
                continue
            schedule = read_backwards(instance.problem, update.schedule)
            if schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = schedule.makespan_us
                yield replace(update, schedule=schedule, lower_bound_us=0.0, note="")

    return answers


def _across(across: AcrossChunks) -> AcrossChunks:
    def answers(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
        if not all(_is_turned(each) for each in instances):
            yield from across(instances, budget)
            return
        back = [each.once(_turned) for each in instances]
        stated = {each.problem: instance.problem for each, instance in zip(back, instances, strict=True)}
        for schedule in across(back, budget):
            yield read_backwards(stated[schedule.problem], schedule)

    return answers


def _several(several: Several) -> Several:
    def answers(instance: Instance, budget: Budget, most: int) -> list[Schedule]:
        if not _is_turned(instance):
            return several(instance, budget, most)
        return [
            read_backwards(instance.problem, schedule)
            for schedule in several(instance.once(_turned), budget, most)
        ]

    return answers


def _is_turned(instance: Instance) -> bool:
    """Whether it is a Scatter without features, symmetry or limits, on a topology that reads backwards."""
    problem, limits = instance.problem, instance.problem.limits
    is_plain = not instance.features and not problem.symmetry
    is_free = limits.may_use is None and limits.own_first is None
    return is_plain and is_free and problem.topology.reads_backwards and instance.demand.delivers


def _turned(instance: Instance) -> Instance:
    return Instance(turned_round(instance.problem))
