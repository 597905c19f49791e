"""Events and layouts become actions: sends, receives, additions and local copies at each rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from taccl.backend.lower.actions import Action, Lane, Place, merge_runs
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.flow import Flow, Transfer, first, is_first, second
from taccl.backend.lower.layout import RankLayout
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
) -> list[RankActions]:
    """The actions of every rank.

    Parameters
    ----------
    channels : the channel of each transfer.
    takes_turns : whether sends of different thread blocks go through a port in the schedule's order.
    most_chunks : that one step takes.
    """
    expansion = _Expansion(flow, layouts, plan, channels, fused, takes_turns, most_chunks)
    for rank in range(len(layouts)):
        expansion.own_copies(rank)
    for position, (kind, index) in enumerate(events):
        transfer = flow.transfers[index]
        if kind is Kind.SEND:
            expansion.send(transfer, position)
        elif kind is Kind.RECEIVE:
            expansion.receive(transfer, position)
        else:
            expansion.arrive(transfer, position)
    expansion.hand_over(len(events))
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
    ) -> None:
        self.flow, self.layouts, self.plan = flow, layouts, plan
        self.channels, self.fused = channels, fused
        self.takes_turns, self.most_chunks = takes_turns, most_chunks
        shift = flow.schedule.problem.collective.in_place_shift.tolist()
        self.ranks = [RankActions(input_shift=shift[rank]) for rank in range(len(layouts))]
        self.begun: set[Cell] = set()
        self.outstanding = {cell: len(indices) for cell, indices in flow.added.items()}
        self.adding_up = AddingUp(flow.sums)
        self.passed_on: dict[Cell, int] = {}  # the action that sent a rank's contribution
        #: copies to the output, which no one waits for: the next receive of their lane comes after them
        self.put_off: dict[tuple[int, Lane], tuple[Transfer, Pairs]] = {}
        self.last_send: dict[tuple[int, int], int] = {}  # by line, the action at its sender
        self.through: dict[tuple[int, int, int], int] = {}  # by rank, port and instance, the last send

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
            if value in layout.handed_over:
                mine.late.append((home, layout.handed_over[value]))

    def send(self, transfer: Transfer, position: int) -> None:
        actions = self.ranks[transfer.src].actions
        if transfer.reduce:
            for chunk in transfer.chunks:
                self.passed_on[transfer.src, chunk] = len(actions)
        self._add(transfer, transfer.src, Op.SEND, position, transfer.start_us, transfer.sent_us)
        actions[-1].held_back = tuple(self._goes_before(transfer, actions))
        self.last_send[transfer.line] = len(actions) - 1

    def _goes_before(self, transfer: Transfer, actions: Sequence[Action]) -> set[int]:
        """The sends of other thread blocks that must be done before the last action, which sends.

        Those are the one before it on its line, if that was cut, and those that its ports served
        before it. Sends that take no time may be in front of longer ones at one moment, so the one that
        is done last counts.
        """
        link, instance = transfer.line
        number = len(actions) - 1
        before = self.last_send.get(transfer.line)
        sends = set() if before is None else {before}
        for port in self.flow.schedule.problem.topology.ports[link] if self.takes_turns else ():
            key = (transfer.src, port, instance)
            before = self.through.setdefault(key, number)
            if actions[before].done_us <= transfer.start_us + TOLERANCE_US:
                sends.add(before)
            if actions[before].done_us <= actions[number].done_us:
                self.through[key] = number
        return {before for before in sends if actions[before].lane != actions[number].lane}

    def hand_over(self, position: int) -> None:
        """The copies to the output that are still put off."""
        for rank, lane in list(self.put_off):
            self._hand_over(rank, lane, position)

    def receive(self, transfer: Transfer, position: int) -> None:
        self._hand_over(transfer.dst, self._lane(transfer), position)
        ready = transfer.end_us if len(transfer.chunks) == 1 else transfer.start_us
        if self.plan.get(transfer.index) is Adding.ON_RECEIPT:
            accumulator = self.layouts[transfer.dst].landing[transfer.index]
            op = Op.RECV_REDUCE_COPY
            self._add(transfer, transfer.dst, op, position, ready, transfer.end_us, accumulator)
            return
        self._add(transfer, transfer.dst, Op.RECV, position, ready, transfer.end_us)
        if not transfer.reduce:
            # The finished sum can only come back after the contribution to it has left.
            self.ranks[transfer.dst].actions[-1].known = self._contributions(transfer)

    def arrive(self, transfer: Transfer, position: int) -> None:
        layout = self.layouts[transfer.dst]
        complete: list[int] = []
        if not transfer.reduce:
            complete = self._landed(transfer, position)
        else:
            if self.plan[transfer.index] is not Adding.ON_RECEIPT:
                self._add_up(transfer, position)
            for chunk in transfer.chunks:
                cell = (transfer.dst, chunk)
                self.outstanding[cell] -= 1
                if not self.outstanding[cell]:
                    complete.append(first(chunk))
        copies: Pairs = []
        handed_over: Pairs = []
        for value in complete:
            home = layout.home[value]
            copies += [(home, place) for place in layout.copies.get(value, ())]
            if value in layout.handed_over:
                handed_over.append((home, layout.handed_over[value]))
        self._local(transfer, position, Op.COPY, sorted(copies, key=lambda pair: pair[1]))
        if handed_over:
            self.put_off[transfer.dst, self._lane(transfer)] = (transfer, handed_over)

    def _landed(self, transfer: Transfer, position: int) -> list[int]:
        """Make the named sums that can be made now; returns the values that are complete."""
        landed, rank = self.flow.sums.landed, transfer.dst
        named = [landed[transfer.index, c] for c in transfer.chunks if (transfer.index, c) in landed]
        copied = [second(c) for c in transfer.chunks if (transfer.index, c) not in landed]
        waves, complete = self.adding_up.arrive(rank, named)
        for wave in waves:
            for op in (Op.COPY, Op.REDUCE):
                pairs = [(self._at(rank, src), self._at(rank, dst)) for each, src, dst in wave if each is op]
                self._local(transfer, position, op, pairs)
        return copied + complete

    def _at(self, rank: int, value: int) -> Place:
        return self.layouts[rank].home[value]

    def _add_up(self, transfer: Transfer, position: int) -> None:
        layout = self.layouts[transfer.dst]
        landing = layout.landing[transfer.index]
        is_first = self.plan[transfer.index] is Adding.FIRST
        copies: Pairs = []
        additions: Pairs = []
        for index, chunk in enumerate(transfer.chunks):
            cell = (transfer.dst, chunk)
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
        self._local(transfer, position, Op.COPY, copies)
        self._local(transfer, position, Op.REDUCE, additions)

    def _add(
        self,
        transfer: Transfer,
        rank: int,
        op: Op,
        position: int,
        ready_us: float,
        done_us: float,
        src: Place | None = None,
    ) -> None:
        peer = transfer.dst if rank == transfer.src else transfer.src
        self.ranks[rank].actions.append(
            Action(
                op=op,
                src=src or self.layouts[transfer.src].source[transfer.index],
                dst=self.layouts[transfer.dst].landing[transfer.index],
                count=len(transfer.chunks),
                position=position,
                transfer=transfer.index,
                lane=Lane(self.channels[transfer.index], peer, rank == transfer.src),
                ready_us=ready_us,
                done_us=done_us,
            )
        )

    def _hand_over(self, rank: int, lane: Lane, position: int) -> None:
        """Copy to the output what arrived last on a lane, now that whoever had to send it on has."""
        if (rank, lane) not in self.put_off:
            return
        transfer, pairs = self.put_off.pop((rank, lane))
        start = len(self.ranks[rank].actions)
        self._local(transfer, position, Op.COPY, pairs)
        for action in self.ranks[rank].actions[start:]:
            action.ready_us = math.inf

    def _lane(self, transfer: Transfer) -> Lane:
        return Lane(self.channels[transfer.index], transfer.src, False)

    def _local(self, transfer: Transfer, position: int, op: Op, pairs: Iterable[tuple[Place, Place]]) -> None:
        lane = self._lane(transfer)
        when = transfer.end_us
        self.ranks[transfer.dst].actions += [
            Action(op, src, dst, count, position, transfer.index, lane, when, when)
            for src, dst, count in merge_runs(pairs, self.most_chunks)
        ]

    def _contributions(self, transfer: Transfer) -> tuple[int, ...]:
        cells = ((transfer.dst, chunk) for chunk in transfer.chunks)
        return tuple({self.passed_on[cell] for cell in cells if cell in self.passed_on})

    def _input(self, cell: Cell) -> Place:
        return Place(Buffer.INPUT, self.flow.own[cell])
