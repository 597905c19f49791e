"""Sends without links or times, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.engines.textbook.line import Carried, Hops
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule.numbering import by_occurrence, by_value, first_positions


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: the values of one row after another, and the length of each."""

    values: IntArray
    count: IntArray

    @staticmethod
    def by_key(key: IntArray, rows: int = 0, values: IntArray | None = None) -> Ragged:
        """Row k has the values, or the positions, where `key` is k; as many as keys, or at least `rows`."""
        order = by_value(key)
        return Ragged(order if values is None else values[order], np.bincount(key, minlength=rows))

    @staticmethod
    def one_each(values: IntArray) -> Ragged:
        """Rows of one value."""
        return Ragged(values, np.ones_like(values))

    @property
    def first(self) -> IntArray:
        """Where each row begins."""
        return np.cumsum(self.count) - self.count

    def take(self, rows: IntArray) -> Ragged:
        """The given rows, in the given order."""
        count = self.count[rows]
        shift = self.first[rows] - (np.cumsum(count) - count)
        return Ragged(self.values[np.repeat(shift, count) + np.arange(int(count.sum()))], count)

    def split(self, parts: int) -> Ragged:
        """Each row as so many rows of about equal length."""
        ends = self.count[:, None] * np.arange(parts + 1) // parts
        return Ragged(self.values, np.diff(ends, axis=1).ravel())

    def rows(self) -> Iterator[IntArray]:
        """One row after another."""
        return iter(np.split(self.values, self.first[1:])[: len(self.count)])


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends as columns, by steps. Steps only order the sends on a port: no send waits for a step to end.

    Parameters
    ----------
    step, src, dst : shape (num_sends,); the number of its step, and between which ranks.
    units : the units (`parts.Cut`) that each carries.
    adds : shape (num_sends,); whether it carries partial sums.
    since : shape (num_sends,); the step before which the sums that it carries were complete at its sender;
        -1: it carries all that came there so far, of which the sender is then rid.
        None: every sum is made once, and a send carries all of it that ever comes to its sender.
    after : the step from which on what came to its sender counts; -1, as without: its own contribution does.
    """

    step: IntArray
    src: IntArray
    dst: IntArray
    units: Ragged
    adds: BoolArray
    since: IntArray | None = None
    after: IntArray | None = None

    @staticmethod
    def of(hops: Hops, blocks: Ragged, num_ranks: int) -> Sends:
        """Hops of blocks of several units: those of one step between two ranks are one send."""
        order = by_value(hops.step)
        step, src, dst, block = (column[order] for column in hops)
        number = by_occurrence((step * num_ranks + src) * num_ranks + dst)
        order = by_value(number)
        number = number[order]
        first = first_positions(number, int(number.max(initial=-1)) + 1)
        units, first_row = blocks.take(block[order]), order[first]
        count = np.add.reduceat(units.count, first) if len(first) else units.count
        columns = step[first_row], src[first_row], dst[first_row]
        sends = Sends(*columns, Ragged(units.values, count), np.zeros(len(first), dtype=np.bool_))
        return sends if count.all() else sends.take(np.flatnonzero(count))

    @property
    def num_steps(self) -> int:
        return int(self.step.max(initial=-1)) + 1

    def take(self, sends: IntArray) -> Sends:
        """The given sends, in the given order."""
        since, after = (None if each is None else each[sends] for each in (self.since, self.after))
        columns = self.step[sends], self.src[sends], self.dst[sends]
        return Sends(*columns, self.units.take(sends), self.adds[sends], since, after)

    def by_steps(self) -> Sends:
        """The same in the order of their steps."""
        if (self.step[1:] >= self.step[:-1]).all():
            return self
        return self.take(by_value(self.step))

    def later(self, steps: int) -> Sends:
        """The same, begun this many steps later."""
        since, after = (
            None if each is None else np.where(each < 0, each, each + steps)
            for each in (self.since, self.after)
        )
        return replace(self, step=self.step + steps, since=since, after=after)

    def of_units(self, units: IntArray) -> Sends:
        """The same with these units for those that it numbers."""
        return replace(self, units=Ragged(units[self.units.values], self.units.count))

    def adding(self, carried: Carried) -> Sends:
        """The same as partial sums."""
        after = None if carried.after is None else carried.after[self.step]
        return replace(self, adds=np.ones_like(self.adds), since=carried.since[self.step], after=after)

    def combined(self) -> Sends:
        """The same, where sends of one step that go from one rank to another as one are one."""
        sums = [each for each in (self.since, self.after) if each is not None]
        columns = np.stack([self.step, self.src, self.dst, self.adds, *sums])
        first, number = np.unique(columns, axis=1, return_index=True, return_inverse=True)[1:]
        if len(first) == len(self.step):
            return self
        order = by_value(number.ravel())
        units = self.units.take(order)
        count = np.bincount(number.ravel(), self.units.count).astype(np.int64)
        return replace(self.take(first), units=Ragged(units.values, count))

    def backwards(self) -> Sends:
        """Copies read backwards on links turned round: the sums of what they spread, where that began."""
        step = self.num_steps - 1 - self.step
        return replace(self, step=step, src=self.dst, dst=self.src, adds=np.ones_like(self.adds)).by_steps()

    def without_repeats(self, begin: IntArray, num_ranks: int) -> Sends:
        """Copies without those that come where they are already; `begin` : where each unit is at first."""
        send = np.repeat(np.arange(len(self.step)), self.units.count)
        unit = self.units.values
        row = np.unique(unit * num_ranks + self.dst[send], return_index=True)[1]
        row = np.sort(row[self.dst[send[row]] != begin[unit[row]]])
        left = np.bincount(send[row], minlength=len(self.step))
        return replace(self, units=Ragged(unit[row], left)).take(np.flatnonzero(left))


def together(some: Sequence[Sends]) -> Sends:
    """Several side by side, by steps; if one says since when its sums are complete, all do."""
    if len(some) == 1:
        return some[0]
    if not some:
        none = np.zeros(0, dtype=np.int64)
        return Sends(none, none, none, Ragged(none, none), np.zeros(0, dtype=np.bool_))
    since, after = (
        None
        if all(each is None for each in columns)
        else np.concatenate(
            [-np.ones_like(of.step) if each is None else each for of, each in zip(some, columns, strict=True)]
        )
        for columns in ([each.since for each in some], [each.after for each in some])
    )
    return Sends(
        step=np.concatenate([each.step for each in some]),
        src=np.concatenate([each.src for each in some]),
        dst=np.concatenate([each.dst for each in some]),
        units=Ragged(
            np.concatenate([each.units.values for each in some]),
            np.concatenate([each.units.count for each in some]),
        ),
        adds=np.concatenate([each.adds for each in some]),
        since=since,
        after=after,
    ).by_steps()


def in_turn(some: Iterable[Sends]) -> Sends:
    """Several after each other."""
    first, moved = 0, []
    for each in some:
        moved.append(each.later(first))
        first += each.num_steps
    return together(moved)


def there_and_back(copies: Sends) -> Sends:
    """Sums of what some copies spread, made where that begins by the copies backwards; then the copies."""
    return in_turn([copies.backwards(), copies])
