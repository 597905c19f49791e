"""What a rank does by itself when something has arrived: additions and local copies.

`expand` makes the steps that send and receive. Most arrivals of most schedules need nothing next to them, and
are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from taccl.backend.lower import actions as act
from taccl.backend.lower.actions import Actions, Pairs, Place, merge_runs
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.flow import Flow, Send, first, second
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_work import LocalWork, SumUnit, sum_units
from taccl.backend.lower.made_sums import AddingUp, Cell
from taccl.backend.lower.order import EventKind, Events
from taccl.backend.program import Op
from taccl.model.collective import BoolArray, IntArray

#: (source, destination) cells of local copies
_CellPairs = list[tuple[Place, Place]]


@dataclass(frozen=True, eq=False)
class LocalRows:
    """Local actions of all ranks, in the order of those of each event.

    Parameters
    ----------
    rank : of each row.
    event : number of the event that it is part of; -1 for what comes before all.
    put_off : copies to the output, which no one waits for: they come directly before the next receive on
        their endpoint, so that whoever has to send on what arrived has done it.
    actions : the rows.
    after_receives : pairs of a row and a send; the row waits for the step that received it.
    """

    rank: IntArray
    event: IntArray
    put_off: BoolArray
    actions: Actions
    after_receives: Pairs

    def __len__(self) -> int:
        return len(self.rank)


def local_rows(
    flow: Flow,
    events: Events,
    layouts: Sequence[RankLayout],
    plan: dict[int, Adding],
    most_chunks: int,
    local: LocalWork | None,
) -> LocalRows:
    """All of them; parameters as of `expand`."""
    arrivals = _Arrivals(flow, layouts, plan, most_chunks)
    for rank, layout in enumerate(layouts if local is not None else ()):
        assert local is not None  # for the type checker
        arrivals.begin_sums(rank, sum_units(flow, rank, layout, local, most_chunks), local)
    wanted = arrivals.wanted()
    order = np.flatnonzero(events.kind == EventKind.ARRIVE)
    order = order[wanted[events.index[order]]]
    for event, index in zip(order.tolist(), events.index[order].tolist(), strict=True):
        arrivals.arrive(flow.sends[index], event)
    return arrivals.rows()


@dataclass(frozen=True, slots=True)
class _Row:
    """One local action in the making: where and when, what it does, and for which send or sum unit."""

    rank: int
    event: int
    op: int
    src: Place
    dst: Place
    count: int
    send: int
    when_us: float
    unit: int = -1
    put_off: bool = False


#: Of columns of rows; the others are whole numbers.
_DTYPES: dict[str, DTypeLike] = {"when_us": np.float64, "put_off": np.bool_}


class _Arrivals:
    def __init__(
        self,
        flow: Flow,
        layouts: Sequence[RankLayout],
        plan: dict[int, Adding],
        most_chunks: int,
    ) -> None:
        self.flow, self.layouts, self.plan, self.most_chunks = flow, layouts, plan, most_chunks
        self.made: list[_Row] = []
        self.after_receives: list[tuple[int, int]] = []
        self.begun: set[Cell] = {cell for cell in flow.added if cell in flow.own} if flow.fused else set()
        self.outstanding = {cell: len(indices) for cell, indices in flow.added.items()}
        named = {(cell[0], flow.sum_value(cell)) for cell in flow.gathered if cell not in flow.added}
        self.adding_up = AddingUp(flow.sums, named)
        self.local: LocalWork | None = None
        self.units: dict[int, list[SumUnit]] = {}  # by send, the units that it brings something to

    def begin_sums(self, rank: int, units: Sequence[SumUnit], local: LocalWork) -> None:
        """Copy the rank's own data to where they are added to."""
        self.local = local
        for unit in units:
            self.made.append(_Row(rank, -1, act.COPY, unit.own, unit.home, unit.count, -1, 0.0, unit.number))
            self.begun.update((rank, chunk) for chunk in unit.chunks)
            for send in unit.landing:
                self.units.setdefault(send, []).append(unit)

    def wanted(self) -> BoolArray:
        """Of each send, whether something is to be done at its arrival."""
        columns, sums = self.flow.columns, self.flow.sums
        wanted: BoolArray = columns.reduce.copy()
        wanted[[send for send, _ in sums.landed]] = True
        wanted[list(self.units)] = True
        moved = np.array(
            [
                (rank, self.flow.chunk_of(value))
                for rank, layout in enumerate(self.layouts)
                for value in (*layout.copied_out, *layout.copies)
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        chunks = self.flow.schedule.problem.num_chunks
        cells = columns.dst[columns.of_chunk] * chunks + columns.chunk
        wanted[columns.of_chunk[np.isin(cells, moved[:, 0] * chunks + moved[:, 1])]] = True
        return wanted

    def rows(self) -> LocalRows:
        """All that was made."""
        columns: dict[str, NDArray[Any]] = {
            each.name: np.array(
                [getattr(row, each.name) for row in self.made], dtype=_DTYPES.get(each.name, np.int64)
            )
            for each in fields(_Row)
        }
        rank, event, put_off, when_us = (
            columns.pop(name) for name in ("rank", "event", "put_off", "when_us")
        )
        return LocalRows(
            rank=rank,
            event=event,
            put_off=put_off,
            actions=Actions(
                **columns,
                endpoint=np.full(len(rank), act.ANYWHERE),
                ready_us=np.where(put_off, np.inf, when_us),
                done_us=when_us,
                known=act.NO_PAIRS,
                held_back=act.NO_PAIRS,
                turns=act.NO_PAIRS,
            ),
            after_receives=np.array(self.after_receives, dtype=np.int64).reshape(-1, 2),
        )

    def arrive(self, send: Send, event: int) -> None:
        layout = self.layouts[send.dst]
        complete: list[int] = []
        if not send.reduce:
            complete = self._landed(send, event)
        else:
            if self.plan[send.index] is not Adding.ON_RECEIPT:
                self._add_up(send, event)
            for chunk in send.chunks:
                cell = (send.dst, chunk)
                self.outstanding[cell] -= 1
                if not self.outstanding[cell]:
                    complete.append(first(chunk))
        copies: _CellPairs = []
        copied_out: _CellPairs = []
        for value in complete:
            home = layout.home[value]
            copies += [(home, place) for place in layout.copies.get(value, ())]
            if value in layout.copied_out:
                copied_out.append((home, layout.copied_out[value]))
        if copies:
            self._local(send, event, act.COPY, sorted(copies, key=lambda pair: pair[1]))
        if copied_out:
            self._local(send, event, act.COPY, copied_out, put_off=True)

    def _landed(self, send: Send, event: int) -> list[int]:
        """Make the named sums that can be made now; returns the values that are complete."""
        landed, rank = self.flow.sums.landed, send.dst
        named = [landed[send.index, c] for c in send.chunks if (send.index, c) in landed]
        copied = [second(c) for c in send.chunks if (send.index, c) not in landed]
        self._add_to_units(send, event)
        waves, complete = self.adding_up.arrive(rank, named)
        home = self.layouts[rank].home
        for wave in waves:
            for op in (Op.COPY, Op.REDUCE):
                pairs = [(home[src], home[dst]) for each, src, dst in wave if each is op]
                self._local(send, event, act.OP_CODE[op], pairs)
        return copied + complete

    def _add_up(self, send: Send, event: int) -> None:
        layout = self.layouts[send.dst]
        landing = layout.landing[send.index]
        is_first = self.plan[send.index] is Adding.FIRST
        in_units = self._add_to_units(send, event)
        copies: _CellPairs = []
        additions: _CellPairs = []
        for index, chunk in enumerate(send.chunks):
            if chunk in in_units:
                continue
            cell = (send.dst, chunk)
            landed, accumulator = landing + index, layout.home[first(chunk)]
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
        self._local(send, event, act.COPY, copies)
        self._local(send, event, act.REDUCE, additions)

    def _add_to_units(self, send: Send, event: int) -> set[int]:
        """Add what has landed to the sums that are due; the chunks of all sums that it belongs to."""
        chunks: set[int] = set()
        for unit in self.units.get(send.index, ()):
            assert self.local is not None  # for the type checker: there are units
            chunks.update(unit.chunks)
            unit.arrived += 1
            unit.waiting.append((unit.landing[send.index], send.index))
            if unit.is_due(send.end_us, self.local):
                # All waits stand before the run: what the runtimes merge waits once, at its beginning.
                run = len(self.made)
                self.after_receives += [(run, received) for _, received in unit.waiting]
                for place, _ in unit.waiting:
                    run_of = (place, unit.home, unit.count)
                    self.made.append(_Row(send.dst, event, act.REDUCE, *run_of, -1, send.end_us, unit.number))
                unit.waiting = []
        return chunks

    def _local(
        self,
        send: Send,
        event: int,
        op: int,
        pairs: Iterable[tuple[Place, Place]],
        put_off: bool = False,
    ) -> None:
        for run in merge_runs(pairs, self.most_chunks):
            self.made.append(_Row(send.dst, event, op, *run, send.index, send.end_us, put_off=put_off))

    def _input(self, cell: Cell) -> Place:
        return act.INPUT + self.flow.own[cell]
