"""Times for decisions: who sends what over which link in what order is given, when it happens follows.

Engines decide routes, groups and orders; this module turns them into a `Schedule` whose every send
starts as early as the decisions allow. The scheduler computes the starts (`core.scheduler`), so float errors
of a solver never reach a schedule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import (
    Sends,
    sends_of_rows,
    sends_that_wait,
    starts_in_sequence,
    work_of_sends,
)
from taccl.errors import ScheduleError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import OWN, Holdings, contributors


@dataclass(frozen=True, slots=True)
class Decision:
    """One send without its time.

    `sums` has for each chunk the set of contributions that it carries (`schedule.partial_sums`), 0 for a copy
    of the whole. Without it all chunks are copies, or (`reduce`) all are partial sums of a compact schedule:
    each carries all that met at its sender. Of one chunk, either every partial sum is explicit or none.
    """

    chunks: tuple[int, ...]
    link: int
    reduce: bool = False
    sums: tuple[int, ...] | None = None


def decisions_of(schedule: Schedule, *, explicit: bool = False) -> list[Decision]:
    """The sends of a schedule in order of their starts; `explicit`: each sum with what it is made of."""
    sends = schedule.sends
    chunks: list[list[int]] = [[] for _ in range(len(sends))]
    carried: list[list[int]] = [[] for _ in range(len(sends))]
    is_mixed = bool((schedule.reduce != sends.reduce[sends.of_row]).any())
    explicit = explicit or schedule.sums is not None or is_mixed
    sets = _sets_or_copies(schedule) if explicit else [0] * len(schedule)
    for row, send in enumerate(sends.of_row.tolist()):
        chunks[send].append(int(schedule.chunk[row]))
        carried[send].append(sets[row])
    return [
        Decision(
            tuple(chunks[i]),
            int(sends.link[i]),
            bool(sends.reduce[i]),
            tuple(carried[i]) if explicit else None,
        )
        for i in sends.by_start.tolist()
    ]


def _sets_or_copies(schedule: Schedule) -> list[int]:
    """The set that each row carries, 0 for a copy."""
    sets = sets_of_rows(schedule, contributors(schedule.problem.collective))
    return [each if adds else 0 for each, adds in zip(sets, schedule.reduce.tolist(), strict=True)]


class Ports:
    """When each port is free, as sends are placed one after another.

    For engines that decide routes and times together, such as matchings: what a send is follows from
    when its ports are free, so there is nothing for the scheduler, which reads sends that are decided.

    The size of a send is in units of the problem's `chunk_mb` (`Problem.units`): where all chunks are equal,
    how many there are.
    """

    def __init__(self, problem: Problem) -> None:
        topology, chunk_mb = problem.topology, problem.chunk_mb
        self._ports = topology.ports
        self._alpha: list[float] = topology.alpha_us.tolist()
        self._cost: list[float] = (topology.beta_us_per_mb * chunk_mb).tolist()
        self._serial = topology.is_serial
        #: Per link, how long one chunk keeps each of its ports busy; None where they are all as slow as it.
        self._costs: list[list[float]] | None = None
        if topology.port_betas is not None:
            self._costs = [[beta * chunk_mb for beta in betas] for betas in topology.port_betas]
        self.free_us = [0.0] * topology.num_ports

    def ready(self, link: int) -> float:
        """The earliest moment when all ports of a link are free."""
        free = self.free_us
        return max([free[port] for port in self._ports[link]])

    def frees(self, link: int) -> set[float]:
        """The moments at which ports of a link become free: several where some are faster than others."""
        return {self.free_us[port] for port in self._ports[link]}

    def place(self, link: int, units: float, start_us: float) -> float:
        """Occupy the ports of a link from `start_us` on, each at its rate; returns the end of the send."""
        alpha, free = self._alpha[link], self.free_us
        body = units * self._cost[link]
        end = start_us + alpha + body
        if self._costs is None:
            busy_until = end if self._serial else start_us + body
            for port in self._ports[link]:
                free[port] = busy_until
            return end
        begun = start_us + alpha if self._serial else start_us
        for port, cost in zip(self._ports[link], self._costs[link], strict=True):
            free[port] = begun + units * cost
        return end


def in_order(
    problem: Problem, decisions: Iterable[Decision], before: Sequence[Sequence[int]] | None = None
) -> Schedule:
    """Each send as early as possible after those before it in the sequence on its ports.

    The sequence must be such that whatever brings a chunk to a rank stands before what takes it on. Where a
    sum can be made in several forms, `before` says for each send which others it waits for.
    """
    decisions = list(decisions)
    starts = starts_in_sequence(_in_sequence(problem, decisions, before), costs_of(problem.topology)).tolist()
    return at_starts(problem, decisions, range(len(decisions)), starts)


def scaled_us(problem: Problem, decisions: Sequence[Decision], factors: Iterable[float]) -> Iterator[float]:
    """How long the same sends take in this order, microseconds, with all sizes times each of the factors.

    It is `in_order(...).makespan_us` of the problem with so much larger chunks, without a schedule for each.
    """
    sends, costs = _in_sequence(problem, decisions, None), costs_of(problem.topology)
    alpha_us, cost_us = costs.alpha_us[sends.link], costs.beta_us[sends.link] * sends.mb
    for factor in factors:
        starts = starts_in_sequence(sends._replace(mb=sends.mb * factor), costs)
        yield float((starts + alpha_us + cost_us * factor).max(initial=0.0))


def _in_sequence(
    problem: Problem, decisions: Sequence[Decision], before: Sequence[Sequence[int]] | None
) -> Sends:
    """The sends for the scheduler, of which each waits for what comes before it in the sequence."""
    if before is not None or any(decision.sums is not None for decision in decisions):
        return sends_waiting(problem, decisions, before or predecessors(problem, decisions))
    sends, _ = sends_of_rows(problem, *_rows(decisions), by_sequence=True)
    return sends


def _rows(decisions: Sequence[Decision]) -> tuple[IntArray, IntArray, BoolArray, IntArray]:
    """The chunk, link, kind and send of each chunk of each send."""
    count = np.array([len(decision.chunks) for decision in decisions], dtype=np.int64)
    chunk = np.array([chunk for decision in decisions for chunk in decision.chunks], dtype=np.int64)
    link = np.array([decision.link for decision in decisions], dtype=np.int64)
    adds = np.array([decision.reduce for decision in decisions], dtype=np.bool_)
    return chunk, np.repeat(link, count), np.repeat(adds, count), np.repeat(np.arange(len(count)), count)


def sends_waiting(problem: Problem, decisions: Sequence[Decision], before: Sequence[Sequence[int]]) -> Sends:
    """The sends for the scheduler; `before` has what each waits for."""
    link = np.array([decision.link for decision in decisions], dtype=np.int64)
    mb = np.array([problem.units(decision.chunks) * problem.chunk_mb for decision in decisions])
    ready_us = np.array([_own_ready_us(problem, decision) for decision in decisions], dtype=np.float64)
    return sends_that_wait(link, mb, ready_us, before, work_of_sends(problem, *_rows(decisions)))


def at_starts(
    problem: Problem, decisions: Sequence[Decision], order: Iterable[int], starts_us: Sequence[float]
) -> Schedule:
    """The schedule in which each send starts at its time."""
    sends = ((decisions[each], starts_us[each]) for each in order)
    return schedule_from_sends(
        problem, [Send(each.chunks, each.link, at, each.reduce, each.sums) for each, at in sends]
    )


def _own_ready_us(problem: Problem, decision: Decision) -> float:
    """When the sender's own inputs are there, of those that are in what it sends."""
    if not problem.ready_at:
        return 0.0
    sender = int(problem.topology.src[decision.link])
    named = decision.sums or (0,) * len(decision.chunks)
    own = [
        chunk for chunk, each in zip(decision.chunks, named, strict=True) if not each or each >> sender & 1
    ]
    return max((problem.ready_at.get((chunk, sender), 0.0) for chunk in own), default=0.0)


