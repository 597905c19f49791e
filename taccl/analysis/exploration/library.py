"""What users run today: the algorithms of NCCL, RCCL and MPI as schedules of a question, and their curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.curves import Curve, times_of
from taccl.analysis.exploration.question import Question
from taccl.analysis.exploration.tuning import (
    LIBRARY_BY_LINKS,
    LIBRARY_CELLS,
    LIBRARY_CHUNKS,
    LIBRARY_INSTANCES,
    LIBRARY_PREDICTING,
)
from taccl.encoding.engines.registry import ENGINES, serves_somehow
from taccl.encoding.instance import Instance
from taccl.errors import TacclError
from taccl.model.schedule import SavedSchedule, Schedule
from taccl.support.budget import Budget
from taccl.synthesis.configurations import Configuration, configurations_to_try
from taccl.synthesis.job import Job

#: What is said where there was no time for all of them, or the machine is too large for any.
NOT_WHOLE = "not all algorithms of libraries were made, for time or size, and one left out may be faster"


class Library:
    """Curves of the algorithms that libraries have and the machine has the links for, in a few numbers of
    chunks.

    Where files are predicted, they are of those that are fastest at some size by links alone, each once for
    each protocol and some numbers of instances. The first comes however little time there is.

    Parameters
    ----------
    near : a configuration of files that is tried first; others follow by how near they are to it.
    name : of one algorithm, or a part of its name, in any case: others are not made.

    Attributes
    ----------
    is_whole : whether none was left out for time, nor all for size, once they have come.
    """

    def __init__(
        self, question: Question, budget: Budget, near: Configuration | None = None, name: str = ""
    ) -> None:
        self._question, self._budget, self._near, self._name = question, budget, near, name.lower()
        self.is_whole = False

    def _wants(self, name: str) -> bool:
        """Whether an algorithm, whose curves may say in how many batches it goes, is one of the name."""
        return self._name in name.lower() or name.lower() in self._name

    def __iter__(self) -> Iterator[Curve]:
        if not self._question.jobs[0].has_predictions:
            given_s = self._budget.remaining_s()
            yield from _by_links(self._question, self._budget, self._wants)
            self.is_whole = _had_time(self._budget, given_s) and not _is_too_large(self._question, 1)
            return
        by_links = self._budget.share(LIBRARY_BY_LINKS)
        given_s = by_links.remaining_s()
        fastest = fastest_somewhere(_by_links(self._question.of_links, by_links, self._wants))
        had_time, is_first = _had_time(by_links, given_s), True
        for curve in fastest:
            for configuration in _configurations(self._question.jobs[0], self._near):
                if self._budget.remaining_s() <= 0 and not is_first:
                    return
                made = in_configuration(self._question, curve, configuration, self._budget)
                if made is not None:
                    yield made
                    is_first = False
        self.is_whole = had_time and not _is_too_large(self._question, 1)


def in_configuration(
    question: Question, curve: Curve, configuration: Configuration, budget: Budget
) -> Curve | None:
    """The curve of the files of an algorithm in another configuration; None where there is no such file."""
    schedule = curve.answer.saved.schedule
    budget.spend(LIBRARY_PREDICTING * len(schedule) * configuration.instances * len(question.sizes))
    return _curve(question, curve.name, schedule, configuration)


def _had_time(budget: Budget, given_s: float) -> bool:
    """Whether nothing can have been left out: each part of the work may take half of what is left."""
    return budget.remaining_s() >= given_s / 2 > 0


def fastest_somewhere(curves: Iterable[Curve]) -> list[Curve]:
    """Those of some curves that are as fast as any at some size, the first of equals."""
    every = list(curves)
    places = range(len(every[0].times_us) if every else 0)
    fastest = (min(every, key=lambda curve: curve.times_us[place]) for place in places)
    return list(dict.fromkeys(fastest))


def _by_links(question: Question, budget: Budget, wants: Callable[[str], bool]) -> Iterator[Curve]:
    """The same by links alone."""
    configuration = question.jobs[0].configurations[0]
    for chunks in LIBRARY_CHUNKS:
        for size in (
            question.sizes[:: max(1, len(question.sizes) - 1)] if chunks == 1 else question.sizes[-1:]
        ):
            try:
                problem = question.problem(chunks, size)
            except TacclError:  # more chunks than can be built
                continue
            if problem is None or _is_too_large(question, chunks):
                continue
            for name, schedule in _named(Instance(problem), budget, wants):
                curve = _curve(question, name, schedule, configuration)
                if curve is not None:
                    yield curve
                if budget.remaining_s() <= 0:
                    return


def _is_too_large(question: Question, chunks: int) -> bool:
    """Whether with this many chunks in each part no schedule is written down only to be compared with."""
    collective = question.jobs[0].inputs.collective
    parts = collective.num_chunks // collective.chunks_per_rank
    return chunks * parts * collective.num_ranks > LIBRARY_CELLS


def _named(
    instance: Instance, budget: Budget, wants: Callable[[str], bool]
) -> Iterator[tuple[str, Schedule]]:
    """Schedules with the names of their algorithms; of a name, those that are faster than all before."""
    for engine in ENGINES:
        if engine.named is None or not serves_somehow(engine, instance):
            continue
        best_us: dict[str, float] = {}
        for name, schedule in engine.named(instance, budget, wants):
            if schedule.makespan_us < best_us.get(name, float("inf")):
                best_us[name] = schedule.makespan_us
                yield name, schedule


def _configurations(job: Job, near: Configuration | None) -> list[Configuration]:
    every = configurations_to_try(job.network.topology.executor, job.target, job.output)
    few = [each for each in every if each.instances in LIBRARY_INSTANCES and each.thread_blocks == "two-way"]
    if near is None:
        return few

    def away(each: Configuration) -> tuple[bool, float]:
        return each.protocol != near.protocol, abs(math.log(each.instances / near.instances))

    return [near, *sorted((each for each in few if each != near), key=away)]


def _curve(question: Question, name: str, schedule: Schedule, configuration: Configuration) -> Curve | None:
    """The curve of an algorithm; None where it is not valid on this machine, or has no file."""
    answer = Answer(SavedSchedule(schedule), configuration, 0.0, "library")
    try:
        schedule.check()
        return Curve(name, answer, 0, times_of(question, answer, 0))
    except TacclError:
        return None
