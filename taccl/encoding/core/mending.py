"""The sends of a schedule, on a network whose links are not what they were when it was made.

A send stays where its link is as fast as it was, or no way is faster. Where the link is gone or slower, its
chunks go by the fastest way: copies from whichever ranks have them by then, in the order of the old schedule;
sums from where they were, as the partial sums that they were. So everything still comes from what was there
before it, and the order of the old schedule is one in which all of it can happen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.distance import distances_us
from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.timing import Decision, decisions_of, in_order, predecessors
from taccl.errors import ScheduleError
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.tolerance import EQUAL


def mended(schedule: Schedule, problem: Problem) -> Schedule:
    """A schedule for the same chunks between the same ranks as another one, on another network.

    Parameters
    ----------
    problem : the collective, the sizes and the moments are those of the schedule's.

    Raises
    ------
    ScheduleError : it has other ranks or chunks, or no links lead where a chunk has to go.
    """
    before = schedule.problem
    if problem.num_ranks != before.num_ranks or problem.num_chunks != before.num_chunks:
        raise ScheduleError(
            f"the schedule is for {before.num_ranks} ranks and {before.num_chunks} chunks, "
            f"and this machine has {problem.num_ranks} and {problem.num_chunks}",
            hint="a machine of as many GPUs, switches that sum and servers",
        )
    decisions = _Mending(schedule, problem).decisions()
    waits_for = predecessors(problem, decisions)
    in_old_order = in_order(problem, decisions, waits_for)
    by_tails = list_schedule(problem, decisions, before=waits_for)
    return min((in_old_order, by_tails), key=lambda each: each.makespan_us)


def links_now(before: LogicalTopology, now: LogicalTopology) -> list[int | None]:
    """For each link that there was, the one between the same ranks; None: it is gone."""
    link_of = {pair: link for link, pair in enumerate(zip(now.src.tolist(), now.dst.tolist(), strict=True))}
    return [link_of.get(pair) for pair in zip(before.src.tolist(), before.dst.tolist(), strict=True)]


def share_kept(before: Schedule, after: Schedule) -> float:
    """The part of the old transfers, a chunk over a link each, that the new schedule has as well."""
    old, new = _transfers(before), _transfers(after)
    return sum(each in new for each in old) / len(old) if old else 1.0


def _transfers(schedule: Schedule) -> set[tuple[int, int, int, bool]]:
    columns = (schedule.chunk, schedule.src, schedule.dst, schedule.reduce)
    return set(zip(*(column.tolist() for column in columns), strict=True))


class _Mending:
    """Who has which chunk so far, and how much each link of a detour has got."""

    def __init__(self, schedule: Schedule, problem: Problem) -> None:
        self._schedule, self._problem = schedule, problem
        self._now = links_now(schedule.problem.topology, problem.topology)
        topology, collective = problem.topology, problem.collective
        #: Ranks that have a chunk; of a sum, the whole of it.
        self._holders: dict[int, set[int]] = defaultdict(set)
        for chunk, rank in zip(
            collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True
        ):
            if not collective.reduces[chunk]:
                self._holders[chunk].add(rank)
        #: Ranks that were sent a sum of these contributions to a chunk.
        self._got: dict[tuple[int, int], set[int]] = defaultdict(set)
        self._costs = costs_of(topology)
        self._durations: dict[float, FloatArray] = {}
        self._distances: dict[float, FloatArray] = {}
        self._detours = np.zeros(topology.num_links)
        self._worse: dict[tuple[int, float], bool] = {}

    def decisions(self) -> list[Decision]:
        """All sends, in an order in which they can happen.

        Who has what is only followed of chunks that some send brings by another way; all others stay.
        """
        schedule, sends = self._schedule, self._schedule.sends
        sizes = zip(sends.link.tolist(), sends.size_mb.tolist(), strict=True)
        is_worse = np.array([self._is_worse(*each) for each in sizes], dtype=np.bool_)
        explicit = bool((is_worse & sends.reduce).any())
        followed = set(schedule.chunk[is_worse[sends.of_row]].tolist())
        decisions: list[Decision] = []
        for old in decisions_of(schedule, explicit=explicit):
            now = self._now[old.link]
            if now is not None and followed.isdisjoint(old.chunks):
                decisions.append(old if now == old.link else _over(old, now, old.chunks))
            else:
                decisions.extend(self._instead(old))
        return decisions

    def _is_worse(self, link: int, mb: float) -> bool:
        """Whether a link is gone, or is slower for this many MB than it was and there is a faster way."""
        if (link, mb) not in self._worse:
            self._worse[link, mb] = self._has_faster_way(link, mb)
        return self._worse[link, mb]

    def _has_faster_way(self, link: int, mb: float) -> bool:
        before, now = self._schedule.problem.topology, self._now[link]
        if now is None:
            return True
        took = before.alpha_us[link] + before.beta_us_per_mb[link] * mb
        takes = self._duration_us(mb)[now]
        if takes <= took * (1 + EQUAL):
            return False
        src, dst = int(before.src[link]), int(before.dst[link])
        return bool(self._distance_us(mb)[src, dst] < takes * (1 - EQUAL))

    def _mb(self, decision: Decision) -> float:
        return self._problem.units(decision.chunks) * self._problem.chunk_mb

    def _instead(self, decision: Decision) -> Iterator[Decision]:
        """The sends that bring to the same rank what one send brought."""
        before = self._schedule.problem.topology
        source, target = int(before.src[decision.link]), int(before.dst[decision.link])
        if decision.reduce:
            yield from self._sums_instead(decision, source, target)
            return
        for chunk in decision.chunks:
            self._holders[chunk].add(source)
        wanted = decision
        if self._is_worse(decision.link, self._mb(decision)):
            wanted = _over(decision, decision.link, self._lacking(decision.chunks, target))
        if not wanted.chunks:
            return
        for link in self._way(self._all_have(wanted.chunks), target, wanted):
            receiver = int(self._problem.topology.dst[link])
            lacking = self._lacking(wanted.chunks, receiver)
            if lacking:
                yield _over(wanted, link, lacking)
            for chunk in lacking:
                self._holders[chunk].add(receiver)

    def _sums_instead(self, decision: Decision, source: int, target: int) -> Iterator[Decision]:
        """The same of partial sums, each of which a rank gets once."""
        if decision.sums is None:
            for link in self._way({source}, target, decision):
                yield _over(decision, link, decision.chunks)
            return
        sums = dict(zip(decision.chunks, decision.sums, strict=True))

        def lack(rank: int, chunks: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(chunk for chunk in chunks if rank not in self._got[chunk, sums[chunk]])

        wanted = lack(target, decision.chunks)
        if not wanted:
            return
        have = set.intersection(*(self._got[chunk, sums[chunk]] for chunk in wanted)) | {source}
        for link in self._way(have, target, _over(decision, decision.link, wanted)):
            receiver = int(self._problem.topology.dst[link])
            lacking = lack(receiver, wanted)
            if lacking:
                yield _over(decision, link, lacking)
            for chunk in lacking:
                self._got[chunk, sums[chunk]].add(receiver)

    def _lacking(self, chunks: tuple[int, ...], rank: int) -> tuple[int, ...]:
        return tuple(chunk for chunk in chunks if rank not in self._holders[chunk])

    def _all_have(self, chunks: tuple[int, ...]) -> set[int]:
        return set.intersection(*(self._holders[chunk] for chunk in chunks))

    def _way(self, sources: set[int], target: int, decision: Decision) -> list[int]:
        """Its own link; or the links of a fastest way from one of some ranks to its target.

        Of equally fast paths, the one over links with fewest detours so far.
        """
        now, mb = self._now[decision.link], self._mb(decision)
        if now is not None and not self._is_worse(decision.link, mb):
            return [now]
        distance, duration = self._distance_us(mb), self._duration_us(mb)
        at = min(sources, key=lambda rank: (float(distance[rank, target]), rank))
        if not np.isfinite(distance[at, target]):
            raise ScheduleError(
                f"nothing leads from rank {at} to rank {target} any more",
                hint="a machine whose links reach all GPUs",
            )
        links: list[int] = []
        while at != target:
            out = np.array(self._problem.topology.links_from[at])
            left = duration[out] + distance[self._problem.topology.dst[out], target]
            shortest = out[left <= distance[at, target] * (1 + EQUAL)]
            link = int(shortest[np.argmin(self._detours[shortest])])
            self._detours[link] += mb
            links.append(link)
            at = int(self._problem.topology.dst[link])
        return links

    def _duration_us(self, mb: float) -> FloatArray:
        """Of a send of this many MB over each link."""
        if mb not in self._durations:
            self._durations[mb] = self._costs.alpha_us + self._costs.beta_us * mb
        return self._durations[mb]

    def _distance_us(self, mb: float) -> FloatArray:
        """Between all ranks, for a send of this many MB."""
        if mb not in self._distances:
            topology = self._problem.topology
            passes_on = None if topology.is_helper is None else ~topology.is_helper[topology.dst]
            self._distances[mb] = distances_us(topology, self._duration_us(mb), passes_on)
        return self._distances[mb]


def _over(decision: Decision, link: int, chunks: tuple[int, ...]) -> Decision:
    """A send of some of its chunks over a link."""
    sums = decision.sums
    if sums is not None and chunks != decision.chunks:
        named = dict(zip(decision.chunks, sums, strict=True))
        sums = tuple(named[chunk] for chunk in chunks)
    return Decision(chunks, link, decision.reduce, sums)
