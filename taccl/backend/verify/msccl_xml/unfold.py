"""Executed steps as acts of the machine, what they move in place and out of place, and who calls them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taccl.backend.machine.acts import Acts, Kind, Moves, Names, Role, Stuck
from taccl.backend.machine.expected import Expectation
from taccl.backend.machine.layout import INPUT, OUTPUT, Layout
from taccl.backend.machine.report import Collector, Location
from taccl.backend.program import Op, Program
from taccl.backend.step_rows import BUFFERS
from taccl.backend.verify.msccl_xml.columns import OP_CODE, READS_SOURCE, WRITES_TARGET, Columns
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import MSCCL, Runtime
from taccl.model.collective import IntArray
from taccl.model.schedule.numbering import by_value

Mode = Literal["in place", "out of place"]


def unfold_acts(executed: ExecutedSteps, connections: Connections) -> Acts:
    """An AWAIT for each wait of a step, those that never end first, and a MOVE for the step itself.

    Every connection is a counter: a run says how many pieces one holds. Operations are executed steps.
    """
    number = len(executed)
    starts, awaited = executed.flat_waits
    never = np.array([step for step, _ in executed.never], dtype=np.int64)
    waits = np.diff(starts)
    never_of = np.bincount(never, minlength=number)
    rows = 1 + waits + never_of
    end = np.cumsum(rows)
    kind = np.full(int(rows.sum()), int(Kind.AWAIT), dtype=np.int8)
    kind[end - 1] = Kind.MOVE
    step = np.repeat(np.arange(number, dtype=np.int32), rows)
    awaits = np.full(len(kind), -1, dtype=np.int32)
    owner = np.repeat(np.arange(number), waits)
    nth = np.arange(len(awaited)) - starts[owner]
    awaits[(end - 1 - waits)[owner] + nth] = end[awaited] - 1
    takes, gives = np.full(len(kind), -1, dtype=np.int32), np.full(len(kind), -1, dtype=np.int32)
    takes[end - 1], gives[end - 1] = connections.receives_on, connections.sends_on
    amount = np.ones(len(kind), dtype=np.int32)
    amount[end - 1] = executed.columns.count[executed.step]
    nothing = np.zeros(len(kind), dtype=np.int8)
    return Acts(
        first_of_block=np.append(0, end)[executed.first_of_block],
        rank=executed.columns.block_rank,
        initial=np.zeros(len(connections.keys), dtype=np.int64),
        kind=kind,
        block=executed.block[step].astype(np.int32),
        operation=step,
        lane=nothing,
        end=nothing - 1,
        takes=takes,
        gives=gives,
        awaits=awaits,
        amount=amount,
        flags=nothing,
    )


def unfold_moves(executed: ExecutedSteps, connections: Connections, acts: Acts, layout: Layout) -> Moves:
    """What the steps move; the chunks of every send travel in slots of their own, behind all buffers.

    The sources come first: what a `re` adds to, what was merged into it, a step's own source, what it
    receives; then its target, and what it sends.
    """
    columns, steps = executed.columns, executed.step
    op, count = columns.op[steps], columns.count[steps].clip(min=0)
    own, target = places_of(executed, layout)
    sends, receives = executed.sends, executed.receives
    slot = layout.num_cells + np.cumsum(count * sends) - count * sends
    merged = np.array(
        [(step, row) for step, rows in executed.sources.items() for row in rows[:-1]], dtype=np.int64
    ).reshape(-1, 2)
    number = np.arange(len(executed))
    read = np.zeros(len(executed), dtype=np.int64)
    written = np.where(columns.dst[steps] == INPUT, Role.INPUT, 0) + Role.TARGET
    parts = [
        (number[op == OP_CODE[Op.REDUCE]], target, read),
        (merged[:, 0], None, read),
        (number[READS_SOURCE[op]], own, read),
        (number[receives], slot[connections.source], read),
        (number[WRITES_TARGET[op]], target, written),
        (number[sends], slot, read + Role.TARGET),
    ]
    operands = sum(np.bincount(rows, minlength=len(executed)) for rows, _, _ in parts)
    first_operand = np.concatenate([[0], np.cumsum(operands)])
    cell = np.zeros(first_operand[-1], dtype=np.int32)
    role = np.zeros(first_operand[-1], dtype=np.int8)
    at = first_operand[:-1].copy()
    for rows, cells, roles in parts:
        if cells is None:
            base = layout.base[executed.rank[rows], columns.src[merged[:, 1]]]
            order = by_value(rows)
            counts = np.bincount(rows, minlength=len(executed))
            nth = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows[order]]
            cell[at[rows[order]] + nth] = (base + columns.src_offset[merged[:, 1]])[order]
            at += counts
        else:
            cell[at[rows]], role[at[rows]] = cells[rows], roles[rows]
            at[rows] += 1
    first_of_act = np.concatenate([[0], np.cumsum(acts.kind == Kind.MOVE)])
    return Moves(first_of_act, count, first_operand, cell, cell, role)


def places_of(executed: ExecutedSteps, layout: Layout) -> tuple[IntArray, IntArray]:
    """The first cell of the source and of the target of every executed step."""
    columns, steps, rank = executed.columns, executed.step, executed.rank
    source = layout.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = layout.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    return source, target


@dataclass(frozen=True, eq=False)
class StepNames(Names):
    """Executed steps, and the connections that are their counters."""

    executed: ExecutedSteps
    connections: Connections
    acts: Acts

    def how_to_order(self) -> str:
        return f'{super().how_to_order()} (depid, deps; hasdep="1" there)'

    def act(self, act: int) -> str:
        return self.executed.name(int(self.acts.operation[act]))

    def act_and_line(self, act: int) -> str:
        line = int(self.executed.columns.line[self._row(act)])
        return self.act(act) + (f" (line {line})" if line else "")

    def _row(self, act: int) -> int:
        return int(self.executed.step[self.acts.operation[act]])

    def counter(self, counter: int) -> str:
        return self.connections.name(counter)

    def wait(self, stuck: Stuck) -> str:
        if stuck.counter >= 0:
            return f"waits for {'room' if stuck.for_room else 'data'} on {self.counter(stuck.counter)}"
        if stuck.awaits >= 0:
            return f"waits for {self.act(stuck.awaits)} to be done"
        return "waits for a flag that is never raised"

    def place(self, act: int) -> tuple[int, ...]:
        return (int(self.acts.operation[act]),)

    def location(self, act: int) -> Location:
        return self.executed.columns.location_of_step(self._row(act))


def layout_of(columns: Columns, expectation: Expectation | None, mode: Mode) -> Layout:
    """Where the buffers lie in calls of a mode."""
    size = buffer_sizes(columns, expectation)
    shift = np.zeros(len(size), dtype=np.int64)
    if expectation is not None:
        shift = expectation.in_place_shift
    return Layout.of(size, shift if mode == "in place" else None)


def buffer_sizes(columns: Columns, expectation: Expectation | None) -> IntArray:
    """Chunks in input, output and scratch of every rank, shape (num_ranks, 3).

    What the collective says about input and output; what the file declares where it says nothing.
    """
    program = columns.program
    size = np.array(
        [(rank.input_chunks, rank.output_chunks, rank.scratch_chunks) for rank in program.ranks],
        dtype=np.int64,
    ).reshape(-1, 3)
    if expectation is not None:
        size[:, INPUT], size[:, OUTPUT] = expectation.input_size, expectation.output_size
    return size.clip(min=0)


def check_bounds(columns: Columns, expectation: Expectation | None, collector: Collector) -> None:
    """Every chunk that a step touches lies inside its buffer; anything else is fatal."""
    size = buffer_sizes(columns, expectation)
    rank = columns.block_rank[columns.step_block]
    for used, buffer, offset, verb in (
        (READS_SOURCE, columns.src, columns.src_offset, "reads"),
        (WRITES_TARGET, columns.dst, columns.dst_offset, "writes"),
    ):
        room = size[rank, buffer]
        outside = used[columns.op] & ((offset < 0) | (offset + columns.count > room))
        for step in np.flatnonzero(outside):
            name, count = BUFFERS[buffer[step]].value, columns.count[step]
            held = "no chunk" if room[step] == 0 else f"chunks 0 .. {room[step] - 1}"
            extent = f"{name}[{offset[step]}]"
            if count > 1:
                extent += f" .. {name}[{offset[step] + count - 1}]"
            collector.add(
                columns.at_step(
                    int(step),
                    "meaning",
                    "error",
                    "out-of-bounds",
                    f"{verb} {extent}, but buffer {name} of this rank has {held}",
                    hint="correct the offset or cnt, or s_chunks for scratch",
                ),
                fatal=True,
            )


MODES: tuple[Mode, ...] = ("in place", "out of place")


def modes_of(program: Program, runtime: Runtime) -> tuple[Mode, ...]:
    """The calls that a runtime would give to a program, by where their output goes.

    microsoft/msccl compares the place of a call with `inplace` and never looks at `outofplace`; and it
    refuses calls of alltoall in place by itself, whatever the file says.
    """
    if "outofplace" not in runtime.looks_at:
        mode: Mode = "in place" if program.in_place else "out of place"
        return () if is_alltoall_in_place(program, runtime) else (mode,)
    claimed = (program.in_place, program.out_of_place)
    return tuple(mode for mode, claims in zip(MODES, claimed, strict=True) if claims)


def is_alltoall_in_place(program: Program, runtime: Runtime) -> bool:
    """Whether a program is for calls that its runtime refuses before it looks for a program."""
    return runtime is MSCCL and program.collective == "alltoall" and program.in_place


def callers(program: Program, mode: Mode, runtimes: Sequence[Runtime]) -> tuple[str, ...]:
    """Names of the runtimes that call a program so."""
    return tuple(runtime.name for runtime in runtimes if mode in modes_of(program, runtime))
