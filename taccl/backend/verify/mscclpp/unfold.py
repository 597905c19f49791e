"""What every block does in one call of one size: acts with the cells that they touch, pipelines unrolled.

This is where the meaning of each operation is written down (contract, sections 1 to 3), as it is and not as
it is meant: which operand's size counts, whose buffer, what a missing channel leaves undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.backend.verify.mscclpp.acts import Act, Cells, Ends, Kind, Move, Push, Unfolded
from taccl.backend.verify.mscclpp.layout import Extent, Layout, num_turns, part_of, slice_of
from taccl.backend.verify.mscclpp.operands import ranges, switch_of
from taccl.backend.verify.mscclpp.signatures import (
    LANES,
    PACKET_OPERANDS,
    PUTTING,
    SIGNATURES,
    Operand,
    moves_packets,
)


def unfold(plan: ExecutionPlan, layout: Layout, collector: Collector) -> Unfolded:
    """The acts of one call of a plan whose structure is sound; a fatal finding for what has no meaning."""
    unfolded = Unfolded(plan, layout, Ends.of(plan))
    for rank in plan.ranks:
        unfolded.semaphore.append(len(unfolded.initial))
        unfolded.initial.extend(rank.semaphores)
    for rank in plan.ranks:
        for place, block in enumerate(rank.blocks):
            unfolded.blocks.append((rank.rank, place))
            unfolded.acts.append(tuple(_BlockReader(unfolded, rank, block, collector).acts()))
    return unfolded


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

    unfolded: Unfolded
    rank: RankPlan
    block: PlanBlock
    collector: Collector

    def acts(self) -> Iterator[Act]:
        layout = self.unfolded.layout
        for step, operation in enumerate(self.block.operations):
            if operation.name is not OpName.PIPELINE:
                yield from self._acts(operation, step, -1, None)
            elif operation.turns is not None:
                for turn in range(num_turns(operation, layout.chunk_bytes)):
                    for inner, each in enumerate(operation.inner):
                        yield from self._acts(each, step, inner, _Slice(turn, operation.turns.unit_bytes))

    def _acts(self, operation: Operation, step: int, inner: int, turn: _Slice | None) -> Iterator[Act]:
        name, kind = operation.name, operation.channel
        is_port = kind is Channel.PORT
        if name is OpName.NOP:
            yield Act(Kind.MEET, step, inner, name)
        elif name is OpName.BARRIER:
            barrier = operation.barrier
            if barrier is not None and barrier.num_blocks > 1:
                yield Act(Kind.BARRIER, step, inner, name, barrier=(barrier.id, barrier.num_blocks))
            elif barrier is not None:
                yield Act(
                    Kind.MEET, step, inner, name
                )  # of one block; those who wait there do not hear of it
        elif name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT):
            if kind in (Channel.MEMORY, Channel.PORT):
                signals = name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL)
                relaxed = name in (OpName.RELAXED_SIGNAL, OpName.RELAXED_WAIT) and not is_port
                act = Kind.SIGNAL if signals else Kind.WAIT
                yield Act(act, step, inner, name, self._ends(operation), relaxed=relaxed, port=is_port)
        elif name in (OpName.RELEASE, OpName.ACQUIRE):
            first = self.unfolded.semaphore[self.rank.rank]
            numbers = tuple(first + semaphore for semaphore in operation.semaphores)
            act = Kind.RELEASE if name is OpName.RELEASE else Kind.ACQUIRE
            yield Act(act, step, inner, name, semaphores=numbers)
        elif name is OpName.FLUSH:
            if is_port and operation.targets:
                ends = self._ends(operation)[: len(operation.targets)]
                yield Act(Kind.FLUSH, step, inner, name, ends, port=True)
        elif is_port and name in LANES:
            yield from self._port(operation, step, inner, turn)
        else:
            moves = tuple(self._moves(operation, step, turn))
            if moves:
                yield Act(Kind.MOVE, step, inner, name, moves=moves)

    def _ends(self, operation: Operation) -> tuple[int, ...]:
        assert operation.channel is not None
        channels = self.block.channels_of(operation.channel)
        first = self.unfolded.ends.first[self.rank.rank, operation.channel]
        return tuple(first + channels[channel] for channel in operation.channels)

    def _port(self, operation: Operation, step: int, inner: int, turn: _Slice | None) -> Iterator[Act]:
        """Puts over ports: each lane queues its own. All packets have come, and the block has met, before."""
        name = operation.name
        pairs = self._pairs(operation)
        if name is OpName.READ_PUT_PACKETS:
            source, targets = pairs[0]
            pairs = [(source, [target]) for target in targets]
            awaited = self._move(operation, step, source, [], turn)
            if awaited is not None:
                yield Act(Kind.MOVE, step, inner, name, moves=(awaited,))
            yield Act(Kind.MEET, step, inner, name)
        ends = self._ends(operation)
        yield Act(
            Kind.PUSH,
            step,
            inner,
            name,
            pushes=tuple(
                Push(
                    end,
                    self._move(operation, step, sources, targets, turn),
                    signals=name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH),
                    flushes=name is OpName.PUT_SIGNAL_FLUSH,
                )
                for end, (sources, targets) in zip(ends, pairs, strict=False)
            ),
            port=True,
        )

    def _moves(self, operation: Operation, step: int, turn: _Slice | None) -> Iterator[Move]:
        for sources, targets in self._pairs(operation):
            move = self._move(operation, step, sources, targets, turn)
            if move is not None:
                yield move

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
    ) -> Move | None:
        """None where this block, or this turn, has nothing of the range; pipelines do not cut packets."""
        if moves_packets(operation.name):
            turn = None
        layout = self.unfolded.layout
        if any(self._begins_elsewhere(operation, each) for each in (*sources, *targets)):
            self._refuse(operation, step, {each.range.size for each in (*sources, *targets)})
            return None
        extents = [self._extent(operation, each, turn) for each in (*sources, *targets)]
        if not extents or extents[0].start >= extents[0].end:
            return None
        cells = [
            self._cells(operation, operand, layout.cell(extent.start), place < len(sources))
            for place, (operand, extent) in enumerate(zip((*sources, *targets), extents, strict=True))
        ]
        return Move(
            sources=tuple(each for some in cells[: len(sources)] for each in some),
            targets=tuple(each for some in cells[len(sources) :] for each in some),
            count=layout.cell(extents[0].end) - layout.cell(extents[0].start),
        )

    def _begins_elsewhere(self, operation: Operation, operand: _Operand) -> bool:
        """Whether a part begins where the range's own size says and not where the size that counts says."""
        chunk, alignment = self.unfolded.layout.chunk_bytes, self.unfolded.plan.alignment
        own, counted = (
            part_of(Extent(0, size * chunk), operation.share, alignment)
            for size in (operand.range.size, operand.size)
        )
        return counted.start < counted.end and own.start != counted.start

    def _extent(self, operation: Operation, operand: _Operand, turn: _Slice | None) -> Extent:
        chunk, alignment = self.unfolded.layout.chunk_bytes, self.unfolded.plan.alignment
        start = operand.range.index * chunk
        extent = part_of(Extent(start, start + operand.size * chunk), operation.share, alignment)
        return extent if turn is None else slice_of(extent, turn.turn, turn.unit_bytes)

    def _cells(self, operation: Operation, operand: _Operand, start: int, is_source: bool) -> list[Cells]:
        """Where an operand is: one place, or of a switch channel one at each member.

        Ports find their sources from the beginning of the allocation, where in place a buffer need not begin.
        """
        layout = self.unfolded.layout
        packets = operand.kind in PACKET_OPERANDS
        from_allocation = (
            layout.in_place and is_source and operation.channel is Channel.PORT and operation.name in PUTTING
        )
        found = []
        for owner, buffer in self._owners(operation, operand):
            column = (Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH).index(buffer)
            base = int(layout.packets[owner] if packets else layout.base[owner, column])
            if from_allocation and buffer is not Buffer.SCRATCH:
                base = int(layout.user[owner, 0])
            shift = int(layout.half[owner]) if buffer is Buffer.SCRATCH else 0
            found.append(Cells(base + start, base + start + shift, packets, buffer is Buffer.INPUT))
        return found

    def _owners(self, operation: Operation, operand: _Operand) -> list[tuple[int, Buffer]]:
        """Per place of an operand its rank and buffer; packets are in scratch, whatever is said."""
        each = operand.range
        if each.remote is not None and operation.channel is not None:
            remote = self.rank.remote_buffers[self.block.remotes_of(operation.channel)[each.remote]]
            return [(remote.rank, remote.buffer)]
        if each.switch is not None:
            number = self.block.channels_of(Channel.SWITCH)[each.switch]
            buffer, members = switch_of(self.rank, number)
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
