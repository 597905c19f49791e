"""Events and layouts become actions: sends, receives, additions and local copies at each rank.

What is there for every send is made as columns; what happens at arrivals next to that is the business of
`arrivals`. All of it is the same whatever channels the sends take, but for the places of copies to the output
and what sends wait for: so the rows are made once, and put in order for each choice of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

import numpy as np

from taccl.backend.lower import actions as act
from taccl.backend.lower.actions import Actions, Pairs, Place
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.arrivals import LocalRows, local_rows
from taccl.backend.lower.flow import Flow, first
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_work import LocalWork
from taccl.backend.lower.order import EventKind, Events
from taccl.backend.lower.turns import sends_before
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.numbering import by_value


@dataclass(slots=True)
class RankActions:
    """What one rank does, in order, and two sets of copies of its own data that may run anywhere.

    Parameters
    ----------
    actions : in order.
    early : (source, destination) of copies that others build on: they come first.
    late : of copies of own data that only the user is waiting for: they come last.
    input_shift : in place, input cell k is output cell k + this.
    """

    actions: Actions
    early: list[tuple[Place, Place]]
    late: list[tuple[Place, Place]]
    input_shift: int = 0

    def in_one_order(self, most_chunks: int) -> Actions:
        """All of it, with the copies first and last; `most_chunks` : that one action moves."""
        first, last = (
            act.local_copies(act.merge_runs(sorted(pairs, key=itemgetter(1)), most_chunks))
            for pairs in (self.early, self.late)
        )
        return first.then(self.actions).then(last)


@dataclass(frozen=True, eq=False)
class Expansion:
    """The actions of all ranks, for any channels: first all sends, then all receives, then what is local.

    Parameters
    ----------
    rank : of each row.
    event : number of the event that it is part of.
    put_off : whether it comes directly before the next receive on its endpoint instead, or last.
    is_sent : whether it runs where its send was sent from, not where it was received.
    rows : all ranks' actions; pairs are of rows, `held_back` whatever the channels are.
    after, turns : pairs of sends; the first waits for the second, or takes its turn after it, if they have
        different thread blocks.
    early, late, input_shift : of each rank, as in `RankActions`.
    """

    flow: Flow
    events: Events
    rank: IntArray
    event: IntArray
    put_off: BoolArray
    is_sent: BoolArray
    rows: Actions
    after: Pairs
    turns: Pairs
    early: list[list[tuple[Place, Place]]]
    late: list[list[tuple[Place, Place]]]

    def steps_by_send(self) -> IntArray:
        """For each send, its actions at the sender and at the receiver, shape (sends, 2)."""
        return count_by_send(self.rows.send, self.is_sent, np.ones(len(self.rows)), len(self.flow.sends))

    def by_rank(self, channels: IntArray) -> list[RankActions]:
        """The actions of every rank, with each send on the channel that is given for it."""
        columns, rows = self.flow.columns, self.rows
        sending = act.endpoint(channels, columns.dst, True)
        receiving = act.endpoint(channels, columns.src, False)
        endpoint = np.where(self.is_sent, sending[rows.send], receiving[rows.send])
        endpoint[rows.send < 0] = act.ANYWHERE
        event = self.event.copy()
        if self.put_off.any():
            event[self.put_off] = self._next_receives(receiving, rows.send[self.put_off])
        number_of_events = len(self.events.kind) + 2
        order = np.argsort(((self.rank * number_of_events + event + 1) << 1) + ~self.put_off, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        num_ranks = len(self.early)
        starts = np.searchsorted(self.rank[order], np.arange(num_ranks + 1))
        place -= starts[self.rank]
        waits, turns = (
            pairs[sending[pairs[:, 0]] != sending[pairs[:, 1]]] for pairs in (self.after, self.turns)
        )
        known, held_back, turns = (
            _of_ranks(place, self.rank, pairs, num_ranks)
            for pairs in (rows.known, np.concatenate([rows.held_back, waits]), turns)
        )
        sorted_rows = {name: getattr(rows, name)[order] for name in act.COLUMNS if name != "endpoint"}
        sorted_rows["endpoint"] = endpoint[order]
        shifts = self.flow.schedule.problem.collective.in_place_shift.tolist()
        return [
            RankActions(
                Actions(
                    **{name: column[begin:end] for name, column in sorted_rows.items()},
                    known=known[rank],
                    held_back=held_back[rank],
                    turns=turns[rank],
                ),
                self.early[rank],
                self.late[rank],
                shifts[rank],
            )
            for rank, (begin, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
        ]

    def _next_receives(self, receiving: IntArray, sends: IntArray) -> IntArray:
        """The event before which put off copies of these sends come."""
        columns, number = self.flow.columns, len(self.events.kind)
        lane = np.unique(columns.dst << 32 | receiving, return_inverse=True)[1] * (number + 1)
        receives = np.sort(lane + self.events.at[EventKind.RECEIVE])
        after = np.searchsorted(receives, lane[sends] + self.events.at[EventKind.ARRIVE][sends])
        found = receives[np.minimum(after, len(receives) - 1)] - lane[sends]
        is_there = (after < len(receives)) & (found < number)
        return np.where(is_there, found, number)


def count_by_send(send: IntArray, is_sent: BoolArray, steps: IntArray | FloatArray, sends: int) -> IntArray:
    """For each send, the steps of its rows at the sender and at the receiver, shape (sends, 2)."""
    ours = send >= 0
    counts = np.bincount(2 * send[ours] + ~is_sent[ours], weights=steps[ours], minlength=2 * sends)
    return counts.astype(np.int64).reshape(-1, 2)


def expand(
    flow: Flow,
    events: Events,
    layouts: Sequence[RankLayout],
    plan: dict[int, Adding],
    most_chunks: int,
    local: LocalWork | None = None,
) -> Expansion:
    """The actions of every rank.

    Parameters
    ----------
    most_chunks : that one step takes.
    local : what making the sums of gathered cells costs.
    """
    columns = flow.columns
    sends = len(columns)
    alongside = local_rows(flow, events, layouts, plan, most_chunks, local)
    index = np.arange(sends)
    source = _places(layouts, columns.src, "source")
    landing = _places(layouts, columns.dst, "landing")
    on_receipt = np.zeros(sends, dtype=np.bool_)
    on_receipt[[send for send, how in plan.items() if how is Adding.ON_RECEIPT]] = True
    nobody = np.full(2 * sends, -1, dtype=np.int64)
    both = Actions(
        op=np.concatenate(
            [np.full(sends, act.SEND), np.where(on_receipt, act.RECV_REDUCE_COPY, act.RECV)]
        ).astype(np.int64),
        src=np.concatenate([source, np.where(on_receipt, landing, source)]),
        dst=np.concatenate([landing, landing]),
        count=np.tile(columns.count, 2),
        send=np.tile(index, 2),
        endpoint=nobody,
        ready_us=np.concatenate(
            [columns.start_us, np.where(columns.count == 1, columns.end_us, columns.start_us)]
        ),
        done_us=np.concatenate([columns.sent_us, columns.end_us]),
        unit=nobody,
        known=_contributions(flow, events) + np.array([sends, 0]),
        held_back=act.NO_PAIRS,
        turns=act.NO_PAIRS,
    )
    early, late = _own_copies(flow, layouts)
    after, turns = sends_before(flow, events)
    return Expansion(
        flow=flow,
        events=events,
        rank=np.concatenate([columns.src, columns.dst, alongside.rank]),
        event=np.concatenate([events.at[EventKind.SEND], events.at[EventKind.RECEIVE], alongside.event]),
        put_off=np.concatenate([np.zeros(2 * sends, dtype=np.bool_), alongside.put_off]),
        is_sent=np.arange(2 * sends + len(alongside)) < sends,
        rows=both.then(alongside.actions).waiting_for(_held_by_receives(alongside, sends)),
        after=after,
        turns=turns,
        early=early,
        late=late,
    )


def _held_by_receives(alongside: LocalRows, sends: int) -> Pairs:
    return np.asarray(alongside.after_receives + np.array([2 * sends, sends]))


def _places(layouts: Sequence[RankLayout], ranks: IntArray, side: str) -> IntArray:
    """Of each send the place at the rank that is given for it."""
    tables = [getattr(layout, side) for layout in layouts]
    return np.fromiter((tables[rank][send] for send, rank in enumerate(ranks.tolist())), np.int64, len(ranks))


def _own_copies(
    flow: Flow, layouts: Sequence[RankLayout]
) -> tuple[list[list[tuple[Place, Place]]], list[list[tuple[Place, Place]]]]:
    """Early and late copies of every rank."""
    all_early, all_late = [], []
    own: list[set[int]] = [set() for _ in layouts]
    for rank, chunk in flow.own:
        own[rank].add(first(chunk))
    for rank, layout in enumerate(layouts):
        early: list[tuple[Place, Place]] = []
        late: list[tuple[Place, Place]] = []
        for value in [value for value in layout.home if value in own[rank]]:
            cell, home = (rank, flow.chunk_of(value)), layout.home[value]
            if cell in flow.added:
                if flow.fused:
                    early.append((act.INPUT + flow.own[cell], home))
                continue
            early += [(home, place) for place in layout.copies.get(value, ())]
            if value in layout.copied_out:
                late.append((home, layout.copied_out[value]))
        all_early.append(early)
        all_late.append(late)
    return all_early, all_late


def _contributions(flow: Flow, events: Events) -> Pairs:
    """Pairs of sends: one that brings a finished chunk, and what took the rank's contribution to it along.

    The finished sum can only come back after the contribution to it has left.
    """
    columns, number = flow.columns, len(events.kind) + 1
    if not columns.reduce.any():
        return act.NO_PAIRS
    send, chunk = columns.of_chunk, columns.chunk
    adds = columns.reduce[send]
    chunks = flow.schedule.problem.num_chunks
    taken = send[adds]
    left = (columns.src[taken] * chunks + chunk[adds]) * number + events.at[EventKind.SEND][taken]
    order = by_value(left)
    left, taken = left[order], taken[order]
    brought = send[~adds]
    cell = columns.dst[brought] * chunks + chunk[~adds]
    before = np.searchsorted(left, cell * number + events.at[EventKind.RECEIVE][brought]) - 1
    same = (before >= 0) & (left[before] // number == cell)
    return np.stack([brought[same], taken[before[same]]], axis=1)


def _of_ranks(place: IntArray, rank: IntArray, pairs: Pairs, num_ranks: int) -> list[Pairs]:
    """Pairs of rows as pairs of numbers at each rank."""
    whose = rank[pairs[:, 0]]
    order = by_value(whose)
    starts = np.searchsorted(whose[order], np.arange(num_ranks + 1)).tolist()
    pairs = place[pairs[order]]
    return [pairs[begin:end] for begin, end in pairwise(starts)]
