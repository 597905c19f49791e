"""Where every value lies at every rank, so that each group is consecutive at both of its ends.

A group of several chunks is one send step and one receive step, so its values must lie side by side,
in one order, at the sender and at the receiver. For each such set a rank offers, in this order: its
input, if the values are its own and lie so there; its output, if that is where they end up and they
lie so there; else a track of scratch (see `tracks`). What then is needed in more than one place is
copied as soon as it is complete. A single chunk goes straight to where it is needed.

Scratch is never used twice, so nothing there is ever overwritten too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from taccl.backend.lower.actions import INPUT, OUTPUT, SCRATCH, Place
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.flow import Flow, Send, first, is_first, second
from taccl.backend.lower.made_sums import Cell
from taccl.backend.lower.order import Events
from taccl.backend.lower.tracks import Tracks
from taccl.model.collective import Collective, IntArray

_Value = TypeVar("_Value")


@dataclass(slots=True)
class RankLayout:
    """Where the values of one rank are.

    Parameters
    ----------
    home : the place where a value first is complete.
    copies : the other places from which it is sent.
    copied_out : its place in the output, where it is neither at home nor sent from.
    landing, source : per incoming (outgoing) send, the first of its cells.
    scratch_chunks : the size of scratch.
    """

    home: dict[int, Place] = field(default_factory=dict)
    copies: dict[int, list[Place]] = field(default_factory=dict)
    copied_out: dict[int, Place] = field(default_factory=dict)
    landing: dict[int, Place] = field(default_factory=dict)
    source: dict[int, Place] = field(default_factory=dict)
    scratch_chunks: int = 0

    @property
    def cost(self) -> int:
        """Cells that are copied."""
        return sum(map(len, self.copies.values())) + len(self.copied_out)

    def add_copies(self, values: Sequence[int], places: Sequence[Place]) -> None:
        """Values are also sent from these places; the input, where nothing is written, needs no copy."""
        home = self.home
        for value, place in zip(values, places, strict=True):
            if place >= OUTPUT and place != home[value]:
                copies = self.copies.setdefault(value, [])
                if place not in copies:
                    copies.append(place)


def chunk_orders(collective: Collective) -> list[IntArray]:
    """Orders of the chunks worth trying, each as the position of every chunk.

    By number (for the standard collectives: by source), by place in the output of the first rank that
    wants them, and by place in the input of the first rank that has them. They differ for AlltoAll,
    where a relay that gathers by source and hands out by destination favours one or the other.
    """
    orders = [np.arange(collective.num_chunks)]
    for placement in (collective.outputs, collective.inputs):
        rank = np.full(collective.num_chunks, collective.num_ranks)
        np.minimum.at(rank, placement.chunk, placement.rank)
        at_first = placement.rank == rank[placement.chunk]
        offset = np.zeros(collective.num_chunks, dtype=np.int64)
        offset[placement.chunk[at_first]] = placement.offset[at_first]
        position = np.argsort(np.lexsort((offset, rank)))
        if not any((position == known).all() for known in orders):
            orders.append(position)
    return orders


def lay_out(flow: Flow, events: Events, plan: dict[int, Adding]) -> list[RankLayout]:
    """The layout of every rank.

    Where a group cannot be added up on receipt because its accumulators do not lie side by side, its
    entry of `plan` becomes `Adding.APART`.
    """
    num_ranks = flow.schedule.problem.num_ranks
    incoming: list[list[Send]] = [[] for _ in range(num_ranks)]
    outgoing: list[list[Send]] = [[] for _ in range(num_ranks)]
    for index in events.sends.tolist():
        send = flow.sends[index]
        incoming[send.dst].append(send)
        outgoing[send.src].append(send)
    own, wanted = _at_ranks(flow.own, num_ranks), _at_ranks(flow.wanted, num_ranks)
    added, copied = _at_ranks(flow.added, num_ranks), _at_ranks(flow.copied, num_ranks)
    made: list[list[int]] = [[] for _ in range(num_ranks)]
    for rank, value in flow.sums.made:
        made[rank].append(value)
    return [
        _RankPlanner(
            flow, _RankCells(rank, own[rank], wanted[rank], added[rank], copied[rank], made[rank]), plan
        ).lay_out(incoming[rank], outgoing[rank])
        for rank in range(num_ranks)
    ]


@dataclass(frozen=True, slots=True)
class _RankCells:
    """What `Flow` has by (rank, chunk), of one rank by chunk; and the values of its sums with names."""

    rank: int
    own: dict[int, int]
    wanted: dict[int, int]
    added: dict[int, list[int]]
    copied: dict[int, int]
    made: list[int]


def _at_ranks(cells: Mapping[Cell, _Value], num_ranks: int) -> list[dict[int, _Value]]:
    by_rank: list[dict[int, _Value]] = [{} for _ in range(num_ranks)]
    for (rank, chunk), value in cells.items():
        by_rank[rank][chunk] = value
    return by_rank


#: The cells of a set: a fixed place, the shared tracks (None), or ~number of a private track.
_Area: TypeAlias = int | None


@dataclass(frozen=True, slots=True)
class _Set:
    """The values of a send; none if it lands in cells of its own, which hold nothing for long."""

    send: Send
    values: list[int]
    area: _Area


class _RankPlanner:
    """The layout of one rank in the making."""

    def __init__(self, flow: Flow, cells: _RankCells, plan: dict[int, Adding]) -> None:
        self.flow, self.rank, self.plan = flow, cells.rank, plan
        self.cells = cells
        self.has_names = bool(flow.sums.sent or flow.sums.final)
        self.tracks = Tracks()

    def lay_out(self, incoming: Sequence[Send], outgoing: Sequence[Send]) -> RankLayout:
        arriving = [self._arriving(send) for send in incoming]
        leaving = [self._leaving(send) for send in outgoing if len(send.chunks) > 1]
        homes = self._fix_homes(arriving)
        starts = self.tracks.offsets()
        shared = {value: SCRATCH + starts[at] + index for value, (at, index) in self.tracks.shared.items()}

        def cells(each: _Set) -> Sequence[Place]:
            if each.area is None:
                return [shared[value] for value in each.values]
            start = each.area if each.area >= 0 else SCRATCH + starts[~each.area]
            return range(start, start + len(each.send.chunks))

        layout = RankLayout(scratch_chunks=starts[-1])
        for value, place in homes.items():
            layout.home[value] = shared[value] if place is None else place
        groups = [(each, cells(each)) for each in arriving if len(each.values) != 1]
        for each, places in groups:
            if each.values:
                layout.home.update(zip(each.values, places, strict=True))
            layout.landing[each.send.index] = places[0]
        for each in arriving:
            if len(each.values) == 1:
                layout.landing[each.send.index] = layout.home[each.values[0]]
        for send in outgoing:
            if len(send.chunks) == 1:
                layout.source[send.index] = layout.home[self._sent_value(send, send.chunks[0])]
        left = [(each, cells(each)) for each in leaving]
        for each, places in left:
            layout.source[each.send.index] = places[0]
        for each, places in (*left, *groups):
            if each.values:
                layout.add_copies(each.values, places)
        self._copy_out(layout)
        return layout

    def _arriving(self, send: Send) -> _Set:
        size = len(send.chunks)
        if not send.reduce:
            if size == 1 and not self.has_names:
                return _Set(send, [second(send.chunks[0])], None)
            values = [self.flow.landed_value(send, chunk) for chunk in send.chunks]
            return _Set(send, values, self._area(values) if size > 1 else None)
        adding = self.plan[send.index]
        values = [first(chunk) for chunk in send.chunks]
        if adding is Adding.APART:
            return _Set(send, [], ~self.tracks.reserve(size))
        if size == 1:
            return _Set(send, values, None)
        if adding is Adding.FIRST:
            return _Set(send, values, self._area(values))
        area = self._accumulators_area(values)
        if area is not None and area < 0:
            self.plan[send.index] = Adding.APART
            return _Set(send, [], area)
        return _Set(send, values, area)

    def _leaving(self, send: Send) -> _Set:
        values = [self._sent_value(send, chunk) for chunk in send.chunks]
        return _Set(send, values, self._area(values))

    def _sent_value(self, send: Send, chunk: int) -> int:
        """As `Flow.sent_value`."""
        if self.has_names:
            return self.flow.sent_value(send, chunk)
        return first(chunk) if send.reduce or chunk not in self.cells.copied else second(chunk)

    def _final_value(self, chunk: int) -> int:
        """As `Flow.final_value`."""
        if self.has_names:
            return self.flow.final_value(self.rank, chunk)
        return second(chunk) if chunk in self.cells.copied else first(chunk)

    def _accumulators_area(self, values: Sequence[int]) -> _Area:
        """Where accumulators that fused steps add to lie side by side; a private track if nowhere."""
        wanted = [self.cells.wanted.get(self.flow.chunk_of(value)) for value in values]
        if all(offset is None for offset in wanted):
            return _private(self.tracks.place(values))
        start = _side_by_side(wanted.__getitem__, range(len(wanted)))
        if start is not None:
            return OUTPUT + start
        return ~self.tracks.reserve(len(values))

    def _area(self, values: Sequence[int]) -> _Area:
        own = _side_by_side(self._input_offset, values)
        if own is not None:
            return INPUT + own
        only_sums = all(self._is_accumulator(value) for value in values)
        if self.flow.fused or not only_sums or all(self._begins_as_copy(value) for value in values):
            output = _side_by_side(self._output_offset, values)
            if output is not None:
                return OUTPUT + output
        return _private(self.tracks.place(values))

    def _fix_homes(self, arriving: Sequence[_Set]) -> dict[int, Place | None]:
        """Homes of values that do not arrive in a group; None for a place in the shared tracks."""
        in_groups = {value for each in arriving if len(each.values) > 1 for value in each.values}
        values = [first(chunk) for chunk in self.cells.own]
        for each in arriving:
            values += each.values or [first(chunk) for chunk in each.send.chunks]
        values += self.cells.made
        homes: dict[int, Place | None] = {}
        for value in values:
            if value not in in_groups and value not in homes:
                homes[value] = self._home(value)
                if homes[value] is None:
                    self.tracks.add(value)
        return homes

    def _home(self, value: int) -> Place | None:
        own = self._input_offset(value)
        if own is not None:
            return INPUT + own
        output = self._output_offset(value)
        if self._is_accumulator(value):
            fixed = self._begins_as_copy(value)
            return OUTPUT + output if fixed and output is not None else None
        if value in self.tracks.shared or output is None:
            return None
        return OUTPUT + output

    def _copy_out(self, layout: RankLayout) -> None:
        """Values that are wanted in the output and do not lie there yet."""
        for value, home in layout.home.items():
            chunk = self.flow.chunk_of(value)
            offset = self.cells.wanted.get(chunk)
            if offset is None or self._final_value(chunk) != value:
                continue
            place = OUTPUT + offset
            if place != home and place not in layout.copies.get(value, ()):
                layout.copied_out[value] = place

    def _is_accumulator(self, value: int) -> bool:
        return is_first(value) and self.flow.chunk_of(value) in self.cells.added

    def _begins_as_copy(self, value: int) -> bool:
        """Whether a sum begins as a copy of the rank's own data, so that it may grow in the output."""
        cell = (self.rank, self.flow.chunk_of(value))
        return (self.flow.fused and cell in self.flow.own) or cell in self.flow.gathered

    def _input_offset(self, value: int) -> int | None:
        """Where a value is in the input; None for one that is received or added up."""
        if not is_first(value) or self._is_accumulator(value):
            return None
        return self.cells.own.get(self.flow.chunk_of(value))

    def _output_offset(self, value: int) -> int | None:
        """Where a value may lie in the output: where it ends up, or is added up by fused steps."""
        chunk = self.flow.chunk_of(value)
        if (
            self.has_names
            and (self.rank, value) in self.flow.sums.made
            and (
                (self.rank, chunk) not in self.flow.gathered
                or self.flow.sum_value((self.rank, chunk)) != value
            )
        ):
            return None  # in place it would overwrite the input before the sum is complete
        may = self._final_value(chunk) == value or (
            self.flow.fused and self._is_accumulator(value) and chunk in self.cells.own
        )
        return self.cells.wanted.get(chunk) if may else None


def _private(track: int | None) -> _Area:
    return None if track is None else ~track


def _side_by_side(offset_of: Callable[[int], int | None], values: Sequence[int]) -> int | None:
    """Where values begin that lie side by side in their order; None if they do not."""
    start = offset_of(values[0])
    if start is None or any(offset_of(value) != start + place for place, value in enumerate(values)):
        return None
    return start
