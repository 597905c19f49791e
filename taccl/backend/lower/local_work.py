"""What a rank does by itself where that takes time: sums of what arrived together, copies of its own data.

`local_blocks` decides which thread block runs what. Without costs of these, local steps take no time
and run next to receives.

A *sum unit* is a range of cells whose contributions come with the same messages. It begins as a copy of the
rank's own data, made while the messages are under way; what has arrived is added in one run of `re`, which
the runtimes merge into one step of many sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from taccl.backend.lower.actions import INPUT, Place, split
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.layout import RankLayout
from taccl.backend.lower.made_sums import Cell
from taccl.model.executor import MAX_THREAD_BLOCKS, Executor

#: Sources of a merged sum: the runtimes hold 16, and count the one that ends a run in two forms.
_MOST_SOURCES = 15


@dataclass(frozen=True)
class LocalWork:
    """What local steps cost.

    Parameters
    ----------
    executor : what executing costs on the machine.
    protocol : how bytes are moved.
    chunk_bytes : the size of a cell, in the call that the schedule was made for.
    time_us : how long the schedule takes.
    instances : parallel copies of the program.
    """

    executor: Executor
    protocol: str
    chunk_bytes: float
    time_us: float
    instances: int

    @property
    def most_blocks(self) -> int:
        """Thread blocks that a GPU runs at once, as far as that is known."""
        return MAX_THREAD_BLOCKS if self.executor.thread_blocks is None else self.executor.thread_blocks

    def sum_us(self, sources: int, cells: int) -> float:
        """What adding this many sources takes beyond `reduce_us`."""
        return sources * cells * self.chunk_bytes * 1e-3 / self.executor.reduce_gbps

    def gathering_pays(self, messages: int) -> bool:
        """Whether one thread block adds this many messages sooner than those that receive them do in turn.

        Of a chunk that takes several rounds, these add one round's pieces while others add another's.
        """
        costs = next((each for name, each in self.executor.protocols.items() if name == self.protocol), None)
        piece = self.chunk_bytes if costs is None else min(self.chunk_bytes, costs.piece_bytes)
        rounds = math.ceil(self.chunk_bytes / piece) if piece else 1
        one_us = piece * 1e-3 / self.executor.reduce_gbps
        receive_us = 0.0 if costs is None else piece * costs.block_us_per_byte
        gathered_us = rounds * (self.executor.reduce_us + messages * one_us)
        in_turn_us = messages * (self.executor.reduce_us + one_us)
        in_turn_us += (rounds - 1) * (receive_us + self.executor.reduce_us + one_us)
        return gathered_us <= in_turn_us

    def parts_of_sum(self, sources: int, cells: int) -> int:
        """In how many parts a sum is made at once: so that bytes take no longer than its beginning."""
        return _parts(self.sum_us(sources, cells), self.executor.reduce_us, cells)

    def parts_of_copies(self, cells: int) -> int:
        """In how many parts a rank copies its own data: this many that it is done with the schedule.

        Where even that is too late, bytes take no longer than the beginning of a copy.
        """
        gbps = self.executor.copy_gbps or self.executor.reduce_gbps
        begin_us = self.executor.reduce_us if self.executor.copy_us is None else self.executor.copy_us
        parts = _parts(cells * self.chunk_bytes * 1e-3 / gbps, max(self.time_us - begin_us, begin_us), cells)
        return min(cells, max(parts, self.instances))


def _parts(work_us: float, most_us: float, most: int) -> int:
    """As many parts that none takes longer, at least one and at most `most`."""
    return min(most, max(1, math.ceil(work_us / max(most_us, 1e-9))))


def with_gathered(flow: Flow, local: LocalWork) -> Flow:
    """The flow with those cells gathered where it pays; named sums of them grow in none of the messages.

    It pays where several are added at once, or where the sum would be copied to the output after it.
    """

    def pays(cell: Cell, messages: int) -> bool:
        is_output = cell in flow.wanted and flow.final_value(*cell) == flow.sum_value(cell)
        return (messages > 1 or is_output) and local.gathering_pays(messages)

    many = {cell: len(flow.summed_at_once(cell)) for cell in (*flow.added, *flow.sums.final)}
    gathered = frozenset(
        cell for cell, messages in many.items() if 0 < messages <= _MOST_SOURCES and pays(cell, messages)
    )
    named = {(cell[0], flow.sum_value(cell)) for cell in gathered if cell not in flow.added}
    return replace(flow, gathered=gathered, sums=flow.sums.without_bases(named) if named else flow.sums)


@dataclass(slots=True)
class SumUnit:
    """Cells of a rank that are summed in one thread block.

    Parameters
    ----------
    own, home : the first cell of the rank's own contribution, and of the sum.
    count : cells.
    landing : by message, the first cell in which its contribution lands.
    ends_us : when the messages arrive, in order.
    waiting : of messages that have arrived and are not added yet: the place, and the send.
    """

    number: int
    chunks: tuple[int, ...]
    own: Place
    home: Place
    landing: Mapping[int, Place]
    ends_us: Sequence[float]
    arrived: int = 0
    waiting: list[tuple[Place, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.chunks)

    def is_due(self, now_us: float, local: LocalWork) -> bool:
        """Whether to add what is waiting now: it is all, or done before more comes."""
        if self.arrived == len(self.ends_us):
            return True
        done_us = now_us + local.executor.reduce_us + local.sum_us(len(self.waiting), self.count)
        return self.ends_us[self.arrived] > done_us


def sum_units(flow: Flow, rank: int, layout: RankLayout, local: LocalWork, most_chunks: int) -> list[SumUnit]:
    """The sum units of a rank; `most_chunks` : that one step takes."""
    mine = [chunk for at, chunk in flow.gathered if at == rank]
    ranges: list[list[int]] = []
    for chunk in sorted(mine, key=lambda chunk: layout.home[flow.sum_value((rank, chunk))]):
        if ranges and _is_next(flow, rank, layout, ranges[-1][-1], chunk):
            ranges[-1].append(chunk)
        else:
            ranges.append([chunk])
    units: list[SumUnit] = []
    for chunks in ranges:
        sends = flow.summed_at_once((rank, chunks[0]))
        parts = max(local.parts_of_sum(len(sends), len(chunks)), math.ceil(len(chunks) / most_chunks))
        units += [
            _unit(flow, rank, layout, part, len(units) + number)
            for number, part in enumerate(split(chunks, parts))
        ]
    return units


def _unit(flow: Flow, rank: int, layout: RankLayout, chunks: Sequence[int], number: int) -> SumUnit:
    cell = (rank, chunks[0])
    sends = [flow.sends[index] for index in flow.summed_at_once(cell)]
    return SumUnit(
        number=number,
        chunks=tuple(chunks),
        own=INPUT + flow.own[cell],
        home=layout.home[flow.sum_value(cell)],
        landing={send.index: layout.landing[send.index] + send.chunks.index(chunks[0]) for send in sends},
        ends_us=[send.end_us for send in sends],
    )


def _is_next(flow: Flow, rank: int, layout: RankLayout, before: int, chunk: int) -> bool:
    """Whether a chunk lies behind another wherever it is, and comes with the same messages."""
    home, home_before = (layout.home[flow.sum_value((rank, each))] for each in (chunk, before))
    sends = flow.summed_at_once((rank, chunk))
    return (
        sends == flow.summed_at_once((rank, before))
        and home == home_before + 1
        and flow.own[rank, chunk] == flow.own[rank, before] + 1
        and all(
            flow.sends[index].chunks.index(chunk) == flow.sends[index].chunks.index(before) + 1
            for index in sends
        )
    )
