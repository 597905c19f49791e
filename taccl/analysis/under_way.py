"""What is left of a collective that was interrupted: chunks are where they had arrived."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.mending import links_now
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.errors import ScheduleError, UnitError
from taccl.model.collective import Placement
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.model.units import MAX_TIME_US
from taccl.support.arguments import number


def rest_of(schedule: Schedule, at_us: float, now: LogicalTopology) -> Schedule:
    """The sends that had not begun by a moment, with what had arrived as inputs.

    What was under way then still arrives, where its link is one of the machine now; else it has to be sent
    again. Times of the rest count from that moment. A rank's inputs of the rest are its inputs, then what it
    had received, in the order of arrival.

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
    left = np.array([link is not None for link in links_now(problem.topology, now)])
    arrives = (schedule.end_us <= at_us) | ((schedule.start_us < at_us) & left[schedule.link])
    ready_us = np.zeros(len(collective.inputs)) if problem.ready_us is None else problem.ready_us
    order = np.flatnonzero(arrives)[np.argsort(schedule.end_us[arrives], kind="stable")]
    size = collective.inputs.buffer_size(collective.num_ranks)
    offsets = []
    for rank in schedule.dst[order].tolist():
        offsets.append(int(size[rank]))
        size[rank] += 1
    inputs = Placement(
        np.concatenate([collective.inputs.chunk, schedule.chunk[order]]),
        np.concatenate([collective.inputs.rank, schedule.dst[order]]),
        np.concatenate([collective.inputs.offset, np.array(offsets, dtype=np.int64)]),
    )
    rest = replace(
        problem,
        collective=replace(collective, name=f"rest of {collective.name}", inputs=inputs, root=None),
        ready_us=np.maximum(np.concatenate([ready_us, schedule.end_us[order]]) - at_us, 0.0),
        symmetry=(),
    )
    sends = schedule.take(np.flatnonzero(~arrives))
    return in_order(rest, decisions_of(sends))
