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
has what it holds and what comes, and makes nothing of it. A rank that may not copy keeps a chunk that it
wants, and sends any other once; of a sum it keeps, or sends once, each part that it holds, alone or added to
others, and no part comes to it twice. Nothing starts at a helper, and it wants nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brute_force_program import Program, Step
from brute_force_tables import NEVER, TICK_US, Tables, ticks

from taccl.model.problem import Problem

#: A gain smaller than this is none.
_LEAST_GAIN = round(2e-6 / TICK_US)
#: Where no limit is given, each search that finds nothing is followed by one that may take so much longer.
_STEP = 1.12


class TooLarge(Exception):
    """More sends would have to be tried than were allowed."""


#: The times from which on a rank has each sum of contributions of a chunk; the position is the set, in bits.
_Family = tuple[int, ...]
#: What a row carries: a chunk, a set, and which of the parts that its sender holds; none where it may copy.
_Row = tuple[int, int, frozenset[int]]
#: What could be sent: a set, from when on its sender has it, and the parts of it.
_Option = tuple[int, int, frozenset[int]]
#: The parts of a chunk that a rank holds which may not copy: from when on it has each set.
_Parts = frozenset[tuple[int, int]]


_NOTHING: tuple[_Parts, frozenset[int]] = frozenset(), frozenset()


@dataclass(frozen=True)
class _State:
    """What the sends so far have made: a family for each chunk and rank, and until when ports are busy."""

    families: tuple[_Family, ...]
    free: tuple[int, ...]
    now: int
    last: tuple[int, bool]
    relays: frozenset[int]
    #: Cells of ranks that may not copy, from which a chunk has gone.
    gone: frozenset[int] = frozenset()
    #: What is left in cells where each part of a sum can be used once, and which sets have come there.
    parts: tuple[tuple[int, _Parts, frozenset[int]], ...] = ()

    def held(self, cell: int) -> tuple[_Parts, frozenset[int]]:
        return next(((parts, came) for where, parts, came in self.parts if where == cell), _NOTHING)