def without_dead_ends(copies: Schedule) -> Schedule:
    """The schedule without copies that go neither where they are wanted nor on from there.

    Such a copy costs time; read backwards, it would be a sum that nobody contributes to.
    """
    problem = copies.problem
    wanted = problem.collective.post[copies.chunk, copies.dst]
    if wanted.all():
        return copies
    cells = zip(copies.chunk.tolist(), copies.dst.tolist(), strict=True)
    row_into = {cell: row for row, cell in enumerate(cells)}
    used = set(np.flatnonzero(wanted).tolist())
    look, src = list(used), copies.src
    for row in look:
        before = row_into.get((int(copies.chunk[row]), int(src[row])))
        if before is not None and before not in used:
            used.add(before)
            look.append(before)
    if len(used) == len(copies):
        return copies
    kept = copies.take(np.array(sorted(used), dtype=np.int64))
    return in_order(problem, decisions_of(kept))


def predecessors(
    problem: Problem, decisions: Sequence[Decision], twins: Set[int] | None = None
) -> list[list[int]]:
    """For each send, the sends that must have ended before it may start.

    A copy waits for what brought each chunk to its sender; that is one copy, or all the partial
    sums that met there. A partial sum waits for the partial sums that met at its sender; one that says
    what it carries, only for what that is made of, among the sends before it in the sequence. Where a link
    carries its sender's own chunks first, the others wait for those.

    `twins` : explicit sums that always travel with another of the same contributors, which is none of these;
    None: they are looked for.
    """
    if any(decision.sums is not None for decision in decisions):
        twins = _like_others(problem, decisions) if twins is None else twins
        return _explicit_predecessors(problem, decisions, twins)
    src, dst = problem.topology.src, problem.topology.dst
    copy_into: dict[tuple[int, int], int] = {}
    sums_into: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, decision in enumerate(decisions):
        for chunk in decision.chunks:
            cell = (chunk, int(dst[decision.link]))
            if decision.reduce:
                sums_into[cell].append(index)
            else:
                copy_into[cell] = index
    own = _own_chunks_first(problem, decisions)
    before: list[list[int]] = []
    for index, decision in enumerate(decisions):
        waits = own[index]
        for chunk in decision.chunks:
            cell = (chunk, int(src[decision.link]))
            if not decision.reduce and cell in copy_into:
                waits.add(copy_into[cell])
            else:
                waits.update(sums_into[cell])
        before.append(sorted(waits))
    return before


