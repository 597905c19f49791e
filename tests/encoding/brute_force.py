"""Exhaustive search over the programs of tiny problems: what the bounds and engines are held against.

It knows no trees, no roots and no phases, only the cost model. A rank may hold several partial sums of a
chunk, and has every sum of disjoint ones at once. A send carries for each of its chunks a copy, or any one
partial sum that its sender has at its start; it may mix both, and the same sum may go to several ranks, or
again to one that has parts of it. A chunk is done where a rank has the sum of all contributions. The search
runs forwards in time on the network as it is, and shares no code with the engines or the bounds.

*Which programs are tried.* Given what each send carries and the order in which each port serves, sends may
start as soon as what they carry is there and their ports are free; nothing ends later for it. So some fastest
program has no start but these, and the search appends sends in the order of their starts. A send that could
have started before the last one does not come up again unless what it waits for has changed. Left out is
only what some fastest program does without:

- a row that brings what its receiver already has by then, or a part to one that has the whole sum by then;
- a second copy to a rank, and a copy to a rank that neither wants it nor passes it on in time;
- a part of a sum where another part would make the sum whole at its arrival: wherever sums with the first
  part were used from then on, the whole serves, since every output is the whole;
- of two sends that start together, one of the two orders, unless the first takes no time at all.

*When a branch ends.* No program ends before each contribution could have come, alone, from where it is to
every rank that wants the sum; nor before the ports into a rank can have let in every chunk that it lacks,
those out of a rank every contribution that is nowhere else, and all ports every transfer that must still
be. Two branches in the same state have the same future, also if they differ in the names of chunks.

Chunks may be unequal, inputs may come late, outputs may have tails, and some ranks may not sum: such a rank
has what it holds and what comes, and makes nothing of it. Ranks that may not copy are not known here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taccl.network import LogicalTopology
from taccl.problem import Problem
from taccl.schedule import Schedule, Send, schedule_from_sends

#: Times are whole numbers of this many microseconds, so that equal ones are equal.
_TICK_US = 2.0**-36
_NEVER = 2**62
#: A gain smaller than this is none.
_LEAST_GAIN = round(2e-6 / _TICK_US)
#: Each search that finds nothing is followed by one that may take so much longer.
_STEP = 1.12


class TooLarge(Exception):
    """More sends would have to be tried than were allowed."""


@dataclass(frozen=True)
class Step:
    """One send: what it carries of each chunk, as the ranks whose contributions are summed.

    A chunk that is copied is named with no ranks.
    """

    link: int
    start_us: float
    end_us: float
    rows: tuple[tuple[int, frozenset[int]], ...]


@dataclass(frozen=True)
class Program:
    """Sends in the order of their starts, and when the last output is complete."""

    problem: Problem
    steps: tuple[Step, ...]
    makespan_us: float

    def schedule(self) -> Schedule:
        """The same as a schedule, for a problem that only copies."""
        assert not self.problem.collective.is_reduction
        sends = [Send(tuple(c for c, _ in step.rows), step.link, step.start_us) for step in self.steps]
        return schedule_from_sends(self.problem, sends)

    def check(self) -> None:
        """Replay it, rule by rule: ports, presence of what is sent, each contribution once at each output."""
        topology, collective = self.problem.topology, self.problem.collective
        wholes = [frozenset(_contributors(self.problem, chunk)) for chunk in range(collective.num_chunks)]
        held: dict[tuple[int, int], list[tuple[frozenset[int], float]]] = {}
        for chunk, rank in zip(*collective.pre.nonzero(), strict=True):
            own = frozenset({int(rank)}) if collective.reduces[chunk] else frozenset()
            held[int(chunk), int(rank)] = [(own, self.problem.ready_at.get((int(chunk), int(rank)), 0.0))]
        served: dict[int, list[tuple[float, float]]] = {}
        for step in sorted(self.steps, key=lambda each: each.end_us):
            src, dst = int(topology.src[step.link]), int(topology.dst[step.link])
            alpha, body = topology.alpha_us[step.link], _body_mb(self.problem, step)
            assert 1 <= len(step.rows) <= self.problem.max_group
            assert len({chunk for chunk, _ in step.rows}) == len(step.rows)
            assert abs(step.start_us + alpha + body * topology.beta_us_per_mb[step.link] - step.end_us) < 1e-6
            for port, busy_us in _busy_us(self.problem, step).items():
                served.setdefault(port, []).append((step.start_us, busy_us))
            for chunk, ranks in step.rows:
                assert self.problem.usable(chunk)[step.link]
                there = [one for one, since in held.get((chunk, src), []) if since <= step.start_us + 1e-6]
                can = _is_sum_of(ranks, there) if _may_sum(topology)[src] else ranks in there
                assert can, f"rank {src} lacks {set(ranks)} of chunk {chunk}"
                held.setdefault((chunk, dst), []).append((ranks, step.end_us))
        for port in served.values():
            takes_time = sorted(busy for busy in port if busy[1] > 1e-6)
            for (start, length), (then, _) in itertools.pairwise(takes_time):
                assert then >= start + length - 1e-6, "a port serves two sends at once"
        for chunk, rank in zip(*collective.post.nonzero(), strict=True):
            by_us = self.makespan_us - self.problem.tail_at.get((int(chunk), int(rank)), 0.0)
            there = [one for one, since in held.get((chunk, rank), []) if since <= by_us + 1e-6]
            can = _is_sum_of(wholes[chunk], there) if _may_sum(topology)[rank] else wholes[chunk] in there
            assert can, f"rank {rank} never has chunk {chunk}"


def _body_mb(problem: Problem, step: Step) -> float:
    """The size of what a send carries."""
    if problem.sizes is None:
        return len(step.rows) * problem.chunk_mb
    return sum(float(problem.sizes[chunk]) for chunk, _ in step.rows) * problem.chunk_mb


def _may_sum(topology: LogicalTopology) -> list[bool]:
    return [True] * topology.num_ranks if topology.may_sum is None else topology.may_sum.tolist()


def _busy_us(problem: Problem, step: Step) -> dict[int, float]:
    """How long a send keeps each of its link's ports busy."""
    topology, link = problem.topology, step.link
    alpha = float(topology.alpha_us[link]) if topology.occupancy == "serial" else 0.0
    body = _body_mb(problem, step)
    betas = _port_betas(topology)[link]
    return {port: alpha + body * beta for port, beta in zip(topology.ports[link], betas, strict=True)}


