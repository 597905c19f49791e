"""What an operation touches: its ranges as rows of memory, cut by shares, turns and lanes as at run time.

A row is what one thread moves at once: 16 bytes of plain data, or a packet with 8 bytes of data. The j-th row
of a range belongs to lane j modulo the number of lanes, whatever the operation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.backend.execute.one_sided.call import PlanCall
from taccl.backend.execute.one_sided.memory import WORD, PlanWorld, Words
from taccl.backend.plan import Channel, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer
from taccl.errors import VerificationError

#: Which sources and which targets are packets, by name: from the k-th on.
_PACKET_SOURCES = {
    OpName.COPY_FROM_PACKETS: 0,
    OpName.READ_PUT_PACKETS: 0,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
    OpName.SWITCH_STORE_PACKETS: 0,
}
_PACKET_TARGETS = {
    OpName.PUT_PACKETS: 0,
    OpName.COPY_TO_PACKETS: 0,
    OpName.READ_PUT_PACKETS: 0,
    OpName.REDUCE_SEND_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 1,
    OpName.REDUCE_COPY_SEND_PACKETS: 1,
    OpName.SWITCH_STORE_PACKETS: 0,
}
#: How many sources and targets the kernels look at; None: all.
_LOOKED_AT: dict[OpName, tuple[int | None, int | None]] = {
    OpName.COPY: (1, 1),
    OpName.COPY_TO_PACKETS: (1, 1),
    OpName.COPY_FROM_PACKETS: (1, 1),
    OpName.READ_PUT_PACKETS: (1, None),
    OpName.REDUCE: (None, 1),
    OpName.READ_REDUCE: (None, 1),
    OpName.REDUCE_PACKETS: (None, 1),
    OpName.REDUCE_COPY_PACKETS: (None, 2),
    OpName.SWITCH_STORE: (1, 1),
    OpName.SWITCH_REDUCE_STORE: (1, 1),
    OpName.SWITCH_STORE_PACKETS: (1, 1),
}
PACKET_OPS = frozenset({*_PACKET_SOURCES, *_PACKET_TARGETS})
PUTS = frozenset({OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH})
_PAIRED = frozenset({*PUTS, OpName.GET, OpName.PUT_PACKETS})


@dataclass(frozen=True, slots=True)
class Spot:
    """A range of one rank's memory.

    Parameters
    ----------
    memory : the allocation. first, size : bytes of data; of packets, the bytes that they carry.
    packets : whether it holds packets. halves : whether it lies in the half of scratch that a call uses.
    half : where the other half begins, bytes. is_away : whether it is memory of another rank.
    """

    memory: Words
    first: int
    size: int
    packets: bool
    halves: bool
    half: int
    is_away: bool

    def rows(self, call: int, width: int, first: int = 0, size: int | None = None) -> Words:
        """Words in rows, one per thread and load, of `size` bytes from byte `first` on: in call `call`.

        `width` : words of data in a row; rows of packets are twice as long.
        """
        length = self.size if size is None else size
        times = 2 if self.packets else 1
        begin = (self.first + first) * times
        if self.halves and call % 2:
            begin += self.half
        words = self.memory[begin // WORD : (begin + length * times) // WORD]
        return words.reshape(-1, width * times)

    def reaches(self, first: int, size: int) -> int:
        """The end of what `rows` would touch at most, bytes of the allocation."""
        times = 2 if self.packets else 1
        return (self.first + first + size) * times + (self.half if self.halves else 0)


@dataclass(frozen=True, slots=True)
class Deed:
    """An operation with what it touches; each operand is one spot, or one per member of a switch channel."""

    operation: Operation
    name: OpName
    sources: tuple[tuple[Spot, ...], ...] = ()
    targets: tuple[tuple[Spot, ...], ...] = ()
    inner: tuple[Deed, ...] = ()
    turns: int = 1
    unit: int | None = None

    @property
    def width(self) -> int:
        """Words of data that a thread moves at once."""
        return 2 if self.name in PACKET_OPS else 4


def lanes_of(block: PlanBlock) -> int:
    """Lanes that stand for the threads of a block: one per channel of its operations, an odd number.

    Being odd, two ranges that overlap and begin elsewhere fall on different lanes, as they do on threads.
    """
    every = [each for operation in block.operations for each in (operation, *operation.inner)]
    most = max(
        (max(len(each.channels), len(each.targets), len(each.semaphores)) for each in every), default=0
    )
    return max(3, most + 1 - most % 2)


def deeds_of(world: PlanWorld, rank: RankPlan, block: PlanBlock) -> tuple[Deed, ...]:
    """All operations of a block with what they touch.

    Raises
    ------
    VerificationError : one would reach outside of what is allocated.
    """
    return tuple(_deed(world, rank, block, step, each) for step, each in enumerate(block.operations))


def _deed(
    world: PlanWorld,
    rank: RankPlan,
    block: PlanBlock,
    step: int,
    operation: Operation,
    unit: int | None = None,
) -> Deed:
    call = world.call
    if operation.name is OpName.PIPELINE:
        turns = operation.turns
        if turns is None or turns.unit_bytes < 1:
            return Deed(operation, operation.name)
        inner = tuple(_deed(world, rank, block, step, each, turns.unit_bytes) for each in operation.inner)
        count = -(-turns.num_chunks * call.chunk // turns.unit_bytes)
        deed = Deed(operation, operation.name, inner=inner, turns=count, unit=turns.unit_bytes)
        for each in inner:  # the last turn reaches farthest
            _check(each, max(0, count - 1), turns.unit_bytes, _place(rank, block, step, each.operation))
        return deed
    deed = _ranges(world, rank, block, operation)
    if unit is None:
        _check(deed, 0, None, _place(rank, block, step, operation))
    return deed


def _place(rank: RankPlan, block: PlanBlock, step: int, operation: Operation) -> str:
    return f"rank {rank.rank}, thread block {block.id}, operation {step} ({operation.name.value})"


def _ranges(world: PlanWorld, rank: RankPlan, block: PlanBlock, operation: Operation) -> Deed:
    name = operation.name
    sources, targets = operation.sources, operation.targets
    if name is OpName.GET:  # the runtime swaps the two offsets
        pairs = list(zip(sources, targets, strict=False))
        sizes = [source.size for source in sources]
        moved = [(each, other.index) for each, other in pairs], [(other, each.index) for each, other in pairs]
    else:
        moved = [(source, source.index) for source in sources], [(target, target.index) for target in targets]
        if name in _PAIRED:
            counted = targets if name in PUTS else sources
            sizes = [each.size for each in counted]
        else:
            sizes = []
    first = sources[0].size if sources else 0

    def spots(
        side: list[tuple[Range, int]], packets_from: int | None, is_source: bool
    ) -> Iterator[tuple[Spot, ...]]:
        for place, (each, index) in enumerate(side):
            if sizes and place >= len(sizes):
                return
            begin, size = _cut(world.call, operation, index, sizes[place] if sizes else first)
            packets = packets_from is not None and place >= packets_from
            yield _spots(world, rank, block, operation, each, begin, size, packets, is_source)

    is_raw = name is OpName.PUT_PACKETS and operation.channel is Channel.PORT
    made = (
        tuple(spots(moved[0], 0 if is_raw else _PACKET_SOURCES.get(name), True)),
        tuple(spots(moved[1], _PACKET_TARGETS.get(name), False)),
    )
    most_sources, most_targets = _LOOKED_AT.get(name, (None, None))
    return Deed(operation, name, made[0][:most_sources], made[1][:most_targets])


def _cut(call: PlanCall, operation: Operation, index: int, chunks: int) -> tuple[int, int]:
    """First byte and bytes of a range, of which a block may do a share."""
    begin, size = index * call.chunk, chunks * call.chunk
    share = operation.share
    if share is None or share.parts <= 1:
        return begin, size
    unit = call.plan.alignment
    each, longer = divmod(size // unit, share.parts)
    before = share.number * each + min(share.number, longer)
    return begin + before * unit, (each + (share.number < longer)) * unit


def _spots(
    world: PlanWorld,
    rank: RankPlan,
    block: PlanBlock,
    operation: Operation,
    each: Range,
    begin: int,
    size: int,
    packets: bool,
    is_source: bool,
) -> tuple[Spot, ...]:
    call, me = world.call, rank.rank
    half = call.half(me) if call.plan.double_scratch else 0
    if each.buffer is not None:
        through_port = is_source and operation.channel is Channel.PORT and operation.name in PUTS
        is_raw = operation.name is OpName.PUT_PACKETS and operation.channel is Channel.PORT
        # packets are read and written in scratch, whatever the operand says
        buffer = Buffer.SCRATCH if packets and not is_raw else each.buffer
        base = 0 if through_port else call.start(me, buffer)
        halves = buffer is Buffer.SCRATCH and not through_port
        memory = world.allocations[me][buffer]
        return (Spot(memory, base + begin, size, packets, halves, half, False),)
    if each.switch is not None:
        buffer, members = _switch(rank, block.channels_of(Channel.SWITCH)[each.switch])
    else:
        ids = () if operation.channel is None or each.remote is None else block.remotes_of(operation.channel)
        remote = rank.remote_buffers[ids[each.remote or 0]]
        buffer, members = remote.buffer, (remote.rank,)
    base = call.start(me, buffer)  # this rank's own offset, which the runtime adds at the peer
    halves = buffer is Buffer.SCRATCH and packets
    return tuple(
        Spot(world.allocations[member][buffer], base + begin, size, packets, halves, half, member != me)
        for member in members
    )


def _switch(rank: RankPlan, number: int) -> tuple[Buffer, tuple[int, ...]]:
    rows = [row for row in rank.channels if row.kind is Channel.SWITCH]
    return [(row.buffer or Buffer.INPUT, group) for row in rows for group in row.groups][number]


def slice_of(deed: Deed, spot: Spot, turn: int, unit: int | None) -> tuple[int, int]:
    """First byte and bytes of a spot in a turn of a pipeline; packets are not cut, and go whole each turn.

    Past the end of a share the kernel's subtraction wraps around, so a turn there is a whole unit.
    """
    if unit is None or deed.name in PACKET_OPS:
        return 0, spot.size
    left = spot.size - turn * unit
    return turn * unit, unit if left < 0 else min(unit, left)


def _check(deed: Deed, turn: int, unit: int | None, where: str) -> None:
    for spot in (spot for operand in (*deed.sources, *deed.targets) for spot in operand):
        first, size = slice_of(deed, spot, turn, unit)
        if spot.first < 0 or spot.reaches(first, size) > len(spot.memory) * WORD:
            raise VerificationError(
                "the plan cannot be executed",
                findings=[
                    f"{where} touches bytes up to {spot.reaches(first, size)} of memory that has "
                    f"{len(spot.memory) * WORD}"
                ],
                hint="taccl verify tells more",
            )
