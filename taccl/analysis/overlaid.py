"""Plans of several collectives, each made alone, on the ports that they share: in a row, and side by side.

A part may wait for the end of others. When it is ready then follows from the schedule itself: the times are
computed again until they stay, which they do once all parts that it waits for have, since these come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.model.collective import BoolArray, IntArray, Placement
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.schedule.finish import arrivals_us
from taccl.synthesis.collective_parts import RequestedPart


@dataclass(frozen=True, eq=False)
class Parts:
    """A problem that is several collectives, and which of them waits for which.

    Parameters
    ----------
    problem : all parts; each is ready as if it waited for no other.
    requested : the parts, in the order of their chunks.
    """

    problem: Problem
    requested: tuple[RequestedPart, ...]

    @cached_property
    def of_chunk(self) -> IntArray:
        """The part of each chunk."""
        return np.repeat(np.arange(len(self.requested)), [each.num_chunks for each in self.requested])

    @cached_property
    def level(self) -> list[int]:
        """How many parts one after another come before each, at most."""
        level = [0] * len(self.requested)
        for _ in self.requested:  # parts form no cycle
            level = [1 + max((level[each] for each in part.after), default=-1) for part in self.requested]
        return level

    @property
    def waits(self) -> bool:
        """Whether some part waits for others."""
        return any(part.after for part in self.requested)

    def alone(self, part: int) -> Problem:
        """One part as a problem of its own."""
        problem, mine = self.problem, self.of_chunk == part
        collective, first = problem.collective, int(np.argmax(mine))
        rows = [mine[rows.chunk] for rows in (collective.inputs, collective.outputs)]
        inputs, outputs = (
            Placement(each.chunk[of] - first, each.rank[of], each.offset[of])
            for each, of in zip((collective.inputs, collective.outputs), rows, strict=True)
        )
        return replace(
            problem,
            collective=replace(
                collective,
                name=self.requested[part].collective,
                inputs=inputs,
                outputs=outputs,
                reduces=collective.reduces[mine],
                owner=collective.owner[mine],
            ),
            symmetry=(),
            sizes=_of(problem.sizes, mine),
            ready_us=_of(problem.ready_us, rows[0]),
            tail_us=_of(problem.tail_us, rows[1]),
        )

    def ready(self, moments_us: Sequence[float], least_us: Sequence[float] | None = None) -> Problem:
        """The problem with parts that are ready so much later, and no sooner than `least_us`."""
        of = self.of_chunk[self.problem.collective.inputs.chunk]
        own = 0.0 if self.problem.ready_us is None else self.problem.ready_us
        ready = np.array(moments_us)[of] + own
        if least_us is not None:
            ready = np.maximum(ready, np.array(least_us)[of])
        return replace(self.problem, ready_us=ready if ready.any() else None)

    def with_ends_by(self, problem: Problem, by_us: Sequence[float], last_us: float) -> Problem:
        """A problem in which every schedule of at most `last_us` ends each part by its moment."""
        least = last_us - np.array(by_us)[self.of_chunk[self.problem.collective.outputs.chunk]]
        own = 0.0 if problem.tail_us is None else problem.tail_us
        return replace(problem, tail_us=own + np.maximum(least, 0.0))

    def ends_us(self, schedule: Schedule) -> list[float]:
        """When each part has ended, with what follows it."""
        tail = schedule.problem.tail_us
        ends = arrivals_us(schedule) + (0.0 if tail is None else tail)
        last = np.zeros(len(self.requested))
        np.maximum.at(last, self.of_chunk[schedule.problem.collective.outputs.chunk], ends)
        return [float(each) for each in last]

    def moments_us(self, ends_us: Sequence[float]) -> list[float]:
        """When the last of those that each part waits for has ended."""
        return [max((ends_us[each] for each in part.after), default=0.0) for part in self.requested]

    def in_a_row(self, alone: Sequence[Schedule]) -> list[int]:
        """Parts one after another: what others wait for first, then what is ready.

        Then, if they count differently, by the time that each takes over what it counts (Smith 1956).
        """
        differ = len({part.weight for part in self.requested}) > 1

        def key(part: int) -> tuple[float, ...]:
            requested = self.requested[part]
            return self.level[part], requested.ready_us, differ * alone[part].makespan_us / requested.weight

        return sorted(range(len(self.requested)), key=key)


def one_after_another(parts: Parts, alone: Sequence[Schedule]) -> Schedule:
    """Each part's own schedule once the one before it has ended."""
    now, ends, least = 0.0, [0.0] * len(alone), [0.0] * len(alone)
    sends, decisions = _shifted(parts, alone), list[Decision]()
    for part in parts.in_a_row(alone):
        least[part] = max(now, parts.requested[part].ready_us + parts.moments_us(ends)[part])
        problem = alone[part].problem
        ready = np.full(len(problem.collective.inputs), least[part])
        mine = in_order(replace(problem, ready_us=ready), decisions_of(alone[part]))
        now, ends[part] = max(now, float(mine.end_us.max(initial=0.0))), mine.makespan_us
        decisions += sends[part]
    return in_order(parts.ready(parts.moments_us(ends), least), decisions)


