"""How sends become a schedule: links, what is too large for one send cut, and times."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import or_

import numpy as np

from taccl.encoding.core.ordering import Ordering, list_schedule
from taccl.encoding.core.phases import merged
from taccl.encoding.core.scheduler import Timed, sends_that_wait
from taccl.encoding.core.sequence import in_sequence
from taccl.encoding.core.timing import Decision, predecessors
from taccl.encoding.engines.textbook.parts import Cut
from taccl.encoding.engines.textbook.sends import Ragged, Sends
from taccl.encoding.engines.textbook.tuning import MOST_APART, MOST_CHUNKS_TO_REORDER, MOST_TO_REORDER
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.partial_sums import PartialSums

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Rows:
    """Sends over links, those that are too large for one cut into as few as there can be, as equal as can be.

    Parameters
    ----------
    link, adds : of each send.
    group, chunk : of each chunk that is sent, its send and its number.
    cell : of each chunk that is sent, its place in the units of the uncut sends.
    batch : of each send, the batch that its chunks belong to.
    """

    link: IntArray
    adds: BoolArray
    group: IntArray
    chunk: IntArray
    cell: IntArray
    batch: IntArray

    def __hash__(self) -> int:
        return hash(tuple(column.tobytes() for column in (self.link, self.adds, self.group, self.chunk)))


def rows_of(problem: Problem, sends: Sends, cut: Cut, apart: bool = False) -> Rows | None:
    """The sends over links, or, if they may be `apart`, each chunk of them where `go_apart` says so.

    None if a link is missing, or may not carry what an owner sends over it.
    """
    link = links_of(problem, sends)
    if (link < 0).any():
        return None
    chunks = cut.chunks.take(sends.units.values)
    of_send = np.repeat(np.repeat(np.arange(len(link)), sends.units.count), chunks.count)
    may_use = problem.limits.may_use
    if may_use is not None and not may_use[problem.collective.owner[chunks.values], link[of_send]].all():
        return None
    count = np.bincount(of_send, minlength=len(link))
    is_apart = apart and go_apart(problem, len(chunks.values))
    parts = count if is_apart else -(-count // problem.max_group)
    within = np.arange(len(of_send)) - np.repeat(np.cumsum(count) - count, count)
    part = (within * parts[of_send] + parts[of_send] - 1) // count[of_send]
    return Rows(
        link=np.repeat(link, parts),
        adds=np.repeat(sends.adds, parts),
        group=(np.cumsum(parts) - parts)[of_send] + part,
        chunk=chunks.values,
        cell=np.repeat(np.arange(len(chunks.count)), chunks.count),
        batch=np.repeat(cut.batch[sends.units.values[sends.units.first]], parts),
    )


def go_apart(problem: Problem, rows: int) -> bool:
    """Whether each chunk goes by itself once it is there: alpha keeps no port busy, and rows are few."""
    return not problem.topology.is_serial and rows <= MOST_APART


def timed(problem: Problem, sends: Sends, rows: Rows) -> Schedule | None:
    """The sends as a schedule: in their order, or in another one of `_soonest`, whichever ends sooner.

    None if they wait for each other in a circle, which a sender's own chunks first can cause.
    """
    if problem.limits.own_first is not None:
        schedule = list_schedule(problem, decisions(rows, None if sends.since is None else _carried(sends)))
        return schedule if len(schedule) == len(rows.chunk) else None
    if sends.since is None:
        columns = rows.link[rows.group], rows.adds[rows.group], rows.group
        schedule = in_sequence(problem, rows.chunk, *columns)
        busiest_us = float(schedule.port_busy_us.max(initial=0.0))
        is_large = len(rows.chunk) > MOST_CHUNKS_TO_REORDER
        if is_large or _is_settled(rows, schedule.makespan_us, busiest_us):
            return schedule
        ordering = Ordering.of(problem, decisions(rows))
        best = _soonest(ordering, rows.batch)
        return schedule if schedule.makespan_us <= best.end_us.max() else ordering.schedule(best)
    explicit = _Explicit.of(problem, sends, rows)
    ordering = explicit.ordering
    best = ordering.in_sequence()
    if not _is_settled(rows, float(best.end_us.max(initial=0.0)), ordering.busiest_us):
        best = min(best, _soonest(ordering, rows.batch), key=lambda each: float(each.end_us.max()))
    return explicit.schedule(best)


def _is_settled(rows: Rows, end_us: float, busiest_us: float) -> bool:
    """Whether no other order is looked at: a port is busy all the time, or there are too many sends."""
    is_large = len(rows.link) > MOST_TO_REORDER
    return is_large or end_us <= busiest_us * (1 + _ROUNDING)


def _soonest(ordering: Ordering, batch: IntArray) -> Timed:
    """The soonest of some orders in which what can go goes: with what most waits for first, and by batches.

    Of several batches either the first has precedence wherever it can go, which fills a pipeline soonest, or
    steps have, and batches within a step, so that all advance together.
    """
    every = [ordering.timed()]
    if batch.any():
        turn = np.arange(len(batch))
        by_batch = np.empty_like(turn)
        by_batch[np.argsort(batch, kind="stable")] = turn
        every += [ordering.timed(-each.astype(np.float64)) for each in (turn, by_batch)]
    return min(every, key=lambda each: float(each.end_us.max()))


def decisions(rows: Rows, carried: Sequence[int] | None = None) -> list[Decision]:
    """The sends one by one; `carried` : the sum that each cell carries, where those are explicit."""
    ends = np.cumsum(np.bincount(rows.group, minlength=len(rows.link))).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    chunk, columns = rows.chunk.tolist(), (rows.link.tolist(), rows.adds.tolist())
    chunks = [tuple(chunk[first:last]) for first, last in spans]
    if carried is None:
        return [Decision(*send) for send in zip(chunks, *columns, strict=True)]
    of_row = [carried[cell] for cell in rows.cell.tolist()]
    sums = [tuple(of_row[first:last]) for first, last in spans]
    return [Decision(*send) for send in zip(chunks, *columns, sums, strict=True)]


def _like(sends: Sends) -> IntArray:
    """For each unit the first one that is in the same sends, shape (num_units,)."""
    send = np.repeat(np.arange(len(sends.step)), sends.units.count)
    first: dict[bytes, int] = {}
    in_sends = Ragged.by_key(sends.units.values, values=send).rows()
    return np.array([first.setdefault(each.tobytes(), unit) for unit, each in enumerate(in_sends)])


@dataclass(frozen=True, eq=False)
class _Explicit:
    """Sends that say what sums they carry, as columns; of chunks that are in the same sends one is looked at.

    Parameters
    ----------
    ordering : the sends, with what each waits for; of its decisions, those chunks alone.
    sums : what each row carries.
    """

    rows: Rows
    ordering: Ordering
    sums: PartialSums

    @staticmethod
    def of(problem: Problem, sends: Sends, rows: Rows) -> _Explicit:
        """The sends of a problem of equal chunks."""
        carried = _carried(sends)
        telling = _telling(rows)
        made = decisions(telling, carried)
        others = set(range(problem.num_chunks)) - set(telling.chunk.tolist())
        before = predecessors(problem, made, others)
        mb, ready_us = np.bincount(rows.group) * problem.chunk_mb, np.zeros(len(rows.link))
        waiting = sends_that_wait(rows.link.astype(np.int64), mb, ready_us, before)
        of_cell = PartialSums.of_sets(carried, problem.num_ranks)
        return _Explicit(rows, Ordering(problem, made, waiting), of_cell.take(rows.cell))

    def schedule(self, times: Timed) -> Schedule:
        """The schedule with these times."""
        ordering, group = self.ordering, self.rows.group
        link, start_us = ordering.sends.link, times.start_us
        end_us = start_us + ordering.problem.topology.duration_us(link, ordering.sends.mb)
        return Schedule(
            problem=ordering.problem,
            chunk=self.rows.chunk,
            link=link[group],
            start_us=start_us[group],
            end_us=end_us[group],
            reduce=self.sums.of_row >= 0,
            group=group,
            sums=self.sums,
        ).sorted()


def _telling(rows: Rows) -> Rows:
    """The rows of the first of all chunks that are in the same sends."""
    in_sends = Ragged.by_key(rows.chunk, values=rows.group)
    first: dict[bytes, int] = {}
    firsts = [first.setdefault(each.tobytes(), chunk) for chunk, each in enumerate(in_sends.rows())]
    kept = np.flatnonzero(np.array(firsts)[rows.chunk] == rows.chunk)
    return replace(rows, group=rows.group[kept], chunk=rows.chunk[kept], cell=rows.cell[kept])


def _carried(sends: Sends) -> list[int]:
    """The sum that each send carries of each of its units (`schedule.partial_sums`); 0 for a copy.

    Units that are in the same sends have the same sums there, so one of them tells of all.
    """
    like, units = _like(sends), sends.units.values
    tells = like[units] == units
    send = np.repeat(np.arange(len(sends.step)), sends.units.count)
    telling = Ragged(units[tells], np.bincount(send[tells], minlength=len(sends.step)))
    sums = _sums_of(replace(sends, units=telling))
    # Where in `telling` each cell's send has the unit that tells of it.
    key = send * (int(units.max(initial=0)) + 1)
    keys = (key + units)[tells]
    order = np.argsort(keys)
    cell = order[np.searchsorted(keys[order], key + like[units])]
    return [sums[each] for each in cell.tolist()]


def _sums_of(sends: Sends) -> list[int]:
    """The same for each of its units by itself."""
    assert sends.since is not None
    #: Of a unit and a rank, what came there, in the order of the steps; its own contribution is there before.
    came: dict[tuple[int, int], list[tuple[int, int]]] = {}
    sums: list[int] = []
    after = -np.ones_like(sends.step) if sends.after is None else sends.after
    columns = sends.step, sends.src, sends.dst, sends.adds, sends.since, after
    for (step, src, dst, adds, since, first), units in zip(
        zip(*(column.tolist() for column in columns), strict=True), sends.units.rows(), strict=True
    ):
        for unit in units.tolist():
            if not adds:
                sums.append(0)
                continue
            mine = came.setdefault((unit, src), [(-1, 1 << src)])
            until = step if since < 0 else since
            sums.append(functools.reduce(or_, (each for at, each in mine if first <= at < until), 0))
            if since < 0:
                mine[:] = [each for each in mine if each[0] >= until]
            came.setdefault((unit, dst), [(-1, 1 << dst)]).append((step, sums[-1]))
    return sums


def backwards(problem: Problem, copies: Schedule) -> Schedule | None:
    """A schedule of the reversed problem, which copies, read as the sums that `problem` asks for."""
    schedule = merged(problem, copies, None)
    return schedule if len(schedule) == len(copies) else None


def links_of(problem: Problem, sends: Sends) -> IntArray:
    """The link of each send; -1 where there is none."""
    topology = problem.topology
    table = np.full((topology.num_ranks, topology.num_ranks), -1, dtype=np.int32)
    table[topology.src, topology.dst] = np.arange(topology.num_links)
    return np.asarray(table[sends.src, sends.dst])
