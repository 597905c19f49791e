"""Exhaustive search over schedules in which each sum is made once: what a proof about those is held against.

A schedule in which no send can start earlier without another order is *semi-active*; some optimal schedule
is. Taken in the order of their starts, its sends start at the earliest moment at which their chunks are
there and their ports are free, and no earlier than the send before. The search appends every send that
can be next in such an order, with every group of chunks, and keeps no rule but those of the cost model. It
shares no code with the engines or the bounds.

A sum is in one of two phases at each moment: contributions move towards one rank, and once they have
met, copies of the sum spread. A rank that has passed its contribution on takes no more. No group mixes both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends

#: A gain smaller than this is none.
_LEAST_GAIN = 2e-6


class TooLarge(Exception):
    """More sends would have to be tried than were allowed."""


@dataclass(frozen=True)
class _State:
    """What the sends so far have made.

    held : when each rank holds a finished chunk, by (chunk, rank).
    partial : when all that has come to a rank's part of a sum is there, for ranks that still keep it.
    passed_on : ranks that have passed their part of a sum on, by (chunk, rank).
    """

    held: dict[tuple[int, int], float]
    partial: dict[tuple[int, int], float]
    passed_on: frozenset[tuple[int, int]]
    port_free: tuple[float, ...]
    now: float
    makespan: float
    last: tuple[int, tuple[int, ...], bool] | None

    def key(self) -> tuple[object, ...]:
        held = tuple(sorted(self.held.items()))
        return held, tuple(sorted(self.partial.items())), self.passed_on, self.port_free, self.last


class _Search:
    def __init__(self, problem: Problem, limit_us: float, most_sends: int) -> None:
        topology, collective = problem.topology, problem.collective
        self.problem, self.limit, self.left = problem, limit_us, most_sends
        self.ranks, self.links = range(topology.num_ranks), range(topology.num_links)
        self.chunks = range(collective.num_chunks)
        self.src, self.dst, self.ports = topology.src.tolist(), topology.dst.tolist(), topology.ports
        self.alpha = topology.alpha_us.tolist()
        self.cost = (topology.beta_us_per_mb * problem.chunk_mb).tolist()
        betas = topology.port_betas or [
            [beta] * len(p) for beta, p in zip(topology.beta_us_per_mb, self.ports, strict=True)
        ]
        self.port_cost = [[beta * problem.chunk_mb for beta in each] for each in betas]
        self.serial = topology.occupancy == "serial"
        self.reduces = collective.reduces.tolist()
        self.pre, self.post = collective.pre.tolist(), collective.post.tolist()
        self.usable = [problem.usable(chunk).tolist() for chunk in self.chunks]
        self.distance = [self._distances(chunk) for chunk in self.chunks]
        self.best: list[Send] | None = None
        self.seen: set[tuple[object, ...]] = set()

    def _distances(self, chunk: int) -> list[list[float]]:
        """Least times between ranks for one chunk (Floyd, Warshall)."""
        far = [[0.0 if a == b else math.inf for b in self.ranks] for a in self.ranks]
        for link in self.links:
            if self.usable[chunk][link]:
                far[self.src[link]][self.dst[link]] = self.alpha[link] + self.cost[link]
        for via, a, b in itertools.product(self.ranks, repeat=3):
            far[a][b] = min(far[a][b], far[a][via] + far[via][b])
        return far

    def run(self) -> Schedule | None:
        cells = list(itertools.product(self.chunks, self.ranks))
        starts = {cell: 0.0 for cell in cells if self.pre[cell[0]][cell[1]]}
        held = {cell: 0.0 for cell in starts if not self.reduces[cell[0]]}
        partial = {cell: 0.0 for cell in starts if self.reduces[cell[0]]}
        free = (0.0,) * self.problem.topology.num_ports
        state = _State(held, partial, frozenset(), free, 0.0, 0.0, None)
        self._extend(self._with_finished_sums(state), [])
        return None if self.best is None else schedule_from_sends(self.problem, self.best)

    def _with_finished_sums(self, state: _State) -> _State:
        """A sum whose contributions have met at one rank is a chunk to copy from there."""
        held, partial = dict(state.held), dict(state.partial)
        for chunk in self.chunks:
            cells = [cell for cell in partial if cell[0] == chunk]
            if len(cells) == 1:
                held[cells[0]] = partial.pop(cells[0])
        return _State(held, partial, state.passed_on, state.port_free, state.now, state.makespan, state.last)

    def _extend(self, state: _State, sends: list[Send]) -> None:
        if self._least_end(state) >= self.limit - _LEAST_GAIN:
            return
        if self._is_done(state):
            self.limit, self.best = state.makespan, list(sends)
            return
        key = state.key()
        if key in self.seen:
            return
        self.seen.add(key)
        for send, after in sorted(self._next(state), key=lambda option: option[0].start_us):
            self._extend(after, [*sends, send])

    def _is_done(self, state: _State) -> bool:
        return not state.partial and all(self._is_served(state, chunk) for chunk in self.chunks)

    def _least_end(self, state: _State) -> float:
        """No continuation ends earlier: what is where now has to come where it is wanted."""
        least = state.makespan
        for chunk in self.chunks:
            far = self.distance[chunk]
            for rank in self.ranks:
                if not self.post[chunk][rank] or (chunk, rank) in state.held:
                    continue
                holders = [(r, t) for (c, r), t in state.held.items() if c == chunk]
                parts = [(r, t) for (c, r), t in state.partial.items() if c == chunk]
                if holders:
                    least = max(
                        least, min(max(t, state.now * (r != rank)) + far[r][rank] for r, t in holders)
                    )
                else:
                    least = max(least, *(t + far[r][rank] for r, t in parts))
        return least

    def _next(self, state: _State) -> Iterator[tuple[Send, _State]]:
        for link, reduce in itertools.product(self.links, (False, True)):
            chunks = [chunk for chunk in self.chunks if self._may_go(state, chunk, link, reduce)]
            for size in range(1, min(len(chunks), self.problem.max_group) + 1):
                for group in itertools.combinations(chunks, size):
                    self.left -= 1
                    if self.left < 0:
                        raise TooLarge
                    after = self._placed(state, group, link, reduce)
                    if after is not None:
                        yield after

    def _may_go(self, state: _State, chunk: int, link: int, reduce: bool) -> bool:
        here, there = (chunk, self.src[link]), (chunk, self.dst[link])
        if not self.usable[chunk][link]:
            return False
        if not reduce:
            return here in state.held and there not in state.held and not self._is_served(state, chunk)
        return here in state.partial and there not in state.passed_on

    def _is_served(self, state: _State, chunk: int) -> bool:
        """Whether everyone who wants a chunk has it: then it need not move any more."""
        return all((chunk, rank) in state.held for rank in self.ranks if self.post[chunk][rank])

    def _placed(
        self, state: _State, group: tuple[int, ...], link: int, reduce: bool
    ) -> tuple[Send, _State] | None:
        src, dst = self.src[link], self.dst[link]
        there = state.partial if reduce else state.held
        body = len(group) * self.cost[link]
        alpha = self.alpha[link] if self.serial else 0.0
        busy = {
            port: len(group) * cost + alpha
            for port, cost in zip(self.ports[link], self.port_cost[link], strict=True)
            if len(group) * cost + alpha > 0  # what takes no time is in nobody's way
        }
        start = max(there[chunk, src] for chunk in group)
        start = max([start, *(state.port_free[port] for port in busy)])
        if start < state.now - 1e-9 or self._is_out_of_turn(state, group, link, reduce, start):
            return None
        end = start + self.alpha[link] + body
        held, partial, passed_on = dict(state.held), dict(state.partial), set(state.passed_on)
        for chunk in group:
            if reduce:
                partial[chunk, dst] = max(partial.get((chunk, dst), 0.0), end)
                del partial[chunk, src]
                passed_on.add((chunk, src))
            else:
                held[chunk, dst] = end
        free = list(state.port_free)
        for port, takes in busy.items():
            free[port] = start + takes
        after = _State(
            held,
            partial,
            frozenset(passed_on),
            tuple(free),
            start,
            max(state.makespan, end),
            (link, group, reduce),
        )
        return Send(group, link, start, reduce), self._with_finished_sums(after)

    def _is_out_of_turn(
        self, state: _State, group: tuple[int, ...], link: int, reduce: bool, start: float
    ) -> bool:
        """Of two sends at one moment that have nothing to do with each other, one order is enough."""
        if state.last is None or start > state.now + 1e-9:
            return False
        over, others, kind = state.last
        return not set(group) & set(others) and (link, group, reduce) < (over, others, kind)


def schedule_before(problem: Problem, limit_us: float, most_sends: int = 500_000) -> Schedule | None:
    """The fastest schedule that ends before `limit_us`; None if there is none.

    Raises
    ------
    TooLarge : the search has to try more than `most_sends` sends.
    """
    return _Search(problem, limit_us, most_sends).run()


def fastest(problem: Problem, most_sends: int = 500_000) -> Schedule:
    """The fastest schedule of all."""
    schedule = schedule_before(problem, math.inf, most_sends)
    assert schedule is not None, "no schedule at all"
    return schedule