def overlaid(parts: Parts, alone: Sequence[Schedule]) -> Schedule:
    """All parts' own sends on shared ports: in a row, by when they started alone, or whatever can go first.

    No slower than one after another: in that order, each send now begins as soon as its ports are free.
    """
    sends = _shifted(parts, alone)
    row = [each for part in parts.in_a_row(alone) for each in sends[part]]
    ends = [schedule.makespan_us for schedule in alone]
    for _ in alone:  # what is waited for ends before what waits begins, so it also comes first
        moments = parts.moments_us(ends)
        ends = [schedule.makespan_us + later for schedule, later in zip(alone, moments, strict=True)]
    merged = [
        (moments[part] + start_us, decision)
        for part, schedule in enumerate(alone)
        for decision, start_us in zip(sends[part], np.sort(schedule.sends.start_us).tolist(), strict=True)
    ]
    merged.sort(key=lambda each: each[0])
    side_by_side = [decision for _, decision in merged]
    settled = [in_this_order(parts, each) for each in (row, side_by_side)]
    first = min(settled, key=lambda each: each.makespan_us)
    moments = parts.moments_us(parts.ends_us(first))
    problem = parts.ready(moments)
    for priority in (None, [-key for key, _ in merged]):
        schedule = list_schedule(problem, side_by_side, priority)
        late = np.array(parts.moments_us(parts.ends_us(schedule))) > np.array(moments) + TOLERANCE_US
        if not late.any():  # what is waited for ended as soon
            settled.append(schedule)
    return min(settled, key=lambda each: each.makespan_us)


def in_this_order(parts: Parts, decisions: Sequence[Decision]) -> Schedule:
    """The sends in this order, with parts ready when those have ended that they wait for."""
    moments = [0.0] * len(parts.requested)
    for _ in range(max(parts.level) + 1):
        schedule = in_order(parts.ready(moments), decisions)
        moments = parts.moments_us(parts.ends_us(schedule))
    return schedule


def _shifted(parts: Parts, alone: Sequence[Schedule]) -> list[list[Decision]]:
    """The sends of each part's own schedule, with the chunks of all parts.

    Where sums of one part name what they carry, those of all do.
    """
    own = [decisions_of(schedule) for schedule in alone]
    if any(send.sums is not None for sends in own for send in sends):
        own = [decisions_of(schedule, explicit=True) for schedule in alone]
    firsts = [int(np.argmax(parts.of_chunk == part)) for part in range(len(alone))]
    return [
        [replace(send, chunks=tuple(chunk + first for chunk in send.chunks)) for send in sends]
        for first, sends in zip(firsts, own, strict=True)
    ]


def _of(values: FloatArray | None, rows: BoolArray) -> FloatArray | None:
    return None if values is None else values[rows]
