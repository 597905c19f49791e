"""What every block does in one call of one size: acts with the cells that they touch, pipelines unrolled.

This is where the meaning of each operation is written down (contract, sections 1 to 3), as it is and not as
it is meant: which operand's size counts, whose buffer, what a missing channel leaves undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taccl.backend.machine.acts import Flag, Kind, Machine, Role, Writer
from taccl.backend.machine.layout import Layout
from taccl.backend.machine.report import Collector, Finding
from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.layout import Extent, num_turns, part_of, slice_of
from taccl.backend.verify.mscclpp.names import Ends, PlanNames
from taccl.backend.verify.mscclpp.operands import ranges
from taccl.backend.verify.mscclpp.signatures import (
    LANES,
    PACKET_OPERANDS,
    PUTTING,
    SIGNATURES,
    Operand,
    moves_packets,
)


def unfold(plan: ExecutionPlan, layout: Layout, collector: Collector) -> Machine:
    """The acts of one call of a plan whose structure is sound; a fatal finding for what has no meaning."""
    writer, ends = Writer(), Ends.of(plan)
    for _ in ends.partner:
        writer.counter()
    names = PlanNames(ends, [], [[writer.counter(value) for value in rank.semaphores] for rank in plan.ranks])
    for rank in plan.ranks:
        barriers: dict[int, int] = {}
        for number, block in enumerate(rank.blocks):
            writer.block(rank.rank)
            _BlockReader(plan, layout, writer, names, rank, block, number, barriers, collector).write()
    acts, moves = writer.columns()
    names.operation_of.extend(acts.operation.tolist())
    return Machine(acts, moves, layout, names)


#: Operands, as `Writer.move` takes them, and how many cells of each.
_Move = tuple[list[tuple[int, int, int]], int]


@dataclass(frozen=True, slots=True)
class _Slice:
    """A turn of a pipeline."""

    turn: int
    unit_bytes: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """A range, what it has to be, and how many chunks of it count."""

    range: Range
    kind: Operand
    size: int


@dataclass(frozen=True, eq=False)
class _BlockReader:
    """Operations of one block, as acts."""

    plan: ExecutionPlan
    layout: Layout
    writer: Writer
    names: PlanNames
    rank: RankPlan
    block: PlanBlock
    number: int
    barriers: dict[int, int]
    collector: Collector

    def write(self) -> None:
        """All acts; a pipeline's operations in every turn anew."""
        for step, operation in enumerate(self.block.operations):
            if operation.name is not OpName.PIPELINE:
                self._acts(operation, step, -1, None)
            elif operation.turns is not None:
                for turn in range(num_turns(operation, self.layout.chunk_bytes)):
                    for inner, each in enumerate(operation.inner):
                        self._acts(each, step, inner, _Slice(turn, operation.turns.unit_bytes))

    def _acts(self, operation: Operation, step: int, inner: int, turn: _Slice | None) -> None:
        name, kind = operation.name, operation.channel
        number = self.names.operation(self.rank.rank, self.number, step, inner, name)
        if name is OpName.NOP:
            self.writer.act(Kind.MEET, number)
        elif name is OpName.BARRIER:
            self._barrier(operation, number)
        elif name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT):
            if kind in (Channel.MEMORY, Channel.PORT):
                self._signals_or_waits(operation, number)
        elif name in (OpName.RELEASE, OpName.ACQUIRE):
            for lane, semaphore in enumerate(operation.semaphores):
                counter = self.names.semaphores[self.rank.rank][semaphore]
                if name is OpName.RELEASE:
                    self.writer.act(Kind.RELEASE, number, lane=lane, gives=counter)
                else:
                    self.writer.act(Kind.ACQUIRE, number, lane=lane, takes=counter)
        elif name is OpName.FLUSH:
            if kind is Channel.PORT and operation.targets:
                for lane, end in enumerate(self._ends(operation)[: len(operation.targets)]):
                    self.writer.act(Kind.FLUSH, number, lane=lane, end=end, flags=Flag.PORT)
        elif kind is Channel.PORT and name in LANES:
            self._port(operation, step, number, turn)
        else:
            moves = [self._move(operation, step, *pair, turn) for pair in self._pairs(operation)]
            self._moves(number, [move for move in moves if move is not None])

    def _moves(self, number: int, moves: Sequence[_Move]) -> None:
        if moves:
            self.writer.act(Kind.MOVE, number)
            for operands, count in moves:
                self.writer.move(operands, count)

    def _barrier(self, operation: Operation, number: int) -> None:
        barrier = operation.barrier
        if barrier is not None and barrier.num_blocks > 1:
            if barrier.id not in self.barriers:
                self.barriers[barrier.id] = self.writer.counter()
                self.names.barriers[self.barriers[barrier.id]] = barrier.id
            counter = self.barriers[barrier.id]
            self.writer.act(Kind.BARRIER, number, gives=counter, amount=barrier.num_blocks)
        elif barrier is not None:
            self.writer.act(Kind.MEET, number)  # of one block; those who wait there do not hear of it

    def _signals_or_waits(self, operation: Operation, number: int) -> None:
        is_port = operation.channel is Channel.PORT
        relaxed = operation.name in (OpName.RELAXED_SIGNAL, OpName.RELAXED_WAIT) and not is_port
        flags = Flag.PORT * is_port | Flag.RELAXED * relaxed
        for lane, end in enumerate(self._ends(operation)):
            if operation.name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL):
                gives = self.names.ends.partner[end]
                self.writer.act(Kind.SIGNAL, number, lane=lane, end=end, gives=gives, flags=flags)
            else:
                self.writer.act(Kind.WAIT, number, lane=lane, end=end, takes=end, flags=flags)

    def _ends(self, operation: Operation) -> tuple[int, ...]:
        assert operation.channel is not None
        channels = self.block.channels_of(operation.channel)
        first = self.names.ends.first[self.rank.rank, operation.channel]
        return tuple(first + channels[channel] for channel in operation.channels)

    def _port(self, operation: Operation, step: int, number: int, turn: _Slice | None) -> None:
        """Puts over ports: each lane queues its own. All packets have come, and the block has met, before."""
        name = operation.name
        pairs = self._pairs(operation)
        if name is OpName.READ_PUT_PACKETS:
            source, targets = pairs[0]
            pairs = [(source, [target]) for target in targets]
            awaited = self._move(operation, step, source, [], turn)
            self._moves(number, [] if awaited is None else [awaited])
            self.writer.act(Kind.MEET, number)
        flags = Flag.PORT
        if name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH):
            flags |= Flag.SIGNALS
        if name is OpName.PUT_SIGNAL_FLUSH:
            flags |= Flag.FLUSHES
        for lane, (end, (sources, ends)) in enumerate(zip(self._ends(operation), pairs, strict=False)):
            gives = self.names.ends.partner[end] if flags & Flag.SIGNALS else -1
            self.writer.act(Kind.PUSH, number, lane=lane, end=end, gives=gives, flags=flags)
            move = self._move(operation, step, sources, ends, turn)
            if move is not None:
                self.writer.move(*move)

    def _pairs(self, operation: Operation) -> list[tuple[list[_Operand], list[_Operand]]]:
        """What is summed, and where the sum goes: all together, or each source to the target of its place."""
        sources: list[_Operand] = []
        targets: list[_Operand] = []
        for key, _, each, kind, size in ranges(operation):
            (sources if key == "src_buff" else targets).append(_Operand(each, kind, size))
        if SIGNATURES[operation.name].sizes == "first":
            return [(sources, targets)]
        return [([source], [target]) for source, target in zip(sources, targets, strict=False)]

    def _move(
        self,
        operation: Operation,
        step: int,
        sources: Sequence[_Operand],
        targets: Sequence[_Operand],
        turn: _Slice | None,
    ) -> _Move | None:
        """None where this block, or this turn, has nothing of the range; pipelines do not cut packets."""
        if moves_packets(operation.name):
            turn = None
        layout = self.layout
        if any(self._begins_elsewhere(operation, each) for each in (*sources, *targets)):
            self._refuse(operation, step, {each.range.size for each in (*sources, *targets)})
            return None
        extents = [self._extent(operation, each, turn) for each in (*sources, *targets)]
        if not extents or extents[0].start >= extents[0].end:
            return None
        operands = [
            cells
            for place, (operand, extent) in enumerate(zip((*sources, *targets), extents, strict=True))
            for cells in self._cells(operation, operand, layout.cell(extent.start), place < len(sources))
        ]
        return operands, layout.cell(extents[0].end) - layout.cell(extents[0].start)

    def _begins_elsewhere(self, operation: Operation, operand: _Operand) -> bool:
        """Whether a part begins where the range's own size says and not where the size that counts says."""
        chunk, alignment = self.layout.chunk_bytes, self.plan.alignment
        own, counted = (
            part_of(Extent(0, size * chunk), operation.share, alignment)
            for size in (operand.range.size, operand.size)
        )
        return counted.start < counted.end and own.start != counted.start

    def _extent(self, operation: Operation, operand: _Operand, turn: _Slice | None) -> Extent:
        chunk, alignment = self.layout.chunk_bytes, self.plan.alignment
        start = operand.range.index * chunk
        extent = part_of(Extent(start, start + operand.size * chunk), operation.share, alignment)
        return extent if turn is None else slice_of(extent, turn.turn, turn.unit_bytes)

    def _cells(
        self, operation: Operation, operand: _Operand, start: int, is_source: bool
    ) -> list[tuple[int, int, int]]:
        """Where an operand is: one place, or of a switch channel one at each member.

        Ports find their sources from the beginning of the allocation, where in place a buffer need not begin.
        """
        layout = self.layout
        packets = operand.kind in PACKET_OPERANDS
        from_allocation = (
            layout.in_place and is_source and operation.channel is Channel.PORT and operation.name in PUTTING
        )
        role = Role.TARGET * (not is_source) | Role.PACKETS * packets
        found = []
        for owner, buffer in self._owners(operation, operand):
            column = (Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH).index(buffer)
            base = int(layout.packets[owner] if packets else layout.base[owner, column])
            if from_allocation and buffer is not Buffer.SCRATCH:
                base = int(layout.user[owner, 0])
            shift = int(layout.half[owner]) if buffer is Buffer.SCRATCH else 0
            found.append((base + start, base + start + shift, role | Role.INPUT * (buffer is Buffer.INPUT)))
        return found

    def _owners(self, operation: Operation, operand: _Operand) -> list[tuple[int, Buffer]]:
        """Per place of an operand its rank and buffer; packets are in scratch, whatever is said."""
        each = operand.range
        if each.remote is not None and operation.channel is not None:
            remote = self.rank.remote_buffers[self.block.remotes_of(operation.channel)[each.remote]]
            return [(remote.rank, remote.buffer)]
        if each.switch is not None:
            number = self.block.channels_of(Channel.SWITCH)[each.switch]
            buffer, members = self.rank.switches[number]
            return [(member, buffer) for member in members]
        if operand.kind in PACKET_OPERANDS or each.buffer is None:
            return [(self.rank.rank, Buffer.SCRATCH)]
        return [(self.rank.rank, each.buffer)]

    def _refuse(self, operation: Operation, step: int, sizes: set[int]) -> None:
        """Each operand is cut by its own size, so that parts of unlike places meet."""
        name = operation.name.value
        place = f"rank {self.rank.rank}, thread block {self.block.id}, operation {step} ({name})"
        counts = " and ".join(map(str, sorted(sizes)))
        self.collector.add(
            Finding(
                "meaning",
                "error",
                "uneven-operands",
                f"{place} does its part (tbg_info) of ranges of {counts} chunks, each cut by its own size",
                self.rank.rank,
                self.block.id,
                step,
                hint="make all its ranges equally long",
            ),
            fatal=True,
        )
