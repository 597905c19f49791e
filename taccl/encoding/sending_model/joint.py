r"""A whole problem as one model, in which each sum is made once.

Items 0 .. n - 1 are copies of the chunks, items n .. 2n - 1 their partial sums on the way to a root, in a
problem that sums and then copies. Each pair of an item and a link that it may use (`candidates`) has a send
of its own, and each link sends that two items or more may share, as many as is wished. What a symmetry makes
equal is decided once (`orbits`).

Durations are rounded down to ticks: the optimum of the model is no later than the true one, and true
times are computed from its decisions afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.ticks import Ticks
from taccl.encoding.core.timing import Decision
from taccl.encoding.sending_model import ports, rules
from taccl.encoding.sending_model.candidates import Candidates
from taccl.encoding.sending_model.clock import clock_of
from taccl.encoding.sending_model.orbits import Orbits, orbits_of
from taccl.encoding.sending_model.sends import Option, Send, SendingModel, Weight
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.problem import Problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class JointModel:
    """The model and the keys to read it by.

    Parameters
    ----------
    sending : the model.
    orbits : what stands for what in it.
    alone : the send of an item alone over a link, one of each orbit in time.
    slots : the sends that items share, by link and phase: 0 for copies, 1 for partial sums.
    """

    sending: SendingModel[int]
    orbits: Orbits
    alone: dict[tuple[int, int], Send[int]]
    slots: dict[tuple[int, int], list[Send[int]]]

    @property
    def sends(self) -> Iterator[Send[int]]:
        """All sends, one of each orbit in time."""
        return itertools.chain(self.alone.values(), *self.slots.values())

    @property
    def cp(self) -> cp_model.CpModel:
        """What CP-SAT is given."""
        return self.sending.cp


def size_of(
    problem: Problem, ticks: Ticks, horizon: int, candidates: Candidates, num_slots: int | None
) -> int:
    """How many pairs of an item and a send the model has, before symmetry, or a little more."""
    topology = problem.topology
    items = candidates.allowed.sum(axis=0)
    least_mb = float(problem.size_mb.min(initial=problem.chunk_mb))
    busy = ticks.of(topology.slowest_busy_us(np.arange(topology.num_links), least_mb))
    slots = np.minimum(items // 2, np.where(busy > 0, horizon // np.maximum(busy, 1), items))
    if num_slots is not None:
        slots = np.minimum(slots, num_slots)
    shared = ~one_by_one(topology) & (problem.max_group > 1)
    return int((items * (1 + slots * shared)).sum())


def build(
    problem: Problem,
    ticks: Ticks,
    lasting: tuple[int, int],
    symmetry: SymmetryGroup,
    candidates: Candidates,
    num_slots: int | None,
    minimise: bool = True,
    chunks_in: Sequence[int] | None = None,
) -> JointModel:
    """The model of schedules that last from `lasting[0]` to `lasting[1]` ticks: the fastest, or any.

    `num_slots` is the number of shared sends per link; None: as many as any schedule can have.
    `candidates` must be symmetric. `chunks_in` says for how many each chunk counts in a group; None: for one.

    With no symmetry, `every_candidate`, all slots and no own-first rule, the optimum of the model is no later
    than any schedule of the problem, if no schedule lasts less than `lasting[0]` and one lasts no more than
    `lasting[1]`. (With sums that are copied on: than any in which each sum is made at one rank, each other
    rank passes its part on once, a rank that may not sum has one part only, and no send mixes partial sums
    and copies.) For take a fastest schedule. Of
    the copies of a chunk that come to a rank, all but the first can be left out, and so can what nobody uses
    and what comes back to a source: groups get smaller, nothing gets later. What is left passes every rule of
    the model, except that starts are no whole ticks. Rounded down, with durations rounded down, they are, and
    the rules still hold (see `ticks`).

    Over a link where a group can go piece by piece (`core.grouping` has the proof) nothing gets later if
    every chunk goes by itself, so such links have no shared sends.
    """
    writer = _Writer(problem, ticks, lasting, symmetry, candidates, num_slots, chunks_in)
    writer.add_rules()
    if minimise:
        writer.model.cp.minimize(writer.model.finish)
    return JointModel(writer.model, writer.orbits, writer.alone, writer.slots)


class _Writer:
    """The variables of a joint model, and for whom the rules are."""

    def __init__(
        self,
        problem: Problem,
        ticks: Ticks,
        lasting: tuple[int, int],
        symmetry: SymmetryGroup,
        candidates: Candidates,
        num_slots: int | None,
        chunks_in: Sequence[int] | None,
    ) -> None:
        clock = clock_of(problem, ticks, lasting[1])
        self.problem, self.candidates, self.num_slots = problem, candidates, num_slots
        self.chunks, self.items = problem.num_chunks, len(candidates.allowed)
        counted = [1] * self.chunks if chunks_in is None else chunks_in
        weights = [Weight(size, 1, chunks) for size, chunks in zip(clock.size_of, counted, strict=True)]
        self.model: SendingModel[int] = SendingModel(
            problem, clock, lambda item: weights[item % self.chunks], lasting[0]
        )
        self.orbits = orbits_of(problem, symmetry, candidates.allowed)
        self.alone: dict[tuple[int, int], Send[int]] = {}
        self.slots: dict[tuple[int, int], list[Send[int]]] = {}
        self._make_cells()
        self._make_own_sends()
        self._make_shared_sends()
        for item, link in self.orbits.pairs:
            self.model.offer(item, link, self._options(item, link))
        for link, sends in enumerate(self.model.sends_on):
            own = (self.alone[self.orbits.timed_as[item, link]] for item in self.orbits.items_on[link])
            sends += [*own, *self._slots_on(link, 0), *self._slots_on(link, 1)]

    def add_rules(self) -> None:
        """Add every rule, for one of each orbit."""
        if self.items > self.chunks:
            self._each_sum_is_made_at_one_rank()
        self._copies_come_once_sums_leave_once_and_what_is_sent_is_held()
        self._limited_ranks_sum_and_copy_no_more_than_they_may()
        self._what_one_rank_wants_takes_one_path()
        for item, link in self.alone:
            rules.sends_start_when_their_items_are_there(self.model, item, link)
        self._ports_serve_one_at_a_time()
        self._own_chunks_go_first()
        collective = self.problem.collective
        wanted = collective.post & (collective.reduces[:, None] | ~collective.pre)
        cells = [(int(chunk), int(rank)) for chunk, rank in zip(*np.nonzero(wanted), strict=True)]
        rules.all_that_is_wanted_has_come(self.model, [*cells, *self._kept_with_tails()], self.model.tails)

    def _kept_with_tails(self) -> list[tuple[int, int]]:
        """Outputs that are there from the beginning, after which something follows."""
        collective = self.problem.collective
        return [
            (chunk, rank)
            for chunk, rank in self.model.tails
            if collective.pre[chunk, rank] and not collective.reduces[chunk]
        ]

    def _make_cells(self) -> None:
        """Arrival times, one per orbit of (item, rank); constants at the sources of copies."""
        collective, last = self.problem.collective, self.model.clock.last
        made: dict[int, Any] = {}
        for item, rank, name in self.orbits.cells_in_time(self.items):
            if name not in made:
                is_source = item < self.chunks and not collective.reduces[item]
                if is_source and collective.pre[item, rank]:
                    made[name] = self.model.ready.get((item, rank), 0)
                else:
                    head = self._head(item, rank)  # beyond the end: then it is there in no solution
                    made[name] = self.model.cp.new_int_var(head, max(head, last), f"at{item},{rank}")
            self.model.at[item, rank] = made[name]

    def _head(self, item: int, rank: int) -> int:
        return int(self.candidates.head[item, rank])

    def _tail(self, item: int, rank: int) -> int:
        return int(self.candidates.tail[item, rank])

    def _make_own_sends(self) -> None:
        active: dict[tuple[int, int], Any] = {}
        model = self.model
        for item, link in self.orbits.timed_pairs:
            weight = model.weight(item)
            duration = model.clock.duration(link, {weight.size: weight.times})
            first = self._head(item, model.src[link])
            last = model.clock.last - duration - self._tail(item, model.dst[link])
            used_as = self.orbits.used_as[item, link]
            send = model.own_send(item, link, first, last, active.get(used_as))
            active[used_as] = send.active
            self.alone[item, link] = send

    def _make_shared_sends(self) -> None:
        """Slots belong to one link of each orbit; what uses them is the same for its images."""
        chosen: dict[tuple[int, int], list[_Shared]] = {}
        for link, on_link in enumerate(self.orbits.items_on):
            if self.orbits.link_in_time(link) != link or not self.model.may_share(link):
                continue
            owner, image = self.orbits.shared_as(link)
            for phase in range(self.items // self.chunks):
                items = [item for item in on_link if item // self.chunks == phase]
                if (owner, phase) not in chosen:
                    chosen[owner, phase] = self._shared_by(owner, phase)
                slots = [
                    self.model.shared_send(
                        link,
                        {item: shared.members[int(image[item])] for item in items},
                        shared.active,
                        shared.counts,
                        0,
                        self.model.clock.last,
                    )
                    for shared in chosen[owner, phase]
                ]
                if slots:
                    rules.shared_sends_start_in_order(self.model, slots)
                    self.slots[link, phase] = slots

    def _shared_by(self, link: int, phase: int) -> list[_Shared]:
        """Which items share the sends of a link, as yet without times."""
        items = [item for item in self.orbits.items_on[link] if item // self.chunks == phase]
        shared = []
        for k in range(self._most_slots(link, items)):
            active = self.model.cp.new_bool_var(f"a{link},{k}")
            members = self.model.members(items, f"{link},{k}")
            rules.a_shared_send_has_several_items(self.model, members, active)
            counts = self.model.counts(members, self.problem.max_group)
            shared.append(_Shared(active, members, counts))
        return shared

    def _most_slots(self, link: int, items: Sequence[int]) -> int:
        """Each shared send takes two items or more, and time on the ports of its link."""
        clock, enough = self.model.clock, len(items) // 2
        least = min((clock.cost[self.model.weight(item).size][link] for item in items), default=0)
        busy = 2 * least + clock.alpha[link] * clock.is_serial
        if busy:
            enough = min(enough, clock.last // busy)
        return enough if self.num_slots is None else min(self.num_slots, enough)

    def _slots_on(self, link: int, phase: int) -> list[Send[int]]:
        return self.slots.get((self.orbits.link_in_time(link), phase), [])

    def _options(self, item: int, link: int) -> list[Option[int]]:
        """Every way in which an item may travel over a link."""
        own = self.alone[self.orbits.timed_as[item, link]]
        slots = self._slots_on(link, item // self.chunks)
        image = self.orbits.image(item, link) if slots else item
        return [(own.active, own), *((slot.members[image], slot) for slot in slots)]

    def _each_sum_is_made_at_one_rank(self) -> None:
        model, made = self.model, dict[int, Any]()
        for chunk, rank, name in self.orbits.all_cells(self.chunks):
            if name not in made:
                made[name] = model.cp.new_bool_var(f"root{chunk},{rank}")
                if self.candidates.root is not None:
                    model.cp.add(made[name] == int(self.candidates.root[chunk] == rank))
            model.root[chunk, rank] = made[name]
        for chunk in np.unique(self.orbits.timed.chunk_representative[: self.chunks]).tolist():
            ranks = range(self.problem.num_ranks)
            rules.a_sum_is_made_at_one_rank(model, chunk, chunk, self.chunks + chunk, ranks)

    def _copies_come_once_sums_leave_once_and_what_is_sent_is_held(self) -> None:
        collective, model = self.problem.collective, self.model
        for chunk, rank in self.orbits.cells(self.chunks):
            made = [model.root[chunk, rank]] if (chunk, rank) in model.root else []
            if made or not collective.pre[chunk, rank]:
                rules.an_item_comes_once(model, chunk, rank, bool(collective.post[chunk, rank]), made)
        for chunk, rank in self.orbits.cells(self.chunks) if model.root else ():
            contributes = collective.pre[chunk, rank]
            leaves = rules.a_sum_leaves_once if contributes else rules.a_helper_passes_on_the_sum_that_it_has
            leaves(model, self.chunks + chunk, rank, [model.root[chunk, rank]])
        for chunk, link in self.orbits.used:
            sender = model.src[link]
            if chunk < self.chunks and not (collective.pre[chunk, sender] or collective.post[chunk, sender]):
                made = [model.root[chunk, sender]] if model.root else []
                rules.an_item_is_held_before_it_is_sent(model, chunk, link, made)

    def _limited_ranks_sum_and_copy_no_more_than_they_may(self) -> None:
        collective, topology, model = self.problem.collective, self.problem.topology, self.model
        for chunk, rank in self.orbits.cells(self.chunks):
            if topology.may_copy is not None and not topology.may_copy[rank]:
                keeps_it = bool(collective.post[chunk, rank])
                rules.a_rank_that_may_not_copy_has_one_use(model, chunk, rank, keeps_it)
            if model.root and topology.may_sum is not None and not topology.may_sum[rank]:
                contributes = bool(collective.pre[chunk, rank])
                rules.a_rank_that_may_not_sum_has_one_part(model, self.chunks + chunk, rank, contributes)

    def _what_one_rank_wants_takes_one_path(self) -> None:
        collective = self.problem.collective
        wanting = (collective.post & ~collective.pre).sum(axis=1)
        for chunk, rank in self.orbits.cells(self.chunks):
            if not collective.reduces[chunk] and wanting[chunk] == 1:
                is_start, is_goal = collective.pre[chunk, rank], collective.post[chunk, rank]
                end = "start" if is_start else "goal" if is_goal else ""
                rules.an_item_takes_one_path(self.model, chunk, rank, end)

    def _ports_serve_one_at_a_time(self) -> None:
        for uses in ports.uses_of_ports(self.model):
            if len(uses) > 1:
                ports.a_port_serves_one_at_a_time(self.model, uses)
                ports.a_port_has_time_for_all(self.model, uses)
                idle = ports.idle_ticks(self.model, uses, self._head, self._tail)
                ports.whole_items_fit_a_port(self.model, uses, idle)

    def _own_chunks_go_first(self) -> None:
        own_first, owner = self.problem.limits.own_first, self.problem.collective.owner
        if own_first is None:
            return
        own: list[Option[int]] = []
        others: list[Option[int]] = []
        for chunk, link in self.orbits.timed_pairs:
            if chunk < self.chunks and own_first[link]:
                is_own = owner[chunk] == self.model.src[link]
                (own if is_own else others).extend(self.model.options[chunk, link])
        rules.own_chunks_go_first(self.model, own, others)


@dataclass(frozen=True, eq=False)
class _Shared:
    """Who shares a send, without its times."""

    active: Any
    members: dict[int, Any]
    counts: Any


def decisions(model: JointModel, value: Callable[[Any], int]) -> list[Decision]:
    """The sends that a solution says, in order; `value` gives the value of an expression."""
    timed: list[tuple[int, Decision]] = []
    for send in model.sends:
        if value(send.active):
            items = tuple(item for item, member in send.members.items() if value(member))
            timed += [(value(send.start), decision) for decision in _images(model, items, send.link)]
    return [decision for _, decision in sorted(timed, key=lambda pair: pair[0])]


def _images(model: JointModel, items: tuple[int, ...], link: int) -> list[Decision]:
    group, chunks = model.orbits.timed, model.sending.problem.num_chunks
    images = {
        (tuple(item_map[list(items)].tolist()), int(link_map[link]))
        for item_map, link_map in zip(group.chunk_map, group.link_map, strict=True)
    }
    return [
        Decision(tuple(item % chunks for item in moved), over, reduce=moved[0] >= chunks)
        for moved, over in sorted(images)
    ]
