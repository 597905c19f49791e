"""Which part of a schedule is decided anew: near what ends last and what delays it."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from taccl.encoding.engines.lns.apart import Apart
from taccl.encoding.engines.lns.tuning import CHOOSE_MOST_CUTS, CHOOSE_MOST_MOVABLE
from taccl.encoding.engines.lns.window import Window
from taccl.model.schedule import TOLERANCE_US

#: The kinds of windows: all routes of some bundles; what comes to some ranks, or to those of a node;
#: whole sends; what happens at about one time; the order of sends alone.
KINDS = ("bundles", "ranks", "node", "sends", "time", "orders")


def slacks_us(apart: Apart, starts: Sequence[float], ends: Sequence[float]) -> list[float]:
    """How much later each send could start, and nothing end later than the last: 0 on the critical paths."""
    topology = apart.problem.topology
    done = [end + tail for end, tail in zip(ends, follows_us(apart), strict=True)]
    makespan = max(done)
    latest = [makespan - (end - start) for start, end in zip(starts, done, strict=True)]
    after: list[list[tuple[int, float]]] = [[] for _ in starts]
    for row in apart.rows:
        for need in row.needs:
            send = apart.rows[need].send
            after[send].append((row.send, ends[send] - starts[send]))
    last_on: dict[int, tuple[int, float]] = {}
    chunk_mb = apart.problem.chunk_mb
    for number, decision in enumerate(apart.decisions):
        size_mb = apart.problem.units(decision.chunks) * chunk_mb
        first = int(topology.first_pair[decision.link])
        pairs = np.arange(first, first + len(topology.ports[decision.link]))
        for port, busy in zip(
            topology.ports[decision.link], topology.port_busy_us(pairs, size_mb).tolist(), strict=True
        ):
            if port in last_on:
                before, kept = last_on[port]
                after[before].append((number, kept))
            last_on[port] = number, busy
    for number in reversed(range(len(starts))):
        for later, lag in after[number]:
            latest[number] = min(latest[number], latest[later] - lag)
    return [max(0.0, late - start) for late, start in zip(latest, starts, strict=True)]


def follows_us(apart: Apart) -> list[float]:
    """What still follows each send where it brings outputs that have a tail."""
    tail_at, dst = apart.problem.tail_at, apart.problem.topology.dst.tolist()
    if not tail_at:
        return [0.0] * len(apart.decisions)
    return [
        max(tail_at.get((chunk, dst[decision.link]), 0.0) for chunk in decision.chunks)
        for decision in apart.decisions
    ]


def split(bundles: list[tuple[int, ...]], wide: Iterable[int], lots: random.Random) -> list[tuple[int, ...]]:
    """The bundles with some of those in `wide` cut into a few parts."""
    wide = [bundle for bundle in wide if len(bundles[bundle]) > 1]
    made, cuts_left = list(bundles), lots.randint(0, CHOOSE_MOST_CUTS)
    lots.shuffle(wide)
    for bundle in wide:
        if not cuts_left:
            break
        chunks = bundles[bundle]
        cuts = sorted(lots.sample(range(1, len(chunks)), lots.randint(1, min(cuts_left, len(chunks) - 1))))
        cuts_left -= len(cuts)
        parts = [chunks[one:other] for one, other in itertools.pairwise((0, *cuts, len(chunks)))]
        made[bundle] = parts[0]
        made += parts[1:]
    return made


class Chooser:
    """Draws windows of a schedule.

    Parameters
    ----------
    apart : the schedule.
    starts : when each send starts, us.
    slack : how much later it could start, us.
    lots : what is drawn from.
    """

    def __init__(
        self, apart: Apart, starts: Sequence[float], slack: Sequence[float], lots: random.Random
    ) -> None:
        self._apart, self._starts, self._lots = apart, starts, lots
        self._critical = [number for number, row in enumerate(apart.rows) if slack[row.send] <= TOLERANCE_US]
        topology = apart.problem.topology
        self._src: list[int] = topology.src.tolist()
        self._dst: list[int] = topology.dst.tolist()
        self._routes_into: list[int] = [len(links) for links in topology.links_into]
        self._routes_out_of: list[int] = [len(links) for links in topology.links_from]
        self._num_links = topology.num_links

    def draw(self, kind: str, size: int) -> Window:
        """A window of a kind with about `size` routes."""
        if kind == "orders":
            return Window(frozenset(), frozenset(), self._movable([self._seed()], size))
        if kind == "bundles" and (opened := self._bundles(size)):
            rows = [number for number, row in enumerate(self._apart.rows) if row.bundle in opened]
            return Window(frozenset(opened), frozenset(), self._movable(rows, CHOOSE_MOST_MOVABLE))
        orders = {
            "bundles": self._of_sends,
            "ranks": self._at_ranks,
            "node": self._in_node,
            "sends": self._of_sends,
            "time": self._at_one_time,
        }
        order = orders[kind]()
        taken: set[int] = set()
        for number in order:
            if size <= 0:
                break
            if self._can_be_open(number):
                taken.add(number)
                size -= self._routes(number)
        return Window(frozenset(), frozenset(taken), self._movable(sorted(taken), CHOOSE_MOST_MOVABLE))

    def _seed(self) -> int:
        return int(self._lots.choice(self._critical))

    def _routes(self, number: int) -> int:
        row = self._apart.rows[number]
        return (
            self._routes_out_of[self._src[row.link]] if row.is_sum else self._routes_into[self._dst[row.link]]
        )

    def _can_be_open(self, number: int) -> bool:
        row = self._apart.rows[number]
        if row.is_sum:
            return (row.bundle, self._src[row.link]) in self._apart.sink
        return self._apart.copy_into.get((row.bundle, self._dst[row.link])) == number

    def _bundles(self, size: int) -> set[int]:
        """Bundles on critical paths, then others; of sums, such as are made once, at one rank."""
        copied = {row.bundle for row in self._apart.rows} - {
            row.bundle for row in self._apart.rows if row.is_sum
        }
        free = copied | set(self._apart.root)
        critical = sorted({self._apart.rows[number].bundle for number in self._critical} & free)
        others = sorted(free - set(critical))
        self._lots.shuffle(critical)
        self._lots.shuffle(others)
        phases = 2 if self._apart.problem.collective.is_reduction else 1
        several = max(1, size // (phases * self._num_links))
        if self._lots.random() < 0.5:
            mixed = critical[: max(1, several // 2)] + others
            return set(mixed[:several])
        return set((critical + others)[:several])

    def _at_ranks(self) -> list[int]:
        """Rows by the rank that they come to (sums: leave), ranks of critical rows first."""
        rows: dict[int, list[int]] = defaultdict(list)
        for number, row in enumerate(self._apart.rows):
            rows[self._src[row.link] if row.is_sum else self._dst[row.link]].append(number)
        seed = self._apart.rows[self._seed()]
        first = [self._dst[seed.link], self._src[seed.link]]
        others = [rank for rank in rows if rank not in first]
        self._lots.shuffle(others)
        return [number for rank in first + others for number in rows.get(rank, ())]

    def _in_node(self) -> list[int]:
        """Copies to the ranks of a node from it, or sums from there, those near a critical one first."""
        topology = self._apart.problem.topology
        node_of, inside = topology.node_of, ~topology.internode
        seed = self._apart.rows[self._seed()]
        node = node_of[self._src[seed.link] if seed.is_sum else self._dst[seed.link]]
        at = self._starts[seed.send]
        rows = [
            (abs(self._starts[row.send] - at), self._lots.random(), number)
            for number, row in enumerate(self._apart.rows)
            if row.is_sum == seed.is_sum and inside[row.link] and node_of[self._src[row.link]] == node
        ]
        return [number for _, _, number in sorted(rows)]

    def _of_sends(self) -> list[int]:
        """The rows of critical sends, then of others, drawn by lots."""
        of_send = self._apart.rows_of()
        critical = sorted({self._apart.rows[number].send for number in self._critical})
        others = [send for send in range(len(of_send)) if send not in set(critical)]
        self._lots.shuffle(critical)
        self._lots.shuffle(others)
        return [number for send in critical + others for number in of_send[send]]

    def _at_one_time(self) -> list[int]:
        """Rows by how near they start to a critical one."""
        at = self._starts[self._apart.rows[self._seed()].send]
        near = [
            (abs(self._starts[row.send] - at), self._lots.random(), n)
            for n, row in enumerate(self._apart.rows)
        ]
        return [number for _, _, number in sorted(near)]

    def _movable(self, rows: Sequence[int], most: int) -> frozenset[int]:
        """Sends at about the time of some rows."""
        starts = [self._starts[self._apart.rows[row].send] for row in rows]
        early, late = min(starts, default=0.0), max(starts, default=0.0)
        away = [(max(early - start, start - late, 0.0), number) for number, start in enumerate(self._starts)]
        return frozenset(number for _, number in sorted(away)[:most])
