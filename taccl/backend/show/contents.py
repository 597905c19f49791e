"""What each step of a program moves, and when it could run if every step took one unit of time.

The program is executed on names of chunks: thread blocks in order, dependencies, the k-th send of a
connection matched with its k-th receive, any number of sends in flight. A file may be wrong, so
nothing is taken for granted: steps that can never run stay unrun, and where buffers cannot be made
sense of, only the times are there. Whether a file is right is for `verify` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.expected import MAX_CELLS
from taccl.backend.machine.layout import INPUT, Layout
from taccl.backend.machine.report import Collector
from taccl.backend.program import Op, Program
from taccl.backend.step_rows import OPS
from taccl.backend.verify.msccl_xml.columns import RECEIVES, SENDS, Columns
from taccl.backend.verify.msccl_xml.expected import expect_standard
from taccl.backend.verify.msccl_xml.unfold import buffer_sizes, check_bounds, layout_of
from taccl.model.collective import IntArray
from taccl.model.collectives import plain_name
from taccl.model.network import FloatArray

#: What a cell holds: (rank that it comes from or -1, offset in that input or -1, contributions).
#: None is memory that nobody wrote.
Content = tuple[int, int, int] | None

_SUMMING = ("allreduce", "reducescatter", "reduce")


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Per step row of `columns`; arrays of shape (num_steps,).

    Parameters
    ----------
    start, end : in units of one step; NaN for steps that can never run.
    sent_by : the step whose send a receive takes; -1 for none.
    waits_for : the step that `depends` names; -1 for none.
    moved : per step, what the chunks are that it moves; empty where that is not known.
    order : the steps that run, in an order in which they can.
    """

    columns: Columns
    start: FloatArray
    end: FloatArray
    sent_by: IntArray
    waits_for: IntArray
    moved: tuple[tuple[Content, ...], ...]
    order: tuple[int, ...]

    @property
    def num_blocked(self) -> int:
        """Steps that can never run."""
        return int(np.isnan(self.end).sum())

    def source(self, step: int) -> int:
        """The rank whose part a step moves: for sums, whose part the sum is; -1 if unknown."""
        program = self.columns.program
        for content in self.moved[step]:
            if content is None:
                continue
            rank, offset, _ = content
            if plain_name(program.collective) in _SUMMING or rank < 0:
                parts = max(1, program.chunks_per_loop)
                return min(offset * program.num_ranks // parts, program.num_ranks - 1) if offset >= 0 else -1
            return rank
        return -1

    def describe(self, step: int) -> str:
        """`rank 3's chunks 4 .. 7`, `the sum of chunk 2 over 8 ranks`; empty where it is not known."""
        moved = self.moved[step]
        if not moved:
            return ""
        first = moved[0]
        if first is not None and first[1] >= 0 and len(moved) > 1:
            run = tuple((first[0], first[1] + k, first[2]) for k in range(len(moved)))
            if run == moved:
                return _words(first, f"chunks {first[1]} .. {first[1] + len(moved) - 1}")
        words = _words(first, "" if first is None else f"chunk {first[1]}")
        return words if len(moved) == 1 else f"{words} and {len(moved) - 1} more"


def _words(content: Content, chunks: str) -> str:
    if content is None:
        return "memory that nobody wrote"
    rank, offset, ranks = content
    if offset < 0:
        return "a mixed sum"
    return f"rank {rank}'s {chunks}" if rank >= 0 else f"the sum of {chunks} over {ranks} ranks"


def execute(program: Program) -> StepTimes:
    """Run a program as far as it goes."""
    columns = Columns.of(program)
    sent_by = _matched(columns)
    waits_for = _waits(columns)
    order, start, end = _run(columns, sent_by, waits_for)
    memory = _memory(columns)
    moved: tuple[tuple[Content, ...], ...] = ((),) * columns.num_steps
    if memory is not None:
        moved = _contents(columns, memory, order, sent_by.tolist())
    return StepTimes(columns, start, end, sent_by, waits_for, moved, tuple(order))


def _matched(columns: Columns) -> IntArray:
    """For each receive the send that comes as the same number on its connection."""
    block = columns.step_block
    rank, channel = columns.block_rank[block], columns.block_channel[block]
    send, recv = columns.block_send[block], columns.block_recv[block]
    sends: dict[tuple[int, int, int], list[int]] = {}
    sending, receiving = SENDS[columns.op], RECEIVES[columns.op]
    for step in np.flatnonzero(sending).tolist():
        sends.setdefault((int(channel[step]), int(rank[step]), int(send[step])), []).append(step)
    taken: dict[tuple[int, int, int], int] = {}
    sent_by = np.full(columns.num_steps, -1, dtype=np.int64)
    for step in np.flatnonzero(receiving).tolist():
        key = (int(channel[step]), int(recv[step]), int(rank[step]))
        number = taken.get(key, 0)
        taken[key] = number + 1
        if number < len(sends.get(key, ())):
            sent_by[step] = sends[key][number]
    return sent_by


def _waits(columns: Columns) -> IntArray:
    """The step row that each step depends on; -1 for none, -2 for one that does not exist."""
    first = {
        (rank, block): (start, count)
        for rank, block, start, count in zip(
            columns.block_rank.tolist(),
            columns.block_id.tolist(),
            columns.block_first.tolist(),
            columns.block_steps.tolist(),
            strict=True,
        )
    }
    waits = np.full(columns.num_steps, -1, dtype=np.int64)
    for step in np.flatnonzero(columns.dep_block >= 0).tolist():
        rank = int(columns.block_rank[columns.step_block[step]])
        start, count = first.get((rank, int(columns.dep_block[step])), (0, 0))
        number = int(columns.dep_step[step])
        waits[step] = start + number if 0 <= number < count else -2
    return waits


def _run(
    columns: Columns, sent_by: IntArray, waits_for: IntArray
) -> tuple[list[int], FloatArray, FloatArray]:
    """The steps in an order in which they can run, and their earliest starts and ends."""
    needs = [
        [other for other in pair if other != -1]
        for pair in zip(sent_by.tolist(), waits_for.tolist(), strict=True)
    ]
    for step in np.flatnonzero(RECEIVES[columns.op] & (sent_by < 0)).tolist():
        needs[step].append(-2)
    sender = sent_by.tolist()
    relays = (SENDS & RECEIVES)[columns.op].tolist()
    costs = (columns.op != OPS.index(Op.NOP)).tolist()
    begins, ends = [float("nan")] * columns.num_steps, [float("nan")] * columns.num_steps
    done = [False] * columns.num_steps
    at = columns.block_first.tolist()
    stop = (columns.block_first + columns.block_steps).tolist()
    free = [0.0] * columns.num_blocks
    waiting: dict[int, list[int]] = {}
    order: list[int] = []
    active = list(range(columns.num_blocks))[::-1]
    while active:
        block = active.pop()
        while at[block] < stop[block]:
            step = at[block]
            missing = next((other for other in needs[step] if other < 0 or not done[other]), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(block)
                break
            # Both ends of a transfer go on at once; what is sent on must have arrived.
            at_once = sender[step] if not relays[step] else -1
            arrived = (begins[other] if other == at_once else ends[other] for other in needs[step])
            begin = max([free[block], *arrived])
            finish = begin + 1.0 if costs[step] else begin
            begins[step], ends[step], free[block], done[step] = begin, finish, finish, True
            order.append(step)
            at[block] += 1
            active.extend(waiting.pop(step, ()))
    return order, np.array(begins), np.array(ends)


def _memory(columns: Columns) -> Layout | None:
    """Where the buffers lie; None if the program reaches outside of them, or they are too large."""
    collector = Collector()
    expectation = expect_standard(columns.program, None, collector)
    check_bounds(columns, expectation, collector)
    size = buffer_sizes(columns, expectation)
    cells = float(size.astype(np.float64).sum() + columns.count.astype(np.float64).sum())
    if collector.fatal or (columns.count < 0).any() or cells > MAX_CELLS:
        return None
    return layout_of(columns, expectation, "in place" if columns.program.in_place else "out of place")


def _contents(
    columns: Columns, memory: Layout, order: Sequence[int], sent_by: Sequence[int]
) -> tuple[tuple[Content, ...], ...]:
    """What each step moves, in one of the orders in which the program can run."""
    cells: list[Content] = [None] * memory.num_cells
    for rank in range(len(memory.base)):
        base = int(memory.base[rank, INPUT])
        for offset in range(int(memory.chunks[rank, INPUT])):
            cells[base + offset] = (rank, offset, 1)
    rank_of = columns.block_rank[columns.step_block]
    sources = (memory.base[rank_of, columns.src] + columns.src_offset).tolist()
    targets = (memory.base[rank_of, columns.dst] + columns.dst_offset).tolist()
    ops, counts = columns.op.tolist(), columns.count.tolist()
    moved: list[tuple[Content, ...]] = [()] * columns.num_steps
    for step in order:
        op, count, source, target = OPS[ops[step]], counts[step], sources[step], targets[step]
        if op is Op.NOP:
            continue
        content = moved[sent_by[step]][:count] if op.receives else tuple(cells[source : source + count])
        if op is Op.REDUCE:
            content = _sum(content, cells[target : target + count])
        elif op in (Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND):
            content = _sum(content, cells[source : source + count])
        moved[step] = content
        if op not in (Op.SEND, Op.RECV_REDUCE_SEND):
            cells[target : target + len(content)] = content
    return tuple(moved)


def _sum(one: Sequence[Content], other: Sequence[Content]) -> tuple[Content, ...]:
    return tuple(_added(a, b) for a, b in zip(one, other, strict=False))


def _added(one: Content, other: Content) -> Content:
    if one is None or other is None:
        return None
    return (-1, one[1] if one[1] == other[1] else -1, one[2] + other[2])