def _port_betas(topology: LogicalTopology) -> Sequence[Sequence[float]]:
    """For each link the time per MB that it keeps each of its ports busy: its own, if nothing is said."""
    if topology.port_betas is not None:
        return topology.port_betas
    return [[float(beta)] * len(p) for beta, p in zip(topology.beta_us_per_mb, topology.ports, strict=True)]


def _contributors(problem: Problem, chunk: int) -> list[int]:
    """Whose contributions a chunk is the sum of; nobody's if it is copied."""
    collective = problem.collective
    return [int(r) for r in collective.pre[chunk].nonzero()[0]] if collective.reduces[chunk] else []


def _is_sum_of(ranks: frozenset[int], parts: Sequence[frozenset[int]]) -> bool:
    """Whether some disjoint parts add up to all of `ranks`; a copy is the part without any ranks."""
    if not ranks:
        return frozenset() in parts
    first = min(ranks)
    return any(
        part == ranks or (part < ranks and _is_sum_of(ranks - part, parts)) for part in parts if first in part
    )


#: The times from which on a rank has each sum of contributions of a chunk; the position is the set, in bits.
_Family = tuple[int, ...]
_Row = tuple[int, int]


@dataclass(frozen=True)
class _State:
    """What the sends so far have made: a family for each chunk and rank, and until when ports are busy."""

    families: tuple[_Family, ...]
    free: tuple[int, ...]
    now: int
    last: tuple[int, bool]
    relays: frozenset[int]


