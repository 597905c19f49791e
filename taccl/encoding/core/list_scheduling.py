"""List scheduling by a policy: whenever a link is free, send over it what helps most.

The pass walks through time. A chunk helps on a link if it gets nearer to a rank that still wants it;
among those, the one that saves the most distance, summed over the wanting ranks, goes first. Chunks
that wait together may share one send. A link may also *hold*: wait until enough chunks have come.
Every decision is taken for a whole orbit of the problem's symmetry at once. In spirit this is the
link-chunk matching of TACOS (Won et al. 2024), with sizes, ports, groups and symmetry.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.core.timing import Ports, without_dead_ends
from taccl.encoding.core.tuning import LIST_SCHEDULING_EVENTS_PER_LOOK, LIST_SCHEDULING_PAIRS_PER_UNIT
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.support.budget import Budget


@dataclass(frozen=True)
class Policy:
    """How one pass decides.

    Parameters
    ----------
    group : the most chunks in one send on a link inside a node.
    internode_group : the same on a link between nodes.
    hold : a link inside a node waits until this many chunks are there, while others move.
    internode_hold : the same for a link between nodes.
    taper : a send between nodes takes at most this part of what its link still has to carry, so
        that the last sends are small and what follows them is short.
    defer : leave a chunk to another link that would deliver it sooner.
    noise : relative random change of what helps most; 0 for none.
    """

    group: int = 1
    internode_group: int = 1
    hold: int = 1
    internode_hold: int = 1
    taper: float = 1.0
    defer: bool = True
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class RoutingInstance:
    """What all passes over one problem share.

    Parameters
    ----------
    problem : chunks that are copied, none reduced.
    symmetry : the group whose orbits are decided together; only the identity for none.
    distance_us, distance_row : for each kind of limits the distances between ranks, and which of these
        each chunk has (`paths.distances_by_limits`).
    usable : shape (num_chunks, num_links), where each chunk may go.
    path_remaining_us : shape (num_chunks, num_ranks); for a chunk with a fixed path, the time that it
        still needs from each rank on that path; 0 for chunks whose paths the pass chooses.
    """

    problem: Problem
    symmetry: SymmetryGroup
    distance_us: FloatArray
    distance_row: IntArray
    usable: BoolArray
    path_remaining_us: FloatArray

    @cached_property
    def remaining_us(self) -> FloatArray:
        """The distance of each rank that wants a chunk from the nearest copy, else 0.

        Shape (num_chunks, num_ranks).
        """
        collective = self.problem.collective
        remaining = np.zeros((collective.num_chunks, collective.num_ranks))
        for chunk, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
            wanting = post & ~pre
            distance = self.distance_us[self.distance_row[chunk]]
            remaining[chunk, wanting] = distance[pre][:, wanting].min(axis=0)
        return remaining

    @cached_property
    def deciding_links(self) -> IntArray:
        """One link of each orbit."""
        return np.unique(self.symmetry.link_representative)

    @cached_property
    def faster_links(self) -> list[list[int]]:
        """For each link, those into the same rank that carry one chunk in less time."""
        topology = self.problem.topology
        duration = topology.duration_us(np.arange(topology.num_links), self.problem.chunk_mb)
        return [
            [other for other in topology.links_into[rank] if duration[other] < duration[link]]
            for link, rank in enumerate(topology.dst)
        ]


def schedule_by_policy(
    routing: RoutingInstance, policy: Policy, random: np.random.Generator, budget: Budget | None = None
) -> Schedule | None:
    """A schedule by one pass, or None where the policy leaves a demand unmet or the budget is over.

    Without a budget, the pass takes the time that it needs.
    """
    return _Pass(routing, policy, random).run(budget)


class _Pass:
    """The state of one pass."""

    def __init__(self, routing: RoutingInstance, policy: Policy, random: np.random.Generator) -> None:
        problem = routing.problem
        topology, collective = problem.topology, problem.collective
        self.routing, self.policy, self.random = routing, policy, random
        self.problem, self.symmetry = problem, routing.symmetry
        self.distance, self.distance_row = routing.distance_us, routing.distance_row
        self.usable = routing.usable
        self.src, self.dst = topology.src.tolist(), topology.dst.tolist()
        self.ports = Ports(problem)
        self.remaining = routing.remaining_us.copy()
        self.arrives_us = np.where(collective.pre, 0.0, np.inf)
        self.decides = np.zeros(topology.num_links, dtype=np.bool_)
        self.decides[routing.deciding_links] = True
        self.waiting: list[list[int]] = [[] for _ in range(topology.num_links)]
        self.events: list[tuple[float, int]] = []
        self.pending: list[float] = [np.inf] * topology.num_links
        self.held: set[int] = set()
        self.sends: list[Send] = []
        #: Pairs of a waiting chunk and a rank, since the last look at the budget.
        self.looked_at = 0
        cap = np.where(topology.internode, policy.internode_group, policy.group)
        self.cap: list[int] = np.minimum(cap, problem.max_group).tolist()
        self.hold: list[int] = np.where(topology.internode, policy.internode_hold, policy.hold).tolist()
        self.own_first = problem.limits.own_first
        self.internode = topology.internode

    def run(self, budget: Budget | None) -> Schedule | None:
        for chunk, rank in zip(*np.nonzero(self.problem.collective.pre), strict=True):
            self._offer(int(chunk), int(rank), 0.0)
        now, number = 0.0, 0
        while True:
            while self.events:
                number += 1
                if budget is not None and number % LIST_SCHEDULING_EVENTS_PER_LOOK == 0:
                    budget.spend(self.looked_at / LIST_SCHEDULING_PAIRS_PER_UNIT)
                    self.looked_at = 0
                    if not budget.remaining_s():
                        return None
                now, link = heapq.heappop(self.events)
                if now == self.pending[link]:
                    self.pending[link] = np.inf
                    self._try(link, now, holding=True)
            if not self.held:
                break
            # Nothing is under way any more, so links that wait for more chunks go with what they have.
            for link in sorted(self.held):
                self._try(link, max(now, self.ports.ready(link)), holding=False)
            self.held.clear()
        if self.remaining.any():
            return None
        return without_dead_ends(schedule_from_sends(self.problem, self.sends))

    def _wake(self, when: float, link: int) -> None:
        if when < self.pending[link]:
            self.pending[link] = when
            heapq.heappush(self.events, (when, link))

    def _offer(self, chunk: int, rank: int, arrives: float) -> None:
        """A chunk that is, or soon will be, at a rank may go on from there."""
        for link in self.problem.topology.links_from[rank]:
            if self.decides[link] and self.usable[chunk, link]:
                self.waiting[link].append(chunk)
                self._wake(max(arrives, self.ports.ready(link)), link)

    def _try(self, link: int, now: float, holding: bool) -> None:
        free = self.ports.ready(link)
        if free > now:
            if self.waiting[link]:
                self._wake(free, link)
            return
        chunks, gain, later = self._useful(link, now)
        if not len(chunks):
            if later < np.inf:
                self._wake(later, link)
            return
        if holding and len(chunks) < self.hold[link]:
            self.held.add(link)
            if later < np.inf:
                self._wake(later, link)
            return
        self.held.discard(link)
        # Neighbours first among equals: a group of neighbours needs no copies to be contiguous.
        order = np.lexsort((chunks, -gain))[: self._most(link)]
        self._send_orbit(chunks[order], link, now)
        self._wake(self.ports.ready(link), link)

    def _most(self, link: int) -> int:
        """The most chunks that the policy lets go together now."""
        if self.policy.taper == 1.0 or not self.internode[link]:
            return self.cap[link]
        missing = (
            self.usable[:, link] & (self.arrives_us[:, self.dst[link]] == np.inf) & self.remaining.any(axis=1)
        )
        return min(self.cap[link], math.ceil(self.policy.taper * int(missing.sum())))

    def _send_orbit(self, chunks: IntArray, link: int, now: float) -> None:
        """Send the group, and its images under the symmetry, each as soon as it can go.

        Images that share a port take turns, so an image may be at its sender later than the group.
        """
        for chunk_map, link_map in zip(self.symmetry.chunk_map, self.symmetry.link_map, strict=True):
            group, over = tuple(chunk_map[chunks].tolist()), int(link_map[link])
            arrived = self.arrives_us[list(group), self.src[over]].max()
            start = max(now, float(arrived), self.ports.ready(over))
            end = self.ports.place(over, len(group), start)
            self.sends.append(Send(group, over, start))
            receiver = self.dst[over]
            for chunk in group:
                self.arrives_us[chunk, receiver] = end
                self.remaining[chunk] = np.minimum(
                    self.remaining[chunk], self.distance[self.distance_row[chunk], receiver]
                )
                self._offer(chunk, receiver, end)

    def _useful(self, link: int, now: float) -> tuple[IntArray, FloatArray, float]:
        """Chunks that may leave over this link now, what each saves, and when the next one comes."""
        sender, receiver = self.src[link], self.dst[link]
        waiting = np.array(self.waiting[link], dtype=np.int64)
        self.looked_at += self.remaining.shape[1] * len(waiting)
        closer = self.distance[self.distance_row[waiting], receiver]
        gain = np.maximum(self.remaining[waiting] - closer, 0.0).sum(axis=1)
        left = self.routing.path_remaining_us[waiting, sender]
        gain = np.where(left > 0, left, gain)
        # A chunk that helps no rank over this link now never will: distances to the nearest copy only shrink.
        helps = (self.arrives_us[waiting, receiver] == np.inf) & (gain > 0)
        waiting, gain = waiting[helps], gain[helps]
        self.waiting[link] = waiting.tolist()
        come = self.arrives_us[waiting, sender]
        later = float(come[come > now].min(initial=np.inf))
        keep = come <= now
        if self.own_first is not None and self.own_first[link]:
            own = self.problem.collective.owner[waiting] == sender
            keep &= own | (not own.any())
        if self.policy.defer and keep.any():
            keep &= ~self._sooner_elsewhere(waiting, link, now)
        here, gain = waiting[keep], gain[keep]
        if self.policy.noise:
            gain = gain * (1 + self.policy.noise * self.random.random(len(gain)))
        return here, gain, later

    def _sooner_elsewhere(self, here: IntArray, link: int, now: float) -> BoolArray:
        """Whether another link into the same rank would deliver a chunk before this one does."""
        arrival = now + self.ports.duration(link, 1)
        sooner = np.zeros(len(here), dtype=np.bool_)
        for other in self.routing.faster_links[link]:
            start = np.maximum(self.arrives_us[here, self.src[other]], self.ports.ready(other))
            sooner |= self.usable[here, other] & (start + self.ports.duration(other, 1) < arrival)
        return sooner
