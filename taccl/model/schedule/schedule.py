"""The answer: columns with the rules that they keep, their bandwidths, and their views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from taccl.errors import ScheduleError
from taccl.model import units
from taccl.model.problem import Problem
from taccl.model.schedule.checks import check_schedule
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.finish import makespan_us
from taccl.model.schedule.partial_sums import PartialSums, contributors
from taccl.model.schedule.plot import Lanes, plot_schedule
from taccl.model.schedule.values import schedule_values, transfer_columns
from taccl.support.notebook import data_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Transfers):
    """The transfers that answer a problem: the columns of `Transfers`.

    `Schedule.check()` says whether it is valid; nothing else in this class assumes so.
    """

    def __repr__(self) -> str:
        return f"Schedule({len(self)} transfers, {self.makespan_us:.2f} us, {self.problem!r})"

    @cached_property
    def makespan_us(self) -> float:
        """The largest end, with what follows an output; 0 if nothing has to move and nothing is late."""
        return makespan_us(self)

    @property
    def algbw_gbps(self) -> float:
        """nccl-tests' algorithm bandwidth, 10**9 bytes per second."""
        return units.bandwidth_gbps(self.problem.size_bytes, self.makespan_us)

    @property
    def busbw_gbps(self) -> float:
        """nccl-tests' bus bandwidth, 10**9 bytes per second."""
        return self.algbw_gbps * self.problem.collective.busbw_factor

    def check(self) -> None:
        """Raise unless this schedule computes its collective under its topology's cost model.

        Raises
        ------
        ScheduleError : the rules that it breaks, with the first rows that break each.
        """
        check_schedule(self)

    def to_dict(self) -> dict[str, object]:
        """What the schedule's file holds, as plain values: `schedule_from_json` reads it back from JSON."""
        return schedule_values(self)

    def to_pandas(self) -> DataFrame:
        """A pandas.DataFrame, one row per transfer: the columns above with the ranks at both ends.

        Where the schedule says which contributions its rows carry, `contributions` has their ranks; it is
        None for a copy.

        Raises
        ------
        TacclError : pandas is not installed.
        """
        return data_frame(transfer_columns(self))

    def plot(
        self, by: Lanes = "link", ax: Axes | None = None, *, lower_bound_us: float | None = None
    ) -> Axes:
        """Draw the timeline of its sends with matplotlib; returns the axes.

        Parameters
        ----------
        by : a lane for each `link`, with bars from start to end, or for each `port`, with bars for as long as
            it is busy.
        ax : where to draw; None makes a figure.
        lower_bound_us : what no schedule can beat, drawn as a line.

        Raises
        ------
        TacclError : other lanes, or matplotlib is not installed.
        """
        return plot_schedule(self, by, ax, lower_bound_us)


@dataclass(frozen=True)
class Send:
    """One contiguous send, for code that builds schedules one send at a time.

    `sums` has the set of contributions of each chunk (`partial_sums`), 0 for a copy of the whole; without it
    all chunks are partial sums of a compact schedule (`reduce`), or all are copies.
    """

    chunks: tuple[int, ...]
    link: int
    start_us: float
    reduce: bool = False
    sums: tuple[int, ...] | None = None


def schedule_from_sends(problem: Problem, sends: Sequence[Send]) -> Schedule:
    """The schedule made of these sends; their ends follow from the cost model."""
    count = np.array([len(send.chunks) for send in sends], dtype=np.int64)
    link = np.array([send.link for send in sends], dtype=np.int64)
    start = np.array([send.start_us for send in sends], dtype=np.float64)
    units = np.array([problem.units(send.chunks) for send in sends], dtype=np.float64)
    end = start + problem.topology.duration_us(link, units * problem.chunk_mb)
    reduce = np.repeat(np.array([send.reduce for send in sends], dtype=np.bool_), count)
    sums = None
    if any(send.sums is not None for send in sends):
        sums = PartialSums.of_sets(_sets(sends), problem.num_ranks)
        reduce = sums.of_row >= 0
    return Schedule(
        problem=problem,
        chunk=np.array([chunk for send in sends for chunk in send.chunks], dtype=np.int64),
        link=np.repeat(link, count),
        start_us=np.repeat(start, count),
        end_us=np.repeat(end, count),
        reduce=reduce,
        group=np.repeat(np.arange(len(sends)), count),
        sums=sums,
    ).sorted()


def _sets(sends: Sequence[Send]) -> list[int]:
    """The set of each chunk of each send, where some sends name theirs: then all partial sums must."""
    sets: list[int] = []
    for send in sends:
        if send.reduce and send.sums is None:
            raise ScheduleError(
                "the sends cannot be put together",
                findings=["some partial sums name their contributions, and others do not"],
            )
        sets += send.sums or (0,) * len(send.chunks)
    return sets


def compacted(schedule: Schedule) -> Schedule:
    """The same schedule in the compact form, if each of its sums is made once."""
    if schedule.sums is None:
        return schedule
    compact = replace(schedule, sums=None)
    try:
        check_schedule(compact)
    except ScheduleError:
        return schedule
    whole = contributors(schedule.problem.collective)
    return compact if sets_of_rows(compact, whole) == sets_of_rows(schedule, whole) else schedule
