"""The columns of a schedule: who sends what, over which link, when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule.blocks import column_of
from taccl.model.schedule.numbering import by_occurrence, different, first_positions, order_of, rises
from taccl.model.schedule.partial_sums import PartialSums

Rows = TypeVar("Rows", bound="Transfers")


@dataclass(frozen=True, eq=False, repr=False)
class Transfers:
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

    @property
    def src(self) -> IntArray:
        """The sending rank of each row."""
        return np.asarray(self.problem.topology.src[self.link])

    @property
    def dst(self) -> IntArray:
        """The receiving rank of each row."""
        return np.asarray(self.problem.topology.dst[self.link])

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

    def sorted(self: Rows) -> Rows:
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

    def take(self: Rows, rows: IntArray) -> Rows:
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

    @cached_property
    def by_start(self) -> IntArray:
        """Their numbers in the order of their starts, and of their ends where they start together."""
        return np.asarray(np.lexsort((self.end_us, self.start_us)))
