"""A plan as single steps of single threads, written from the contract alone, for `plan_machine` to run.

Memory is words of 8 bytes. A thread moves 16 bytes of plain data at once, or the 8 of a packet, which takes
two words of scratch: the data, and the number of the call. Thread k of a block does the k-th of these of each
range, and the k-th channel of every operation. What is right, and in what order, it does not know.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer

MEET, BARRIER, SIGNAL, WAIT, RELEASE, ACQUIRE, LOAD, ADD, STORE = range(9)
LOAD_PACKET, ADD_PACKET, STORE_PACKET, AWAIT_PACKET, PUSH, PUSH_SIGNAL, FLUSH = range(9, 16)
BARRIERS = 16
UNIT = 16

_PUTS = {OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH}
_SUMS = {OpName.REDUCE, OpName.REDUCE_SEND, OpName.READ_REDUCE, OpName.READ_REDUCE_SEND}
_PAIRED = {*_PUTS, OpName.GET, OpName.PUT_PACKETS}
_NEVER = 10**6
#: From which source, and from which target on, operands are packets.
_PACKETS = {
    OpName.PUT_PACKETS: (_NEVER, 0),
    OpName.COPY_TO_PACKETS: (_NEVER, 0),
    OpName.COPY_FROM_PACKETS: (0, _NEVER),
    OpName.READ_PUT_PACKETS: (0, 0),
    OpName.REDUCE_PACKETS: (1, _NEVER),
    OpName.REDUCE_SEND_PACKETS: (1, 1),
    OpName.REDUCE_COPY_PACKETS: (1, 1),
    OpName.REDUCE_COPY_SEND_PACKETS: (1, 1),
    OpName.SWITCH_STORE_PACKETS: (0, 0),
}
#: How many targets the kernel looks at, where it does not look at all.
_TARGETS = {
    OpName.COPY: 1,
    OpName.REDUCE: 1,
    OpName.READ_REDUCE: 1,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 2,
    OpName.COPY_TO_PACKETS: 1,
    OpName.COPY_FROM_PACKETS: 1,
}
_SOURCES = {
    OpName.COPY: 1,
    OpName.COPY_TO_PACKETS: 1,
    OpName.COPY_FROM_PACKETS: 1,
    OpName.READ_PUT_PACKETS: 1,
}


class CannotRun(Exception):
    """The runtime would refuse the plan, crash, or touch memory that is not meant."""


@dataclass(frozen=True)
class Steps:
    """All threads of all ranks, one call long.

    Parameters
    ----------
    steps : shape (n, 4): what, and three numbers; those of thread t from starts[t] to before starts[t + 1].
    block : per thread its block. rank_threads : per rank its first thread; and the end.
    block_threads : per block how many threads.
    transfers : shape (n, 6): what ports copy: source and how far its other half is, target and the same,
        words, and whether the source is a user's buffer. port_rank : per port its rank.
    inputs, outputs : shape (ranks, 2): the first word and how many.
    words : of all memory. ends : of channels. semaphores : their first values.
    """

    steps: np.ndarray
    starts: np.ndarray
    block: np.ndarray
    rank_threads: np.ndarray
    block_rank: np.ndarray
    block_threads: np.ndarray
    transfers: np.ndarray
    port_rank: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    words: int
    ends: int
    semaphores: np.ndarray
    in_place: bool


def steps_of(plan: ExecutionPlan, units: int) -> Steps:
    """One call with chunks of so many times 16 bytes."""
    return _Maker(plan, units).made()


def check_call(plan: ExecutionPlan, units: int) -> None:
    """Refuse what the runtime or its callers refuse: sizes and ids that cannot be."""
    ranks = plan.num_ranks
    shapes = {"allgather": (1, ranks), "reducescatter": (ranks, 1)}
    of_input, of_output = shapes.get(plan.collective, (1, 1))
    first = plan.ranks[0]
    for number, each in enumerate(plan.ranks):
        if each.rank != number or min(each.input_chunks, each.output_chunks) < 1 or not each.blocks:
            raise CannotRun("rank")
        if (
            each.input_chunks * of_output != each.output_chunks * of_input
            or each.input_chunks != first.input_chunks
        ):
            raise CannotRun("chunks of two sizes")
        if plan.collective == "alltoall" and each.input_chunks % ranks:
            raise CannotRun("no alltoall")
    if plan.alignment < 1 or plan.alignment % 4:
        raise CannotRun("alignment")
    if plan.alignment % UNIT and any(map(_needs_whole_units, _operations(plan))):
        raise CannotRun("alignment")
    if units * UNIT % plan.alignment:
        raise CannotRun("size")
    chunks = first.output_chunks if plan.collective == "allgather" else first.input_chunks
    if not plan.min_bytes <= chunks * units * UNIT <= plan.max_bytes:
        raise CannotRun("size")
    if not 32 <= plan.threads <= 1024:
        raise CannotRun("threads")


def _operations(plan: ExecutionPlan) -> list[Operation]:
    every = [each for rank in plan.ranks for block in rank.blocks for each in block.operations]
    return every + [inner for each in every for inner in each.inner]


def _needs_whole_units(operation: Operation) -> bool:
    """Sums and packets have tails that are addressed wrongly; parts of other lengths are not modelled."""
    return operation.name in {*_SUMS, *_PACKETS} or operation.share is not None


def _pick(some, number):
    if not 0 <= number < len(some):
        raise CannotRun("a number that leads nowhere")
    return some[number]


@dataclass(frozen=True)
class _Place:
    """The first word of a range at the first call, how far its other half is, and its length in bytes."""

    word: int
    half: int
    size: int
    user: bool = False


@dataclass(eq=False)
class _Maker:
    plan: ExecutionPlan
    units: int
    transfers: list[tuple[int, ...]] = field(default_factory=list)

    @cached_property
    def chunk(self) -> int:
        return self.units * UNIT

    @cached_property
    def allocations(self) -> list[dict[Buffer, tuple[int, int]]]:
        """Per rank and buffer the first word of its allocation, and the word after its last."""
        found, word = [], 0
        for each in self.plan.ranks:
            inputs, outputs = each.input_chunks * self.chunk // 8, each.output_chunks * self.chunk // 8
            scratch = self.half(each.rank) * (2 if self.plan.double_scratch else 1)
            if self.plan.in_place:
                size = max(
                    inputs + self.shift(each.rank, Buffer.INPUT),
                    outputs + self.shift(each.rank, Buffer.OUTPUT),
                )
                both = (word, word + size)
                row = {Buffer.INPUT: both, Buffer.OUTPUT: both}
                word += size
            else:
                row = {
                    Buffer.INPUT: (word, word + inputs),
                    Buffer.OUTPUT: (word + inputs, word + inputs + outputs),
                }
                word += inputs + outputs
            row[Buffer.SCRATCH] = (word, word + scratch)
            word += scratch
            found.append(row)
        return found

    def half(self, rank: int) -> int:
        """Words of scratch that one call uses."""
        return self.plan.ranks[rank].scratch_chunks * self.chunk // 8 * (2 if self.plan.moves_packets else 1)

    def shift(self, rank: int, buffer: Buffer) -> int:
        """Words from the beginning of an allocation to a user's buffer in it."""
        if not self.plan.in_place:
            return 0
        if self.plan.collective == "allgather" and buffer is Buffer.INPUT:
            return rank * self.plan.ranks[rank].input_chunks * self.chunk // 8
        if self.plan.collective == "reducescatter" and buffer is Buffer.OUTPUT:
            return rank * self.plan.ranks[rank].output_chunks * self.chunk // 8
        return 0

    @cached_property
    def ends(self) -> dict[tuple[int, Channel], list[tuple[int, int]]]:
        """Per rank and kind of each channel its end, and the other end (-1: none)."""
        numbers: dict[tuple[Channel, int, int, int], int] = {}
        for each in self.plan.ranks:
            for kind in (Channel.MEMORY, Channel.PORT):
                peers = each.peers_of(kind)
                for k, peer in enumerate(peers):
                    numbers[kind, each.rank, peer, peers[:k].count(peer)] = len(numbers)
        found = {}
        for each in self.plan.ranks:
            for kind in (Channel.MEMORY, Channel.PORT):
                peers = each.peers_of(kind)
                found[each.rank, kind] = [
                    (
                        numbers[kind, each.rank, peer, peers[:k].count(peer)],
                        numbers.get((kind, peer, each.rank, peers[:k].count(peer)), -1),
                    )
                    for k, peer in enumerate(peers)
                ]
        return found

    def made(self) -> Steps:
        check_call(self.plan, self.units)
        steps: list[tuple[int, int, int, int]] = []
        starts, thread_block, rank_threads, block_rank, block_threads = [0], [], [], [], []
        self.port_rank = [r.rank for r in self.plan.ranks for _ in r.peers_of(Channel.PORT)]
        sizes = [len(r.semaphores) for r in self.plan.ranks]
        self.first_semaphore = np.cumsum([0, *sizes]).tolist()
        for rank in self.plan.ranks:
            rank_threads.append(len(thread_block))
            by_id = {each.id: each for each in rank.blocks}
            for place, block in enumerate(rank.blocks):  # operations go by position, all else by id
                if place not in by_id:
                    raise CannotRun("block ids")
                threads = self.threads(rank, by_id[place], block.operations)
                for rows in threads:
                    steps += rows
                    starts.append(len(steps))
                    thread_block.append(len(block_rank))
                block_rank.append(rank.rank)
                block_threads.append(len(threads))
        rank_threads.append(len(thread_block))
        users = {
            buffer: [
                (
                    self.allocations[r.rank][buffer][0] + self.shift(r.rank, buffer),
                    (r.input_chunks if buffer is Buffer.INPUT else r.output_chunks) * self.chunk // 8,
                )
                for r in self.plan.ranks
            ]
            for buffer in (Buffer.INPUT, Buffer.OUTPUT)
        }

        def column(rows: list, width: int = 0) -> np.ndarray:
            array = np.array(rows, dtype=np.int64)
            return array.reshape(-1, width) if width else array

        return Steps(
            column(steps, 4),
            column(starts),
            column(thread_block),
            column(rank_threads),
            column(block_rank),
            column(block_threads),
            column(self.transfers, 6),
            column(self.port_rank),
            column(users[Buffer.INPUT], 2),
            column(users[Buffer.OUTPUT], 2),
            self.allocations[-1][Buffer.SCRATCH][1],
            sum(map(len, self.ends.values())),
            column([each for r in self.plan.ranks for each in r.semaphores]),
            self.plan.in_place,
        )

    def threads(
        self, rank: RankPlan, block: PlanBlock, operations: tuple[Operation, ...]
    ) -> list[list[tuple[int, int, int, int]]]:
        """The steps of each thread of a block."""
        self.rank, self.block = rank, block
        threads: list[list[tuple[int, int, int, int]]] = []

        def add(number: int, *step: int) -> None:
            while len(threads) <= number:
                threads.append([])
            threads[number].append((*step, *(0,) * (4 - len(step))))

        todo: list[tuple[Operation, tuple[int, int] | None]] = []
        for operation in operations:
            if operation.name is not OpName.PIPELINE:
                todo.append((operation, None))
                continue
            turns = operation.turns
            if turns is None or turns.unit_bytes < UNIT or turns.unit_bytes % UNIT:
                raise CannotRun("pipeline")
            for turn in range(-(-turns.num_chunks * self.chunk // turns.unit_bytes)):
                todo += [(each, (turn * turns.unit_bytes, turns.unit_bytes)) for each in operation.inner]
        # All threads meet, also those that only later operations need: so they are counted first.
        before = len(self.transfers)
        for operation, cut in todo:
            self.do(operation, cut, add, 1)
        width = max(1, len(threads))
        threads[:] = [[] for _ in range(width)]
        del self.transfers[before:]
        for operation, cut in todo:
            self.do(operation, cut, add, width)
        return threads

    def do(self, operation: Operation, cut: tuple[int, int] | None, add, width: int) -> None:
        name, kind = operation.name, operation.channel
        rank = self.rank.rank
        if name in (OpName.NOP, OpName.BARRIER):
            for thread in range(width):
                add(thread, MEET)
            if name is OpName.BARRIER:
                barrier = operation.barrier
                if barrier is None or not 0 <= barrier.id < BARRIERS or barrier.num_blocks < 1:
                    raise CannotRun("barrier")
                if barrier.num_blocks > 1:
                    add(0, BARRIER, rank * BARRIERS + barrier.id, barrier.num_blocks)
                for thread in range(width):
                    add(thread, MEET)
        elif name in (OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.WAIT, OpName.RELAXED_WAIT):
            for lane, (end, other, port) in enumerate(self.lanes(operation)):
                if name in (OpName.WAIT, OpName.RELAXED_WAIT):
                    add(lane, WAIT, end)
                elif kind is Channel.PORT:
                    add(lane, PUSH_SIGNAL, port, other)
                elif other >= 0:
                    add(lane, SIGNAL, other)
        elif name in (OpName.RELEASE, OpName.ACQUIRE):
            first = self.first_semaphore[rank]
            for lane, number in enumerate(operation.semaphores):
                _pick(self.rank.semaphores, number)
                add(lane, RELEASE if name is OpName.RELEASE else ACQUIRE, first + number)
        elif name is OpName.FLUSH:
            if kind is Channel.PORT:
                for lane, (_, _, port) in enumerate(self.lanes(operation)[: len(operation.targets)]):
                    add(lane, FLUSH, port)
        elif kind is Channel.PORT and name in (*_PUTS, OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS):
            self.push(operation, cut, add, width)
        else:
            self.move(operation, cut, add)

    def lanes(self, operation: Operation) -> list[tuple[int, int, int]]:
        """Per channel of an operation its end, the other end, and the port's number."""
        if operation.channel not in (Channel.MEMORY, Channel.PORT):
            return []
        kind = operation.channel
        mine = self.block.channels_of(kind)
        first = sum(len(r.peers_of(Channel.PORT)) for r in self.plan.ranks[: self.rank.rank])
        found = []
        for number in operation.channels:
            channel = _pick(mine, number)
            end, other = _pick(self.ends[self.rank.rank, kind], channel)
            found.append((end, other, first + channel))
        return found

    def operands(
        self, operation: Operation, cut: tuple[int, int] | None
    ) -> tuple[list[list[_Place]], list[list[_Place]]]:
        """Sources and targets; each is one place, or one at each member of a switch channel."""
        name = operation.name
        sources = list(operation.sources[: _SOURCES.get(name, _NEVER)])
        targets = list(operation.targets[: _TARGETS.get(name, _NEVER)])
        if name in _PAIRED:
            count = len(targets) if name in _PUTS else len(sources)
            if len(sources) < count or (len(targets) < count and name is OpName.GET):
                raise CannotRun("operands")
            count = min(count, len(targets), len(sources))
            sources, targets = sources[:count], targets[:count]
            sizes = [each.size for each in (targets if name in _PUTS else sources)]
        else:
            if not sources or not targets:
                raise CannotRun("operands")
            sizes = [sources[0].size] * max(len(sources), len(targets))
        offsets = [each.index for each in sources], [each.index for each in targets]
        if name is OpName.GET:
            offsets = offsets[1], offsets[0]
        if name in (*_PUTS, OpName.PUT_PACKETS) and operation.channel is Channel.MEMORY:
            if any(each.buffer is None for each in sources):
                raise CannotRun("operands")
            sources = [Range(each.index, each.size, sources[0].buffer) for each in sources]
        first = _PACKETS.get(name, (_NEVER, _NEVER))
        if name is OpName.PUT_PACKETS and operation.channel is Channel.PORT:
            first = (0, 0)
        made: list[list[list[_Place]]] = []
        for side, indices, packets_from in zip((sources, targets), offsets, first, strict=True):
            made.append(
                [
                    self.places(operation, each, index, size, k >= packets_from, side is sources, cut)
                    for k, (each, index, size) in enumerate(zip(side, indices, sizes, strict=False))
                ]
            )
        return made[0], made[1]

    def places(
        self,
        operation: Operation,
        each: Range,
        index: int,
        size: int,
        packets: bool,
        is_source: bool,
        cut: tuple[int, int] | None,
    ) -> list[_Place]:
        if size < 1 or each.size < 1 or index < 0:
            raise CannotRun("range")
        begin, length = self.cut(operation, index, each.size, size)
        if cut is not None and operation.name not in _PACKETS:
            begin, length = begin + cut[0], max(0, min(cut[1], length - cut[0]))
        me, plan = self.rank.rank, self.plan
        through_port = operation.channel is Channel.PORT and operation.name in (*_PUTS, OpName.PUT_PACKETS)
        half = self.half(me) if plan.double_scratch else 0
        if each.buffer is not None:
            buffer = each.buffer
            if packets and operation.name is not OpName.PUT_PACKETS:
                buffer = Buffer.SCRATCH
            owners, halves = [me], buffer is Buffer.SCRATCH and not (is_source and through_port)
            shift = 0 if is_source and through_port else self.shift(me, buffer)
        elif each.switch is not None:
            number = _pick(self.block.channels_of(Channel.SWITCH), each.switch)
            groups = [
                (row.buffer or Buffer.INPUT, group)
                for row in self.rank.channels
                if row.kind is Channel.SWITCH
                for group in row.groups
            ]
            buffer, owners = _pick(groups, number)
            halves, shift = buffer is Buffer.SCRATCH and packets, self.shift(me, buffer)
        else:
            if operation.channel not in (Channel.MEMORY, Channel.PORT) or each.remote is None:
                raise CannotRun("channel type")
            number = _pick(self.block.remotes_of(operation.channel), each.remote)
            remote = _pick(self.rank.remote_buffers, number)
            if operation.channel not in remote.access:
                raise CannotRun("access")
            owners, buffer = [remote.rank], remote.buffer
            halves, shift = buffer is Buffer.SCRATCH and packets, self.shift(me, buffer)
        times = 2 if packets else 1
        found = []
        for owner in owners:
            first, end = _pick(self.allocations, owner)[buffer]
            word = first + shift + begin // 8 * times
            place = _Place(word, half if halves else 0, length, buffer is not Buffer.SCRATCH)
            if length and not first <= word <= word + place.half + length // 8 * times <= end:
                raise CannotRun("memory")
            found.append(place)
        return found

    def cut(self, operation: Operation, index: int, own: int, size: int) -> tuple[int, int]:
        """First byte and bytes of a range, or of this block's part of it."""
        begin, length = index * self.chunk, size * self.chunk
        share = operation.share
        if share is None:
            return begin, length
        if share.parts < 1 or not 0 <= share.number < share.parts:
            raise CannotRun("share")
        unit = self.plan.alignment
        each, rest = divmod(own * self.chunk // unit, share.parts)
        begin += (share.number * each + min(share.number, rest)) * unit
        each, rest = divmod(length // unit, share.parts)
        return begin, (each + (share.number < rest)) * unit

    def push(self, operation: Operation, cut: tuple[int, int] | None, add, width: int) -> None:
        """Each lane queues what it puts; packets have all come, and the block has met, before."""
        sources, targets = self.operands(operation, cut)
        name, lanes = operation.name, self.lanes(operation)
        packets = name in (OpName.READ_PUT_PACKETS, OpName.PUT_PACKETS)
        if name is OpName.READ_PUT_PACKETS:
            place = sources[0][0]
            for k in range(place.size // 8):
                add(k, AWAIT_PACKET, place.word + 2 * k, place.half)
            for thread in range(width):
                add(thread, MEET)
            sources = sources * len(targets)
        if len(lanes) < len(targets):
            raise CannotRun("lanes")
        peers = self.rank.peers_of(Channel.PORT)
        channels = self.block.channels_of(Channel.PORT)
        for lane, ((_, other, port), source, target) in enumerate(zip(lanes, sources, targets, strict=False)):
            remotes = self.block.remotes_of(Channel.PORT)
            owner = self.rank.remote_buffers[remotes[operation.targets[lane].remote or 0]].rank
            if owner != peers[channels[operation.channels[lane]]]:
                raise CannotRun("a channel to somebody else")
            for one in target:
                words = target[0].size // 8 * (2 if packets else 1)
                if words:
                    add(lane, PUSH, port, len(self.transfers))
                    row = (source[0].word, source[0].half, one.word, one.half, words, source[0].user)
                    self.transfers.append(row)
            if name in (OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH):
                add(lane, PUSH_SIGNAL, port, other)
            if name is OpName.PUT_SIGNAL_FLUSH:
                add(lane, FLUSH, port)

    def move(self, operation: Operation, cut: tuple[int, int] | None, add) -> None:
        """Threads read, add and write."""
        sources, targets = self.operands(operation, cut)
        name = operation.name
        from_source, from_target = _PACKETS.get(name, (_NEVER, _NEVER))
        width = 1 if name in _PACKETS else 2
        if name is OpName.SWITCH_REDUCE_STORE:
            sources = [[each] for each in sources[0]]
        groups = [(sources, targets)]
        if name in _PAIRED:
            groups = [([a], [b]) for a, b in zip(sources, targets, strict=True)]
        for some, others in groups:
            for k in range(some[0][0].size // (8 * width)):
                for place, (each, *_) in enumerate(some):
                    packet = place >= from_source
                    step = (LOAD_PACKET if packet else LOAD) if not place else (ADD_PACKET if packet else ADD)
                    add(k, step, each.word + (2 * k if packet else width * k), each.half, width)
                for place, targets_there in enumerate(others):
                    packet = place >= from_target
                    for each in targets_there:
                        word = each.word + (2 * k if packet else width * k)
                        add(k, STORE_PACKET if packet else STORE, word, each.half, width)
