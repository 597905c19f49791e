r"""All programs of a problem with sums, as a model of sends: a sum may be made anywhere, and often.

Items (`encoding.sending_model`) are a chunk c and a part C of it (`sums_parts`). The k-th send of a link is
the k-th in time. Next to what every such model has,

    got[c, C, r]      whether rank r has C, and somebody uses it there; 1 for its own contribution
    made[c, B, C, r]  whether r makes C of B, which came at once or is its own, and of the rest, C - B

    minimise T with T >= at[c, whole, r] where r wants c, and

    outputs     got[c, whole, r] = 1 where r wants c
    one source  got[c, C, r] = sum over l into r of use[c, C, l] + sum over B of made[c, B, C, r]
    held first  use[c, C, l] <= got[c, C, src(l)];  made[c, B, C, r] <= got[c, C - B, r], and B came to r
    presence    made[c, B, C, r]  =>  at[c, C, r] >= at[c, B, r]  and  at[c, C, r] >= at[c, C - B, r]
    one part    a send carries one part of a chunk at most

*Its optimum is no later than any program*, if no program lasts less than `lasting[0]` and one lasts no more
than `lasting[1]`. Of the programs that end first, look at those with the fewest rows, and of these at one
with the fewest rows that carry less than a whole. A row can be left out if nobody needs it: groups get
smaller, and nothing gets later. So that program passes every rule:

- *One source.* Of several routes in which a rank could have a part only the first in time counts, and what
  nobody uses is left out (`_every_part_is_of_use`). A union takes no time, so it is made when its last piece
  is there. Any disjoint pieces can be added one by one; in which order is a convention (`splits`).
- *The whole where it is.* A sender that has the whole already sends that and not a part of it: whatever was
  made of the part downstream can be the whole too, since every output is the whole. So a rank sends parts,
  and parts come to it, only before it has the whole (`_parts_come_before_the_whole`).
- *A sum for one rank* leaves each rank once (`_a_sum_for_one_leaves_each_rank_once`). Of two sends of a rank
  on the way to the only output, the second can carry what the first does; then the first is left out.
- *Interchangeable chunks* can change names, so that one rank has them in the order of their numbers.
- *How many sends.* Each keeps the slowest port of its link busy for one item at least, so only this many
start
  in time (`_most_sends`), and no item goes over a link twice. Where a group can go piece by piece
  (`core.grouping`), each item has a send of its own, and there are no others.
- *Ticks.* Starts are no whole ticks. Rounded down, with durations rounded down, they are, and the rules still
  hold (see `ticks`).

The last rules follow from the others. They are for the linear relaxation, which sees loads and nothing else.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.ticks import NEVER, Ticks
from taccl.encoding.engines.cp.sums_parts import (
    Item,
    interchangeable_chunks,
    is_own,
    splits,
    sum_candidates,
)
from taccl.encoding.engines.cp.tuning import SUMS_MODEL_MOST_RANKS_TO_DIVIDE
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model import ports, rules
from taccl.encoding.sending_model.clock import clock_of
from taccl.encoding.sending_model.sends import SendingModel, Weight
from taccl.model.problem import Problem

#: (chunk, part, rank)
Cell = tuple[int, int, int]


@dataclass(frozen=True)
class Need:
    """Each of `chunks` takes at least `least` of some links: weight[l] for each transfer over link l."""

    chunks: tuple[int, ...]
    weight: dict[int, int]
    least: int


def size_of(problem: Problem, ticks: Ticks, horizon: int) -> int:
    """How many items in sends the model would have, or a little more."""
    topology, collective = problem.topology, problem.collective
    contributors = np.where(collective.reduces, collective.num_sources, 1)
    items = int((2**contributors - 1).sum())
    links = np.arange(topology.num_links)
    busy = ticks.of(topology.slowest_busy_us(links, problem.chunk_mb))
    sends = np.where(one_by_one(topology), 1, horizon // np.maximum(busy, 1))
    shared = problem.max_group > 1 and problem.num_chunks > 1
    return int((items * np.minimum(sends, items)).sum()) if shared else items * topology.num_links


def build(
    instance: Instance,
    ticks: Ticks,
    lasting: tuple[int, int],
    minimise: bool = True,
    needs: Sequence[Need] = (),
    in_order: bool = True,
) -> SumModel:
    """The model of programs that last from `lasting[0]` to `lasting[1]` ticks: the fastest, or any.

    `needs` must be true of each of these programs. `in_order`: of programs that differ only by the names of
    interchangeable chunks, only one is kept.
    """
    model = SumModel(instance, ticks, lasting)
    model.add_rules(needs)
    if in_order:
        model.keep_interchangeable_chunks_in_order()
    if minimise:
        model.cp.minimize(model.sending.finish)
    return model


class SumModel:
    """The variables, and one rule after another.

    Attributes
    ----------
    sending, cp, clock : the model of sends, what CP-SAT is given, and durations.
    candidates : the items that may travel over each link.
    got : whether a rank has a part.
    made : (chunk, the piece that came at once, what is made, rank)
    uses : for each chunk, whether each part of it is used on each link: (part, link, use).
    """

    def __init__(self, instance: Instance, ticks: Ticks, lasting: tuple[int, int]) -> None:
        problem = self.problem = instance.problem
        self.candidates = sum_candidates(instance, ticks, lasting[1])
        self.clock = clock_of(problem, ticks, lasting[1])
        self.sending: SendingModel[Item] = SendingModel(problem, self.clock, lambda _: Weight(0), lasting[0])
        self.cp, self.at = self.sending.cp, self.sending.at
        self.src, self.dst = self.sending.src, self.sending.dst
        self.pre, self.post = problem.collective.pre.tolist(), problem.collective.post.tolist()
        self.ranks, self.chunks = range(problem.num_ranks), range(problem.num_chunks)
        self.got: dict[Cell, Any] = {}
        self.made: dict[tuple[int, int, int, int], Any] = {}
        self.uses: list[list[tuple[int, int, Any]]] = [[] for _ in self.chunks]
        self._make_cells()
        for link in range(problem.topology.num_links):
            self._make_sends(link)

    def _make_cells(self) -> None:
        """Whether a rank has a part, and from when on: 0 for what is its own."""
        for chunk in self.chunks:
            for part, rank in itertools.product(self.candidates.parts[chunk], self.ranks):
                cell = chunk, part, rank
                head, last = self.candidates.head[cell], self.clock.last
                wanted = part == self.candidates.whole[chunk] and self.post[chunk][rank]
                if is_own(self.problem, chunk, part, rank):
                    self.got[cell], self.at[(chunk, part), rank] = 1, 0
                elif wanted or head <= last:
                    # What is wanted and cannot come in time has no source: then there is no solution.
                    self.got[cell] = 1 if wanted else self.cp.new_bool_var(f"got{cell}")
                    self.at[(chunk, part), rank] = self.cp.new_int_var(min(head, last), last, f"at{cell}")

    def _make_sends(self, link: int) -> None:
        items, sends = self.candidates.on_link[link], self.sending.sends_on[link]
        several = len({chunk for chunk, _ in items}) > 1
        if several and self.sending.may_share(link):
            for k in range(self._most_sends(link)):
                self._shared_send(link, k)
            rules.shared_sends_start_in_order(self.sending, sends)
        else:
            for item in items:
                first, last = self._first_start(link, [item]), self._last_start(link, [item])
                sends.append(self.sending.own_send(item, link, first, last))
        for item in items:
            options = [(send.members[item], send) for send in sends if item in send.members]
            self.sending.offer(item, link, options)
            self.uses[item[0]].append((item[1], link, self.sending.use(item, link)))

    def _shared_send(self, link: int, k: int) -> None:
        """A send of one item or several, of one part of each chunk."""
        items = self.candidates.on_link[link]
        active = self.cp.new_bool_var(f"a{link},{k}")
        members = self.sending.members(items, f"{link},{k}")
        of_chunk: dict[int, list[Any]] = defaultdict(list)
        for (chunk, _), member in members.items():
            of_chunk[chunk].append(member)
        for parts in of_chunk.values():
            self.cp.add_at_most_one(parts)
        rules.a_shared_send_has_several_items(self.sending, members, active, least=1)
        counts = self.sending.counts(members, min(len(of_chunk), self.problem.max_group))
        first, last = self._first_start(link, items), self._last_start(link, items)
        send = self.sending.shared_send(link, members, active, counts, first, last)
        self.sending.sends_on[link].append(send)

    def _most_sends(self, link: int) -> int:
        items, topology = self.candidates.on_link[link], self.problem.topology
        room = self._last_start(link, items) - self._first_start(link, items)
        pairs = range(int(topology.first_pair[link]), int(topology.first_pair[link + 1]))
        busy = [self.clock.busy(pair, {0: 1}) for pair in pairs if self.clock.counts_on[pair]]
        apart = max(busy) if len(busy) == len(pairs) else 0
        return 0 if room < 0 else min(len(items), room // apart + 1) if apart else len(items)

    def _first_start(self, link: int, items: Sequence[Item]) -> int:
        """The least tick at which any of some items can be where a link begins."""
        return min((self._head(item, self.src[link]) for item in items), default=0)

    def _last_start(self, link: int, items: Sequence[Item]) -> int:
        """The last tick at which any of some items is of use on a link."""
        tail = min((self._tail(item, self.dst[link]) for item in items), default=NEVER)
        return self.clock.last - int(self.clock.duration(link, {0: 1})) - tail

    def _head(self, item: Item, rank: int) -> int:
        return self.candidates.head[item[0], item[1], rank]

    def _tail(self, item: Item, rank: int) -> int:
        return int(self.candidates.tail[item[0], rank])

    def add_rules(self, needs: Sequence[Need]) -> None:
        """Add every rule, and that `needs` are met."""
        self._each_part_has_one_source()
        self._every_part_is_of_use()
        for item, link in self.sending.options:
            rules.sends_start_when_their_items_are_there(self.sending, item, link)
        for uses in ports.uses_of_ports(self.sending):
            if len(uses) > 1:
                ports.a_port_serves_one_at_a_time(self.sending, uses)
                idle = ports.idle_ticks(self.sending, uses, self._head, self._tail)
                ports.a_port_has_time_for_all(self.sending, uses, idle)
        self._parts_come_before_the_whole()
        self._a_sum_for_one_leaves_each_rank_once()
        self._every_contribution_enters_every_set()
        self._as_many_transfers_as_gossip()
        self._needs_are_met(needs)
        outputs = self.problem.collective.outputs
        wanted = zip(outputs.chunk.tolist(), outputs.rank.tolist(), strict=True)
        cells = [((chunk, self.candidates.whole[chunk]), rank) for chunk, rank in wanted]
        rules.all_that_is_wanted_has_come(self.sending, cells, {})

    def _each_part_has_one_source(self) -> None:
        """One transfer or one union; and what either needs is there."""
        for cell in sorted(self.got):
            chunk, part, rank = cell
            if is_own(self.problem, *cell):
                continue
            sources = [*self.sending.into.get(((chunk, part), rank), ())]
            for piece, rest in splits(part, rank) if self.problem.collective.reduces[chunk] else ():
                if (chunk, piece, rank) not in self.got or (chunk, rest, rank) not in self.got:
                    continue
                came = self.sending.into.get(((chunk, piece), rank), [])
                came = [1] if is_own(self.problem, chunk, piece, rank) else came
                if not came:
                    continue
                union = self.made[chunk, piece, part, rank] = self.cp.new_bool_var(f"m{piece},{cell}")
                self.cp.add(union <= sum(came))
                self.cp.add(union <= self.got[chunk, rest, rank])
                for source in (piece, rest):
                    there = self.at[(chunk, source), rank]
                    self.cp.add(self.at[(chunk, part), rank] >= there).only_enforce_if(union)
                sources.append(union)
            self.cp.add(sum(sources) == self.got[cell])
        for chunk, uses in enumerate(self.uses):
            for part, link, use in uses:
                self.cp.add(use <= self.got[chunk, part, self.src[link]])

    def _every_part_is_of_use(self) -> None:
        """What a rank gets it sends on, adds to something or wants."""
        used: dict[Cell, list[Any]] = defaultdict(list)
        for (chunk, piece, part, rank), union in self.made.items():
            used[chunk, piece, rank].append(union)
            used[chunk, part ^ piece, rank].append(union)
        for chunk, uses in enumerate(self.uses):
            for part, link, use in uses:
                used[chunk, part, self.src[link]].append(use)
        for cell, got in self.got.items():
            if not isinstance(got, int):
                self.cp.add(got <= sum(used[cell]))

    def _parts_come_before_the_whole(self) -> None:
        for link, sends in enumerate(self.sending.sends_on):
            for send in sends:
                for (chunk, part), member in send.members.items():
                    whole, src, dst = self.candidates.whole[chunk], self.src[link], self.dst[link]
                    if part == whole:
                        continue
                    if self.post[chunk][src]:
                        self.cp.add(send.start <= self.at[(chunk, whole), src]).only_enforce_if(member)
                    if self.post[chunk][dst]:
                        self.cp.add(send.end <= self.at[(chunk, whole), dst]).only_enforce_if(member)

    def _a_sum_for_one_leaves_each_rank_once(self) -> None:
        for chunk, rank in itertools.product(self.chunks, self.ranks):
            if sum(self.post[chunk]) == 1 and self.problem.collective.reduces[chunk]:
                out = [use for _, link, use in self.uses[chunk] if self.src[link] == rank]
                self.cp.add(sum(out) <= (0 if self.post[chunk][rank] else 1))

    def keep_interchangeable_chunks_in_order(self) -> None:
        """One rank has interchangeable chunks in the order of their numbers."""
        for chunks, rank in self.in_order():
            for one, other in itertools.pairwise(chunks):
                first, then = (self.at[(chunk, self.candidates.whole[chunk]), rank] for chunk in (one, other))
                self.cp.add(first <= then)

    def in_order(self) -> Iterator[tuple[list[int], int]]:
        """Interchangeable chunks, and a rank that has them in the order of their numbers."""
        for chunks in interchangeable_chunks(self.problem):
            for rank in self.ranks:
                waits = not is_own(self.problem, chunks[0], self.candidates.whole[chunks[0]], rank)
                if self.post[chunks[0]][rank] and waits:
                    yield chunks, rank
                    break

    def _every_contribution_enters_every_set(self) -> None:
        """Into each set of ranks that wants a chunk, in some part, comes each contribution from outside."""
        if len(self.ranks) > SUMS_MODEL_MOST_RANKS_TO_DIVIDE:
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
                    for part, link, use in self.uses[chunk]
                    if part >> contribution & inside >> self.dst[link] & ~(inside >> self.src[link]) & 1
                ]
                self.cp.add(sum(entering) >= 1)

    def _needs_are_met(self, needs: Sequence[Need]) -> None:
        for need in needs:
            for chunk in need.chunks:
                weighed = [
                    need.weight[link] * use for _, link, use in self.uses[chunk] if link in need.weight
                ]
                self.cp.add(sum(weighed) >= need.least)

    def _as_many_transfers_as_gossip(self) -> None:
        """Between the sets of any division of the ranks: S of them with contributions, W of them wanting.

        When the first of those that want the sum has come to know of every contribution, each of the S others
        has let something out, and each of the W - 1 others still has to let something in.
        """
        if len(self.ranks) > SUMS_MODEL_MOST_RANKS_TO_DIVIDE:
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
                    use for _, link, use in self.uses[chunk] if of[self.src[link]] != of[self.dst[link]]
                ]
                self.cp.add(sum(crossing) >= least)


def divisions(count: int) -> Iterator[list[list[int]]]:
    """All routes of dividing 0 .. count - 1 into sets."""
    if count == 0:
        yield []
        return
    for groups in divisions(count - 1):
        for number in range(len(groups)):
            yield [[*group, count - 1] if each == number else group for each, group in enumerate(groups)]
        yield [*groups, [count - 1]]
