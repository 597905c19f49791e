"""Through a switch that sums and copies: each rank has its part summed there, and multicasts it from there.

A chunk takes four steps at most: all but its owner send it to the switch's sum, the owner gets the sum and
adds its own, sends the total to the switch's copy, and all others get it. An AllReduce is all four, a
ReduceScatter the first two, an AllGather the last two; a switch that sums and multicasts in one pass has
two. Where the network of several nodes is such a switch, one rank of each node goes for all of them, with
steps inside nodes before and after (`hops`). Chunks follow each other at every step, those of different
owners in turn, so that all steps go on at once; or each rank's sends of a step are one group, one alpha.

Sources: NVLS and CollNet of NCCL, as NVIDIA describes them: "NVLink SHARP" in the documentation of NCCL's
environment variables (`NCCL_ALGO`, `NCCL_NVLS_ENABLE`, `NCCL_COLLNET_ENABLE`); how the two forms of CollNet
differ, by the latencies in NCCL's `tuning.cc` (2.30).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.in_switch.hops import Way, ways_of
from taccl.encoding.engines.in_switch.tuning import HOP, LATER
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether a switch reaches all ranks, and each chunk is summed or copied there."""
    return YES if instance.once(ways_of) else no("no switch sums and copies for all ranks what is requested")


def in_switch(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield the schedules that are better than `incumbent`; nothing is searched."""
    best_us = math.inf if incumbent is None else incumbent.makespan_us
    for _, schedule in named(instance, budget):
        if schedule.makespan_us < best_us - TOLERANCE_US:
            best_us = schedule.makespan_us
            yield Update("in-switch", schedule)


def across_chunks(instances: Sequence[Instance], budget: Budget) -> Iterator[Schedule]:
    """Schedules of the same size cut into different numbers of chunks, each faster than those before."""
    best_us = math.inf
    for instance in instances:
        for _, schedule in named(instance, budget) if budget.remaining_s() else ():
            if schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = schedule.makespan_us
                yield schedule


def named(instance: Instance, budget: Budget) -> Iterator[tuple[str, Schedule]]:
    """Valid schedules with the names by which libraries know them."""
    problem = instance.problem
    for way in instance.once(ways_of):
        budget.spend(HOP * sum(len(hops) for chunk in way.chunks for hops in chunk))
        orders = (way.name, _one_by_one(way)), (f"{way.name} in groups", _in_groups(way, problem.max_group))
        for name, decisions in orders:
            schedule = in_order(problem, list(decisions))
            with suppress(ScheduleError):  # the switch has no memory for so much at once
                schedule.check()
                yield name, schedule


def _one_by_one(way: Way) -> Iterator[Decision]:
    """Each step of a chunk next to the step before of a chunk that follows it at its door."""
    for turn in range(len(way.chunks) + LATER * way.doors * (way.steps - 1)):
        for step in range(way.steps):
            place = turn - LATER * way.doors * step
            if 0 <= place < len(way.chunks) and step < len(way.chunks[place]):
                for hop in way.chunks[place][step]:
                    yield Decision((hop.chunk,), hop.link, hop.reduce)


def _in_groups(way: Way, most: int) -> Iterator[Decision]:
    """All chunks of a link at a step as one send, or as few as may be of at most so many chunks."""
    for step in range(way.steps):
        of_link: dict[tuple[int, bool], list[int]] = {}
        for hop in (hop for hops in way.chunks if step < len(hops) for hop in hops[step]):
            of_link.setdefault((hop.link, hop.reduce), []).append(hop.chunk)
        for (link, reduce), together in of_link.items():
            for first in range(0, len(together), most):
                yield Decision(tuple(together[first : first + most]), link, reduce)
