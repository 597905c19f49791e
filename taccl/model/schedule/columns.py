"""The columns of the answer: who sends what, over which link, when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from taccl.errors import ScheduleError
from taccl.model import units
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule.blocks import column_of
from taccl.model.schedule.numbering import by_occurrence, different, first_positions, order_of, rises
from taccl.model.schedule.partial_sums import PartialSums
from taccl.support.notebook import data_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from taccl.model.schedule.plot import Lanes


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """One row per transfer of one chunk over one link; arrays of equal length.

    Parameters
    ----------
    problem : what the schedule answers.
    chunk, link : what travels, over which link of `problem.topology`.
    start_us, end_us : when the transfer starts, and when the receiver holds the chunk.
    reduce : whether what travels is a partial sum, for the receiver to add up (else it stores a copy).
    group : rows of one group are one contiguous send: one link, one start, one end, one alpha. A group
        may mix partial sums and copies.
    sums : the contributions that each row carries. None, the compact form: each sum is made once, so that a
        rank passes its contribution on once, together with all that reached it.

    `Schedule.check()` says whether it is valid; nothing else in this class assumes so.
    """

    problem: Problem
    chunk: IntArray
    link: IntArray
    start_us: FloatArray
    end_us: FloatArray
    reduce: BoolArray
    group: IntArray
    sums: PartialSums | None = None

    def __len__(self) -> int:
        return len(self.chunk)

    def __repr__(self) -> str:
        return f"Schedule({len(self)} transfers, {self.makespan_us:.2f} us, {self.problem!r})"

    @property
    def src(self) -> IntArray:
        """The sending rank of each row."""
        return np.asarray(self.problem.topology.src[self.link])

    @property
    def dst(self) -> IntArray:
        """The receiving rank of each row."""
        return np.asarray(self.problem.topology.dst[self.link])

    @cached_property
    def makespan_us(self) -> float:
        """The largest end, with what follows an output; 0 if nothing has to move and nothing is late."""
        if self.problem.features.isdisjoint(("ready_times", "tails")):
            return float(self.end_us.max(initial=0.0))
        from taccl.model.schedule.finish import makespan_us

        return makespan_us(self)

    @property
    def algbw_gbps(self) -> float:
        """nccl-tests' algorithm bandwidth, 10**9 bytes per second."""
        return units.bandwidth_gbps(self.problem.size_bytes, self.makespan_us)

    @property
    def busbw_gbps(self) -> float:
        """nccl-tests' bus bandwidth, 10**9 bytes per second."""
        return self.algbw_gbps * self.problem.collective.busbw_factor

    @cached_property
    def sends(self) -> Sends:
        """The groups: one row per contiguous send."""
        if rises(self.group):
            return self._each_row()
        groups, inverse = different(self.group)
        first = first_positions(inverse, len(groups))
        count = np.bincount(inverse, minlength=len(groups))
        sizes = self.problem.sizes
        units = count if sizes is None else np.bincount(inverse, sizes[self.chunk], len(first))
        return Sends(
            first_row=first,
            of_row=inverse,
            count=count,
            size_mb=units * self.problem.chunk_mb,
            link=self.link[first],
            start_us=self.start_us[first],
            end_us=self.end_us[first],
            reduce=np.bincount(inverse, self.reduce, len(first)) > 0,
        )

    def _each_row(self) -> Sends:
        """The groups where each row is one, in the order of the rows."""
        row, sizes, chunk_mb = np.arange(len(self)), self.problem.sizes, self.problem.chunk_mb
        return Sends(
            first_row=row,
            of_row=row,
            count=np.ones(len(self), dtype=np.int64),
            size_mb=np.full(len(self), chunk_mb) if sizes is None else sizes[self.chunk] * chunk_mb,
            link=self.link,
            start_us=self.start_us,
            end_us=self.end_us,
            reduce=self.reduce,
        )

    @property
    def link_busy_us(self) -> FloatArray:
        """For how long each link has a transfer on it, shape (num_links,)."""
        sends = self.sends
        duration = sends.end_us - sends.start_us
        return np.bincount(sends.link, duration, self.problem.topology.num_links).astype(np.float64)

    @property
    def port_busy_us(self) -> FloatArray:
        """For how long each port is busy, shape (num_ports,)."""
        topology, sends = self.problem.topology, self.sends
        send, pair = topology.pairs_of(sends.link)
        busy = topology.port_busy_us(pair, sends.size_mb[send])
        return np.bincount(topology.incidence[1][pair], busy, topology.num_ports).astype(np.float64)

    def check(self) -> None:
        """Raise unless this schedule computes its collective under its topology's cost model.

        Raises
        ------
        ScheduleError : the rules that it breaks, with the first rows that break each.
        """
        from taccl.model.schedule.checks import check_schedule

        check_schedule(self)

    def to_dict(self) -> dict[str, object]:
        """What the schedule's file holds, as plain values: `schedule_from_json` reads it back from JSON."""
        from taccl.model.schedule.codec import schedule_values

        return schedule_values(self)

    def to_pandas(self) -> DataFrame:
        """A pandas.DataFrame, one row per transfer: the columns above with the ranks at both ends.

        Where the schedule says which contributions its rows carry, `contributions` has their ranks; it is
        None for a copy.

        Raises
        ------
        TacclError : pandas is not installed.
        """
        from taccl.model.schedule.codec import transfer_columns

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
        from taccl.model.schedule.plot import plot_schedule

        return plot_schedule(self, by, ax, lower_bound_us)

    def sorted(self) -> Schedule:
        """The same schedule with rows by start, link, chunk, and sums first; groups are numbered so."""
        chunks = self.problem.num_chunks
        by_link = column_of(
            *(len(self), np.int64),
            lambda rows: (
                (self.link[rows].astype(np.int64) * chunks + self.chunk[rows]) * 2 + ~self.reduce[rows]
            ),
        )
        order = order_of(self.start_us, by_link)
        taken = self if order is None else self.take(order)
        return replace(taken, group=by_occurrence(taken.group))

    def take(self, rows: IntArray) -> Schedule:
        """The given rows, in the given order."""
        return replace(
            self,
            chunk=self.chunk[rows],
            link=self.link[rows],
            start_us=self.start_us[rows],
            end_us=self.end_us[rows],
            reduce=self.reduce[rows],
            group=self.group[rows],
            sums=None if self.sums is None else self.sums.take(rows),
        )


@dataclass(frozen=True, eq=False)
class Sends:
    """The groups of a schedule as columns; `of_row[i]` is the send that row i belongs to.

    `count` and `size_mb` are how many chunks it has, and their size; `reduce` says whether some row of the
    group is a partial sum.
    """

    first_row: IntArray
    of_row: IntArray
    count: IntArray
    size_mb: FloatArray
    link: IntArray
    start_us: FloatArray
    end_us: FloatArray
    reduce: BoolArray

    def __len__(self) -> int:
        return len(self.link)


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
