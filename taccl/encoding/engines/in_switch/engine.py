"""Through a switch that sums and copies: each rank has its part summed there, and multicasts it from there.

A chunk takes four steps at most: all but its owner send it to the switch's sum, the owner gets the sum and
adds its own, sends the total to the switch's copy, and all others get it. An AllReduce is all four, a
ReduceScatter the first two, an AllGather the last two; a switch that sums and multicasts in one pass has
two. Where the network of several nodes is such a switch, one rank of each node goes for all of them, with
steps inside nodes before and after (`hops`). Chunks follow each other at every step, those of different
owners in turn, so that all steps go on at once; or each rank's sends of a step are one group, one alpha;
or there are a few batches of groups, which overlap.

Sources: NVLS and CollNet of NCCL, as NVIDIA describes them: "NVLink SHARP" in the documentation of NCCL's
environment variables (`NCCL_ALGO`, `NCCL_NVLS_ENABLE`, `NCCL_COLLNET_ENABLE`); how the two forms of CollNet
differ, by the latencies in NCCL's `tuning.cc` (2.30).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.in_switch.hops import Hop, Way, through_one
from taccl.encoding.engines.in_switch.rails import along_rails
from taccl.encoding.engines.in_switch.tuning import HOP, LATER, MOST_KEPT, SLOWER
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget


def serves(instance: Instance) -> Verdict:
    """Whether a switch reaches all ranks, or one each node's, and each chunk is summed or copied there."""
    some = next(iter(instance.once(ways_of)), None)
    return YES if some else no("no switch sums and copies for all ranks what is requested")


@dataclass(frozen=True)
class _Pace:
    """In which order steps of chunks are taken.

    Parameters
    ----------
    starts : at which turn after its first step a chunk, or a batch of them, takes each step.
    batches : so many, with as many chunks of each owner as others; 0: one chunk after another.
    """

    starts: tuple[int, ...]
    batches: int = 0

    @property
    def suffix(self) -> str:
        """What it adds to the name of an algorithm."""
        return ("", " in groups", " in batches")[min(self.batches, 2)]


class _Ways:
    """Ways, each made when it is needed first: whether there are any, one says."""

    def __init__(self, ways: Iterator[Way]) -> None:
        self._made, self._others = list[Way](), ways

    def __iter__(self) -> Iterator[Way]:
        yield from self._made
        for way in self._others:
            self._made.append(way)
            yield way


def ways_of(instance: Instance) -> Iterable[Way]:
    """What there is to choose from; `instance.once(ways_of)`."""
    return _Ways(chain(through_one(instance), along_rails(instance)))


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
    best_us, took_s, chunks = math.inf, 0.0, 1
    for instance in instances:
        # More chunks take as many times longer.
        before_s, finer = budget.remaining_s(), instance.problem.num_chunks / chunks
        if before_s <= took_s * finer:
            return
        for _, schedule in named(instance, budget):
            if schedule.makespan_us < best_us - TOLERANCE_US:
                best_us = schedule.makespan_us
                yield schedule
        took_s, chunks = before_s - budget.remaining_s(), instance.problem.num_chunks


def named(
    instance: Instance, budget: Budget, wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, Schedule]]:
    """Valid schedules with the names by which libraries know them: one, and others while there is time."""
    problem, made, is_first = instance.problem, instance.once(_kept), True
    for number, way in enumerate(instance.once(ways_of)):
        if not wanted(way.name):
            continue
        for pace in _paces(problem, way):
            if (number, pace) in made:
                schedule = made[number, pace]
            elif is_first or budget.remaining_s():
                budget.spend(HOP / 2 * sum(len(hops) for chunk in way.chunks for hops in chunk))
                schedule = _in_turns(problem, way, pace)
                if schedule is None or len(schedule) <= MOST_KEPT:
                    made[number, pace] = schedule
            else:
                return
            is_first = False
            if schedule is not None:
                yield way.name + pace.suffix, schedule


def _kept(instance: Instance) -> dict[tuple[int, _Pace], Schedule | None]:
    """What was made of each way; `instance.once(_kept)`."""
    return {}


