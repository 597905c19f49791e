"""A plan as single steps of single threads, written from the contract alone, for `plan_machine` to run.

Memory is words of 8 bytes. A thread moves 16 bytes of plain data at once, or the 8 of a packet, which takes
two words of scratch: the data, and the number of the call. Thread k of a block does the k-th of these of each
range, and the k-th channel of every operation. What is right, and in what order, it does not know.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from plan_layout import (
    NEVER,
    PACKETS,
    PAIRED,
    PUTS,
    SOURCES,
    TARGETS,
    UNIT,
    CannotRun,
    Memory,
    check_call,
    pick,
)

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer

MEET, BARRIER, SIGNAL, WAIT, RELEASE, ACQUIRE, LOAD, ADD, STORE = range(9)
LOAD_PACKET, ADD_PACKET, STORE_PACKET, AWAIT_PACKET, PUSH, PUSH_SIGNAL, FLUSH = range(9, 16)
BARRIERS = 16


class Steps(NamedTuple):
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
    """One call with chunks of this many times 16 bytes."""
    return _Maker(plan, units).made()


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
    def memory(self) -> Memory:
        return Memory(self.plan, self.units)

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
                    self.memory.allocations[r.rank][buffer][0] + self.memory.shift(r.rank, buffer),
                    (r.input_chunks if buffer is Buffer.INPUT else r.output_chunks) * self.memory.chunk // 8,
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
            self.memory.allocations[-1][Buffer.SCRATCH][1],
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
            for turn in range(-(-turns.num_chunks * self.memory.chunk // turns.unit_bytes)):
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
                pick(self.rank.semaphores, number)
                add(lane, RELEASE if name is OpName.RELEASE else ACQUIRE, first + number)
        elif name is OpName.FLUSH:
            if kind is Channel.PORT:
                for lane, (_, _, port) in enumerate(self.lanes(operation)[: len(operation.targets)]):
                    add(lane, FLUSH, port)
        elif kind is Channel.PORT and name in (*PUTS, OpName.PUT_PACKETS, OpName.READ_PUT_PACKETS):
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
            channel = pick(mine, number)
            end, other = pick(self.ends[self.rank.rank, kind], channel)
            found.append((end, other, first + channel))
        return found

    def operands(
        self, operation: Operation, cut: tuple[int, int] | None
    ) -> tuple[list[list[_Place]], list[list[_Place]]]:
        """Sources and targets; each is one place, or one at each member of a switch channel."""
        name = operation.name
        sources = list(operation.sources[: SOURCES.get(name, NEVER)])
        targets = list(operation.targets[: TARGETS.get(name, NEVER)])
        if name in PAIRED:
            count = len(targets) if name in PUTS else len(sources)
            if len(sources) < count or (len(targets) < count and name is OpName.GET):
                raise CannotRun("operands")
            count = min(count, len(targets), len(sources))
            sources, targets = sources[:count], targets[:count]
            sizes = [each.size for each in (targets if name in PUTS else sources)]
        else:
            if not sources or not targets:
                raise CannotRun("operands")
            sizes = [sources[0].size] * max(len(sources), len(targets))
        offsets = [each.index for each in sources], [each.index for each in targets]
        if name is OpName.GET:
            offsets = offsets[1], offsets[0]
        if name in (*PUTS, OpName.PUT_PACKETS) and operation.channel is Channel.MEMORY:
            if any(each.buffer is None for each in sources):
                raise CannotRun("operands")
            sources = [Range(each.index, each.size, sources[0].buffer) for each in sources]
        first = PACKETS.get(name, (NEVER, NEVER))
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
        if cut is not None and operation.name not in PACKETS:
            begin, length = begin + cut[0], max(0, min(cut[1], length - cut[0]))
        me, plan = self.rank.rank, self.plan
        through_port = operation.channel is Channel.PORT and operation.name in (*PUTS, OpName.PUT_PACKETS)
        half = self.memory.half(me) if plan.double_scratch else 0
        if each.buffer is not None:
            buffer = each.buffer
            if packets and operation.name is not OpName.PUT_PACKETS:
                buffer = Buffer.SCRATCH
            owners, halves = [me], buffer is Buffer.SCRATCH and not (is_source and through_port)
            shift = 0 if is_source and through_port else self.memory.shift(me, buffer)
        elif each.switch is not None:
            number = pick(self.block.channels_of(Channel.SWITCH), each.switch)
            groups = [
                (row.buffer or Buffer.INPUT, group)
                for row in self.rank.channels
                if row.kind is Channel.SWITCH
                for group in row.groups
            ]
            buffer, owners = pick(groups, number)
            halves, shift = buffer is Buffer.SCRATCH and packets, self.memory.shift(me, buffer)
        else:
            if operation.channel not in (Channel.MEMORY, Channel.PORT) or each.remote is None:
                raise CannotRun("channel type")
            number = pick(self.block.remotes_of(operation.channel), each.remote)
            remote = pick(self.rank.remote_buffers, number)
            if operation.channel not in remote.access:
                raise CannotRun("access")
            owners, buffer = [remote.rank], remote.buffer
            halves, shift = buffer is Buffer.SCRATCH and packets, self.memory.shift(me, buffer)
        times = 2 if packets else 1
        found = []
        for owner in owners:
            first, end = pick(self.memory.allocations, owner)[buffer]
            word = first + shift + begin // 8 * times
            place = _Place(word, half if halves else 0, length, buffer is not Buffer.SCRATCH)
            if length and not first <= word <= word + place.half + length // 8 * times <= end:
                raise CannotRun("memory")
            found.append(place)
        return found

    def cut(self, operation: Operation, index: int, own: int, size: int) -> tuple[int, int]:
        """First byte and bytes of a range, or of this block's part of it."""
        begin, length = index * self.memory.chunk, size * self.memory.chunk
        share = operation.share
        if share is None:
            return begin, length
        if share.parts < 1 or not 0 <= share.number < share.parts:
            raise CannotRun("share")
        unit = self.plan.alignment
        each, rest = divmod(own * self.memory.chunk // unit, share.parts)
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
        from_source, from_target = PACKETS.get(name, (NEVER, NEVER))
        width = 1 if name in PACKETS else 2
        if name is OpName.SWITCH_REDUCE_STORE:
            sources = [[each] for each in sources[0]]
        groups = [(sources, targets)]
        if name in PAIRED:
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
