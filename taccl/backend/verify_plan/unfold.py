"""What every block does in one call of one size: acts with the cells that they touch, pipelines unrolled.

This is where the meaning of each operation is written down (contract, sections 1 to 3), as it is and not as
it is meant: which operand's size counts, whose buffer, what a missing channel leaves undone. How blocks
wait for one another, and what may race, it must not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.backend.verify.report import Collector, Finding
from taccl.backend.verify_plan.acts import Act, Cells, Ends, Kind, Move, Push, Unfolded
from taccl.backend.verify_plan.layout import Extent, Layout, num_turns, part_of, slice_of


def unfold(plan: ExecutionPlan, layout: Layout, collector: Collector) -> Unfolded:
    """The acts of one call; fatal findings for operands outside of their buffers."""
    unfolded = Unfolded(plan, layout, Ends.of(plan))
    for rank in plan.ranks:
        unfolded.semaphore.append(len(unfolded.initial))
        unfolded.initial.extend(rank.semaphores)
    for rank in plan.ranks:
        for place, block in enumerate(rank.blocks):
            unfolded.blocks.append((rank.rank, place))
            unfolded.acts.append(tuple(_BlockReader(unfolded, rank, block, collector).acts()))
    return unfolded


#: Operations on packets, and those of their sources that are plain.
_PACKET_SOURCES = {
    OpName.PUT_PACKETS: 10**6,
    OpName.COPY_TO_PACKETS: 10**6,
    OpName.COPY_FROM_PACKETS: 0,
    OpName.READ_PUT_PACKETS: 0,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
    OpName.SWITCH_STORE_PACKETS: 0,
}
#: How many of their targets are plain, the rest being packets.
_PLAIN_TARGETS = {
    OpName.COPY_FROM_PACKETS: 1,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
}
#: One source and one target each.
_COPIES = (OpName.COPY, OpName.COPY_TO_PACKETS, OpName.COPY_FROM_PACKETS)
#: Every source to the target of its place; or one source to every target.
_PAIRS = (OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH, OpName.PUT_PACKETS)
_SPREADS = (OpName.READ_PUT_PACKETS, OpName.SWITCH_STORE, OpName.SWITCH_STORE_PACKETS)
#: Sums that only their first target gets.
_OWN_SUMS = (OpName.REDUCE, OpName.READ_REDUCE, OpName.REDUCE_PACKETS)
_PUTS = (OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH)
_MEETS_FIRST = OpName.READ_PUT_PACKETS


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
                        yield from self._acts(each, step, inner, (turn, operation.turns.unit_bytes))

    def _acts(
        self, operation: Operation, step: int, inner: int, turn: tuple[int, int] | None
    ) -> Iterator[Act]:
        name, kind = operation.name, operation.channel
        is_port = kind is Channel.PORT
        if name is OpName.NOP:
            yield Act(Kind.MEET, step, inner, name)
        elif name is OpName.BARRIER:
            if operation.barrier is not None:
                yield Act(
                    Kind.BARRIER,
                    step,
                    inner,
                    name,
                    barrier=(operation.barrier.id, operation.barrier.num_blocks),
                )
        elif name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT):
            if kind in (Channel.MEMORY, Channel.PORT):
                signals = name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL)
                relaxed = name in (OpName.RELAXED_SIGNAL, OpName.RELAXED_WAIT) and not is_port
                act = Kind.SIGNAL if signals else Kind.WAIT
                yield Act(act, step, inner, name, self._ends(operation), relaxed=relaxed, port=is_port)
        elif name in (OpName.RELEASE, OpName.ACQUIRE):
            first = self.unfolded.semaphore[self.rank.rank]
            numbers = tuple(first + each for each in operation.semaphores)
            act = Kind.RELEASE if name is OpName.RELEASE else Kind.ACQUIRE
            yield Act(act, step, inner, name, semaphores=numbers)
        elif name is OpName.FLUSH:
            if is_port and operation.targets:
                ends = self._ends(operation)[: len(operation.targets)]
                yield Act(Kind.FLUSH, step, inner, name, ends, port=True)
        elif is_port:
            yield from self._port(operation, step, inner, turn)
        else:
            moves = tuple(self._moves(operation, step, turn))
            if moves:
                yield Act(Kind.MOVE, step, inner, name, moves=moves)

    def _ends(self, operation: Operation) -> tuple[int, ...]:
        assert operation.channel is not None
        channels = self.block.channels_of(operation.channel)
        first = self.unfolded.ends.first[self.rank.rank, operation.channel]
        return tuple(first + channels[each] for each in operation.channels)

    def _port(
        self, operation: Operation, step: int, inner: int, turn: tuple[int, int] | None
    ) -> Iterator[Act]:
        """Puts over ports; all packets have come, and the block has met, before it sends them on."""
        name = operation.name
        moves: list[Move | None] = list(self._moves(operation, step, turn))
        if name not in (*_PUTS, _MEETS_FIRST):  # data of other operations are moved by the threads
            if moves:
                yield Act(Kind.MOVE, step, inner, name, moves=tuple(each for each in moves if each))
            return
        if name is _MEETS_FIRST:
            sources = tuple(Move(each.sources, (), each.count) for each in moves if each)
            if sources:
                yield Act(Kind.MOVE, step, inner, name, moves=sources[:1])
            yield Act(Kind.MEET, step, inner, name)
        signals = name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH)
        flushes = name is OpName.PUT_SIGNAL_FLUSH
        lanes = min(len(operation.channels), len(operation.targets))
        ends = self._ends(operation)
        moved = dict(self._placed(operation, step, turn))
        pushes = tuple(Push(ends[lane], moved.get(lane), signals, flushes) for lane in range(lanes))
        yield Act(Kind.PUSH, step, inner, name, pushes=pushes, port=True)

    def _moves(self, operation: Operation, step: int, turn: tuple[int, int] | None) -> Iterator[Move]:
        return (move for _, move in self._placed(operation, step, turn))

    def _placed(
        self, operation: Operation, step: int, turn: tuple[int, int] | None
    ) -> Iterator[tuple[int, Move]]:
        """The moves of an operation, each with its place among the targets; none that moves nothing."""
        name, sources, targets = operation.name, operation.sources, operation.targets
        if name in _PACKET_SOURCES:
            turn = None  # pipelines do not cut packets
        if not sources or not targets:
            return
        sizes = {each.size for each in (*sources, *targets)}
        if operation.share is not None and len(sizes) > 1:
            message = f"cuts operands of {' and '.join(map(str, sorted(sizes)))} chunks, each by its own size"
            self._refuse(operation, step, "uneven-operands", message, "make all its operands equally long")
            return
        if name is OpName.GET:  # the runtime swaps the two offsets
            for place, (source, target) in enumerate(zip(sources, targets, strict=False)):
                swapped = (
                    _at(source, target.index, source.size),
                    _at(target, source.index, source.size),
                )
                yield from self._one(operation, step, turn, place, swapped[:1], swapped[1:])
        elif name in _PAIRS:
            for place, (source, target) in enumerate(zip(sources, targets, strict=False)):
                size = target.size if name in _PUTS else sources[0].size
                here = Range(source.index, size, buffer=sources[0].buffer)
                there = _at(target, target.index, size)
                yield from self._one(operation, step, turn, place, (here,), (there,))
        elif name in _SPREADS:
            for place, target in enumerate(targets):
                there = _at(target, target.index, sources[0].size)
                yield from self._one(operation, step, turn, place, sources[:1], (there,))
        else:
            size = sources[0].size
            used = sources[:1] if name in (*_COPIES, OpName.SWITCH_REDUCE_STORE) else sources
            kept = targets[:1] if name in (*_COPIES, *_OWN_SUMS) else targets
            yield from self._one(
                operation,
                step,
                turn,
                0,
                tuple(_at(each, each.index, size) for each in used),
                tuple(_at(each, each.index, size) for each in kept),
            )

    def _one(
        self,
        operation: Operation,
        step: int,
        turn: tuple[int, int] | None,
        place: int,
        sources: Sequence[Range],
        targets: Sequence[Range],
    ) -> Iterator[tuple[int, Move]]:
        name = operation.name
        chunk = self.unfolded.layout.chunk_bytes
        plain_sources = _PACKET_SOURCES.get(name, 10**6)
        plain_targets = _PLAIN_TARGETS.get(name, 0) if name in _PACKET_SOURCES else 10**6
        extents = []
        for each in (*sources, *targets):
            whole = Extent(each.index * chunk, (each.index + each.size) * chunk)
            extent = part_of(whole, operation.share, self.unfolded.plan.alignment)
            extents.append(extent if turn is None else slice_of(extent, *turn))
        layout = self.unfolded.layout
        count = layout.cell(extents[0].end) - layout.cell(extents[0].start)
        if count <= 0:
            return
        read: list[Cells] = []
        written: list[Cells] = []
        for row, (each, extent) in enumerate(zip((*sources, *targets), extents, strict=True)):
            is_source = row < len(sources)
            number = row if is_source else row - len(sources)
            packets = number >= (plain_sources if is_source else plain_targets)
            cells = self._cells(operation, step, each, extent, packets, is_source)
            if cells is None:
                return
            (read if is_source else written).extend(cells)
        yield place, Move(tuple(read), tuple(written), count)

    def _cells(
        self,
        operation: Operation,
        step: int,
        operand: Range,
        extent: Extent,
        packets: bool,
        is_source: bool,
    ) -> list[Cells] | None:
        """Where an operand is: one place, or of a switch channel one at each member. None: outside."""
        layout = self.unfolded.layout
        is_remote = operand.buffer is None
        found = []
        for owner, buffer in self._owners(operation, operand, packets and is_source):
            column = (Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH).index(buffer)
            room = int(layout.chunks[owner, column])
            if operand.index < 0 or operand.index + operand.size > room:
                held = "no chunk" if room == 0 else f"chunks 0 .. {room - 1}"
                where = "" if owner == self.rank.rank else f" of rank {owner}"
                self._refuse(
                    operation,
                    step,
                    "out-of-bounds",
                    f"touches {buffer.value}[{operand.index} .. {operand.index + operand.size - 1}]{where}, "
                    f"which has {held}",
                    "correct the index or the size, or the chunks of the buffer",
                )
                return None
            if packets and buffer is not Buffer.SCRATCH:
                self._refuse(
                    operation,
                    step,
                    "packets-outside-scratch",
                    f"writes packets to buffer {buffer.value} of rank {owner}, and readers look in scratch",
                    "name a place in scratch",
                )
                return None
            shift = 0
            if buffer is Buffer.SCRATCH and (packets or not is_remote):
                shift = int(layout.half[owner])  # the runtime does not shift plain bytes of peers
            base = int(layout.packets[owner] if packets else layout.base[owner, column])
            first = base + layout.cell(extent.start)
            found.append(Cells(first, first + shift, packets, buffer is Buffer.INPUT))
        return found

    def _owners(self, operation: Operation, operand: Range, always_scratch: bool) -> list[tuple[int, Buffer]]:
        """Per place of an operand its rank and buffer; packets are read from scratch whatever is said."""
        if operand.remote is not None:
            kind = operation.channel or Channel.MEMORY
            remote = self.rank.remote_buffers[self.block.remotes_of(kind)[operand.remote]]
            return [(remote.rank, remote.buffer)]
        if operand.switch is not None:
            number = self.block.channels_of(Channel.SWITCH)[operand.switch]
            for row in self.rank.channels:
                if row.kind is Channel.SWITCH and row.buffer is not None:
                    if number < len(row.groups):
                        return [(each, row.buffer) for each in row.groups[number]]
                    number -= len(row.groups)
            return []
        own = Buffer.SCRATCH if always_scratch or operand.buffer is None else operand.buffer
        return [(self.rank.rank, own)]

    def _refuse(self, operation: Operation, step: int, rule: str, message: str, hint: str) -> None:
        """An operation whose effect no model of memory can say: nothing is executed."""
        place = (
            f"rank {self.rank.rank}, thread block {self.block.id}, operation {step} ({operation.name.value})"
        )
        said = f"{place} {message}"
        finding = Finding("meaning", "error", rule, said, self.rank.rank, self.block.id, step, hint=hint)
        self.collector.add(finding, fatal=True)


def _at(operand: Range, index: int, size: int) -> Range:
    return Range(index, size, operand.buffer, operand.remote, operand.switch)
