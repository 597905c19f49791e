r"""All programs of a problem with sums, as optional intervals: a sum may be made anywhere, as often as one likes.

Time is counted in ticks. For a chunk c, a part C of it (`sums_ways`) and a link l that (c, C) may use:

    send[l, k]      an optional interval of alpha_l + n beta_l s over l, the k-th in time
    in[c, C, l, k]  whether it carries (c, C); n counts these
    use[c, C, l]    = sum over k of in[c, C, l, k]
    got[c, C, r]    rank r has part C, not being the own contribution of r, and somebody uses it there
    at[c, C, r]     from when on
    made[c, B, C, r]  r makes C of B, which came in one piece or is its own, and of the rest, C without B

    minimise T with T >= at[c, whole, r] where r wants c, and

    one source      got[c, C, r] = sum over l into r of use[c, C, l] + sum over B of made[c, B, C, r]
    outputs         got[c, whole, r] = 1 where r wants c
    held first      use[c, C, l] <= got[c, C, src(l)];  made[c, B, C, r] <= came(B), got(C without B)
    presence        in[c, C, l, k]  =>  start >= at[c, C, src(l)]  and  at[c, C, dst(l)] >= end
                    made[c, B, C, r]  =>  at[c, C, r] >= at[c, B, r], at[c, C without B, r]
    one part        of each chunk a send carries one part at most
    ports           the sends of a port's links do not overlap (without alpha if occupancy is pipelined)

*Why its optimum is no later than any program* (if no program lasts less than `lasting[0]`, and one lasts no more than
`lasting[1]`). Of the programs that end first, take those with the fewest rows, of these one with the fewest rows
that carry less than the whole. Leaving out a row makes nothing later: the groups get smaller.

- *One source.* Where a rank could have a part in several ways, only the first way in time counts, and what nobody uses is
  left out. What comes in several pieces is made of them one by one; which is the first is a convention (`splits`). A union
  takes no time, so it can be made when its last piece is there. No part comes where it starts.
- *Whole instead of part.* Where the sender already has the whole, it would send that: whatever was made of the part can
  be the whole too, since every output is the whole. So a rank that wants the whole receives and sends less only
  before it has it (`_parts_come_before_the_whole`).
- *What one rank wants.* A chunk that one rank wants leaves each rank once (`_a_sum_for_one_leaves_each_rank_once`): what a
  rank sent earlier of it could have waited for the last of its sends on the way to the only output and gone with that.
- *Chunks that are alike* can change names, so that they are done at a rank in the order of their numbers.
- *Sends.* Over a link whose alpha keeps no port busy (it is 0, or occupancy is pipelined) and whose ports all are as
  slow as it is, a group can go piece by piece: the i-th takes the ports for the i-th part of the time that the group had them,
  and ends no later than the group. So there each item has a send of its own, and no other is needed. Over other links each
  send keeps the slowest port busy for at least one item, so that only so many come before the horizon, and with `lasting[1]`
  given this is how many are made (`_most_sends`), but no more than there are items, since none goes twice over one link.
- *Ticks.* Starts are no whole ticks. Rounded down, with durations rounded down, they are, and every rule still holds (see
  `ticks`).

The rules after these follow from the others. They are there for the linear relaxation, which sees only loads (`_known_of_every_set`,
`_as_many_transfers_as_gossip`, `_ports_have_time_for_all`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from taccl.encoding.cp.sums_ways import Item, SumWays, alike, is_own, splits, sum_ways
from taccl.encoding.cp.ticks import NEVER, Ticks
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US

#: With more ranks than this, there are too many sets of them, and ways of dividing them, for a rule about each.
_MOST_RANKS_TO_DIVIDE = 5


@dataclass(frozen=True)
class Sending:
    """One send over a link: which items it carries and when, if it is made."""

    link: int
    active: Any
    start: Any
    end: Any
    count: Any
    members: dict[Item, Any]


@dataclass(frozen=True, eq=False)
class SumModel:
    """The model and the keys to read it by. A solution lasts `last` ticks at most.

    `costs` are alpha and beta of each link in ticks, for one chunk.
    """

    problem: Problem
    cp: cp_model.CpModel
    ticks: Ticks
    last: int
    ways: SumWays
    costs: tuple[list[int], list[int]]
    finish: Any
    sends: list[list[Sending]]
    use: dict[tuple[Item, int], Any]
    got: dict[tuple[int, int, int], Any]
    at: dict[tuple[int, int, int], Any]
    made: dict[tuple[int, int, int, int], Any]


@dataclass(frozen=True)
class Need:
    """What some chunks take of some links: the sum of `weight[l]` for each transfer over l is at least `least`."""

    chunks: tuple[int, ...]
    weight: dict[int, int]
    least: int


def build(
    problem: Problem,
    ticks: Ticks,
    lasting: tuple[int, int],
    minimise: bool = True,
    needs: Sequence[Need] = (),
) -> SumModel:
    """The model of programs that last from `lasting[0]` to `lasting[1]` ticks: the fastest, or any.

    `needs` must be true of each of these programs.
    """
    rules = _Rules(problem, ticks, lasting, sum_ways(problem, ticks, lasting[1]))
    return rules.build(minimise, needs)


class _Rules:
    """The variables, and one rule after another."""

    def __init__(self, problem: Problem, ticks: Ticks, lasting: tuple[int, int], ways: SumWays) -> None:
        topology, collective = problem.topology, problem.collective
        self.problem, self.ticks, self.ways = problem, ticks, ways
        least, self.horizon = lasting
        self.cp = cp_model.CpModel()
        self.alpha: list[int] = ticks.of(topology.alpha_us).tolist()
        self.cost: list[int] = ticks.of(topology.beta_us_per_mb * problem.chunk_mb).tolist()
        self.serial = topology.occupancy == "serial"
        self.src, self.dst = topology.src.tolist(), topology.dst.tolist()
        self.into, self.out_of = topology.links_into, topology.links_from
        self.pre, self.post = collective.pre.tolist(), collective.post.tolist()
        self.ranks, self.chunks = range(problem.num_ranks), range(problem.num_chunks)
        self.finish = self.cp.new_int_var(min(least, self.horizon), self.horizon, "T")
        self.got: dict[tuple[int, int, int], Any] = {}
        self.at: dict[tuple[int, int, int], Any] = {}
        self.made: dict[tuple[int, int, int, int], Any] = {}
        self.sends: list[list[Sending]] = [[] for _ in range(topology.num_links)]
        self.use: dict[tuple[Item, int], Any] = {}

    def build(self, minimise: bool, needs: Sequence[Need]) -> SumModel:
        self._make_cells()
        for link in range(self.problem.topology.num_links):
            self._make_sends(link)
        self._each_part_has_one_source()
        self._every_part_is_of_use()
        self._presence()
        self._ports_serve_one_at_a_time()
        self._parts_come_before_the_whole()
        self._a_sum_for_one_leaves_each_rank_once()
        self._chunks_that_are_alike_are_done_in_order()
        self._known_of_every_set()
        self._as_many_transfers_as_gossip()
        self._needs_are_met(needs)
        if minimise:
            self.cp.minimize(self.finish)
        return SumModel(
            self.problem,
            self.cp,
            self.ticks,
            self.horizon,
            self.ways,
            (self.alpha, self.cost),
            self.finish,
            self.sends,
            self.use,
            self.got,
            self.at,
            self.made,
        )

    def _make_cells(self) -> None:
        """Whether a rank has a part, and from when on: 0 for what is its own."""
        for chunk in self.chunks:
            for part, rank in itertools.product(self.ways.parts[chunk], self.ranks):
                cell = chunk, part, rank
                head = self.ways.head[cell]
                if is_own(self.problem, chunk, part, rank):
                    self.got[cell], self.at[cell] = 1, 0
                elif head <= self.horizon:
                    wanted = part == self.ways.whole[chunk] and self.post[chunk][rank]
                    self.got[cell] = 1 if wanted else self.cp.new_bool_var(f"got{cell}")
                    self.at[cell] = self.cp.new_int_var(head, self.horizon, f"at{cell}")
                    if wanted:
                        self.cp.add(self.finish >= self.at[cell])

    def _make_sends(self, link: int) -> None:
        items = self.ways.on_link[link]
        if self._goes_piece_by_piece(link):
            for item in items:
                self._own_send(link, item)
        else:
            for k in range(self._most_sends(link)):
                self._shared_send(link, k)
            for one, other in itertools.pairwise(self.sends[link]):
                self.cp.add_implication(other.active, one.active)
                self.cp.add(other.start >= one.start + self._busy(link, 1)).only_enforce_if(other.active)
        for item in items:
            self.use[item, link] = sum(send.members[item] for send in self.sends[link] if item in send.members)

    def _goes_piece_by_piece(self, link: int) -> bool:
        several = len({chunk for chunk, _ in self.ways.on_link[link]}) > 1
        return not several or self.problem.max_group < 2 or not self.serial or self.alpha[link] == 0

    def _most_sends(self, link: int) -> int:
        items = self.ways.on_link[link]
        room = self._last_start(link, items) - self._first_start(link, items)
        return min(len(items), room // self._busy(link, 1) + 1) if room >= 0 else 0

    def _busy(self, link: int, count: int) -> int:
        """Ticks for which so many items keep the slowest port of a link busy."""
        return self.cost[link] * count + (self.alpha[link] if self.serial else 0)

    def _first_start(self, link: int, items: list[Item]) -> int:
        return min((self.ways.head[chunk, part, self.src[link]] for chunk, part in items), default=0)

    def _last_start(self, link: int, items: list[Item]) -> int:
        tail = min((int(self.ways.tail[chunk, self.dst[link]]) for chunk, _ in items), default=NEVER)
        return self.horizon - self.alpha[link] - self.cost[link] - tail

    def _own_send(self, link: int, item: Item) -> None:
        name = f"{item},{link}"
        active = self.cp.new_bool_var(f"x{name}")
        first, last = self._first_start(link, [item]), self._last_start(link, [item])
        start = self.cp.new_int_var(first, last, f"s{name}")
        end = start + self.alpha[link] + self.cost[link]
        self.sends[link].append(Sending(link, active, start, end, 1, {item: active}))

    def _shared_send(self, link: int, k: int) -> None:
        items, name = self.ways.on_link[link], f"{link},{k}"
        active = self.cp.new_bool_var(f"a{name}")
        members = {item: self.cp.new_bool_var(f"in{item},{name}") for item in items}
        of_chunk: dict[int, list[Any]] = defaultdict(list)
        for (chunk, _), member in members.items():
            of_chunk[chunk].append(member)
        for several in of_chunk.values():
            self.cp.add_at_most_one(several)
        most = min(len(of_chunk), self.problem.max_group)
        count = self.cp.new_int_var(0, most, f"n{name}")
        self.cp.add(count == sum(members.values()))
        self.cp.add(count >= 1).only_enforce_if(active)
        for member in members.values():
            self.cp.add_implication(member, active)
        start = self.cp.new_int_var(
            self._first_start(link, items), self._last_start(link, items), f"S{name}"
        )
        end = self.cp.new_int_var(0, self.horizon, f"E{name}")
        self.cp.add(end == start + self.alpha[link] + self.cost[link] * count).only_enforce_if(active)
        self.sends[link].append(Sending(link, active, start, end, count, members))

    def _received(self, chunk: int, part: int, rank: int) -> list[Any]:
        return [
            send.members[chunk, part]
            for link in self.into[rank]
            for send in self.sends[link]
            if (chunk, part) in send.members
        ]

    def _each_part_has_one_source(self) -> None:
        """One transfer or one union; and what either needs is there."""
        for cell in sorted(self.at):
            chunk, part, rank = cell
            if is_own(self.problem, *cell):
                continue
            sources = self._received(*cell)
            for piece, rest in splits(part, rank) if self.problem.collective.reduces[chunk] else ():
                if (chunk, piece, rank) not in self.got or (chunk, rest, rank) not in self.got:
                    continue
                came = [1] if is_own(self.problem, chunk, piece, rank) else self._received(chunk, piece, rank)
                if not came:
                    continue
                union = self.made[chunk, piece, part, rank] = self.cp.new_bool_var(f"m{piece},{cell}")
                self.cp.add(union <= sum(came))
                self.cp.add(union <= self.got[chunk, rest, rank])
                for source in (piece, rest):
                    self.cp.add(self.at[cell] >= self.at[chunk, source, rank]).only_enforce_if(union)
                sources.append(union)
            self.cp.add(sum(sources) == self.got[cell])
        for (item, link), use in self.use.items():
            self.cp.add(use <= self.got[*item, self.src[link]])

    def _every_part_is_of_use(self) -> None:
        """What a rank gets it sends on, adds to something or wants."""
        used: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
        for (chunk, piece, part, rank), union in self.made.items():
            used[chunk, piece, rank].append(union)
            used[chunk, part ^ piece, rank].append(union)
        for ((chunk, part), link), use in self.use.items():
            used[chunk, part, self.src[link]].append(use)
        for cell, got in self.got.items():
            if not isinstance(got, int):
                self.cp.add(got <= sum(used[cell]))

    def _presence(self) -> None:
        for link, sends in enumerate(self.sends):
            for send in sends:
                for (chunk, part), member in send.members.items():
                    there, then = self.at[chunk, part, self.src[link]], self.at[chunk, part, self.dst[link]]
                    self.cp.add(send.start >= there).only_enforce_if(member)
                    self.cp.add(then >= send.end).only_enforce_if(member)

    def _ports_serve_one_at_a_time(self) -> None:
        seen: set[frozenset[int]] = set()
        for links in self.problem.topology.port_links:
            busy = frozenset(link for link in links if self._serves(link))
            sends = [send for link in sorted(busy) for send in self.sends[link]]
            if busy in seen or len(sends) < 2:
                continue
            seen.add(busy)
            self.cp.add_no_overlap([self._interval(send) for send in sends])
            self._ports_have_time_for_all(sends)

    def _serves(self, link: int) -> bool:
        """Whether a send keeps a port of its link busy at all: what takes no time is in nobody's way."""
        topology = self.problem.topology
        busy_us = topology.busy_us(np.array([link]), self.problem.chunk_mb)[0]
        return bool(busy_us > TOLERANCE_US) and self._busy(link, 1) > 0

    def _interval(self, send: Sending) -> Any:
        alpha = self.alpha[send.link] if self.serial else 0
        size = alpha + self.cost[send.link] * send.count
        if isinstance(size, int):
            return self.cp.new_optional_fixed_size_interval_var(send.start, size, send.active, "i")
        end = send.end - (self.alpha[send.link] - alpha)
        return self.cp.new_optional_interval_var(send.start, size, end, send.active, "i")

    def _ports_have_time_for_all(self, sends: list[Sending]) -> None:
        links = {send.link for send in sends}
        head = min(self._first_start(link, self.ways.on_link[link]) for link in links)
        after = min(
            self.horizon - self._last_start(link, self.ways.on_link[link]) - self._busy(link, 1)
            for link in links
        )
        load = sum(
            (self.alpha[send.link] * self.serial) * send.active
            + self.cost[send.link] * sum(send.members.values())
            for send in sends
        )
        self.cp.add(load + head + after <= self.finish)

    def _parts_come_before_the_whole(self) -> None:
        for link, sends in enumerate(self.sends):
            for send in sends:
                for (chunk, part), member in send.members.items():
                    whole, src, dst = self.ways.whole[chunk], self.src[link], self.dst[link]
                    if part == whole:
                        continue
                    if self.post[chunk][src]:
                        self.cp.add(send.start <= self.at[chunk, whole, src]).only_enforce_if(member)
                    if self.post[chunk][dst]:
                        self.cp.add(send.end <= self.at[chunk, whole, dst]).only_enforce_if(member)

    def _a_sum_for_one_leaves_each_rank_once(self) -> None:
        for chunk, rank in itertools.product(self.chunks, self.ranks):
            if sum(self.post[chunk]) == 1 and self.problem.collective.reduces[chunk]:
                out = [
                    use
                    for ((of, _), link), use in self.use.items()
                    if of == chunk and self.src[link] == rank
                ]
                self.cp.add(sum(out) <= (0 if self.post[chunk][rank] else 1))

    def _chunks_that_are_alike_are_done_in_order(self) -> None:
        for chunks in alike(self.problem):
            wanting = [
                rank
                for rank in self.ranks
                if self.post[chunks[0]][rank]
                and not is_own(self.problem, chunks[0], self.ways.whole[chunks[0]], rank)
            ]
            for one, other in itertools.pairwise(chunks) if wanting else ():
                first, then = (self.at[chunk, self.ways.whole[chunk], wanting[0]] for chunk in (one, other))
                self.cp.add(first <= then)

    def _known_of_every_set(self) -> None:
        """Into every set of ranks that wants a chunk comes, of each contribution from outside, something with it."""
        if len(self.ranks) > _MOST_RANKS_TO_DIVIDE:
            return
        for chunk, contribution in itertools.product(self.chunks, self.ranks):
            if not self.pre[chunk][contribution] or not self.problem.collective.reduces[chunk]:
                continue
            for inside in range(1, 1 << len(self.ranks)):
                wanting = any(inside >> r & 1 and self.post[chunk][r] for r in self.ranks)
                if inside >> contribution & 1 or not wanting:
                    continue
                entering = [
                    use
                    for ((of, part), link), use in self.use.items()
                    if of == chunk
                    and part >> contribution & 1
                    and inside >> self.dst[link] & 1
                    and not inside >> self.src[link] & 1
                ]
                self.cp.add(sum(entering) >= 1)

    def _needs_are_met(self, needs: Sequence[Need]) -> None:
        for need in needs:
            for chunk in need.chunks:
                weighed = [
                    need.weight[link] * use
                    for ((of, _), link), use in self.use.items()
                    if of == chunk and link in need.weight
                ]
                self.cp.add(sum(weighed) >= need.least)

    def _as_many_transfers_as_gossip(self) -> None:
        """Between the sets of any division of the ranks: S of them with contributions, W of them wanting.

        When the first of those that want the sum has come to know of every contribution, each of the S others
        has let something out, and each of the W - 1 others still has to let something in.
        """
        if len(self.ranks) > _MOST_RANKS_TO_DIVIDE:
            return
        for chunk in self.chunks:
            if not self.problem.collective.reduces[chunk]:
                continue
            for groups in divisions(len(self.ranks)):
                of = {rank: number for number, group in enumerate(groups) for rank in group}
                giving = {of[rank] for rank in self.ranks if self.pre[chunk][rank]}
                wanting = {of[rank] for rank in self.ranks if self.post[chunk][rank]}
                least = len(giving) + len(wanting) - (2 if giving & wanting else 1)
                if len(groups) < 2 or least < 1:
                    continue
                crossing = [
                    use
                    for ((each, _), link), use in self.use.items()
                    if each == chunk and of[self.src[link]] != of[self.dst[link]]
                ]
                self.cp.add(sum(crossing) >= least)


def divisions(count: int) -> Iterator[list[list[int]]]:
    """All ways of dividing 0 .. count - 1 into sets."""
    if count == 0:
        yield []
        return
    for groups in divisions(count - 1):
        for number in range(len(groups)):
            yield [[*group, count - 1] if each == number else group for each, group in enumerate(groups)]
        yield [*groups, [count - 1]]
