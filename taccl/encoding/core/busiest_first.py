"""An order for given routes that keeps the busiest ports busy.

At every moment, among the sends whose ports are free, the most urgent goes first: that with the longest
rest of the schedule behind it, be it what still has to pass one of its ports or what still has to
follow the chunk. Where a send passes two ports, in and out of a switch, the sends that go together
are a matching, made as large as possible by augmenting paths (Kuhn 1955).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from taccl.encoding.core.timing import Decision, Ports, predecessors, tails_us
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule, Send, schedule_from_sends


def busiest_first(problem: Problem, decisions: Sequence[Decision], chance: float, seed: int) -> Schedule:
    """The schedule that this order gives.

    `chance` changes how urgent each chunk is on its way, by this many parts of the longest way.
    """
    return _Order(problem, decisions, chance, seed).run()


class _Order:
    """The state of one pass through time."""

    def __init__(self, problem: Problem, decisions: Sequence[Decision], chance: float, seed: int) -> None:
        topology = problem.topology
        self.problem, self.decisions = problem, decisions
        self.ports = Ports(problem)
        self.ports_of = topology.ports
        before = predecessors(problem, decisions)
        tails = np.array(tails_us(problem, decisions, before))
        noise = np.random.default_rng(seed).random(len(tails)) * chance * tails.max(initial=0.0)
        self.tail: list[float] = (tails + noise).tolist()
        self.missing = [len(waits) for waits in before]
        self.after: list[list[int]] = [[] for _ in before]
        for index, waits in enumerate(before):
            for earlier in waits:
                self.after[earlier].append(index)
        count = np.array([len(decision.chunks) for decision in decisions], dtype=np.int64)
        link = np.array([decision.link for decision in decisions], dtype=np.int64)
        send, pair = topology.pairs_of(link)
        busy = topology.port_busy_us(pair, count[send] * problem.chunk_mb).tolist()
        self.busy: list[list[tuple[int, float]]] = [[] for _ in decisions]  # at each port of each send
        self.left = [0.0] * topology.num_ports
        for index, port, busy_us in zip(
            send.tolist(), topology.incidence[1][pair].tolist(), busy, strict=True
        ):
            self.busy[index].append((port, busy_us))
            self.left[port] += busy_us
        self.queues: list[list[tuple[float, int]]] = [[] for _ in range(topology.num_links)]
        self.open: set[int] = set()
        self.arrivals: list[tuple[float, int]] = []
        self.moments: list[float] = [0.0]
        self.ready = [0.0] * len(decisions)
        self.sends: list[Send] = []

    def run(self) -> Schedule:
        for index, count in enumerate(self.missing):
            if not count:
                heapq.heappush(self.arrivals, (0.0, index))
        while self.moments:
            now = heapq.heappop(self.moments)
            while self.moments and self.moments[0] <= now + TOLERANCE_US:
                now = heapq.heappop(self.moments)
            self._receive(now)
            for link in self._together(now):
                self._send(link, now)
        return schedule_from_sends(self.problem, self.sends)

    def _receive(self, now: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= now:
            _, index = heapq.heappop(self.arrivals)
            link = self.decisions[index].link
            heapq.heappush(self.queues[link], (-self.tail[index], index))
            self.open.add(link)

    def _together(self, now: float) -> list[int]:
        """Links to send over now, no two of which share a port."""
        free = [link for link in self.open if self.ports.ready(link) <= now]
        free.sort(key=self._urgency, reverse=True)
        taken: set[int] = set()
        chosen: list[int] = []
        pairs: list[int] = []
        for link in free:
            ports = self.ports_of[link]
            if len(ports) == 2:
                pairs.append(link)
            elif taken.isdisjoint(ports):
                taken.update(ports)
                chosen.append(link)
        return chosen + self._matched([link for link in pairs if taken.isdisjoint(self.ports_of[link])])

    def _urgency(self, link: int) -> tuple[float, float, int]:
        left = [self.left[port] for port in self.ports_of[link]]
        tail = -self.queues[link][0][0]
        return max(*left, tail), sum(left) + tail, -link

    def _matched(self, links: list[int]) -> list[int]:
        """As many of the links, each with two ports, as can go together; the first ones first."""
        by_first: dict[int, list[int]] = {}
        for link in links:
            by_first.setdefault(self.ports_of[link][0], []).append(link)
        link_at: dict[int, int] = {}

        def placed(first: int, seen: set[int]) -> bool:
            for link in by_first[first]:
                last = self.ports_of[link][1]
                if last in seen:
                    continue
                seen.add(last)
                if last not in link_at or placed(self.ports_of[link_at[last]][0], seen):
                    link_at[last] = link
                    return True
            return False

        for first in by_first:
            placed(first, set())
        chosen: list[int] = []
        taken: set[int] = set()
        for link in link_at.values():  # a port may be the first of one link and the last of another
            if taken.isdisjoint(self.ports_of[link]):
                taken.update(self.ports_of[link])
                chosen.append(link)
        return chosen

    def _send(self, link: int, now: float) -> None:
        _, index = heapq.heappop(self.queues[link])
        if not self.queues[link]:
            self.open.discard(link)
        end = self.ports.place(link, len(self.decisions[index].chunks), now)
        for port, busy_us in self.busy[index]:
            self.left[port] -= busy_us
        self.sends.append(Send(self.decisions[index].chunks, link, now, False))
        for moment in self.ports.frees(link):
            heapq.heappush(self.moments, moment)
        for later in self.after[index]:
            self.ready[later] = max(self.ready[later], end)
            self.missing[later] -= 1
            if not self.missing[later]:
                heapq.heappush(self.arrivals, (self.ready[later], later))
                heapq.heappush(self.moments, self.ready[later])
