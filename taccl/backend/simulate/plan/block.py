"""A thread block: one operation after another, where a wait blocks all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from taccl.backend.plan import Channel, ChannelEnd, Operation, OpName
from taccl.backend.simulate.plan.flows import Done
from taccl.backend.simulate.plan.legs import Leg, legs_of
from taccl.backend.simulate.plan.run import Arrange, PlanRun
from taccl.backend.simulate.plan.work import Moved, Work, work_of
from taccl.backend.verify.mscclpp.signatures import PUTTING
from taccl.backend.verify.mscclpp.subject import At

_SIGNALS = (OpName.SIGNAL, OpName.RELAXED_SIGNAL)
_WAITS = (OpName.WAIT, OpName.RELAXED_WAIT)
_PUSHES = PUTTING | {OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS}


class SimulatedBlock:
    """A thread block; `rows` holds place, start and end of each operation that is over."""

    def __init__(self, run: PlanRun, rank: int, number: int) -> None:
        self.sim, self.rank, self.number = run, rank, number
        self.block = run.plan.ranks[rank].blocks[number]
        self.key = (rank, self.block.id)
        self.rows: list[tuple[int, float, float]] = []
        self.step = 0
        self.has_ended = False
        self.act = -1
        self.ends = {
            kind: [run.ends[rank, kind][each] for each in self.block.channels_of(kind)]
            for kind in (Channel.MEMORY, Channel.PORT)
        }

    def where(self) -> str:
        """Where it stands, for messages."""
        name = self.block.operations[self.step].name.value
        return f"rank {self.rank}, thread block {self.block.id}, operation {self.step} ({name})"

    def run(self) -> Iterator[Arrange]:
        """All operations."""
        clock = self.sim.clock
        for step, operation in enumerate(self.block.operations):
            self.step = step
            start_us = clock.now_us
            if operation.name is OpName.PIPELINE and operation.turns is not None:
                unit = operation.turns.unit_bytes
                turns = -(-operation.turns.num_chunks * self.sim.chunk // unit)
                for turn in range(int(turns)):
                    for inner, each in enumerate(operation.inner):
                        yield from self._do(At(self.rank, self.number, step, inner, each), turn, unit)
            else:
                yield from self._do(At(self.rank, self.number, step, None, operation), 0, None)
            self.rows.append((step, start_us, clock.now_us))
        self.has_ended = True
        self.sim.lands(self.act, 0.0)

    def _do(self, at: At, turn: int, unit: int | None) -> Iterator[Arrange]:
        record, clock = self.sim.record, self.sim.clock
        place = (at.rank, at.block, at.step, -1 if at.inner is None else at.inner)
        self.act = record.begins(place, self.act, clock.now_us)
        yield from self._work(at, turn, unit)
        record.ends(self.act, clock.now_us)

    def _work(self, at: At, turn: int, unit: int | None) -> Iterator[Arrange]:
        operation, name = at.operation, at.operation.name
        if name in _SIGNALS:
            for number, end in self._ends(operation):
                if operation.channel is Channel.PORT:
                    self.sim.ports[number].push(self.act, None, 0.0)
                else:
                    self.sim.signal(end, self.act)
        elif name in _WAITS:
            for number, _ in self._ends(operation):
                self.sim.awaited[number] += 1
                is_over = partial(self.sim.has_come, number, self.sim.awaited[number])
                yield self.sim.wait_for(self.act, ("signal", number), is_over)
        elif name is OpName.BARRIER:
            yield from self._barrier(operation)
        elif name is OpName.RELEASE or name is OpName.ACQUIRE:
            yield from self._semaphores(operation)
        elif name is OpName.FLUSH:
            yield from self._flush(operation, min(len(operation.targets), len(operation.channels)))
        elif name is not OpName.NOP:
            yield from self._move(at, work_of(self.sim.plan, at, self.sim.chunk, turn, unit))

    def _ends(self, operation: Operation) -> list[tuple[int, ChannelEnd]]:
        if operation.channel not in (Channel.MEMORY, Channel.PORT):
            return []
        ends = self.ends[operation.channel]
        return [(ends[channel].number, ends[channel]) for channel in operation.channels]

    def _barrier(self, operation: Operation) -> Iterator[Arrange]:
        barrier = operation.barrier
        if barrier is None or barrier.num_blocks <= 1:
            return
        there = self.sim.barriers.setdefault((self.rank, barrier.id), [])

        def arrange(go_on: Done) -> None:
            if len(there) + 1 < barrier.num_blocks:
                there.append((self.act, go_on))
                return
            for act, each in there:
                self.sim.record.released(act, self.act)
                self.sim.clock.at(self.sim.clock.now_us, each)
            self.sim.clock.at(self.sim.clock.now_us, go_on)
            there.clear()

        yield arrange

    def _semaphores(self, operation: Operation) -> Iterator[Arrange]:
        values = self.sim.semaphores[self.rank]
        for number in operation.semaphores:
            key = ("semaphore", self.rank, number)
            if operation.name is OpName.RELEASE:
                values[number] += 1
                self.sim.changed(key, self.act)
                continue
            before = values[number]
            values[number] -= 1
            if before <= 0:
                yield self.sim.wait_for(self.act, key, partial(_is_at_least, values, number, before))

    def _flush(self, operation: Operation, lanes: int) -> Iterator[Arrange]:
        if operation.channel is not Channel.PORT:
            return
        for number, _ in self._ends(operation)[:lanes]:
            port = self.sim.ports[number]
            yield self.sim.wait_for(self.act, ("port", number), partial(port.has_done, port.pushed))

    def _move(self, at: At, work: Work) -> Iterator[Arrange]:
        operation, sim = at.operation, self.sim
        for first, size in work.awaits:
            are_there = partial(sim.packets[self.rank].cover, first, first + size)
            yield sim.wait_for(self.act, ("packets", self.rank), are_there)
        if operation.channel is Channel.PORT and operation.name in _PUSHES:
            sends = [sent for sent in work.sends if isinstance(sent, Moved)]
            for (number, _), sent in zip(self._ends(operation), sends, strict=False):
                packets_to = (sent.rank, sent.first, sent.size) if sent.packets else None
                sim.ports[number].push(self.act, sim.link(self.rank, sent.rank), sent.wire, packets_to)
                if operation.name is not OpName.PUT and operation.name in PUTTING:
                    sim.ports[number].push(self.act, None, 0.0)
            if operation.name is OpName.PUT_SIGNAL_FLUSH:
                yield from self._flush(operation, len(operation.channels))
            return
        yield lambda go_on: self._all_at_once(work, go_on)
        for first, size in work.keeps:
            sim.store_packets(self.rank, first, size, 0.0, self.act)

    def _all_at_once(self, work: Work, go_on: Done) -> None:
        """Bytes that go and come, and the work at home, next to each other."""
        sim, clock = self.sim, self.sim.clock
        legs = [*legs_of(sim, self.rank, work, self)]
        left = 1 + len(legs)

        def one_is_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                go_on()

        for leg in legs:
            is_over = partial(self._has_left, leg, clock.now_us, one_is_done)
            clock.move(leg.link, leg.size, leg.mover, is_over)
        clock.at(clock.now_us + work.home_us(sim.executor, sim.copy_us_per_byte), one_is_done)

    def _has_left(self, leg: Leg, start_us: float, done: Done) -> None:
        sim, now_us = self.sim, self.sim.clock.now_us
        sim.record.moved(self.act, leg.link, leg.size, start_us, now_us, -1)
        if leg.lands:
            sim.lands(self.act, leg.alpha_us)
        if leg.packets is not None:
            sim.store_packets(*leg.packets, leg.alpha_us, self.act)
        if leg.awaited:
            sim.clock.at(now_us + leg.alpha_us, done)
        else:
            done()


def _is_at_least(values: Sequence[int], number: int, least: int) -> bool:
    return values[number] >= least
