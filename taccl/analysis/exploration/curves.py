"""A schedule is a curve, not a point: the same routes, order and groups take a known time at every size."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.question import Question
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.target import AnyTarget, Lowered
from taccl.backend.unfolded import Unfolded
from taccl.encoding.core.timing import decisions_of, in_order, scaled_us
from taccl.errors import ScheduleError, TacclError
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

#: What names of algorithms say of how they are cut.
_IN_PARTS = re.compile(r"^\d+ routes: |, \d+ batches$")


@dataclass(frozen=True, eq=False)
class Curve:
    """What one algorithm takes at each size of a question.

    Parameters
    ----------
    name : how it came about, for people.
    answer : the schedule, at the size that it was found for.
    way : which sketch of the question it keeps to.
    times_us : one for each size of the question; inf where the size cannot be cut into its chunks.
    """

    name: str
    answer: Answer
    way: int
    times_us: tuple[float, ...]

    @property
    def kind(self) -> str:
        """Its name without how it is cut into channels and batches."""
        return _IN_PARTS.sub("", self.name)

    @property
    def chunks(self) -> int:
        """Pieces of one rank's part."""
        return self.answer.saved.schedule.problem.collective.chunks_per_rank


def at_size(schedule: Schedule, size_bytes: int) -> Schedule | None:
    """The same routes, order and groups at another size, checked.

    None where that is no whole number of its chunks, or where a helper's memory is too small for them.

    Parameters
    ----------
    size_bytes : as nccl-tests counts it.
    """
    problem = _problem_at(schedule.problem, size_bytes)
    if problem is None:
        return None
    retimed = in_order(problem, decisions_of(schedule))
    try:
        retimed.check()
    except ScheduleError:
        return None
    return retimed


def times_of(question: Question, answer: Answer, way: int) -> tuple[float, ...]:
    """What an answer takes at each size, microseconds; inf at those that its chunks do not divide, or that a
    helper's memory is too small for.

    Raises
    ------
    TacclError : no file can hold the schedule.
    """
    schedule = answer.saved.schedule
    is_limited = schedule.problem.topology.memory_mb is not None
    whole = [
        size
        for size in question.sizes
        if (at_size(schedule, size) if is_limited else _problem_at(schedule.problem, size)) is not None
    ]
    times = dict(zip(whole, times_at(question, answer, way, whole), strict=True))
    return tuple(times.get(size, math.inf) for size in question.sizes)


def times_at(question: Question, answer: Answer, way: int, sizes: Sequence[int]) -> tuple[float, ...]:
    """What an answer takes at any sizes, microseconds: its file where files are predicted, else the schedule.

    Chunks may be of a fraction of a byte there: between the sizes of a table, they tell which is faster.

    Raises
    ------
    TacclError : no file can hold the schedule.
    """
    schedule, job = answer.saved.schedule, question.jobs[way]
    if job.has_predictions:
        lowered = job.lowering(schedule, answer.configuration)
        return _of_files(job.target, lowered, job.network.topology, sizes)
    factors = (size / schedule.problem.size_bytes for size in sizes)
    return tuple(scaled_us(schedule.problem, decisions_of(schedule), factors))


def _of_files(
    target: AnyTarget, lowered: Sequence[Lowered[Any]], network: LogicalTopology, sizes: Sequence[int]
) -> tuple[float, ...]:
    """Of several files, runtimes take one each: the slowest counts."""
    assert target.unfold is not None, "only files that can be executed are predicted"
    files = [target.unfold(each.program) for each in lowered]
    return tuple(max(_called(file, network, size) for file in files) for size in sizes)


def _called(file: Unfolded, network: LogicalTopology, size_bytes: int) -> float:
    """One call of a file, microseconds."""
    chunk_mb = size_bytes / units.MB / file.chunks_of_size
    try:
        return file.simulate(network, chunk_mb, SimulationSettings()).time_us
    except TacclError:  # it hangs, or runs out of memory, at this size alone
        return math.inf


def _problem_at(problem: Problem, size_bytes: int) -> Problem | None:
    """The problem at another size; None where that is no whole number of its chunks."""
    many = problem.collective.chunks_per_size
    if size_bytes % many:
        return None
    return replace(problem, chunk_mb=size_bytes / many / units.MB)