def _paces(problem: Problem, way: Way) -> Iterator[_Pace]:
    """Chunk by chunk, all in groups, in two batches, in four, and so on."""
    yield from dict.fromkeys(_Pace(_starts(problem, way, slower)) for slower in SLOWER)
    batches = 1
    while batches <= way.turns:
        yield _Pace(_starts_of_batches(problem, way), batches)
        batches *= 2


def _in_turns(problem: Problem, way: Way, pace: _Pace) -> Schedule | None:
    """Chunks at this pace; None: the switch has no memory for so much."""
    decisions = _in_batches(way, pace, problem.max_group) if pace.batches else _one_by_one(way, pace.starts)
    schedule = in_order(problem, list(decisions))
    try:
        schedule.check()
    except ScheduleError:
        return None
    return schedule


def _starts(problem: Problem, way: Way, slower: float) -> tuple[int, ...]:
    """At which turn after its first step a chunk takes each step.

    Those behind a step that takes longer than the shortest wait as many turns more as it takes longer, times
    `slower`: other chunks take the shortest steps until then.
    """
    took_us = [_busy_us(problem, hops) for hops in max(way.chunks, key=len)]
    shortest_us = min(took_us)
    more = [slower * (each / shortest_us - 1) if shortest_us else 0.0 for each in took_us]
    # Behind all chunks is as late as it gets, however much longer a step takes.
    waits = [LATER * way.doors + round(min(each, len(way.chunks))) for each in more]
    return tuple(accumulate(waits[:-1], initial=0))


def _starts_of_batches(problem: Problem, way: Way) -> tuple[int, ...]:
    """Inside nodes one batch after another; between nodes it crosses while those of the next are summed.

    A sum out of a switch, and a copy into it, keep both ports of a rank busy, so the first step of the next
    batch has the time in which this one is copied to all, and sooner it would be in the way.
    """
    between = problem.topology.internode
    crosses = [any(between[hop.link] for hop in hops) for hops in max(way.chunks, key=len)]
    return tuple(int(any(crosses[: step + 1])) for step in range(way.steps))


def _busy_us(problem: Problem, hops: Sequence[Hop]) -> float:
    """How long a step keeps the port busy that has most to do."""
    topology, busy_us = problem.topology, Counter[int]()
    for hop in hops:
        pairs = np.arange(topology.first_pair[hop.link], topology.first_pair[hop.link + 1])
        for port, us in zip(
            topology.ports[hop.link], topology.port_busy_us(pairs, problem.chunk_mb), strict=True
        ):
            busy_us[port] += us
    return float(max(busy_us.values()))


def _one_by_one(way: Way, starts: Sequence[int]) -> Iterator[Decision]:
    """Each step of a chunk next to the step before of a chunk that follows it at its door."""
    for turn in range(len(way.chunks) + starts[-1]):
        for step, start in enumerate(starts):
            place = turn - start
            if 0 <= place < len(way.chunks) and step < len(way.chunks[place]):
                for hop in way.chunks[place][step]:
                    yield Decision((hop.chunk,), hop.link, hop.reduce)


def _in_batches(way: Way, pace: _Pace, most: int) -> Iterator[Decision]:
    """One send for all that a batch sends over a link at a step; more where that is above `most` chunks."""
    batches: list[list[Sequence[Sequence[Hop]]]] = [[] for _ in range(pace.batches)]
    for turn, chunk in zip(way.turn_of, way.chunks, strict=True):
        batches[turn * pace.batches // way.turns].append(chunk)
    for turn in range(pace.batches + pace.starts[-1]):
        for step, start in enumerate(pace.starts):
            if 0 <= turn - start < pace.batches:
                steps = [chunk[step] for chunk in batches[turn - start] if step < len(chunk)]
                yield from _grouped(chain.from_iterable(steps), most)


def _grouped(hops: Iterable[Hop], most: int) -> Iterator[Decision]:
    """The hops over each link as one send, or as several of at most `most` chunks."""
    of_link: dict[tuple[int, bool], list[int]] = {}
    for hop in hops:
        of_link.setdefault((hop.link, hop.reduce), []).append(hop.chunk)
    for (link, reduce), together in of_link.items():
        for first in range(0, len(together), most):
            yield Decision(tuple(together[first : first + most]), link, reduce)
