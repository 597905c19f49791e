"""Through a switch that sums and copies: each rank has its part summed there, and multicasts it from there.

A chunk takes four steps at most: all but its owner send it to the switch's sum, the owner gets the sum and
adds its own, sends the total to the switch's copy, and all others get it. An AllReduce is all four, a
ReduceScatter the first two, an AllGather the last two. Chunks follow each other at every step, those of
different owners in turn, so that all four go on at once; or each rank's sends of a step are one group, which
pays four alphas in all.

Source: NVLS of NCCL 2.17 and later, as NVIDIA describes it: "NVLink SHARP" in the documentation of NCCL's
environment variables (`NCCL_ALGO`, `NCCL_NVLS_ENABLE`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.engines.in_switch.tuning import HOP, LATER
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError
from taccl.model.collective import Placement
from taccl.model.network import LogicalTopology
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.support.budget import Budget

_STEPS = 4


@dataclass(frozen=True)
class _Hop:
    """A chunk over a link, at a step of the algorithm."""

    chunk: int
    link: int
    reduce: bool


def serves(instance: Instance) -> Verdict:
    """Whether a switch reaches all ranks, and each chunk is summed or copied there."""
    return (
        YES if instance.once(_chunks_of) else no("no switch sums and copies for all ranks what is requested")
    )


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
    chunks = instance.once(_chunks_of)
    if not chunks:
        return
    problem = instance.problem
    budget.spend(HOP * sum(len(hops) for chunk in chunks for hops in chunk))
    ways = ("NVLS", _one_by_one(chunks)), ("NVLS in groups", _in_groups(chunks, problem.max_group))
    for name, decisions in ways:
        schedule = in_order(problem, list(decisions))
        with suppress(ScheduleError):  # the switch has no memory for so much at once
            schedule.check()
            yield name, schedule


def _chunks_of(instance: Instance) -> Sequence[Sequence[Sequence[_Hop]]]:
    """For each chunk its hops at each step; none where a chunk is neither summed nor copied at a switch."""
    collective, topology = instance.problem.collective, instance.problem.topology
    links = {
        ends: link for link, ends in enumerate(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
    }
    at_sum, at_copy = _faces(topology, links)
    if at_sum is None and at_copy is None:
        return ()
    sources = _ranks_of(collective.inputs, collective.num_chunks)
    wanted = _ranks_of(collective.outputs, collective.num_chunks)
    turns, order, chunks = Counter[int](), list[tuple[int, int]](), list[list[list[_Hop]]]()
    for chunk, (held, goals) in enumerate(zip(sources, wanted, strict=True)):
        is_sum = bool(collective.reduces[chunk]) and len(held) > 1
        owner = (int(collective.owner[chunk]) if len(goals) > 1 else goals[0]) if is_sum else held[0]
        givers = [rank for rank in held if rank != owner]
        takers = [rank for rank in goals if rank != owner]
        if len(takers) == 1 or not (givers or takers):  # nothing is summed or copied
            return ()
        if (givers and at_sum is None) or (takers and at_copy is None):
            return ()
        ends = _ends(owner, (givers, at_sum), (takers, at_copy))
        chunks.append(
            [[_Hop(chunk, links[each], step < 2) for each in hops] for step, hops in enumerate(ends)]
        )
        order.append((turns[owner], owner))
        turns[owner] += 1
    return [chunks[chunk] for chunk in sorted(range(len(chunks)), key=order.__getitem__)]


def _ends(
    owner: int, summed: tuple[Sequence[int], int | None], copied: tuple[Sequence[int], int | None]
) -> list[list[tuple[int, int]]]:
    """From where to where a chunk goes at each step."""
    ends: list[list[tuple[int, int]]] = [[], [], [], []]
    givers, at_sum = summed
    takers, at_copy = copied
    if givers and at_sum is not None:
        ends[0], ends[1] = [(rank, at_sum) for rank in givers], [(at_sum, owner)]
    if takers and at_copy is not None:
        ends[2], ends[3] = [(owner, at_copy)], [(at_copy, rank) for rank in takers]
    return ends


def _faces(topology: LogicalTopology, links: Mapping[tuple[int, int], int]) -> tuple[int | None, int | None]:
    """The helpers that sum and that copy, each linked with all members both ways; None: there is none."""
    members = range(topology.num_members)
    reaching = [
        helper
        for helper in range(topology.num_members, topology.num_ranks)
        if all((rank, helper) in links and (helper, rank) in links for rank in members)
    ]
    may_sum, may_copy = topology.may_sum, topology.may_copy
    return (
        next((helper for helper in reaching if may_sum is None or may_sum[helper]), None),
        next((helper for helper in reaching if may_copy is None or may_copy[helper]), None),
    )


def _ranks_of(placement: Placement, num_chunks: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(num_chunks)]
    for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
        found[chunk].append(rank)
    return found


def _one_by_one(chunks: Sequence[Sequence[Sequence[_Hop]]]) -> Iterator[Decision]:
    """Each step of a chunk next to the step before of a chunk that follows it."""
    for turn in range(len(chunks) + LATER * (_STEPS - 1)):
        for step in range(_STEPS):
            if 0 <= (place := turn - LATER * step) < len(chunks):
                for hop in chunks[place][step]:
                    yield Decision((hop.chunk,), hop.link, hop.reduce)


def _in_groups(chunks: Sequence[Sequence[Sequence[_Hop]]], most: int) -> Iterator[Decision]:
    """All chunks of a link at a step as one send, or as few as may be of at most so many chunks."""
    for step in range(_STEPS):
        of_link: dict[int, list[_Hop]] = {}
        for hops in chunks:
            for hop in hops[step]:
                of_link.setdefault(hop.link, []).append(hop)
        for link, together in of_link.items():
            for first in range(0, len(together), most):
                group = tuple(hop.chunk for hop in together[first : first + most])
                yield Decision(group, link, step < 2)
