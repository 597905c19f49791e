"""What is left of a collective that was interrupted: chunks are where they had arrived."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.mending import links_now
from taccl.encoding.core.timing import decisions_of, in_order, without_dead_ends
from taccl.errors import ScheduleError, UnitError
from taccl.model.collective import BoolArray, IntArray, Placement
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.model.units import MAX_TIME_US
from taccl.support.arguments import number


@dataclass(frozen=True, eq=False)
class Rest:
    """The sends that are left, of chunks that are there from 0 on, and when in the call that 0 is, us."""

    schedule: Schedule
    from_us: float


def rest_of(schedule: Schedule, at_us: float, now: LogicalTopology) -> Rest:
    """The sends that had not begun by a moment, with what had arrived as inputs.

    What was under way then still arrives, where its link is one of the machine now, and what is left of it
    at the rate that the link has now. The rest begins when all of that has ended and its ports are free. What
    was on a link that is gone, and what had come to a switch or server alone, is sent again. The inputs of a
    rank are its inputs, then what it had received, in the order of arrival.

    Raises
    ------
    ScheduleError : it makes sums, whose parts no collective can say. UnitError : no such moment.
    """
    at_us = number(at_us, "the moment of the change", UnitError, least=0.0, most=MAX_TIME_US, unit="us")
    problem, collective = schedule.problem, schedule.problem.collective
    if collective.reduces.any():
        raise ScheduleError(
            "the rest of sums cannot be planned: no collective says who has which parts of them",
            hint="without --at, to plan the whole anew",
        )
    links = links_now(problem.topology, now)
    left = np.array([link is not None for link in links])
    under_way = (schedule.start_us < at_us) & (schedule.end_us > at_us) & left[schedule.link]
    is_member = schedule.dst < problem.topology.num_members
    arrives = ((schedule.end_us <= at_us) | under_way) & is_member
    from_us = max([at_us, *_ends_us(schedule, under_way, at_us, links, now)])
    ready_us = None if problem.ready_us is None else np.maximum(problem.ready_us - from_us, 0.0)
    inputs = _inputs(schedule, arrives)
    if ready_us is not None:
        ready_us = np.concatenate([ready_us, np.zeros(len(inputs) - len(ready_us))])
    rest = replace(
        problem,
        collective=replace(collective, name=f"rest of {collective.name}", inputs=inputs, root=None),
        ready_us=ready_us,
        symmetry=(),
    )
    again = np.flatnonzero(~arrives)
    sends = in_order(rest, decisions_of(schedule.take(again)))
    return Rest(without_dead_ends(sends), from_us)


def _ends_us(
    schedule: Schedule, under_way: BoolArray, at_us: float, links: list[int | None], now: LogicalTopology
) -> list[float]:
    """When each send under way ends, with what is left of it at the costs that its link has now."""
    ends = []
    sends = schedule.sends
    for send in np.unique(sends.of_row[under_way]).tolist():
        link = links[int(sends.link[send])]
        assert link is not None
        mb = float(schedule.problem.size_mb[schedule.chunk[sends.of_row == send]].sum())
        takes_us = float(now.duration_us(np.array([link]), mb)[0])
        lasted_us = float(sends.end_us[send] - sends.start_us[send])
        part_left = float(sends.end_us[send] - at_us) / lasted_us
        ends.append(at_us + part_left * max(takes_us, lasted_us))
    return ends


def _inputs(schedule: Schedule, arrives: BoolArray) -> Placement:
    """The inputs, and behind them in each rank's buffer what has arrived."""
    collective = schedule.problem.collective
    order: IntArray = np.flatnonzero(arrives)[np.argsort(schedule.end_us[arrives], kind="stable")]
    size = collective.inputs.buffer_size(collective.num_ranks)
    offsets = []
    for rank in schedule.dst[order].tolist():
        offsets.append(int(size[rank]))
        size[rank] += 1
    return Placement(
        np.concatenate([collective.inputs.chunk, schedule.chunk[order]]),
        np.concatenate([collective.inputs.rank, schedule.dst[order]]),
        np.concatenate([collective.inputs.offset, np.array(offsets, dtype=np.int64)]),
    )
