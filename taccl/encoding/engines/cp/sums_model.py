r"""All programs of a problem with sums, as optional intervals: a sum may be made anywhere, and often.

Time is counted in ticks. For a chunk c, a part C of it (`sums_parts`) and a link l that (c, C) may use:

    send[l, k]        an optional interval of alpha_l + n beta_l s on l, the k-th in time
    in[c, C, l, k]    whether it carries (c, C); n counts these
    use[c, C, l]      = sum over k of in[c, C, l, k]
    got[c, C, r]      whether rank r has C, and somebody uses it there; 1 for its own contribution
    at[c, C, r]       from when on
    made[c, B, C, r]  whether r makes C of B, which came at once or is its own, and of the rest, C - B

    minimise T with T >= at[c, whole, r] where r wants c, and

    outputs     got[c, whole, r] = 1 where r wants c
    one source  got[c, C, r] = sum over l into r of use[c, C, l] + sum over B of made[c, B, C, r]
    held first  use[c, C, l] <= got[c, C, src(l)];  made[c, B, C, r] <= got[c, C - B, r], and B came to r
    presence    in[c, C, l, k]    =>  start >= at[c, C, src(l)]  and  at[c, C, dst(l)] >= end
                made[c, B, C, r]  =>  at[c, C, r] >= at[c, B, r]  and  at[c, C, r] >= at[c, C - B, r]
    one part    a send carries one part of a chunk at most, and no more items than a group may have
    ports       the times for which sends keep a port busy do not overlap

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

from taccl.encoding.core.ticks import NEVER, Ticks
from taccl.encoding.engines.cp.sums_parts import interchangeable_chunks, is_own, splits
from taccl.encoding.engines.cp.sums_variables import Cell, Sending, Variables
from taccl.encoding.engines.cp.tuning import SUMS_MODEL_MOST_RANKS_TO_DIVIDE
from taccl.encoding.instance import Instance


@dataclass(frozen=True)
class Need:
    """Each of `chunks` takes at least `least` of some links: weight[l] for each transfer over link l."""

    chunks: tuple[int, ...]
    weight: dict[int, int]
    least: int


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
        model.cp.minimize(model.finish)
    return model


class SumModel(Variables):
    """The variables, and one rule after another."""

    def add_rules(self, needs: Sequence[Need]) -> None:
        """Add every rule, and that `needs` are met."""
        self._each_part_has_one_source()
        self._every_part_is_of_use()
        self._presence()
        self._ports_serve_one_at_a_time()
        self._parts_come_before_the_whole()
        self._a_sum_for_one_leaves_each_rank_once()
        self._every_contribution_enters_every_set()
        self._as_many_transfers_as_gossip()
        self._needs_are_met(needs)

    def _each_part_has_one_source(self) -> None:
        """One transfer or one union; and what either needs is there."""
        for cell in sorted(self.at):
            chunk, part, rank = cell
            if is_own(self.problem, *cell):
                continue
            sources = self.received(*cell)
            for piece, rest in splits(part, rank) if self.problem.collective.reduces[chunk] else ():
                if (chunk, piece, rank) not in self.got or (chunk, rest, rank) not in self.got:
                    continue
                came = [1] if is_own(self.problem, chunk, piece, rank) else self.received(chunk, piece, rank)
                if not came:
                    continue
                union = self.made[chunk, piece, part, rank] = self.cp.new_bool_var(f"m{piece},{cell}")
                self.cp.add(union <= sum(came))
                self.cp.add(union <= self.got[chunk, rest, rank])
                for source in (piece, rest):
                    self.cp.add(self.at[cell] >= self.at[chunk, source, rank]).only_enforce_if(union)
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

    def _presence(self) -> None:
        for link, sends in enumerate(self.sends):
            for send in sends:
                for (chunk, part), member in send.members.items():
                    there, then = self.at[chunk, part, self.src[link]], self.at[chunk, part, self.dst[link]]
                    self.cp.add(send.start >= there).only_enforce_if(member)
                    self.cp.add(then >= send.end).only_enforce_if(member)

    def _ports_serve_one_at_a_time(self) -> None:
        seen: set[frozenset[tuple[int, int]]] = set()
        for port, links in enumerate(self.problem.topology.port_links):
            each = frozenset((link, self.port_cost[link, port]) for link in links if self.serves(link, port))
            sends = [(send, cost) for link, cost in sorted(each) for send in self.sends[link]]
            if each not in seen and len(sends) > 1:
                seen.add(each)
                self.cp.add_no_overlap([self.interval(send, cost) for send, cost in sends])
                self._port_has_time_for_all(sends)

    def _port_has_time_for_all(self, sends: list[tuple[Sending, int]]) -> None:
        """What a port carries, it carries after the first moment when any can come, and before the last."""
        head, after = NEVER, NEVER
        for send, cost in sends:
            items, busy = self.candidates.on_link[send.link], self.alpha[send.link] * self.serial + cost
            head = min(head, self.first_start(send.link, items))
            after = min(after, self.horizon - self.last_start(send.link, items) - busy)
        load = sum(
            self.alpha[send.link] * self.serial * send.active + cost * sum(send.members.values())
            for send, cost in sends
        )
        used = self.cp.new_bool_var("p")
        for send, _ in sends:
            self.cp.add_implication(send.active, used)
        self.cp.add(load + (head + after) * used <= self.finish)

    def _parts_come_before_the_whole(self) -> None:
        for link, sends in enumerate(self.sends):
            for send in sends:
                for (chunk, part), member in send.members.items():
                    whole, src, dst = self.candidates.whole[chunk], self.src[link], self.dst[link]
                    if part == whole:
                        continue
                    if self.post[chunk][src]:
                        self.cp.add(send.start <= self.at[chunk, whole, src]).only_enforce_if(member)
                    if self.post[chunk][dst]:
                        self.cp.add(send.end <= self.at[chunk, whole, dst]).only_enforce_if(member)

    def _a_sum_for_one_leaves_each_rank_once(self) -> None:
        for chunk, rank in itertools.product(self.chunks, self.ranks):
            if sum(self.post[chunk]) == 1 and self.problem.collective.reduces[chunk]:
                out = [use for _, link, use in self.uses[chunk] if self.src[link] == rank]
                self.cp.add(sum(out) <= (0 if self.post[chunk][rank] else 1))

    def keep_interchangeable_chunks_in_order(self) -> None:
        """One rank has interchangeable chunks in the order of their numbers."""
        for chunks, rank in self.in_order():
            for one, other in itertools.pairwise(chunks):
                first, then = (self.at[chunk, self.candidates.whole[chunk], rank] for chunk in (one, other))
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
