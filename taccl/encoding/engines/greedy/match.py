"""One pass of the greedy engine for chunks that all ranks want: at each moment, as many sends as fit.

Behind a switch a send needs two ports, its sender's way in and its receiver's way out. Sends chosen one
by one leave ports idle that have work: a sender is taken by one receiver, and another, which nobody else
can serve, waits. So the sends of a moment are a matching of senders and receivers. Receivers are taken in
the order of how much they still lack, and augmenting paths make room for each (Kuhn 1955). On its link, a
receiver takes what brings a chunk nearest to the ranks that lack it, and among equals the chunk that most
ranks of its node lack: what is rare becomes common while there is time, so that to the end everyone has
something that somebody lacks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.list_scheduling import RoutingInstance
from taccl.encoding.core.timing import Ports
from taccl.encoding.engines.greedy.tuning import (
    MATCH_CLASSES_PER_DOUBLING,
    MATCH_MOST_DISTANCES,
    MATCH_MOST_PAIRS,
    MATCH_PAIRS_PER_UNIT,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule import TOLERANCE_US, Schedule, Send, schedule_from_sends
from taccl.support.budget import Budget

#: Moments closer than this are the same: float error is smaller, and every send takes longer.
_SAME_US = TOLERANCE_US / 100


@dataclass(frozen=True)
class MatchPolicy:
    """How one pass decides.

    Parameters
    ----------
    patience : a link leaves a chunk alone if a copy is this many times nearer to its receiver.
    overtake : a copy on its way is as far as it takes to come, so that another may be sent past it;
        otherwise it counts as if it were there.
    rarity : how much each rank counts that lacks a chunk, next to how much nearer the chunk gets.
    noise : relative random change of what helps most.
    """

    patience: float = 1.5
    overtake: bool = False
    rarity: float = 10.0
    noise: float = 0.1


def is_for_matching(instance: Instance) -> bool:
    """Whether each chunk is copied from one rank to all, no sketch asks for a symmetry or an order, and
    the machine is not too large.
    """
    problem, topology = instance.problem, instance.problem.topology
    if problem.symmetry or problem.limits.own_first is not None:
        return False
    if not 0 < problem.num_chunks * topology.num_links <= MATCH_MOST_PAIRS:
        return False
    if problem.num_chunks * problem.num_ranks**3 > MATCH_MOST_DISTANCES:
        return False
    return instance.demand.broadcasts


def match(
    routing: RoutingInstance, policy: MatchPolicy, random: np.random.Generator, budget: Budget | None = None
) -> Schedule | None:
    """A schedule by one pass; None if the time is up, or `patience` keeps a chunk from a rank."""
    return _Match(routing, policy, random).run(budget)


class _Match:
    """The state of one pass. Tables have a row for each rank or link and a column for each chunk."""

    def __init__(self, routing: RoutingInstance, policy: MatchPolicy, random: np.random.Generator) -> None:
        problem = routing.problem
        topology, collective = problem.topology, problem.collective
        self.problem, self.policy, self.random = problem, policy, random
        self.src, self.dst = topology.src, topology.dst
        self.ports = Ports(problem)
        self.first_port = np.array([ports[0] for ports in topology.ports])
        self.last_port = np.array([ports[-1] for ports in topology.ports])
        self.passes_two = np.array([len(ports) == 2 for ports in topology.ports])
        duration = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
        self.fastest_us = float(duration.min())
        self.class_us, of_class = _classes(duration)
        self.gain_row = of_class * problem.num_ranks + self.dst
        self.distance, self.distance_row = routing.distance_us, routing.distance_row
        self.usable = None if routing.usable.all() else np.ascontiguousarray(routing.usable.T)
        nodes, self.node = np.unique(topology.node_of, return_inverse=True)
        self.in_node = (self.node == np.arange(len(nodes))[:, None]).astype(np.int64)

        self.held = collective.pre.T.copy()
        self.lacks = ~self.held
        self.to_come: IntArray = self.lacks.sum(axis=1)
        self.remaining_us = routing.remaining_us.T.copy()  # to the nearest copy, there or on its way
        self.held_us = self.remaining_us.copy()  # to the nearest copy that is there
        self.comes_us = np.full(self.remaining_us.shape, np.inf)  # when one on its way could be there
        self.score = np.empty(self.remaining_us.shape)
        for chunk in range(collective.num_chunks):
            self._judge(chunk)
        #: The score, where a link of a class may bring the chunk; else -inf. Shape (classes, ranks, chunks).
        self.gain = np.empty((len(self.class_us), *self.score.shape), dtype=np.float32)
        self._weigh(slice(None), 0.0)
        self.arrivals: list[tuple[float, int, int]] = []
        self.moments: list[float] = [0.0]
        self.sends: list[Send] = []

    def run(self, budget: Budget | None) -> Schedule | None:
        while self.moments and self.to_come.any():
            if budget is not None and not budget.remaining_s():
                return None
            now = heapq.heappop(self.moments)
            while self.moments and self.moments[0] <= now + _SAME_US:
                now = heapq.heappop(self.moments)
            self._receive(now)
            links, gains = self._offers(now)
            if budget is not None:
                budget.spend(len(links) * self.problem.num_chunks / MATCH_PAIRS_PER_UNIT)
            alone = ~self.passes_two[links]
            order = np.argsort(-gains[alone], kind="stable")
            for link in links[alone][order].tolist() + self._matched(links[~alone], gains[~alone]):
                self._send(link, now)
        return None if self.to_come.any() else schedule_from_sends(self.problem, self.sends)

    def _receive(self, now: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= now:
            _, chunk, rank = heapq.heappop(self.arrivals)
            self.held[rank, chunk] = True
            self._bring_near(self.held_us, chunk, rank)
        if self.policy.overtake:
            self._weigh(slice(None), now)

    def _judge(self, chunk: int) -> None:
        """How much it helps to bring a chunk to each rank, in units of the fastest transfer."""
        remaining = self.remaining_us[:, chunk]
        nearer = np.maximum(remaining - self.distance[self.distance_row[chunk]], 0.0).sum(axis=1)
        lacking = (self.in_node @ self.lacks[:, chunk])[self.node]
        score = nearer / self.fastest_us + self.policy.rarity * lacking
        self.score[:, chunk] = score * (1 + self.policy.noise * self.random.random())

    def _weigh(self, chunks: slice, now: float) -> None:
        """Which of these chunks a link may bring to each rank, and what that is worth."""
        far_us = self.remaining_us[:, chunks]
        if self.policy.overtake:
            coming_us = np.maximum(self.comes_us[:, chunks] - now, far_us)
            far_us = np.minimum(self.held_us[:, chunks], coming_us)
        far_enough = far_us * (self.policy.patience * (1 + 1e-9)) >= self.class_us[:, None, None]
        self.gain[:, :, chunks] = np.where(far_enough & self.lacks[:, chunks], self.score[:, chunks], -np.inf)

    def _offers(self, now: float) -> tuple[IntArray, FloatArray]:
        """Links that can carry something useful now, and the most that they can gain."""
        is_free = np.array(self.ports.free_us) <= now + _SAME_US
        links = np.flatnonzero(is_free[self.first_port] & is_free[self.last_port])
        best = self._gains(links).max(axis=1, initial=-np.inf)
        return links[best > -np.inf], best[best > -np.inf]

    def _gains(self, links: IntArray) -> FloatArray:
        """What each chunk gains over each link, -inf if it cannot go, shape (len(links), num_chunks)."""
        can_go = self.held[self.src[links]]
        if self.usable is not None:
            can_go &= self.usable[links]
        gain: FloatArray = self.gain.reshape(-1, self.gain.shape[2])[self.gain_row[links]]
        gain[~can_go] = -np.inf
        return gain

    def _matched(self, links: IntArray, gains: FloatArray) -> list[int]:
        """A link for as many receiving ports as can be, for those whose ranks lack most before others."""
        offers: dict[int, list[int]] = {}
        order = np.lexsort((-self.to_come[self.dst[links]], -gains))
        for link in links[order].tolist():
            offers.setdefault(int(self.last_port[link]), []).append(link)
        most_lacking = sorted(offers, key=lambda port: -self.to_come[self.dst[offers[port][0]]])
        link_from: dict[int, int] = {}  # by sending port

        def is_served(port: int, seen: set[int]) -> bool:
            for link in offers[port]:
                sender = int(self.first_port[link])
                if sender in seen:
                    continue
                seen.add(sender)
                if sender not in link_from or is_served(int(self.last_port[link_from[sender]]), seen):
                    link_from[sender] = link
                    return True
            return False

        for port in most_lacking:
            is_served(port, set())
        return sorted(link_from.values())

    def _send(self, link: int, now: float) -> None:
        """The best chunk over a link, if its ports and a chunk are still there after the last sends."""
        if self.ports.ready(link) > now + _SAME_US:
            return
        gains = self._gains(np.array([link]))[0]
        chunk, receiver = int(gains.argmax()), int(self.dst[link])
        if gains[chunk] == -np.inf:
            return
        start = max(now, self.ports.ready(link))
        end = self.ports.place(link, 1, start)
        self.sends.append(Send((chunk,), link, start))
        self.lacks[receiver, chunk] = False
        self.to_come[receiver] -= 1
        self._bring_near(self.remaining_us, chunk, receiver)
        self._bring_near(self.comes_us, chunk, receiver, end)
        self._judge(chunk)
        self._weigh(slice(chunk, chunk + 1), now)
        heapq.heappush(self.arrivals, (end, chunk, receiver))
        for moment in self.ports.frees(link):
            heapq.heappush(self.moments, moment)
        heapq.heappush(self.moments, end)

    def _bring_near(self, far_us: FloatArray, chunk: int, rank: int, after_us: float = 0.0) -> None:
        """A copy at a rank, after some time, is nearer to some ranks than all others."""
        from_there = self.distance[self.distance_row[chunk], rank] + after_us
        far_us[:, chunk] = np.minimum(far_us[:, chunk], from_there)


def _classes(duration_us: FloatArray) -> tuple[FloatArray, IntArray]:
    """The least duration of each class of links that are about as fast, and the class of each link."""
    steps = np.floor(MATCH_CLASSES_PER_DOUBLING * np.log2(duration_us / duration_us.min()) + 1e-9)
    _, of_link = np.unique(steps, return_inverse=True)
    least = np.full(of_link.max() + 1, np.inf)
    np.minimum.at(least, of_link, duration_us)
    return least, of_link