class _Search(Tables):
    def __init__(self, problem: Problem, most_sends: int) -> None:
        super().__init__(problem)
        self.left = most_sends
        self.known: dict[_Family, list[int]] = {}

    def run(self, limit: int) -> Program | None:
        """The fastest program that ends before the limit."""
        families = []
        for chunk, rank in itertools.product(self.chunks, self.ranks):
            family = [NEVER] * (self.whole[chunk] + 1)
            family[0] = 0
            if self.pre[chunk][rank]:
                part = self.contributors[chunk].index(rank) if self.contributors[chunk] else 0
                family[1 << part] = self.ready[chunk][rank]
            families.append(tuple(family))
        parts = []
        for cell in sorted(self.used_once):
            own = [(part, since) for part, since in enumerate(families[cell]) if part and since < NEVER]
            parts.append((cell, frozenset(own), frozenset(part for part, _ in own)))
        ports = (0,) * self.problem.topology.num_ports
        start = _State(tuple(families), ports, 0, (-1, False), frozenset(), parts=tuple(parts))
        self.best: list[Step] | None = None
        least = self._least_end(start)
        if least >= NEVER:
            return None
        tried = least
        while self.best is None and tried < limit:
            # Branches over a round's limit are left for the next one, which allows a little more. Below a
            # limit that is given there is mostly nothing, and what finds that is one round.
            tried = max(tried + _LEAST_GAIN + 1, int(tried * _STEP)) if limit == NEVER else limit
            self.limit = tried
            self.seen: set[tuple[object, ...]] = set()
            self._extend(start, [], least)
        if self.best is None:
            return None
        return Program(self.problem, tuple(self.best), self.limit * TICK_US)

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
        relays, gone = (
            [cell in cells for cell in range(len(families))] for cells in (state.relays, state.gone)
        )
        rows = (
            sorted(
                (families[c * n : (c + 1) * n], relays[c * n : (c + 1) * n], gone[c * n : (c + 1) * n])
                for c in chunks
            )
            for chunks in self.interchangeable
        )
        chunks = tuple((block, *map(tuple, cells)) for row in rows for block, *cells in row)
        return chunks, state.free, state.now, state.last, state.parts

    def _step(self, link: int, rows: tuple[_Row, ...], start: int) -> Step:
        carried = []
        for chunk, part, _ in rows:
            ranks = (rank for bit, rank in enumerate(self.contributors[chunk]) if part >> bit & 1)
            carried.append((chunk, frozenset(ranks)))
        end = start + self.takes(link, sum(self.size[chunk] for chunk, *_ in rows))
        return Step(link, start * TICK_US, end * TICK_US, tuple(carried))

    def _end(self, state: _State) -> int | None:
        """When the last output is complete; None if one of them never is."""
        end = 0
        for chunk in self.chunks:
            whole, first = self.whole[chunk], chunk * self.num_ranks
            for rank in self.wanting[chunk]:
                end = max(end, state.families[first + rank][whole] + self.tail[chunk][rank])
        return end if end < NEVER else None

    def _sends(self, state: _State) -> Iterator[tuple[int, tuple[_Row, ...], int]]:
        """Every send that can be next, with its start."""
        for link in self.links:
            # What takes no time is in nobody's way.
            ports = max(state.free[port] * (self.busy(link, port, 1) > 0) for port in self.ports[link])
            options = [self._parts(state, chunk, link, ports) for chunk in self.chunks]
            yield from self._groups(state, link, ports, options)

    def _parts(self, state: _State, chunk: int, link: int, ports: int) -> list[_Option]:
        """What could be sent of a chunk over a link."""
        src = self.src[link]
        if chunk * self.num_ranks + src in self.used_once:
            return self._parts_used_once(state, chunk, link, ports)
        is_gone = src in self.wanting[chunk] or chunk * self.num_ranks + src in state.gone
        if not self.usable[chunk][link] or (is_gone and not self.may_copy[src]):
            return []
        here = state.families[chunk * self.num_ranks + self.src[link]]
        there = state.families[chunk * self.num_ranks + self.dst[link]]
        whole, takes = self.whole[chunk], self.takes(link, self.size[chunk])
        if whole == 1 and there[1] < NEVER:
            return []
        found = []
        for part in range(whole, 0, -1):
            end = max(ports, here[part]) + takes
            if here[part] == NEVER:
                continue
            is_late = end >= there[part] or (part != whole and end >= there[whole] and not self.used_once)
            if not is_late or chunk * self.num_ranks + self.dst[link] in self.used_once:
                found.append((part, here[part], frozenset()))
        return found

    def _parts_used_once(self, state: _State, chunk: int, link: int, ports: int) -> list[_Option]:
        """The same of a rank that uses each part once: disjoint parts, or one if it may not sum."""
        if not self.usable[chunk][link]:
            return []
        parts, _ = state.held(chunk * self.num_ranks + self.src[link])
        found: list[_Option] = []
        for many in range(1, (len(parts) if self.may_sum[self.src[link]] else 1) + 1):
            for some in itertools.combinations(sorted(parts), many):
                union = 0
                for part, _ in some:
                    union = -1 if union < 0 or union & part else union | part
                if union > 0:
                    used = frozenset(part for part, _ in some)
                    found.append((union, max(since for _, since in some), used))
        return found

    def _groups(
        self, state: _State, link: int, ports: int, options: list[list[_Option]]
    ) -> Iterator[tuple[int, tuple[_Row, ...], int]]:
        """All groups over a link that would start no earlier than now."""
        chunks = [chunk for chunk in self.chunks if options[chunk]]
        dst = self.dst[link]
        for size in range(1, min(len(chunks), self.problem.max_group) + 1):
            for members in itertools.combinations(chunks, size):
                takes = self.takes(link, sum(self.size[chunk] for chunk in members))
                for parts in itertools.product(*(options[chunk] for chunk in members)):
                    start = max(ports, *(since for _, since, _ in parts))
                    if start < state.now or self._is_out_of_turn(state, link, start):
                        continue
                    rows = tuple(
                        (chunk, part, used) for chunk, (part, _, used) in zip(members, parts, strict=True)
                    )
                    if all(self._is_news(state, row, link, dst, start, start + takes) for row in rows):
                        yield link, rows, start

    def _is_news(self, state: _State, row: _Row, link: int, dst: int, start: int, end: int) -> bool:
        """Whether a row that leaves and arrives then may be of use, and none is surely of more."""
        chunk, part, _ = row
        first, whole, wanting = chunk * self.num_ranks, self.whole[chunk], self.wanting[chunk]
        there = state.families[first + dst]
        if first + dst in self.used_once:
            if part in state.held(first + dst)[1]:
                return False
        elif end >= there[part] or (end >= there[whole] and not self.used_once):
            return False
        if dst not in wanting or there[whole] < NEVER:
            away, limit = self.away[chunk][dst], self.limit - _LEAST_GAIN
            if not any(
                rank != dst
                and end + away[rank] < limit
                and (end + away[rank] < state.families[first + rank][whole] or self.used_once)
                for rank in wanting
            ):
                return False
        if not self.may_sum[dst] or self.used_once:
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
        size, dst = sum(self.size[chunk] for chunk, *_ in rows), self.dst[link]
        takes = self.takes(link, size)
        families, relays, gone = list(state.families), set(state.relays), set(state.gone)
        parts = {cell: (held, came) for cell, held, came in state.parts}
        for chunk, part, used in rows:
            cell, sender = chunk * self.num_ranks + dst, chunk * self.num_ranks + self.src[link]
            relays.discard(sender)
            if sender in parts:
                held, came = parts[sender]
                parts[sender] = frozenset(one for one in held if one[0] not in used), came
                families[sender] = self._sums_of(parts[sender][0], sender)
            elif not self.may_copy[self.src[link]]:
                gone.add(sender)
            if dst not in self.wanting[chunk]:
                relays.add(cell)
            if cell in parts:
                held, came = parts[cell]
                parts[cell] = held | {(part, start + takes)}, came | {part}
                families[cell] = self._sums_of(parts[cell][0], cell)
                continue
            others = self.apart[self.whole[chunk]][part] if self.may_sum[dst] else [0]
            families[cell] = self._with(families[cell], part, start + takes, others)
        free = list(state.free)
        for port in self.ports[link]:
            if busy := self.busy(link, port, size):
                free[port] = start + busy
        last, left = (link, takes > 0), tuple((cell, *both) for cell, both in sorted(parts.items()))
        return _State(tuple(families), tuple(free), start, last, frozenset(relays), frozenset(gone), left)

    def _sums_of(self, parts: _Parts, cell: int) -> _Family:
        """From when on a rank has each sum of the parts that it holds."""
        chunk, rank = divmod(cell, self.num_ranks)
        family: _Family = (0, *[NEVER] * self.whole[chunk])
        for part, since in sorted(parts):
            others = self.apart[self.whole[chunk]][part] if self.may_sum[rank] else [0]
            family = self._with(family, part, since, others)
        return family

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
            least = max(least, *(families[rank][-1] % NEVER for rank in self.wanting[chunk]), 0)
            lacking = [rank for rank in self.wanting[chunk] if families[rank][-1] == NEVER]
            if not lacking:
                continue
            relays = [r for r in self.ranks if chunk * self.num_ranks + r in state.relays]
            if self.whole[chunk] == 1 and len(relays) > len(lacking):
                return NEVER
            #: For each contribution, the ranks that know it, and from when on they can send it.
            known = [
                {r: max(since, state.now) for r, since in enumerate(times) if since < NEVER}
                for times in zip(*map(self._first_known, families), strict=True)
            ]
            for rank in lacking:
                to_come = [times for times in known if rank not in times]
                least = max(least, self._all_come(chunk, to_come, [rank]))
                heads[rank].append(max(state.now, self._all_come(chunk, to_come, self.door_in[chunk][rank])))
            alone = {next(iter(times)) for times in known if len(times) == 1}
            for rank in alone.union(relays):
                routes = [self._nearest(chunk, rank, other) for other in lacking if other != rank]
                if routes:
                    tails[rank].append(max(routes) if rank in alone else min(routes))
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
            last = max(last, min(come, default=NEVER))
        return last

    def _nearest(self, chunk: int, rank: int, other: int) -> int:
        """How long it is to another rank, once out of this one."""
        away = self.away[chunk]
        return min((away[door][other] for door in self.door_out[chunk][rank]), default=NEVER)

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


def program_before(problem: Problem, limit_us: float, most_sends: int = 500_000) -> Program | None:
    """The fastest program that ends before `limit_us`; None if there is none.

    Raises
    ------
    TooLarge : the search has to try more than `most_sends` sends.
    """
    return _Search(problem, most_sends).run(NEVER if math.isinf(limit_us) else ticks(limit_us))


def fastest(problem: Problem, most_sends: int = 500_000) -> Program:
    """The fastest program of all."""
    program = program_before(problem, math.inf, most_sends)
    assert program is not None, "no program at all"
    return program
