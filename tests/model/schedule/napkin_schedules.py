"""Schedules that fit on a napkin, and what is found wrong with them.

Unless said otherwise a transfer of n chunks takes 1 + 2n us: alpha 1 us, beta 2 us/MB, chunks of 1 MB.
"""

from dataclasses import replace

import numpy as np
import pytest
from strategies_schedule import machine

from taccl.errors import ScheduleError
from taccl.model.collective import Collective, Placement
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends

LINKS = [(0, 1), (1, 2), (2, 1), (1, 0), (0, 2), (2, 0)]


ZERO = np.zeros(len(LINKS))


def planned(name_or_collective: str | Collective, sends: list[tuple], topology=None, **changes) -> Schedule:
    """A schedule of sends written as (chunks, (src, dst), start) or (chunks, (src, dst), start, "add")."""
    topology = topology or machine(3, LINKS)
    collective = name_or_collective
    if isinstance(collective, str):
        collective = make_collective(collective, topology.num_ranks)
    problem = replace(Problem(topology, collective, chunk_mb=1.0), **changes)
    return schedule_from_sends(
        problem,
        [Send(tuple(c), topology.link_index[ends], start, bool(add)) for c, ends, start, *add in sends],
    )


def edited(schedule: Schedule, rows: list[int], **values) -> Schedule:
    columns = {name: getattr(schedule, name).copy() for name in values}
    for name, value in values.items():
        columns[name][rows] = value
    return replace(schedule, **columns)


def findings(schedule: Schedule) -> tuple[str, ...]:
    with pytest.raises(ScheduleError, match="the schedule is not valid") as caught:
        schedule.check()
    return caught.value.findings


def sum_of(starts: list[int], wanted: list[int], num_ranks: int = 3) -> Collective:
    """One chunk, the sum over some ranks, wanted by some ranks."""
    zero = np.zeros(1, dtype=np.int64)
    return Collective(
        name="partial-sum",
        num_ranks=num_ranks,
        chunks_per_rank=1,
        chunks_per_size=1,
        inputs=Placement(zero.repeat(len(starts)), np.array(starts), zero.repeat(len(starts))),
        outputs=Placement(zero.repeat(len(wanted)), np.array(wanted), zero.repeat(len(wanted))),
        reduces=np.ones(1, dtype=np.bool_),
        owner=zero + wanted[0],
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )


def chain(**changes) -> Schedule:
    """Two chunks of rank 0, together to rank 1 and on to rank 2: rows 0 and 1, then 2 and 3."""
    broadcast = make_collective("broadcast", 3, 2)
    return planned(broadcast, [([0, 1], (0, 1), 0.0), ([0, 1], (1, 2), 5.0)], **changes)


def sum_chain(*more: tuple) -> Schedule:
    """Rank 2's contribution to rank 1, both to rank 0."""
    return planned("reduce", [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 3.0, "add"), *more])
