"""What a task is and what comes back of it: frozen values that travel between processes."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from taccl.encoding.core.options import SearchOptions
from taccl.errors import ScheduleError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.partial_sums import PartialSums
from taccl.support.arguments import is_number
from taccl.synthesis.search import Found, Status

#: So much of what a worker says is reported.
_SHOWN, _MOST_FAILURES = 160, 8


@dataclass(frozen=True, eq=False)
class Task:
    """A search for one problem with one engine, one seed and its own part of the time or work.

    Parameters
    ----------
    number : its place among the tasks of a call, from 0 on.
    problem : what is searched; its number of chunks is settled.
    options : engine, seed, seconds (`time_limit_s`) or work (`effort`), and what is known already.
    """

    number: int
    problem: Problem
    options: SearchOptions

    @property
    def chunks(self) -> int:
        """Into how many chunks each part is cut."""
        return self.problem.collective.chunks_per_rank

    @property
    def name(self) -> str:
        """What it is, for people."""
        return f"{self.options.engine}, seed {self.options.seed}, chunks {self.chunks}"

    @cached_property
    def payload(self) -> bytes:
        """The problem and the options as bytes, without what was derived from the problem here."""
        problem, known = _bare(self.problem), self.options.known
        if known is not None:
            known = replace(known, problem=problem)
        return pickle.dumps((problem, replace(self.options, known=known)), protocol=5)


def _bare(problem: Problem) -> Problem:
    """An equal problem that carries nothing but what it was made of."""
    return replace(problem, topology=replace(problem.topology), collective=replace(problem.collective))


@dataclass(frozen=True, eq=False)
class TaskColumns:
    """The columns of a schedule without its problem, as `Schedule` has them."""

    chunk: IntArray
    link: IntArray
    start_us: FloatArray
    end_us: FloatArray
    reduce: BoolArray
    group: IntArray
    sum_of_row: IntArray | None = None
    sum_members: BoolArray | None = None

    @staticmethod
    def of(schedule: Schedule) -> TaskColumns:
        """Those of a schedule."""
        sums = schedule.sums
        return TaskColumns(
            chunk=schedule.chunk,
            link=schedule.link,
            start_us=schedule.start_us,
            end_us=schedule.end_us,
            reduce=schedule.reduce,
            group=schedule.group,
            sum_of_row=None if sums is None else sums.of_row,
            sum_members=None if sums is None else sums.members,
        )

    def as_schedule_of(self, problem: Problem) -> Schedule:
        """The schedule of our own problem that they spell; whether it is valid, `Schedule.check` says.

        Raises
        ------
        ScheduleError : they are no columns of that problem, so that nothing can be requested of the schedule.
        """
        chunk = _column("chunk", self.chunk, "i", problem.num_chunks)
        rows = len(chunk)
        sums = None
        if self.sum_of_row is not None:
            members = np.asarray(self.sum_members)
            if members.dtype.kind != "b" or members.ndim != 2 or members.shape[1] != problem.num_ranks:
                raise _refused("the sets of contributions are no table of ranks")
            of_row = _column("sum", self.sum_of_row, "i", len(members), rows, least=-1)
            sums = PartialSums(of_row, members)
        return Schedule(
            problem=problem,
            chunk=chunk,
            link=_column("link", self.link, "i", problem.topology.num_links, rows),
            start_us=_column("start_us", self.start_us, "f", None, rows),
            end_us=_column("end_us", self.end_us, "f", None, rows),
            reduce=_column("reduce", self.reduce, "b", None, rows),
            group=_column("group", self.group, "i", None, rows),
            sums=sums,
        )


def _column(
    name: str, values: object, kind: str, limit: int | None, rows: int | None = None, least: int = 0
) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim != 1 or column.dtype.kind != kind or rows not in (None, len(column)):
        raise _refused(f"column {name} has the wrong type or length")
    if limit is not None and len(column) and not (column.min() >= least and column.max() < limit):
        raise _refused(f"column {name} has a number outside {least} .. {limit - 1}")
    if kind == "f" and not np.isfinite(column).all():
        raise _refused(f"column {name} has a time that is not finite")
    return column


def _refused(finding: str) -> ScheduleError:
    return ScheduleError("what a worker gave back is no schedule", findings=[finding])


@dataclass(frozen=True, eq=False)
class TaskAnswer:
    """What a worker says of a task; nothing of it is believed before it is checked.

    Parameters
    ----------
    columns : of the best schedule; None: the task has none.
    claimed_us, claimed_source : the best bound that it says it proved, and why; 0: none.
    status : how its search ended; None: it broke down.
    seconds : that it took on the worker.
    failures : what broke down, a line each.
    """

    columns: TaskColumns | None
    claimed_us: float = 0.0
    claimed_source: str = ""
    status: Status | None = None
    seconds: float = 0.0
    failures: tuple[str, ...] = ()

    def made_sane(self) -> TaskAnswer:
        """The same with figures and texts that can be stated, whatever a worker put in their place."""
        claimed_us = _figure(self.claimed_us)
        failures = self.failures if isinstance(self.failures, tuple) else ()
        return TaskAnswer(
            columns=self.columns if isinstance(self.columns, TaskColumns) else None,
            claimed_us=claimed_us,
            claimed_source=_line(self.claimed_source) if claimed_us else "",
            status=self.status if self.status in get_args(Status) else None,
            seconds=_figure(self.seconds),
            failures=tuple(_line(failure) for failure in failures[:_MOST_FAILURES]),
        )

    @staticmethod
    def of(found: Found, seconds: float) -> TaskAnswer:
        """What a search found."""
        failures = tuple(f"{each.name}: {each.text}" for each in found.failures)
        columns = TaskColumns.of(found.schedule)
        bound_us, source = found.lower_bound_us, found.bound_source
        return TaskAnswer(columns, bound_us, source, found.status, seconds, failures)


def _figure(value: object) -> float:
    return float(value) if is_number(value) and 0 <= value < math.inf else 0.0


def _line(text: object) -> str:
    words = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."
