"""What a rank does by itself when something has arrived: additions and local copies.

It knows what lands where and what is added to what. The steps that send and receive are the business of
`expand`; most arrivals of most schedules need nothing next to them, and are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from taccl.backend.lower import actions as act
from taccl.backend.lower.actions import Actions, Pairs, Place, local_copies, merge_runs
from taccl.backend.lower.additions import Adding
from taccl.backend.lower.flow import Flow, Send, first, second
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.local_work import LocalWork, SumUnit, sum_units
from taccl.backend.lower.made_sums import AddingUp, Cell
from taccl.backend.lower.order import Events, Kind
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
    order = np.flatnonzero(events.kind == Kind.ARRIVE)
    order = order[wanted[events.index[order]]]
    for event, index in zip(order.tolist(), events.index[order].tolist(), strict=True):
        arrivals.arrive(flow.sends[index], event)
    return arrivals.rows()


@dataclass(slots=True)
class _Rows:
    """Rows in the making, a list for each column."""

    rank: list[int] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    put_off: list[bool] = field(default_factory=list)
    op: list[int] = field(default_factory=list)
    run: list[tuple[Place, Place, int]] = field(default_factory=list)
    send: list[int] = field(default_factory=list)
    when_us: list[float] = field(default_factory=list)
    unit: list[int] = field(default_factory=list)

    def add(
        self,
        *where: int,
        op: int,
        run: tuple[Place, Place, int],
        send: int,
        when_us: float,
        unit: int = -1,
        put_off: bool = False,
    ) -> None:
        """One row; `where` : rank and event."""
        rank, event = where
        self.rank.append(rank)
        self.event.append(event)
        self.put_off.append(put_off)
        self.op.append(op)
        self.run.append(run)
        self.send.append(send)
        self.when_us.append(when_us)
        self.unit.append(unit)


class _Arrivals:
    def __init__(
        self,
        flow: Flow,
        layouts: Sequence[RankLayout],
        plan: dict[int, Adding],
        most_chunks: int,
    ) -> None:
        self.flow, self.layouts, self.plan, self.most_chunks = flow, layouts, plan, most_chunks
        self.made = _Rows()
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
            run = (unit.own, unit.home, unit.count)
            self.made.add(rank, -1, op=act.COPY, run=run, send=-1, when_us=0.0, unit=unit.number)
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
        made = self.made
        put_off, when_us = np.array(made.put_off, dtype=np.bool_), np.array(made.when_us, dtype=np.float64)
        return LocalRows(
            rank=np.array(made.rank, dtype=np.int64),
            event=np.array(made.event, dtype=np.int64),
            put_off=put_off,
            actions=replace(
                local_copies(made.run),
                op=np.array(made.op, dtype=np.int64),
                send=np.array(made.send, dtype=np.int64),
                ready_us=np.where(put_off, np.inf, when_us),
                done_us=when_us,
                unit=np.array(made.unit, dtype=np.int64),
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
                run = len(self.made.rank)
                self.after_receives += [(run, received) for _, received in unit.waiting]
                for place, _ in unit.waiting:
                    self.made.add(
                        *(send.dst, event),
                        op=act.REDUCE,
                        run=(place, unit.home, unit.count),
                        send=-1,
                        when_us=send.end_us,
                        unit=unit.number,
                    )
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
            self.made.add(
                send.dst, event, op=op, run=run, send=send.index, when_us=send.end_us, put_off=put_off
            )

    def _input(self, cell: Cell) -> Place:
        return act.INPUT + self.flow.own[cell]