class _Search:
    def __init__(self, problem: Problem, most_sends: int) -> None:
        topology, collective = problem.topology, problem.collective
        self.problem, self.left = problem, most_sends
        self.num_ranks, self.num_chunks = topology.num_ranks, collective.num_chunks
        self.ranks, self.links = range(topology.num_ranks), range(topology.num_links)
        self.chunks = range(collective.num_chunks)
        self.src, self.dst, self.ports = topology.src.tolist(), topology.dst.tolist(), topology.ports
        self.alpha = [_ticks(alpha) for alpha in topology.alpha_us.tolist()]
        self.cost = [_ticks(beta * problem.chunk_mb) for beta in topology.beta_us_per_mb.tolist()]
        self.port_cost = [
            [_ticks(beta * problem.chunk_mb) for beta in betas] for betas in _port_betas(topology)
        ]
        self.serial = topology.occupancy == "serial"
        assert topology.may_copy is None, "this search knows no ranks that may not copy"
        self.may_sum = _may_sum(topology)
        self.size = [1.0] * self.num_chunks if problem.sizes is None else problem.sizes.tolist()
        self.ready, self.tail = (
            [[_ticks(known.get((chunk, rank), 0.0)) for rank in self.ranks] for chunk in self.chunks]
            for known in (problem.ready_at, problem.tail_at)
        )
        self.contributors = [_contributors(problem, chunk) for chunk in self.chunks]
        #: A chunk that is copied has one contribution, with many sources.
        self.whole = [(1 << max(1, len(ranks))) - 1 for ranks in self.contributors]
        self.pre = collective.pre.tolist()
        self.wanting = [[r for r in self.ranks if collective.post[chunk][r]] for chunk in self.chunks]
        self.usable = [problem.usable(chunk).tolist() for chunk in self.chunks]
        self.away = [self._distances(chunk) for chunk in self.chunks]
        self.door_in = [self._doors(chunk, self.dst, self.src) for chunk in self.chunks]
        self.door_out = [self._doors(chunk, self.src, self.dst) for chunk in self.chunks]
        self.into = [self._ways([l for l in self.links if self.dst[l] == rank]) for rank in self.ranks]
        self.out_of = [self._ways([l for l in self.links if self.src[l] == rank]) for rank in self.ranks]
        self.everywhere = self._ways(self.links)
        self.apart = {whole: _disjoint(whole) for whole in set(self.whole)}
        self.interchangeable = self._interchangeable()
        self.known: dict[_Family, list[int]] = {}

    def busy(self, link: int, port: int, size: float) -> int:
        """How long a send of that size keeps one of its link's ports busy, from its start on."""
        each = self.port_cost[link][self.ports[link].index(port)]
        return round(size * each) + (self.alpha[link] if self.serial else 0)

    def takes(self, link: int, size: float) -> int:
        """How long a send of that size takes; sizes are in units of the problem's chunks."""
        return self.alpha[link] + round(size * self.cost[link])

    def _distances(self, chunk: int) -> list[list[int]]:
        """Least times between ranks for one chunk (Floyd, Warshall)."""
        far = [[0 if a == b else _NEVER for b in self.ranks] for a in self.ranks]
        for link in self.links:
            if self.usable[chunk][link]:
                a, b = self.src[link], self.dst[link]
                far[a][b] = min(far[a][b], self.takes(link, self.size[chunk]))
        for via, a, b in itertools.product(self.ranks, repeat=3):
            far[a][b] = min(far[a][b], far[a][via] + far[via][b])
        return far

    def _doors(self, chunk: int, end: Sequence[int], other: Sequence[int]) -> list[list[int]]:
        """For each rank the ranks at the other ends of the links that end there, and that a chunk may use."""
        links = [link for link in self.links if self.usable[chunk][link]]
        return [[other[link] for link in links if end[link] == rank] for rank in self.ranks]

    def _ways(self, links: Sequence[int]) -> list[list[tuple[int, int, int, int]]]:
        """Choices of a port for each link: (port, time before or after, for each send, for each chunk)."""
        choices, least = [], min(self.size, default=1.0)
        for which in (0, -1):
            ports: dict[int, tuple[int, int, int]] = {}
            for link in links:
                port = self.ports[link][which]
                once, twice = self.busy(link, port, least), self.busy(link, port, 2 * least)
                each = twice - once
                lag = min(self.takes(link, n * least) - self.busy(link, port, n * least) for n in (1, 2))
                old = ports.get(port, (_NEVER, _NEVER, _NEVER))
                ports[port] = min(old[0], lag), min(old[1], once - each), min(old[2], each)
            rows = [(port, *costs) for port, costs in ports.items()]
            if rows and rows not in choices:
                choices.append(rows)
        return choices

    def run(self, limit: int) -> Program | None:
        """The fastest program that ends before the limit."""
        families = []
        for chunk, rank in itertools.product(self.chunks, self.ranks):
            family = [_NEVER] * (self.whole[chunk] + 1)
            family[0] = 0
            if self.pre[chunk][rank]:
                part = self.contributors[chunk].index(rank) if self.contributors[chunk] else 0
                family[1 << part] = self.ready[chunk][rank]
            families.append(tuple(family))
        start = _State(tuple(families), (0,) * self.problem.topology.num_ports, 0, (-1, False), frozenset())
        self.best: list[Step] | None = None
        least = self._least_end(start)
        if least >= _NEVER:
            return None
        tried = least
        while self.best is None and tried < limit:
            # Branches over the limit are left for the next round, which allows a little more.
            self.limit = tried = min(limit, max(tried + _LEAST_GAIN + 1, int(tried * _STEP)))
            self.seen: set[tuple[object, ...]] = set()
            self._extend(start, [], least)
        if self.best is None:
            return None
        return Program(self.problem, tuple(self.best), self.limit * _TICK_US)

    def _extend(self, state: _State, steps: list[Step], least: int) -> None:
        done = self._end(state)
        if done is not None:
            if done < self.limit - _LEAST_GAIN:
                self.limit, self.best = done, list(steps)
            return
        key = self._key(state)
        if key in self.seen:
            return
        self.seen.add(key)
        options = []
        for link, rows, start in self._sends(state):
            self.left -= 1
            if self.left < 0:
                raise TooLarge
            after = self._after(state, link, rows, start)
            end = max(least, self._least_end(after))
            if end < self.limit - _LEAST_GAIN:
                options.append((end, start, -len(rows), link, rows, after))
        for end, start, _, link, rows, after in sorted(options, key=lambda option: option[:4]):
            if end < self.limit - _LEAST_GAIN:
                self._extend(after, [*steps, self._step(link, rows, start)], end)

    def _key(self, state: _State) -> tuple[object, ...]:
        """The state, the same for states that only differ in the names of interchangeable chunks."""
        n, families = self.num_ranks, state.families
        relays = [cell in state.relays for cell in range(len(families))]
        rows = (
            sorted((families[c * n : (c + 1) * n], relays[c * n : (c + 1) * n]) for c in chunks)
            for chunks in self.interchangeable
        )
        chunks = tuple((block, tuple(relay)) for row in rows for block, relay in row)
        return chunks, state.free, state.now, state.last

    def _interchangeable(self) -> list[list[int]]:
        """Classes of chunks that start, are wanted and may go at the same places."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for chunk in self.chunks:
            kind = (
                *(self.contributors[chunk], self.pre[chunk], self.wanting[chunk], self.usable[chunk]),
                *(self.ready[chunk], self.tail[chunk], [self.size[chunk]]),
            )
            kinds.setdefault(tuple(map(tuple, kind)), []).append(chunk)
        return list(kinds.values())

    def _step(self, link: int, rows: tuple[_Row, ...], start: int) -> Step:
        carried = []
        for chunk, part in rows:
            ranks = (rank for bit, rank in enumerate(self.contributors[chunk]) if part >> bit & 1)
            carried.append((chunk, frozenset(ranks)))
        end = start + self.takes(link, sum(self.size[chunk] for chunk, _ in rows))
        return Step(link, start * _TICK_US, end * _TICK_US, tuple(carried))

    def _end(self, state: _State) -> int | None:
        """When the last output is complete; None if one of them never is."""
        end = 0
        for chunk in self.chunks:
            whole, first = self.whole[chunk], chunk * self.num_ranks
            for rank in self.wanting[chunk]:
                end = max(end, state.families[first + rank][whole] + self.tail[chunk][rank])
        return end if end < _NEVER else None

    def _sends(self, state: _State) -> Iterator[tuple[int, tuple[_Row, ...], int]]:
        """Every send that can be next, with its start."""
        for link in self.links:
            # What takes no time is in nobody's way.
            ports = max(state.free[port] * (self.busy(link, port, 1) > 0) for port in self.ports[link])
            options = [self._parts(state, chunk, link, ports) for chunk in self.chunks]
            yield from self._groups(state, link, ports, options)

    def _parts(self, state: _State, chunk: int, link: int, ports: int) -> list[tuple[int, int]]:
        """What could be sent of a chunk over a link: (set, from when on the sender has it)."""
        if not self.usable[chunk][link]:
            return []
        here = state.families[chunk * self.num_ranks + self.src[link]]
        there = state.families[chunk * self.num_ranks + self.dst[link]]
        whole, takes = self.whole[chunk], self.takes(link, self.size[chunk])
        if whole == 1 and there[1] < _NEVER:
            return []
        found = []
        for part in range(whole, 0, -1):
            end = max(ports, here[part]) + takes
            if here[part] < _NEVER and end < there[part] and (part == whole or end < there[whole]):
                found.append((part, here[part]))
        return found

    def _groups(
        self, state: _State, link: int, ports: int, options: list[list[tuple[int, int]]]
    ) -> Iterator[tuple[int, tuple[_Row, ...], int]]:
        """All groups over a link that would start no earlier than now."""
        chunks = [chunk for chunk in self.chunks if options[chunk]]
        dst = self.dst[link]
        for size in range(1, min(len(chunks), self.problem.max_group) + 1):
            for members in itertools.combinations(chunks, size):
                takes = self.takes(link, sum(self.size[chunk] for chunk in members))
                for parts in itertools.product(*(options[chunk] for chunk in members)):
                    start = max(ports, *(since for _, since in parts))
                    if start < state.now or self._is_out_of_turn(state, link, start):
                        continue
                    rows = tuple((chunk, part) for chunk, (part, _) in zip(members, parts, strict=True))
                    if all(self._is_news(state, row, link, dst, start, start + takes) for row in rows):
                        yield link, rows, start

    def _is_news(self, state: _State, row: _Row, link: int, dst: int, start: int, end: int) -> bool:
        """Whether a row that leaves and arrives then may be of use, and none is surely of more."""
        chunk, part = row
        first, whole, wanting = chunk * self.num_ranks, self.whole[chunk], self.wanting[chunk]
        there = state.families[first + dst]
        if end >= there[part] or end >= there[whole]:
            return False
        if dst not in wanting or there[whole] < _NEVER:
            away, limit = self.away[chunk][dst], self.limit - _LEAST_GAIN
            if not any(
                rank != dst and end + away[rank] < min(limit, state.families[first + rank][whole])
                for rank in wanting
            ):
                return False
        if not self.may_sum[dst]:
            return True
        here = state.families[first + self.src[link]]
        for other in range(whole, 0, -1):
            if here[other] <= start and there[whole ^ other] <= end:
                return other == part
        return True

    def _is_out_of_turn(self, state: _State, link: int, start: int) -> bool:
        """Of two sends at one moment, if the first brings nothing to the second, one order is enough."""
        last, takes_time = state.last
        return takes_time and start == state.now and link < last

    def _after(self, state: _State, link: int, rows: tuple[_Row, ...], start: int) -> _State:
        size, dst = sum(self.size[chunk] for chunk, _ in rows), self.dst[link]
        takes = self.takes(link, size)
        families, relays = list(state.families), set(state.relays)
        for chunk, part in rows:
            cell = chunk * self.num_ranks + dst
            relays.discard(chunk * self.num_ranks + self.src[link])
            if dst not in self.wanting[chunk]:
                relays.add(cell)
            others = self.apart[self.whole[chunk]][part] if self.may_sum[dst] else [0]
            families[cell] = self._with(families[cell], part, start + takes, others)
        free = list(state.free)
        for port in self.ports[link]:
            if busy := self.busy(link, port, size):
                free[port] = start + busy
        return _State(tuple(families), tuple(free), start, (link, takes > 0), frozenset(relays))

    def _with(self, family: _Family, part: int, at: int, others: list[int]) -> _Family:
        """A family after the arrival of one more sum, which can be added to the others."""
        times = list(family)
        for other in others:
            since = max(at, family[other])
            if since < times[other | part]:
                times[other | part] = since
        return tuple(times)

    def _least_end(self, state: _State) -> int:
        """No continuation ends earlier."""
        least, transfers = 0, 0
        heads: list[list[int]] = [[] for _ in self.ranks]
        tails: list[list[int]] = [[] for _ in self.ranks]
        for chunk in self.chunks:
            families = state.families[chunk * self.num_ranks : (chunk + 1) * self.num_ranks]
            least = max(least, *(families[rank][-1] % _NEVER for rank in self.wanting[chunk]), 0)
            lacking = [rank for rank in self.wanting[chunk] if families[rank][-1] == _NEVER]
            if not lacking:
                continue
            relays = [r for r in self.ranks if chunk * self.num_ranks + r in state.relays]
            if self.whole[chunk] == 1 and len(relays) > len(lacking):
                return _NEVER
            #: For each contribution, the ranks that know it, and from when on they can send it.
            known = [
                {r: max(since, state.now) for r, since in enumerate(times) if since < _NEVER}
                for times in zip(*map(self._first_known, families), strict=True)
            ]
            for rank in lacking:
                to_come = [times for times in known if rank not in times]
                least = max(least, self._all_come(chunk, to_come, [rank]))
                heads[rank].append(max(state.now, self._all_come(chunk, to_come, self.door_in[chunk][rank])))
            alone = {next(iter(times)) for times in known if len(times) == 1}
            for rank in alone.union(relays):
                ways = [self._nearest(chunk, rank, other) for other in lacking if other != rank]
                if ways:
                    tails[rank].append(max(ways) if rank in alone else min(ways))
            gathered = any(all(rank in times for times in known) for rank in self.ranks)
            needed = len(lacking) + (0 if gathered else max(0, len(alone) - 1) - 1)
            transfers += max(needed, len(relays))
        for rank in self.ranks:
            least = max(least, self._let_through(state, self.into[rank], heads[rank], True))
            least = max(least, self._let_through(state, self.out_of[rank], tails[rank], False))
        return max(least, self._let_through(state, self.everywhere, [0] * transfers, False))

    def _all_come(self, chunk: int, known: Sequence[dict[int, int]], ends: Sequence[int]) -> int:
        """When all of these contributions can have come to one of the ends, each on its own."""
        away, last = self.away[chunk], 0
        for times in known:
            come = (since + away[rank][end] for rank, since in times.items() for end in ends)
            last = max(last, min(come, default=_NEVER))
        return last

    def _nearest(self, chunk: int, rank: int, other: int) -> int:
        """How long it is to another rank, once out of this one."""
        away = self.away[chunk]
        return min((away[door][other] for door in self.door_out[chunk][rank]), default=_NEVER)

    def _first_known(self, family: _Family) -> list[int]:
        """When each contribution first is in something that a rank has."""
        known = self.known.get(family)
        if known is None:
            bits = (len(family) - 1).bit_length()
            known = [min(t for part, t in enumerate(family) if part >> bit & 1) for bit in range(bits)]
            self.known[family] = known
        return known

    def _let_through(
        self, state: _State, choices: list[list[tuple[int, int, int, int]]], times: list[int], are_heads: bool
    ) -> int:
        """When ports can have let through chunks that come at these times, or still take these times then."""
        least = 0
        times.sort(reverse=True)
        for count, time in enumerate(times, 1):
            if count < len(times) and times[count] == time:
                continue
            begin, after = (max(time, state.now), 0) if are_heads else (state.now, time)
            for ports in choices:
                least = max(least, after + self._first_through(state, ports, begin, count))
        return least

    def _first_through(
        self, state: _State, ports: list[tuple[int, int, int, int]], begin: int, count: int
    ) -> int:
        group, end = self.problem.max_group, 0
        passed = [0] * len(ports)
        # What takes no time does not wait for its port.
        free = [max(begin, state.free[port] * (send + each > 0)) + lag for port, lag, send, each in ports]
        for _ in range(count):
            end, port = min(
                (free[i] + ((passed[i] + group) // group) * send + (passed[i] + 1) * each, i)
                for i, (_, _, send, each) in enumerate(ports)
            )
            passed[port] += 1
        return end


def _disjoint(whole: int) -> list[list[int]]:
    """For each set, all sets that are disjoint from it."""
    return [[other for other in range(whole + 1) if not other & part] for part in range(whole + 1)]


def _ticks(time_us: float) -> int:
    return round(time_us / _TICK_US)


def program_before(problem: Problem, limit_us: float, most_sends: int = 500_000) -> Program | None:
    """The fastest program that ends before `limit_us`; None if there is none.

    Raises
    ------
    TooLarge : the search has to try more than `most_sends` sends.
    """
    return _Search(problem, most_sends).run(_NEVER if math.isinf(limit_us) else _ticks(limit_us))


def fastest(problem: Problem, most_sends: int = 500_000) -> Program:
    """The fastest program of all."""
    program = program_before(problem, math.inf, most_sends)
    assert program is not None, "no program at all"
    return program
