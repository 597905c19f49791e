"""A first look: what textbooks and pipelines say of several numbers of chunks, for files to be made of.

Which of them is the fastest file follows from no cost of links alone: sums, copies and waits of thread blocks
come with the file. So some of each number are handed over, and predictions choose.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from taccl.encoding.bounds import quick_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.registry import several_schedules
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.errors import CollectiveError, NoScheduleInTime
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.synthesis.autotune.chunk_counts import candidates, quick_engine
from taccl.synthesis.autotune.file_choice import Searched
from taccl.synthesis.autotune.seeds import found_across, numbers_across
from taccl.synthesis.autotune.trials import Choice, Trial
from taccl.synthesis.autotune.tuning import (
    LOOK_ALGORITHMS,
    LOOK_BUILT_S,
    LOOK_LISTED_S,
    LOOK_MOST_CHUNKS,
    LOOK_MOST_OUTPUTS,
    LOOK_PIPELINES,
)
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.job import Job
from taccl.synthesis.request import AUTO
from taccl.synthesis.search import STOP, Found, Observer, Progress, heard
from taccl.synthesis.searcher import Alone


def listed(
    job: Job,
    configuration: Configuration,
    options: SearchOptions,
    budget: Budget,
    on_progress: Observer | None,
) -> Searched:
    """A schedule by the engine for trials, where one serves the problem; raises what a search raises."""
    formulated = job.problem(configuration)
    instance = Instance(formulated.problem)
    quick = replace(options, engine=quick_engine(instance, options) or options.engine)
    found = Alone().search(instance, quick, on_progress, budget.at_most(LOOK_LISTED_S))
    return Searched(configuration, formulated, found, ((formulated, found),), depth="listed")


def built(
    job: Job,
    configuration: Configuration,
    options: SearchOptions,
    budget: Budget,
    on_progress: Observer | None = None,
) -> Searched:
    """What engines build at once, of several numbers of chunks where that is open.

    Raises
    ------
    NoScheduleInTime : they build nothing, or another engine is requested.
    """
    if options.engine != AUTO:
        raise NoScheduleInTime("another engine is requested than what builds at once")
    in_time = budget.at_most(LOOK_BUILT_S)
    all_found = list(_across_numbers(job, configuration, options, in_time, on_progress))
    if not all_found:
        raise NoScheduleInTime("no engine builds a schedule at once")
    formulated, found = min(all_found, key=lambda pair: pair[1].schedule.makespan_us)
    trials = {_number(each): Trial(_number(each), each, best, 0.0) for each, best in reversed(all_found)}
    chosen = trials[_number(formulated)]
    choice = Choice.of(chosen, found, [trials[number] for number in sorted(trials)])
    if len(trials) == 1:
        return Searched(configuration, formulated, found, tuple(all_found), depth="built")
    every = tuple(all_found)
    return Searched(configuration, formulated, found, every, choice.tried, (), choice.note, depth="built")


def _number(formulated: Formulated) -> int:
    return formulated.problem.collective.chunks_per_rank


def _across_numbers(
    job: Job,
    configuration: Configuration,
    options: SearchOptions,
    budget: Budget,
    on_progress: Observer | None,
) -> Iterator[tuple[Formulated, Found]]:
    began_s = time.monotonic()
    stated = dict(_stated(job, configuration))
    known: dict[int, list[Schedule]] = {number: [] for number in stated}
    pipelines = budget.share(LOOK_PIPELINES)
    for schedule in found_across(list(stated), lambda number: stated[number][1], pipelines):
        known[schedule.problem.collective.chunks_per_rank].append(schedule)
    in_turn = [*list(stated)[::2], *list(stated)[1::2]]  # so that a short time sees coarse and fine ones
    for place, number in enumerate(in_turn):
        formulated, instance = stated[number]
        if budget.remaining_s():
            share = budget.share(1 / (len(in_turn) - place))
            known[number] += several_schedules(instance, share, LOOK_ALGORITHMS)
        if not known[number]:
            continue
        found = heard(_updates(instance, known[number]), options, Journal(), budget.without_end())
        yield formulated, found
        yield from ((formulated, found.passing(schedule)) for schedule in found.passed)
        if on_progress is None:
            continue
        stage = "built at once" if len(stated) == 1 else f"built at once, chunks {number}"
        if on_progress(_news(found, stage, time.monotonic() - began_s)) == STOP:
            return


def _news(found: Found, stage: str, elapsed_s: float) -> Progress:
    """The fastest that was built, of one number of chunks."""
    time_us, bound_us = found.schedule.makespan_us, found.lower_bound_us
    return Progress(stage, elapsed_s, time_us, bound_us, found.bound_source, improved=True)


def _stated(job: Job, configuration: Configuration) -> Iterator[tuple[int, tuple[Formulated, Instance]]]:
    """The problem with each number of chunks, where that is open; else the problem as it is given."""
    formulated = job.problem(configuration)
    instance = Instance(formulated.problem)
    yield formulated.problem.collective.chunks_per_rank, (formulated, instance)
    if not job.request.leaves_chunks_open:
        return
    outputs = len(formulated.problem.collective.outputs)
    for number in numbers_across(instance, candidates(formulated.problem, job.chunk_bytes)):
        if not 1 < number <= LOOK_MOST_CHUNKS or number * outputs > LOOK_MOST_OUTPUTS:
            continue
        try:
            finer = job.problem(configuration, job.cut(number))
        except CollectiveError:  # the search of that number says so
            return
        yield number, (finer, Instance(finer.problem))


def _updates(instance: Instance, schedules: Sequence[Schedule]) -> Iterator[Update]:
    """The schedules, the slowest first, so that all are kept, and what is proved at once."""
    for place, schedule in enumerate(sorted(schedules, key=lambda each: -each.makespan_us)):
        yield Update(f"built at once, {place + 1}", schedule)
    proof = quick_bound(instance)
    yield Update("latency", lower_bound_us=proof.value_us, bound_source=proof.witness)
