"""The interpreter of a thread block: a few lanes that stand for its threads, each going its own way.

Lanes meet at `nop` and `barrier` and nowhere else, as threads do: between two of these, one may be operations
ahead of another. Each does its rows of every operation (`operands`), its signal, its wait, its put through a
port. It holds the meaning of every operation once, however it is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.agents import Wait
from taccl.backend.execute.job import Lock
from taccl.backend.execute.one_sided.memory import PlanWorld, Words
from taccl.backend.execute.one_sided.operands import (
    PACKET_OPS,
    PUTS,
    Deed,
    Spot,
    deeds_of,
    lanes_of,
    slice_of,
)
from taccl.backend.execute.one_sided.ports import Port
from taccl.backend.plan import Channel, ChannelEnd, Operation, OpName, PlanBlock, RankPlan

_SIGNALS = frozenset({OpName.SIGNAL, OpName.RELAXED_SIGNAL})
_WAITS = frozenset({OpName.WAIT, OpName.RELAXED_WAIT})
#: What goes through a port's queue.
PUSHES = PUTS | {OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS}
_SUMS = frozenset({OpName.REDUCE, OpName.REDUCE_SEND, OpName.READ_REDUCE, OpName.READ_REDUCE_SEND})


class Block:
    """A thread block in all calls, and what its lanes share.

    `meetings` : per lane, how often it came to a meeting point. `sent` : operands written to other ranks.
    """

    def __init__(
        self, world: PlanWorld, rank: RankPlan, block: PlanBlock, ports: dict[int, Port], lock: Lock
    ) -> None:
        self.world, self.rank, self.block, self.lock = world, rank, block, lock
        self.deeds = deeds_of(world, rank, block)
        self.meetings = [0] * lanes_of(block)
        self.sent = 0
        self.lanes = [Lane(self, number) for number in range(len(self.meetings))]
        ends = {kind: world.ends.get((rank.rank, kind), ()) for kind in (Channel.MEMORY, Channel.PORT)}
        self.ends: dict[Channel, list[ChannelEnd]] = {
            kind: [row[each] for each in block.channels_of(kind)] for kind, row in ends.items()
        }
        self.ports = [ports[end.number] for end in self.ends[Channel.PORT]]
        self.dtype = np.dtype(world.call.requested.dtype)

    @property
    def agents(self) -> list[Lane]:
        """Its lanes."""
        return self.lanes

    def stuck(self) -> str | None:
        """Where the first lane stands that can say what it waits for."""
        for lane in self.lanes:
            if not lane.ended and lane.waits_for is not None and lane.waits_for.says is not None:
                return f"{lane.where()}: {lane.waits_for.says()}"
        return None

    def name(self) -> str:
        """What messages call it."""
        return f"rank {self.rank.rank}, thread block {self.block.id}"


class Lane:
    """One lane; `call`, `step` and `inner` say where it stands."""

    def __init__(self, block: Block, number: int) -> None:
        self.block, self.number, self.rank = block, number, block.rank.rank
        self.world = block.world
        self.call = self.step = 0
        self.inner: int | None = None
        self.ended = False
        self.waits_for: Wait | None = None

    def where(self) -> str:
        """The operation at which it stands."""
        if self.step >= len(self.block.deeds):
            return f"{self.block.name()}, at its end"
        deed = self.block.deeds[self.step]
        inside = ""
        if self.inner is not None:
            inside, deed = f".{self.inner}", deed.inner[self.inner]
        during = f" of call {self.call + 1}" if self.world.call.calls > 1 else ""
        return f"{self.block.name()}, operation {self.step}{inside} ({deed.name.value}){during}"

    def _has_started(self, call: int) -> bool:
        return bool(self.world.started[self.rank] > call)

    def run(self) -> Iterator[Wait | None]:
        """All operations, call after call."""
        rank, world = self.rank, self.world
        for call in range(world.call.calls):
            yield Wait(partial(self._has_started, call))
            self.call = call
            for step, deed in enumerate(self.block.deeds):
                self.step = step
                if deed.name is not OpName.PIPELINE:
                    yield from self._do(deed, 0, None)
                    continue
                for turn in range(deed.turns):
                    for inner, each in enumerate(deed.inner):
                        self.inner = inner
                        yield from self._do(each, turn, deed.unit)
                self.inner = None
            self.step = len(self.block.deeds)
            yield from self._meet()  # a kernel ends when all of its threads have
            with self.block.lock:
                world.ended[rank] += 1
        self.ended = True

    def _do(self, deed: Deed, turn: int, unit: int | None) -> Iterator[Wait | None]:
        yield None
        name, operation = deed.name, deed.operation
        if name is OpName.NOP:
            yield from self._meet()
        elif name is OpName.BARRIER:
            yield from self._barrier(operation)
        elif name in _SIGNALS:
            self._signal(operation)
        elif name in _WAITS:
            yield from self._wait(operation)
        elif name is OpName.RELEASE or name is OpName.ACQUIRE:
            yield from self._semaphore(operation)
        elif name is OpName.FLUSH:
            yield from self._flush(deed)
        elif operation.channel is Channel.PORT and name in PUSHES:
            if name is OpName.READ_PUT_PACKETS:  # it waits for all packets, and sends them as they are
                yield from self._packets(deed, writes=False)
                yield from self._meet()
            yield from self._push(deed, turn, unit)
        elif name in PACKET_OPS:
            yield from self._packets(deed)
        else:
            yield from self._move(deed, turn, unit)

    # meeting and telling

    def _meet(self) -> Iterator[Wait]:
        meetings = self.block.meetings
        meetings[self.number] += 1
        mine = meetings[self.number]
        yield Wait(lambda: min(meetings) >= mine)

    def _barrier(self, operation: Operation) -> Iterator[Wait]:
        barrier = operation.barrier
        yield from self._meet()
        if barrier is not None and barrier.num_blocks > 1 and self.number == 0:
            here = (self.rank, barrier.id)
            world = self.world
            with self.block.lock:
                before = int(world.left[here])
                world.arrived[here] += 1
                if world.arrived[here] >= barrier.num_blocks:
                    world.arrived[here] = 0
                    world.left[here] += 1
            yield Wait(
                lambda: bool(world.left[here] > before),
                lambda: (
                    f"waits at barrier {barrier.id} for {barrier.num_blocks} thread blocks; "
                    f"{world.arrived[here]} are there"
                ),
            )
        yield from self._meet()

    def _end(self, operation: Operation) -> ChannelEnd | None:
        """The end of the channel that is this lane's, if there is one."""
        ends = self.block.ends.get(operation.channel, []) if operation.channel is not None else []
        if self.number >= len(operation.channels) or not ends:
            return None
        return ends[operation.channels[self.number]]

    def _signal(self, operation: Operation) -> None:
        end = self._end(operation)
        if end is None:
            return
        if operation.channel is Channel.PORT:
            self._port(operation).signal()
        elif end.other is not None:
            with self.block.lock:
                self.world.come[end.other] += 1

    def _wait(self, operation: Operation) -> Iterator[Wait]:
        end = self._end(operation)
        if end is None:
            return
        world = self.world
        with self.block.lock:
            world.awaited[end.number] += 1
            mine = int(world.awaited[end.number])
        yield Wait(
            lambda: bool(world.come[end.number] >= mine),
            lambda: f"waits for signal {mine} on {end.name}; {world.come[end.number]} came",
        )

    def _semaphore(self, operation: Operation) -> Iterator[Wait]:
        if self.number >= len(operation.semaphores):
            return
        number = operation.semaphores[self.number]
        values = self.world.semaphores[self.rank]
        with self.block.lock:
            before = int(values[number])
            values[number] += 1 if operation.name is OpName.RELEASE else -1
        if operation.name is OpName.ACQUIRE and before <= 0:
            yield Wait(
                lambda: bool(values[number] >= before),
                lambda: f"waits for semaphore {number}, which is {values[number]}",
            )

    # ports

    def _port(self, operation: Operation) -> Port:
        return self.block.ports[operation.channels[self.number]]

    def _push(self, deed: Deed, turn: int, unit: int | None) -> Iterator[Wait]:
        operation = deed.operation
        if self.number >= len(operation.channels):
            return
        port = self._port(operation)
        if self.number < len(deed.targets):
            source = deed.sources[min(self.number, len(deed.sources) - 1)][0]
            target = deed.targets[self.number][0]
            first, size = slice_of(deed, target, turn, unit)
            size = min(size, source.size) if deed.name in PACKET_OPS else size
            self.block.sent += target.is_away
            port.put(source.rows(self.call, 4, first, size), target.rows(self.call, 4, first, size))
        if operation.name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH):
            port.signal()
        if operation.name is OpName.PUT_SIGNAL_FLUSH:
            yield self._until_done(port)

    def _flush(self, deed: Deed) -> Iterator[Wait]:
        """Only as many lanes as the operation has targets wait for their channel."""
        operation = deed.operation
        most = min(len(operation.targets), len(operation.channels))
        if operation.channel is Channel.PORT and self.number < most:
            yield self._until_done(self._port(operation))

    @staticmethod
    def _until_done(port: Port) -> Wait:
        requested = port.pushed
        return Wait(lambda: port.done >= requested, lambda: f"waits until {port.end.name} has sent")

    # data

    def _mine(self, rows: Words) -> Words:
        return rows[self.number :: len(self.block.lanes)]

    def _counts(self, targets: tuple[tuple[Spot, ...], ...]) -> None:
        if self.number == 0:
            self.block.sent += sum(spot.is_away for operand in targets for spot in operand)

    def _move(self, deed: Deed, turn: int, unit: int | None) -> Iterator[None]:
        """Copies and sums of plain data."""

        def rows(spot: Spot) -> Words:
            return self._mine(spot.rows(self.call, deed.width, *slice_of(deed, spot, turn, unit)))

        self._counts(deed.targets)
        if deed.name in _SUMS or deed.name is OpName.SWITCH_REDUCE_STORE:
            parts = [spot for operand in deed.sources for spot in operand]
            total = rows(parts[0]).copy()
            for part in parts[1:]:
                yield None
                total = self._sum(total, rows(part))
            for target in (spot for operand in deed.targets for spot in operand):
                yield None
                rows(target)[:] = total
            return
        for source, targets in zip(deed.sources, deed.targets, strict=False):
            read = rows(source[0]).copy()
            for target in targets:
                yield None
                rows(target)[:] = read

    def _packets(self, deed: Deed, writes: bool = True) -> Iterator[Wait | None]:
        """What reads or writes packets: each row goes as soon as its packets are there."""
        call, number = self.call, self.call + 1
        if deed.name is OpName.PUT_PACKETS:  # pairs, none of which waits
            for source, target in zip(deed.sources, deed.targets, strict=False):
                read = self._mine(source[0].rows(call, 2)).copy()
                yield None
                self._write(target[0], read, slice(None), number)
            self._counts(deed.targets)
            return
        sources = [operand[0] for operand in deed.sources]
        views = [self._mine(spot.rows(call, 2)) for spot in sources]
        awaited = [view for spot, view in zip(sources, views, strict=True) if spot.packets]
        left: NDArray[np.bool_] = np.ones(min(map(len, views)), dtype=np.bool_)

        def arrived() -> NDArray[np.bool_]:
            there: NDArray[np.bool_] = left.copy()
            for view in awaited:
                there = there & (view[:, 1] == number) & (view[:, 3] == number)
            return there

        wait = Wait(
            lambda: bool(arrived().any()),
            lambda: f"waits for {left.sum()} packets of this call, which nobody wrote",
        )
        while left.any():
            yield wait
            rows = np.flatnonzero(arrived())
            read = [
                view[rows][:, ::2] if spot.packets else view[rows]
                for spot, view in zip(sources, views, strict=True)
            ]
            left[rows] = False
            total = read[0].copy()
            for part in read[1:]:
                total = self._sum(total, part)
            yield None
            if writes:
                for operand in deed.targets:
                    for spot in operand:
                        self._write(spot, total, rows, number)
        if writes:
            self._counts(deed.targets)

    def _write(self, spot: Spot, data: Words, rows: Any, number: int) -> None:
        view = self._mine(spot.rows(self.call, 2))
        if not spot.packets:
            view[rows] = data
            return
        view[rows, 0], view[rows, 2] = data[:, 0], data[:, 1]
        view[rows, 1] = view[rows, 3] = number

    def _sum(self, one: Words, other: Words) -> Words:
        dtype = self.block.dtype
        with np.errstate(all="ignore"):  # what was never written may be anything
            total = np.ascontiguousarray(one).view(dtype) + np.ascontiguousarray(other).view(dtype)
        words: Words = total.view(np.uint32)
        return words
