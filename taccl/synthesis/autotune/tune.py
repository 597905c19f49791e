"""The middle step of the walk: the configuration, the number of chunks and the schedule that are fastest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from taccl.encoding.bounds import NOTHING, Proof, any_chunks_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import several_schedules
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.interrupts import ends_what_is_extra
from taccl.synthesis.autotune.choose import choose_file
from taccl.synthesis.autotune.chunks import choose_chunks, chunks_that_fit
from taccl.synthesis.autotune.file_choice import Depth, FileChoice, Searched, unpredicted
from taccl.synthesis.autotune.first_look import built, listed
from taccl.synthesis.autotune.predictions import Predictor
from taccl.synthesis.autotune.tuning import (
    TUNE_CHUNKS_IF_OPEN,
    TUNE_FILE_S_AN_OUTPUT,
    TUNE_FOR_ANY_CHUNKS,
    TUNE_OF_NUMBERS,
    TUNE_PROVED_PER_S,
    TUNE_TEXTBOOKS,
    TUNE_TO_PROVE_ANYWAY_S,
    TUNE_WRITING_DOWN,
)
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.job import Job
from taccl.synthesis.search import Found, Observer
from taccl.synthesis.searcher import Alone, Searcher


def tune(
    job: Job, options: SearchOptions, searcher: Searcher, on_progress: Observer | None = None
) -> FileChoice:
    """The fastest file of a job; where files have no predicted time, the fastest schedule.

    Raises
    ------
    TacclError : no schedule was found in time, or none of several configurations gives a file that ends.
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    search, options = RequestSearch(job, searcher), leaving_time_for_a_file(job, options)
    if not job.has_predictions:
        return unpredicted(search(job.configurations[0], options, None, on_progress))
    network = job.network.topology
    return choose_file(
        search,
        Predictor(network, job.target, job.lowering),
        job.configurations,
        options,
        job.target.prediction_error,
        on_progress,
        costs_differ=network.executor is not None,
    )


def leaving_time_for_a_file(job: Job, options: SearchOptions) -> SearchOptions:
    """The options with less of a time limit, so that the call is back by then with its file.

    With hundreds of ranks a file takes longer than that leaves: searching has half of the time at least.
    """
    if not job.output.file:
        return options
    chunks = TUNE_CHUNKS_IF_OPEN if job.request.leaves_chunks_open else 1
    return options.leaving(TUNE_FILE_S_AN_OUTPUT * chunks * len(job.inputs.collective.outputs))


def fitting_chunks(chunks: int, job: Job, options: SearchOptions, budget: Budget) -> int:
    """Below a number of chunks whose file is too large, one that fits; 0: none was found in the time."""

    def search_of(number: int) -> RequestSearch:
        fewer = job.with_chunks(number)
        fewer.lowering.check(fewer.problem(configuration).problem)
        return RequestSearch(fewer, Alone())

    configuration = job.configurations[0]
    return chunks_that_fit(chunks, search_of, job.lowering, configuration, options, budget)


@dataclass(frozen=True, eq=False)
class RequestSearch:
    """Searches for a job under the costs of any configuration, its number of chunks given or not."""

    job: Job
    searcher: Searcher

    def __call__(
        self,
        configuration: Configuration,
        options: SearchOptions,
        budget: Budget | None,
        on_progress: Observer | None,
        depth: Depth = "searched",
    ) -> Searched:
        """What `choose.Search` says; without a budget, it is that of the options."""
        began_s = time.monotonic()
        if budget is not None and options.effort is None:
            options = replace(options, time_limit_s=budget.remaining_s())
        known_in = None if budget is None else budget.share(TUNE_WRITING_DOWN)
        if budget is not None and depth == "listed":
            return listed(self.job, configuration, options, budget, on_progress)
        if budget is not None and depth == "built":
            return built(self.job, configuration, options, budget, on_progress)
        if self.job.request.leaves_chunks_open:
            searched = self._with_chunks(configuration, options, budget, on_progress)
        else:
            formulated = self.job.problem(configuration)
            instance = Instance(formulated.problem)
            found = self.searcher.search(instance, options, on_progress, budget)
            if self.job.network.topology.executor is None:
                spent_s = time.monotonic() - began_s
                left_s = math.inf if options.effort is not None else options.limit_s - spent_s
                found = _with_bound_for_any_chunks(found, instance, left_s)
            searched = Searched(configuration, formulated, found, ((formulated, found),))
        return self._with_others(searched, known_in)

    def _with_others(self, searched: Searched, budget: Budget | None) -> Searched:
        """With what the search passed through and what textbooks say, where files decide.

        By the costs of a problem sums take no time, so what they put first need not be the best file.
        """
        if not self.job.has_predictions or budget is None:
            return searched
        others = []
        fastest = sorted(searched.all_found, key=lambda pair: pair[1].schedule.makespan_us)
        for rank, (formulated, found) in enumerate(fastest):
            known = list(found.passed)
            if rank < TUNE_OF_NUMBERS and found.status != "interrupted":
                known += several_schedules(Instance(formulated.problem), budget.share(1 / 2), TUNE_TEXTBOOKS)
            others += [
                (formulated, found.passing(schedule)) for schedule in known if schedule is not found.schedule
            ]
        return replace(searched, all_found=(*searched.all_found, *others))

    def _with_chunks(
        self,
        configuration: Configuration,
        options: SearchOptions,
        budget: Budget | None,
        on_progress: Observer | None,
    ) -> Searched:
        """The same, with the number of chunks that is fastest under these costs."""
        choice = choose_chunks(
            lambda number: self.job.problem(configuration, self.job.cut(number)),
            options,
            on_progress,
            self._lowered(configuration),
            budget,
            self.searcher,
            self.job.chunk_bytes,
        )
        return Searched(
            configuration,
            choice.formulated,
            choice.found,
            choice.all_found,
            choice.tried,
            self.job.inputs.notes,
            choice.note,
        )

    def _lowered(self, configuration: Configuration) -> Callable[[Schedule], object] | None:
        """Raises TacclError where no file can hold a schedule; None: that is found out later."""
        if not self.job.lowers_while_searching:
            return None
        return lambda schedule: self.job.lowering(schedule, configuration)


def bound_for_any_chunks(stated: Problem | Instance, left_s: float) -> Proof:
    """What no number of equal chunks beats, where no search has proved it; `NOTHING`: no time for it.

    Parameters
    ----------
    left_s : seconds until the limit of the call; infinite where work counts.
    """
    problem = stated.problem if isinstance(stated, Instance) else stated
    if problem.num_chunks * problem.num_ranks / TUNE_PROVED_PER_S > max(left_s, TUNE_TO_PROVE_ANYWAY_S):
        return NOTHING
    try:
        return any_chunks_bound(stated, Budget.of_work(TUNE_FOR_ANY_CHUNKS))
    except BaseException as fault:
        if ends_what_is_extra(fault):
            return NOTHING
        raise


def _with_bound_for_any_chunks(found: Found, instance: Instance, left_s: float) -> Found:
    """What was found, with that bound proved of the instance that is there."""
    if found.any_chunks.value_us:
        return found
    return found.with_any_chunks(bound_for_any_chunks(instance, left_s))