def _explicit_predecessors(
    problem: Problem, decisions: Sequence[Decision], twins: Set[int]
) -> list[list[int]]:
    collective = problem.collective
    src, dst = problem.topology.src.tolist(), problem.topology.dst.tolist()
    holdings, whole = Holdings(problem, without=twins), contributors(collective)
    copy_into: dict[tuple[int, int], int] = {}
    before = []
    for index, (decision, waits) in enumerate(
        zip(decisions, _own_chunks_first(problem, decisions), strict=True)
    ):
        sender, receiver = src[decision.link], dst[decision.link]
        for chunk, named in zip(decision.chunks, decision.sums or (0,) * len(decision.chunks), strict=True):
            if chunk in twins:
                continue
            if not collective.reduces[chunk]:
                if (chunk, sender) in copy_into:
                    waits.add(copy_into[chunk, sender])
                copy_into.setdefault((chunk, receiver), index)
                continue
            carried = named or whole[chunk]
            made_of = holdings.sources(chunk, sender, carried)
            if made_of is None:
                raise ScheduleError(
                    "the sends are in no order in which they can happen",
                    findings=[f"rank {sender} cannot make what it sends of chunk {chunk}"],
                )
            waits.update(part for part in made_of if part != OWN)
            holdings.receive(chunk, receiver, carried, index)
        before.append(sorted(waits))
    return before


def _like_others(problem: Problem, decisions: Sequence[Decision]) -> set[int]:
    """Sums that always travel with another of the same contributors: what holds for that holds for them."""
    travels: list[list[tuple[int, int]]] = [[] for _ in range(problem.num_chunks)]
    for index, decision in enumerate(decisions):
        for chunk, named in zip(decision.chunks, decision.sums or (0,) * len(decision.chunks), strict=True):
            travels[chunk].append((index, named))
    whole, seen = contributors(problem.collective), set[tuple[object, ...]]()
    twins = set[int]()
    for chunk in np.flatnonzero(problem.collective.reduces).tolist():
        key = (whole[chunk], *travels[chunk])
        if key in seen:
            twins.add(chunk)
        seen.add(key)
    return twins


def _own_chunks_first(problem: Problem, decisions: Sequence[Decision]) -> list[set[int]]:
    """For each send over a link with that rule, the copies of the sender's own chunks over it."""
    waits: list[set[int]] = [set() for _ in decisions]
    own_first, owner, src = problem.limits.own_first, problem.collective.owner, problem.topology.src
    if own_first is None:
        return waits
    own: dict[int, set[int]] = defaultdict(set)
    others: dict[int, set[int]] = defaultdict(set)
    for index, decision in enumerate(decisions):
        if own_first[decision.link] and not decision.reduce:
            is_own = any(owner[chunk] == src[decision.link] for chunk in decision.chunks)
            (own if is_own else others)[decision.link].add(index)
    for link, indices in others.items():
        for index in indices:
            waits[index] |= own[link]
    return waits
