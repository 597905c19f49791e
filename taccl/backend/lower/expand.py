"""Events and layouts become actions: sends, receives, additions and local copies at each rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from taccl.backend.lower.actions import Action, Endpoint, Place, merge_runs
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.flow import Flow, Send, first, is_first, second
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_work import LocalWork, SumUnit, sum_units
from taccl.backend.lower.made_sums import AddingUp, Cell
from taccl.backend.lower.order import Event, Kind
from taccl.backend.program import Buffer, Op
from taccl.schedule import TOLERANCE_US

#: (source, destination) cells of local copies
Pairs = list[tuple[Place, Place]]


@dataclass(slots=True)
class RankActions:
    """What one rank does, in order, and two sets of copies of its own data that may run anywhere.

    Parameters
    ----------
    actions : by position.
    early : copies that others build on: they come first.
    late : copies of own data that only the user is waiting for: they come last.
    input_shift : in place, input cell k is output cell k + this.
    """

    actions: list[Action] = field(default_factory=list)
    early: Pairs = field(default_factory=list)
    late: Pairs = field(default_factory=list)
    input_shift: int = 0


def expand(
    flow: Flow,
    events: Sequence[Event],
    layouts: Sequence[RankLayout],
    plan: dict[int, Adding],
    channels: Sequence[int],
    fused: bool,
    takes_turns: bool,
    most_chunks: int,
    gathered: frozenset[Cell] = frozenset(),
    local: LocalWork | None = None,
) -> list[RankActions]:
    """The actions of every rank.

    Parameters
    ----------
    channels : the channel of each send.
    takes_turns : whether sends of different thread blocks go through a port in the schedule's order.
    most_chunks : that one step takes.
    gathered : cells whose sums are made in units of their own; `local` says what that costs.
    """
    expansion = _Expansion(flow, layouts, plan, channels, fused, takes_turns, most_chunks, gathered)
    for rank, layout in enumerate(layouts):
        if local is not None:
            expansion.begin_sums(rank, sum_units(flow, rank, layout, gathered, local, most_chunks), local)
        expansion.own_copies(rank)
    for position, (kind, index) in enumerate(events):
        send = flow.sends[index]
        if kind is Kind.SEND:
            expansion.send(send, position)
        elif kind is Kind.RECEIVE:
            expansion.receive(send, position)
        else:
            expansion.arrive(send, position)
    expansion.copy_out(len(events))
    return expansion.ranks


class _Expansion:
    def __init__(
        self,
        flow: Flow,
        layouts: Sequence[RankLayout],
        plan: dict[int, Adding],
        channels: Sequence[int],
        fused: bool,
        takes_turns: bool,
        most_chunks: int,
        gathered: frozenset[Cell],
    ) -> None:
        self.flow, self.layouts, self.plan = flow, layouts, plan
        self.fused = fused
        self.sending, self.receiving = _endpoints(flow, channels)
        self.takes_turns, self.most_chunks = takes_turns, most_chunks
        shift = flow.schedule.problem.collective.in_place_shift.tolist()
        self.ranks = [RankActions(input_shift=shift[rank]) for rank in range(len(layouts))]
        self.begun: set[Cell] = set()
        self.outstanding = {cell: len(indices) for cell, indices in flow.added.items()}
        named = {(cell[0], flow.sum_value(cell)) for cell in gathered if cell not in flow.added}
        self.adding_up = AddingUp(flow.sums, named)
        self.passed_on: dict[Cell, int] = {}  # the action that sent a rank's contribution
        #: copies to the output, which no one waits for: the next receive of their endpoint comes after them
        self.put_off: dict[tuple[int, Endpoint], tuple[Send, Pairs]] = {}
        self.last_send: dict[tuple[int, int], int] = {}  # by connection, the action at its sender
        self.through: dict[tuple[int, int, int], int] = {}  # by rank, port and instance, the last send
        self.local: LocalWork | None = None
        self.units: dict[int, list[SumUnit]] = {}  # by send, the units that it brings something to
        self.received: dict[int, int] = {}  # by send that adds, the action that received it

    def own_copies(self, rank: int) -> None:
        layout, mine = self.layouts[rank], self.ranks[rank]
        for value, home in layout.home.items():
            cell = (rank, self.flow.chunk_of(value))
            if not is_first(value) or cell not in self.flow.own:
                continue
            if cell in self.flow.added:
                if self.fused:
                    mine.early.append((self._input(cell), home))
                    self.begun.add(cell)
                continue
            mine.early += [(home, place) for place in layout.copies.get(value, ())]
            if value in layout.copied_out:
                mine.late.append((home, layout.copied_out[value]))

    def begin_sums(self, rank: int, units: Sequence[SumUnit], local: LocalWork) -> None:
        """Copy the rank's own data to where they are added to."""
        self.local = local
        for unit in units:
            copy = Action(Op.COPY, unit.own, unit.home, unit.count, -1, -1, None, 0.0, 0.0, unit=unit.number)
            self.ranks[rank].actions.append(copy)
            self.begun.update((rank, chunk) for chunk in unit.chunks)
            for send in unit.landing:
                self.units.setdefault(send, []).append(unit)

    def send(self, send: Send, position: int) -> None:
        actions = self.ranks[send.src].actions
        if send.reduce:
            for chunk in send.chunks:
                self.passed_on[send.src, chunk] = len(actions)
        self._add(send, send.src, Op.SEND, position, send.start_us, send.sent_us)
        actions[-1].held_back = tuple(self._goes_before(send, actions))
        self.last_send[send.connection] = len(actions) - 1

    def _goes_before(self, send: Send, actions: Sequence[Action]) -> set[int]:
        """The sends of other thread blocks that must be done before the last action, which sends.

        Those are the one before it on its connection, if that was cut, and those that its ports served
        before it. Sends that take no time may be in front of longer ones at one moment, so the one that
        is done last counts.
        """
        link, instance = send.connection
        number = len(actions) - 1
        before = self.last_send.get(send.connection)
        sends = set() if before is None else {before}
        for port in self.flow.schedule.problem.topology.ports[link] if self.takes_turns else ():
            key = (send.src, port, instance)
            before = self.through.setdefault(key, number)
            if actions[before].done_us <= send.start_us + TOLERANCE_US:
                sends.add(before)
            if actions[before].done_us <= actions[number].done_us:
                self.through[key] = number
        return {before for before in sends if actions[before].endpoint != actions[number].endpoint}

    def copy_out(self, position: int) -> None:
        """The copies to the output that are still put off."""
        for rank, endpoint in list(self.put_off):
            self._copy_out(rank, endpoint, position)

    def receive(self, send: Send, position: int) -> None:
        self._copy_out(send.dst, self.receiving[send.index], position)
        ready = send.end_us if len(send.chunks) == 1 else send.start_us
        if self.plan.get(send.index) is Adding.ON_RECEIPT:
            accumulator = self.layouts[send.dst].landing[send.index]
            op = Op.RECV_REDUCE_COPY
            self._add(send, send.dst, op, position, ready, send.end_us, accumulator)
            return
        self._add(send, send.dst, Op.RECV, position, ready, send.end_us)
        if send.index in self.units:
            self.received[send.index] = len(self.ranks[send.dst].actions) - 1
        if not send.reduce:
            # The finished sum can only come back after the contribution to it has left.
            self.ranks[send.dst].actions[-1].known = self._contributions(send)

    def arrive(self, send: Send, position: int) -> None:
        layout = self.layouts[send.dst]
        complete: list[int] = []
        if not send.reduce:
            complete = self._landed(send, position)
        else:
            if self.plan[send.index] is not Adding.ON_RECEIPT:
                self._add_up(send, position)
            for chunk in send.chunks:
                cell = (send.dst, chunk)
                self.outstanding[cell] -= 1
                if not self.outstanding[cell]:
                    complete.append(first(chunk))
        copies: Pairs = []
        copied_out: Pairs = []
        for value in complete:
            home = layout.home[value]
            copies += [(home, place) for place in layout.copies.get(value, ())]
            if value in layout.copied_out:
                copied_out.append((home, layout.copied_out[value]))
        self._local(send, position, Op.COPY, sorted(copies, key=lambda pair: pair[1]))
        if copied_out:
            self.put_off[send.dst, self.receiving[send.index]] = (send, copied_out)

    def _landed(self, send: Send, position: int) -> list[int]:
        """Make the named sums that can be made now; returns the values that are complete."""
        landed, rank = self.flow.sums.landed, send.dst
        named = [landed[send.index, c] for c in send.chunks if (send.index, c) in landed]
        copied = [second(c) for c in send.chunks if (send.index, c) not in landed]
        self._add_to_units(send, position)
        waves, complete = self.adding_up.arrive(rank, named)
        for wave in waves:
            for op in (Op.COPY, Op.REDUCE):
                pairs = [(self._at(rank, src), self._at(rank, dst)) for each, src, dst in wave if each is op]
                self._local(send, position, op, pairs)
        return copied + complete

    def _at(self, rank: int, value: int) -> Place:
        return self.layouts[rank].home[value]

    def _add_up(self, send: Send, position: int) -> None:
        layout = self.layouts[send.dst]
        landing = layout.landing[send.index]
        is_first = self.plan[send.index] is Adding.FIRST
        in_units = self._add_to_units(send, position)
        copies: Pairs = []
        additions: Pairs = []
        for index, chunk in enumerate(send.chunks):
            if chunk in in_units:
                continue
            cell = (send.dst, chunk)
            landed, accumulator = landing.shifted(index), layout.home[first(chunk)]
            if is_first:
                if cell in self.flow.own:
                    additions.append((self._input(cell), accumulator))
            elif cell in self.begun:
                additions.append((landed, accumulator))
            elif cell in self.flow.own:
                copies.append((self._input(cell), accumulator))
                additions.append((landed, accumulator))
            else:
                copies.append((landed, accumulator))
            self.begun.add(cell)
        self._local(send, position, Op.COPY, copies)
        self._local(send, position, Op.REDUCE, additions)

    def _add_to_units(self, send: Send, position: int) -> set[int]:
        """Add what has landed to the sums that are due; the chunks of all sums that it belongs to."""
        chunks: set[int] = set()
        for unit in self.units.get(send.index, ()):
            assert self.local is not None  # for the type checker: there are units
            chunks.update(unit.chunks)
            unit.arrived += 1
            unit.waiting.append((unit.landing[send.index], self.received[send.index]))
            if unit.is_due(send.end_us, self.local):
                run = [
                    Action(
                        *(Op.REDUCE, place, unit.home, unit.count, position, -1, None),
                        *(send.end_us, send.end_us),
                        unit=unit.number,
                    )
                    for place, _ in unit.waiting
                ]
                # All waits stand before the run: what the runtimes merge waits once, at its beginning.
                run[0].held_back = tuple(received for _, received in unit.waiting)
                self.ranks[send.dst].actions += run
                unit.waiting = []
        return chunks

    def _add(
        self,
        send: Send,
        rank: int,
        op: Op,
        position: int,
        ready_us: float,
        done_us: float,
        src: Place | None = None,
    ) -> None:
        index = send.index
        src = src or self.layouts[send.src].source[index]
        dst = self.layouts[send.dst].landing[index]
        endpoint = self.sending[index] if rank == send.src else self.receiving[index]
        self.ranks[rank].actions.append(
            Action(op, src, dst, len(send.chunks), position, index, endpoint, ready_us, done_us)
        )

    def _copy_out(self, rank: int, endpoint: Endpoint, position: int) -> None:
        """Copy to the output what arrived last on an endpoint, now that whoever had to send it on has."""
        if (rank, endpoint) not in self.put_off:
            return
        send, pairs = self.put_off.pop((rank, endpoint))
        start = len(self.ranks[rank].actions)
        self._local(send, position, Op.COPY, pairs)
        for action in self.ranks[rank].actions[start:]:
            action.ready_us = math.inf

    def _local(self, send: Send, position: int, op: Op, pairs: Iterable[tuple[Place, Place]]) -> None:
        endpoint, when = self.receiving[send.index], send.end_us
        self.ranks[send.dst].actions += [
            Action(op, src, dst, count, position, send.index, endpoint, when, when)
            for src, dst, count in merge_runs(pairs, self.most_chunks)
        ]

    def _contributions(self, send: Send) -> tuple[int, ...]:
        cells = ((send.dst, chunk) for chunk in send.chunks)
        return tuple({self.passed_on[cell] for cell in cells if cell in self.passed_on})

    def _input(self, cell: Cell) -> Place:
        return Place(Buffer.INPUT, self.flow.own[cell])


def _endpoints(flow: Flow, channels: Sequence[int]) -> tuple[list[Endpoint], list[Endpoint]]:
    """Of each send its ends at sender and receiver; one object for all sends that share it."""
    known: dict[tuple[int, int, int], tuple[Endpoint, Endpoint]] = {}
    sending, receiving = [], []
    for send, channel in zip(flow.sends, channels, strict=True):
        key = (channel, send.src, send.dst)
        if key not in known:
            known[key] = Endpoint(channel, send.dst, True), Endpoint(channel, send.src, False)
        at_sender, at_receiver = known[key]
        sending.append(at_sender)
        receiving.append(at_receiver)
    return sending, receiving
