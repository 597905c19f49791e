"""Sends without links or times, step by step, and how they become a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.phases import merged
from taccl.encoding.core.timing import Decision, in_order, list_schedule, predecessors
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

_ROUNDING = 1e-9
#: With more sends than this, trying a second order of them takes longer than it is worth.
MOST_TO_REORDER = 40_000


class Transfer(NamedTuple):
    """Units (`parts.Cut`) that leave together from rank `src` to rank `dst`.

    `adds` : whether they are partial sums.
    `carries` : the set of contributions that each carries (`schedule.partial_sums`), 0 for a copy of the
    whole; None where sums are compact: each is made once.
    """

    src: int
    dst: int
    units: tuple[int, ...]
    adds: bool = False
    carries: tuple[int, ...] | None = None


#: The sends of each step. Steps only order the sends on a port: no send waits for a step to end.
Steps = list[list[Transfer]]


def together(streams: Iterable[tuple[int, Steps]]) -> Steps:
    """Several streams side by side, each with the number of its first step."""
    steps: Steps = []
    for first, stream in streams:
        steps += [[] for _ in range(first + len(stream) - len(steps))]
        for number, step in enumerate(stream, first):
            steps[number] += step
    return steps


def without_repeats(steps: Steps, held: Mapping[int, tuple[int, ...]]) -> Steps:
    """Copies without those that come where they are already; `held` : rank -> units at the beginning."""
    there = {(unit, rank) for rank, units in held.items() for unit in units}
    kept: Steps = []
    for step in steps:
        kept.append([])
        for transfer in step:
            units = tuple(unit for unit in transfer.units if (unit, transfer.dst) not in there)
            there.update((unit, transfer.dst) for unit in units)
            if units:
                kept[-1].append(transfer._replace(units=units))
    return kept


def decisions(problem: Problem, steps: Steps, chunks: Sequence[tuple[int, ...]]) -> list[Decision] | None:
    """The sends over links, in their order, cut where they are too large for one; None if a link is missing.

    A link that a chunk's owner may not use is missing too. `chunks` : of each unit.
    """
    index, most = problem.topology.link_index, problem.max_group
    made: list[Decision] = []
    for step in steps:
        for src, dst, units, adds, carries in step:
            link = index.get((src, dst))
            if link is None:
                return None
            every = tuple(chunk for unit in units for chunk in chunks[unit])
            sums = None
            if carries is not None:
                sums = tuple(each for unit, each in zip(units, carries, strict=True) for _ in chunks[unit])
            sends = -(-len(every) // most)
            for number in range(sends):
                part = slice(len(every) * number // sends, len(every) * (number + 1) // sends)
                named = None if sums is None else sums[part]
                made.append(Decision(every[part], link, adds if named is None else any(named), named))
    return made if _are_allowed(problem, made) else None


def estimate_us(
    problem: Problem, steps: Steps, chunks: Sequence[tuple[int, ...]], batches: int
) -> float | None:
    """About how long it takes; None if a link is missing.

    Every step as long as its busiest port, one after another; the more batches there are, the nearer to the
    load of the busiest port of all, because batches fill each other's gaps.
    """
    topology = problem.topology
    index, most = topology.link_index, problem.max_group
    size = [len(chunk) for chunk in chunks]
    load, waiting_us = np.zeros(topology.num_ports), 0.0
    for step in steps:
        if not step:
            continue
        links = [index.get((src, dst), -1) for src, dst, *_ in step]
        if -1 in links:
            return None
        link = np.array(links)
        count = np.array([sum([size[unit] for unit in transfer.units]) for transfer in step])
        size_mb = count * problem.chunk_mb
        # Each send over the limit of a group pays one alpha more.
        more = topology.alpha_us[link] * (-(-count // most) - 1)
        send, pair = topology.pairs_of(link)
        busy = topology.port_busy_us(pair, size_mb[send]) + more[send]
        now = np.bincount(topology.incidence[1][pair], busy, topology.num_ports)
        load += now
        latency = topology.duration_us(link, size_mb) - topology.slowest_busy_us(link, size_mb)
        waiting_us += float(now.max() + latency.max())
    busiest_us = float(load.max(initial=0.0))
    return busiest_us + (waiting_us - busiest_us) * 2 / (batches + 1)


def _are_allowed(problem: Problem, made: Sequence[Decision]) -> bool:
    may_use = problem.limits.may_use
    if may_use is None:
        return True
    chunk = np.array([chunk for decision in made for chunk in decision.chunks], dtype=np.int64)
    link = np.repeat(
        np.array([decision.link for decision in made], dtype=np.int64),
        [len(decision.chunks) for decision in made],
    )
    return bool(may_use[problem.collective.owner[chunk], link].all())


def timed(problem: Problem, made: list[Decision]) -> Schedule | None:
    """The sends as a schedule: in their order, or with what most waits for first, whichever ends sooner.

    None if they wait for each other in a circle, which a sender's own chunks first can cause.
    """
    if problem.limits.own_first is not None:
        schedule = list_schedule(problem, made)
        return schedule if len(schedule) == sum(len(decision.chunks) for decision in made) else None
    if len(made) > MOST_TO_REORDER:
        return in_order(problem, made)
    before = predecessors(problem, made)
    schedule = in_order(problem, made, before)
    if schedule.makespan_us <= float(schedule.port_busy_us.max(initial=0.0)) * (1 + _ROUNDING):
        return schedule  # a port is busy all the time
    return min(schedule, list_schedule(problem, made, before=before), key=lambda each: each.makespan_us)


def backwards(problem: Problem, copies: Schedule) -> Schedule | None:
    """A schedule of the reversed problem, which copies, read as the sums that `problem` asks for."""
    schedule = merged(problem, copies, None)
    return schedule if len(schedule) == len(copies) else None
